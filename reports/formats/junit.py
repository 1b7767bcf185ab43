"""JUnit XML, as read by Jenkins, GitLab, Prow and Testgrid: one test case per requirement and per chaos experiment.

``file`` and ``line`` are those of the suite's own test of the requirement, as pytest itself writes them, but lines count from 1.

failed becomes ``failure``; error and inconclusive become ``error``; not_applicable becomes ``skipped``; waived and
warned pass, and say so in ``system-out`` and in the ``verdict`` property, so that neither hides among the skipped.
A run that is not good has a case that is red, if need be one of its own. Experiments are the suite ``chaos``.
"""

import math
import re
from xml.etree import ElementTree as ET

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, Verdict
from reports import phrases
from reports.cases import Case, Kind, cases
from reports.safe_text import NAME_LIMIT, TEXT_LIMIT, clip, one_line, xml_legal
from reports.verdicts import WORD

MAX_OUTPUT = 50_000
"""Characters of one case's output: Jenkins keeps twice as many of a file with failures."""

MAX_LINE = 100_000

_ERRORS = (Verdict.ERROR, Verdict.INCONCLUSIVE)
_AREA = re.compile(r"[A-Z][A-Z0-9]{0,15}", re.ASCII)
_MARKER = re.compile(r"\[(?=\[)")


def render(report: Report, chaos: ChaosReport | None = None) -> str:
    """The whole document, with its XML declaration."""
    root = ET.Element("testsuites", name=_name(f"{report.suite.name} ({phrases.target_words(report.target)})"))
    by_area: dict[tuple[Kind, str], list[Case]] = {}
    for case in cases(report, chaos):
        by_area.setdefault((case.kind, case.area), []).append(case)
    for held in by_area.values():
        suite = _suite(root, report, held)
        for case in held:
            _case(suite, case)
    for attribute in ("tests", "failures", "errors", "skipped"):
        root.set(attribute, str(sum(int(suite.get(attribute, "0")) for suite in root)))
    root.set("time", _time(report.run.duration_seconds))
    return _document(root)


def unopened(sentence: str) -> str:
    """The document of a run that never began: one case, with the error that kept it from its target."""
    root = ET.Element("testsuites", name="gpu-conformance")
    suite = ET.SubElement(root, "testsuite", name="run")
    for element in (root, suite):
        element.attrib.update(tests="1", failures="0", errors="1", skipped="0", time="0")
    case = ET.SubElement(suite, "testcase", classname="gpu-conformance.run", name="The target can be opened", time="0")
    text = xml_legal(one_line(sentence, 1_000))
    ET.SubElement(case, "error", message=text, type="usage").text = text
    return _document(root)


def _document(root: ET.Element) -> str:
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, report: Report, held: list[Case]) -> ET.Element:
    verdicts = [Verdict.ERROR if case.kind is Kind.RUN else case.verdict for case in held]
    suite = ET.SubElement(
        root,
        "testsuite",
        name=_name(held[0].area) or "none",
        tests=str(len(held)),
        failures=str(verdicts.count(Verdict.FAILED)),
        errors=str(sum(verdict in _ERRORS for verdict in verdicts)),
        skipped=str(verdicts.count(Verdict.NOT_APPLICABLE)),
        time=_time(sum(case.seconds for case in held)),
    )
    moment = phrases.started(report)
    if moment:
        suite.set("timestamp", moment.strftime("%Y-%m-%dT%H:%M:%S"))
    _properties(
        suite,
        {
            "target": phrases.target_words(report.target),
            "kubernetesVersion": report.target.kubernetes_version,
            "run": report.run.id,
            "suiteVersion": report.suite.version,
            "scope": phrases.scope_words(report) if report.results else "",
        },
    )
    return suite


def _case(suite: ET.Element, case: Case) -> None:
    classname = _name(f"gpu-conformance.{case.area or 'none'}")
    made = ET.SubElement(suite, "testcase", classname=classname, name=_name(case.name) or "none", time=_time(case.seconds))
    if case.kind is Kind.REQUIREMENT and _AREA.fullmatch(case.area):
        made.set("file", f"conformance/{case.area.lower()}/test_{case.area.lower()}.py")
        if 0 < case.line <= MAX_LINE:
            made.set("line", str(case.line))
    if case.properties:
        _properties(made, case.properties)
    message, details = _name(case.message or WORD[case.verdict], 1_000), _output([*case.lines, *case.notes])
    if case.kind is Kind.RUN:
        ET.SubElement(made, "error", message=message, type=case.reason).text = _output([_name(line, 1_000) for line in case.lines])
    elif case.verdict is Verdict.FAILED:
        ET.SubElement(made, "failure", message=message, type=case.verdict.value).text = details
    elif case.verdict in _ERRORS:
        ET.SubElement(made, "error", message=message, type=case.verdict.value).text = details
    elif case.verdict is Verdict.NOT_APPLICABLE:
        ET.SubElement(made, "skipped", message=message, type=_name(case.reason or case.verdict.value))
    elif case.verdict is not Verdict.PASSED:
        ET.SubElement(made, "system-out").text = _output([f"{WORD[case.verdict]}: {message}", details])
    elif case.extra.get("residue"):
        ET.SubElement(made, "system-out").text = details


def _time(seconds: float) -> str:
    """Seconds as JUnit has them; what is no length of time is 0."""
    return f"{seconds:.3f}" if math.isfinite(seconds) and 0 <= seconds < 1e9 else "0.000"


def _output(lines: list[str]) -> str:
    """Bounded text of a case. Jenkins reads ``[[NAME|value]]`` in it as an order, such as to publish a file of its own: never here."""
    return _MARKER.sub("[ ", xml_legal(clip("\n".join(lines), MAX_OUTPUT)))


def _properties(parent: ET.Element, values: dict[str, str]) -> None:
    properties = ET.SubElement(parent, "properties")
    for name, value in values.items():
        if text := _name(value, TEXT_LIMIT):  # the scope's sentence is longer than a name
            ET.SubElement(properties, "property", name=name, value=text)


def _name(text: str, limit: int = NAME_LIMIT) -> str:
    return _MARKER.sub("[ ", xml_legal(one_line(text, limit)))
