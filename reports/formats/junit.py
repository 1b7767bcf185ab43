"""JUnit XML, as read by Jenkins, GitLab, Prow and Testgrid: one test case per requirement and per chaos experiment.

``file`` and ``line`` are those of the suite's own test of the requirement, as pytest itself writes them, but lines count from 1.

failed becomes ``failure``; error and inconclusive become ``error``; not_applicable becomes ``skipped``; waived and
warned pass, and say so in ``system-out`` and in the ``verdict`` property, so that neither hides among the skipped.
A run that is not good has a case that is red, if need be one of its own. Experiments are the suite ``chaos``.
"""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree as ET

from fixtures.verdict.chaos_record import ChaosReport, ChaosResult
from fixtures.verdict.record import Report, Result, Verdict
from reports import chaos_phrases, phrases, run_case
from reports.safe_text import NAME_LIMIT, TEXT_LIMIT, clip, one_line, visible, xml_legal
from reports.verdicts import WORD

MAX_SUBJECTS = 20
MAX_OUTPUT = 50_000
"""Characters of one case's output: Jenkins keeps twice as many of a file with failures."""

MAX_LINE = 100_000

_FAILURES = (Verdict.FAILED,)
_ERRORS = (Verdict.ERROR, Verdict.INCONCLUSIVE)
_SKIPPED = (Verdict.NOT_APPLICABLE,)
_AREA = re.compile(r"[A-Z][A-Z0-9]{0,15}", re.ASCII)
_MARKER = re.compile(r"\[(?=\[)")


def render(report: Report, chaos: ChaosReport | None = None) -> str:
    """The whole document, with its XML declaration."""
    root = ET.Element("testsuites", name=_name(f"{report.suite.name} ({phrases.target_words(report.target)})"))
    for area, results in phrases.by_area(report.results).items():
        suite = _suite(root, report, area, [r.verdict for r in results], sum(r.duration_seconds for r in results))
        for result in results:
            _case(suite, area, result)
    held = chaos.experiments if chaos else []
    if held:
        seconds = sum(chaos_phrases.finite(r.duration_seconds) or 0.0 for r in held)
        suite = _suite(root, report, chaos_phrases.AREA, [r.verdict for r in held], seconds)
        for experiment in held:
            _experiment(suite, experiment)
    _run_case(root, report, chaos)
    for attribute in ("tests", "failures", "errors", "skipped"):
        root.set(attribute, str(sum(int(suite.get(attribute, "0")) for suite in root)))
    root.set("time", _time(report.run.duration_seconds))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def unopened(sentence: str) -> str:
    """The document of a run that never began: one case, with the error that kept it from its target."""
    root = ET.Element("testsuites", name="gpu-conformance")
    suite = ET.SubElement(root, "testsuite", name="run")
    for element in (root, suite):
        element.attrib.update(tests="1", failures="0", errors="1", skipped="0", time="0")
    case = ET.SubElement(suite, "testcase", classname="gpu-conformance.run", name="The target can be opened", time="0")
    text = xml_legal(one_line(sentence, 1_000))
    ET.SubElement(case, "error", message=text, type="usage").text = text
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, report: Report, name: str, verdicts: list[Verdict], seconds: float) -> ET.Element:
    suite = ET.SubElement(
        root,
        "testsuite",
        name=_name(name) or "none",
        tests=str(len(verdicts)),
        failures=str(sum(v in _FAILURES for v in verdicts)),
        errors=str(sum(v in _ERRORS for v in verdicts)),
        skipped=str(sum(v in _SKIPPED for v in verdicts)),
        time=_time(seconds),
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


def _case(suite: ET.Element, area: str, result: Result) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=_name(f"gpu-conformance.{area or 'none'}"),
        name=_name(f"{result.id} {result.title}") or "none",
        time=_time(result.duration_seconds),
    )
    if _AREA.fullmatch(area):
        case.set("file", f"conformance/{area.lower()}/test_{area.lower()}.py")
        if 0 < result.line <= MAX_LINE:
            case.set("line", str(result.line))
    _properties(
        case,
        {
            "id": result.id,
            "level": result.level.value,
            "access": result.access.value,
            "verdict": result.verdict.value,
            "judged": str(result.judged),
            "total": str(result.total),
            "reasonCode": result.reason_code,
        },
    )
    _outcome(case, result.verdict, result.message, result.reason_code, _details(result))


def _experiment(suite: ET.Element, result: ChaosResult) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=f"gpu-conformance.{chaos_phrases.AREA}",
        name=_name(f"{result.id} {result.title}") or "none",
        time=_time(result.duration_seconds),
    )
    recovery, detection = chaos_phrases.recovery(result), chaos_phrases.detection(result)
    _properties(
        case,
        {
            "id": result.id,
            "level": chaos_phrases.level_words(result),
            "verdict": result.verdict.value,
            "reasonCode": chaos_phrases.reason(result),
            "fidelity": chaos_phrases.fidelity(result),
            "targetKind": result.target_kind.value,
            "targets": chaos_phrases.targets(result),
            "detectionSeconds": _seconds(detection.seconds) if detection else "",
            "recoverySeconds": _seconds(recovery.seconds) if recovery else "",
            "recoveryUncertaintySeconds": _seconds(recovery.uncertainty) if recovery else "",
            "recoveryFrom": result.recovery_from,
            "steadyState": chaos_phrases.NEVER_LOST if result.never_lost else "",
            "recoveryBoundSeconds": _seconds(chaos_phrases.finite(result.bound_seconds)),
            "samplerGapSeconds": _seconds(chaos_phrases.finite(result.sampler_gap_seconds)),
        },
    )
    details = _output(chaos_phrases.details(result))
    _outcome(case, result.verdict, result.message, chaos_phrases.reason(result), details)
    if result.verdict is Verdict.PASSED and result.residue:
        ET.SubElement(case, "system-out").text = details


def _outcome(case: ET.Element, verdict: Verdict, text: str, reason: str, details: str) -> None:
    message = _name(text or WORD[verdict], 1_000)
    if verdict in _FAILURES:
        ET.SubElement(case, "failure", message=message, type=verdict.value).text = details
    elif verdict in _ERRORS:
        ET.SubElement(case, "error", message=message, type=verdict.value).text = details
    elif verdict in _SKIPPED:
        ET.SubElement(case, "skipped", message=message, type=_name(reason or verdict.value))
    elif verdict is not Verdict.PASSED:
        ET.SubElement(case, "system-out").text = _output([f"{WORD[verdict]}: {message}", details])


def _time(seconds: float) -> str:
    """Seconds as JUnit has them; what is no length of time is 0."""
    return f"{seconds:.3f}" if math.isfinite(seconds) and 0 <= seconds < 1e9 else "0.000"


def _seconds(number: float | None) -> str:
    return "" if number is None else f"{number:.3f}"


def _run_case(root: ET.Element, report: Report, chaos: ChaosReport | None) -> None:
    """A case for the run itself, when the run has something to say that no requirement and no experiment does."""
    found = run_case.run_case(report, chaos)
    if found is None:
        return
    suite = _suite(root, report, run_case.AREA, [Verdict.ERROR], 0.0)
    case = ET.SubElement(suite, "testcase", classname="gpu-conformance.run", name=run_case.NAME, time="0.000")
    error = ET.SubElement(case, "error", message=_name(found.message, 1_000), type=found.kind)
    error.text = _output([_name(line, 1_000) for line in found.lines])


def _details(result: Result) -> str:
    troubled = phrases.troubled(result)
    lines = [phrases.subject_sentence(subject) for subject in troubled[:MAX_SUBJECTS]]
    if len(troubled) > MAX_SUBJECTS:
        lines.append(f"... and {len(troubled) - MAX_SUBJECTS} more in report.json")
    if result.subjects_omitted:
        lines.append(f"{result.subjects_omitted} subjects are counted but not kept in report.json")
    lines.append(f"judged {result.judged} of {result.total} subjects")
    if result.remediation:
        lines.append(f"What to do: {visible(result.remediation)}")
    lines += [f"See {one_line(reference)}" for reference in result.references[:10]]
    return _output(lines)


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
