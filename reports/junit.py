"""JUnit XML, as read by Jenkins, GitLab, Prow and Testgrid: one test case per requirement.

failed becomes ``failure``; error and inconclusive become ``error``; not_applicable becomes ``skipped``; waived and
warned pass, and say so in ``system-out`` and in the ``verdict`` property, so that neither hides among the skipped.
A run without results or with residue still leaves a case that is red.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET

from fixtures.record import Report, Result, Verdict
from reports import view
from reports.text import NAME_LIMIT, one_line, visible, xml_legal

MAX_SUBJECTS = 20

_FAILURES = (Verdict.FAILED,)
_ERRORS = (Verdict.ERROR, Verdict.INCONCLUSIVE)
_SKIPPED = (Verdict.NOT_APPLICABLE,)


def render(report: Report) -> str:
    """The whole document, with its XML declaration."""
    root = ET.Element("testsuites", name=_name(f"{report.suite.name} ({view.target_words(report.target)})"))
    for area, results in view.by_area(report.results).items():
        suite = _suite(root, report, area, [r.verdict for r in results], sum(r.duration_seconds for r in results))
        for result in results:
            _case(suite, area, result)
    _run_case(root, report)
    for attribute in ("tests", "failures", "errors", "skipped"):
        root.set(attribute, str(sum(int(suite.get(attribute, "0")) for suite in root)))
    root.set("time", f"{report.run.duration_seconds:.3f}")
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(root: ET.Element, report: Report, name: str, verdicts: list[Verdict], seconds: float) -> ET.Element:
    suite = ET.SubElement(
        root,
        "testsuite",
        name=_name(name),
        tests=str(len(verdicts)),
        failures=str(sum(v in _FAILURES for v in verdicts)),
        errors=str(sum(v in _ERRORS for v in verdicts)),
        skipped=str(sum(v in _SKIPPED for v in verdicts)),
        time=f"{seconds:.3f}",
    )
    moment = view.started(report)
    if moment:
        suite.set("timestamp", moment.strftime("%Y-%m-%dT%H:%M:%S"))
    _properties(
        suite,
        {
            "target": view.target_words(report.target),
            "kubernetesVersion": report.target.kubernetes_version,
            "run": report.run.id,
            "suiteVersion": report.suite.version,
        },
    )
    return suite


def _case(suite: ET.Element, area: str, result: Result) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=_name(f"gpu-conformance.{area}"),
        name=_name(f"{result.id} {result.title}"),
        time=f"{result.duration_seconds:.3f}",
    )
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
    message = _name(result.message or view.WORD[result.verdict], 1_000)
    if result.verdict in _FAILURES:
        ET.SubElement(case, "failure", message=message, type=result.verdict.value).text = _details(result)
    elif result.verdict in _ERRORS:
        ET.SubElement(case, "error", message=message, type=result.verdict.value).text = _details(result)
    elif result.verdict in _SKIPPED:
        ET.SubElement(case, "skipped", message=message, type=_name(result.reason_code or result.verdict.value))
    elif result.verdict is not Verdict.PASSED:
        ET.SubElement(case, "system-out").text = f"{view.WORD[result.verdict]}: {message}\n{_details(result)}"


def _run_case(root: ET.Element, report: Report) -> None:
    """A case for the run itself, when the run has something to say that no requirement does."""
    if report.results and not report.residue:
        return
    suite = _suite(root, report, "run", [Verdict.ERROR], 0.0)
    case = ET.SubElement(
        suite, "testcase", classname="gpu-conformance.run", name="The run is complete and left nothing behind", time="0.000"
    )
    problem = f"{len(report.residue)} objects left behind" if report.residue else "no requirement was judged"
    error = ET.SubElement(case, "error", message=f"{problem}; exit code {report.exit_code}", type="residue" if report.residue else "empty")
    error.text = "\n".join(_name(item) for item in report.residue[:MAX_SUBJECTS]) or view.exit_meaning(report.exit_code)


def _details(result: Result) -> str:
    troubled = view.troubled(result)
    lines = [view.subject_sentence(subject) for subject in troubled[:MAX_SUBJECTS]]
    if len(troubled) > MAX_SUBJECTS:
        lines.append(f"... and {len(troubled) - MAX_SUBJECTS} more in report.json")
    if result.subjects_omitted:
        lines.append(f"{result.subjects_omitted} subjects are counted but not kept in report.json")
    lines.append(f"judged {result.judged} of {result.total} subjects")
    if result.remediation:
        lines.append(f"What to do: {visible(result.remediation)}")
    lines += [f"See {one_line(reference)}" for reference in result.references[:10]]
    return xml_legal("\n".join(lines))


def _properties(parent: ET.Element, values: dict[str, str]) -> None:
    properties = ET.SubElement(parent, "properties")
    for name, value in values.items():
        if value:
            ET.SubElement(properties, "property", name=name, value=_name(value))


def _name(text: str, limit: int = NAME_LIMIT) -> str:
    return xml_legal(one_line(text, limit))
