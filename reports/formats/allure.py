"""Allure results: one ``*-result.json`` per requirement and chaos experiment, by Allure's own model, for those who already run Allure.

Allure has no waiver and no warning: both pass with the verdict as a parameter, a tag and in the message.
Server address and context stay out: an Allure page is often published more widely than the report.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from fixtures.verdict.chaos_record import ChaosReport, ChaosResult
from fixtures.verdict.record import Level, Report, Result, TargetKind, Verdict
from reports import chaos_phrases, phrases
from reports.safe_text import NAME_LIMIT, link_parts, one_line, visible

if TYPE_CHECKING:
    from allure_commons.model2 import TestResult

MAX_SUBJECTS = 200

_STATUS = {
    Verdict.PASSED: "passed",
    Verdict.FAILED: "failed",
    Verdict.WARNED: "passed",
    Verdict.WAIVED: "passed",
    Verdict.NOT_APPLICABLE: "skipped",
    Verdict.INCONCLUSIVE: "broken",
    Verdict.ERROR: "broken",
}
_SEVERITY = {Level.MUST: "critical", Level.SHOULD: "minor"}


def write(report: Report, folder: Path, chaos: ChaosReport | None = None) -> None:
    """Write the results of ``report`` to ``folder``, which is made when missing. Raises ``OSError``."""
    from allure_commons.logger import AllureFileLogger  # slow to import, needed here alone

    logger = AllureFileLogger(folder)  # type: ignore[no-untyped-call]
    for index, result in enumerate(report.results):
        item = _item(report, result, index)
        if result.subjects:
            name = f"{_digest(f'{report.run.id} {result.id} {index}')}-attachment.txt"
            logger.report_attached_data(_table(result), name)  # type: ignore[no-untyped-call]
            item.attachments = [_attachment(name, "subjects")]
        logger.report_result(item)  # type: ignore[no-untyped-call]
    for index, experiment in enumerate(chaos.experiments if chaos else []):
        chaos_item = _experiment(report, experiment, len(report.results) + index)
        if experiment.findings:
            name = f"{_digest(f'{report.run.id} {chaos_phrases.AREA} {experiment.id} {index}')}-attachment.txt"
            logger.report_attached_data(_findings(experiment), name)  # type: ignore[no-untyped-call]
            chaos_item.attachments = [_attachment(name, "findings")]
        logger.report_result(chaos_item)  # type: ignore[no-untyped-call]
    logger.report_attached_data(_environment(report, chaos), "environment.properties")  # type: ignore[no-untyped-call]


def _item(report: Report, result: Result, index: int) -> TestResult:
    from allure_commons import model2

    moment = phrases.started(report)
    start = (round(moment.timestamp() * 1000) if moment else 0) + index
    target = phrases.TARGET_NAME[report.target.kind]
    labels = {
        "epic": _name(result.area),
        "feature": _name(f"{result.id} {result.title}"),
        "suite": _name(result.area),
        "severity": _SEVERITY[result.level],
        "framework": "gpu-conformance",
        "host": target,
    }
    tags = [result.level.value, result.access.value, result.verdict.value, target]
    digest = _digest(result.id)
    return model2.TestResult(
        uuid=_digest(f"{report.run.id} {result.id}"),
        historyId=digest,
        testCaseId=digest,
        fullName=_name(f"gpu-conformance.{result.area}.{result.id}"),
        name=_name(f"{result.id} {result.title}"),
        status=_STATUS[result.verdict],
        statusDetails=model2.StatusDetails(message=visible(f"{phrases.WORD[result.verdict]}: {result.message}"), trace=_trace(result)),
        stage="finished",
        description=_description(report, result),
        parameters=[
            model2.Parameter(name=name, value=value, excluded=True)
            for name, value in (
                ("verdict", phrases.WORD[result.verdict]),
                ("judged", str(result.judged)),
                ("total", str(result.total)),
                ("reason", _name(result.reason_code)),
            )
            if value
        ],
        labels=[model2.Label(name=n, value=v) for n, v in labels.items()] + [model2.Label(name="tag", value=tag) for tag in tags],
        links=[
            model2.Link(type="link", url=url, name=url)
            for reference in result.references[:20]
            for _, url in link_parts(one_line(reference))
            if url
        ],
        start=start,  # the record has no start per requirement: milliseconds keep the order of the report
        stop=start + round(result.duration_seconds * 1000),
    )


def _experiment(report: Report, result: ChaosResult, index: int) -> TestResult:
    from allure_commons import model2

    moment = chaos_phrases.started(result) or phrases.started(report)
    start = (round(moment.timestamp() * 1000) if moment else 0) + index
    target, word = phrases.TARGET_NAME[result.target_kind], chaos_phrases.fidelity(result)
    title, digest = _name(f"{result.id} {result.title}"), _digest(f"{chaos_phrases.AREA} {result.id}")
    parameters = {
        "verdict": phrases.WORD[result.verdict],
        "reason": chaos_phrases.reason(result),
        "level": chaos_phrases.level_words(result),
        "fidelity": word,
        "recovery, s": chaos_phrases.recovery_cell(result),
    }
    labels = {"epic": chaos_phrases.AREA, "feature": title, "suite": chaos_phrases.AREA, "severity": _SEVERITY[Level.MUST]}
    labels |= {"framework": "gpu-conformance", "host": target}
    tags = [tag for tag in (chaos_phrases.AREA, chaos_phrases.level_words(result), word, result.verdict.value, target) if tag]
    proved = [phrases.banner(report.target), result.proves]
    return model2.TestResult(
        uuid=_digest(f"{report.run.id} {chaos_phrases.AREA} {result.id} {index}"),
        historyId=digest,
        testCaseId=digest,
        fullName=_name(f"gpu-conformance.{chaos_phrases.AREA}.{result.id}"),
        name=title,
        status=_STATUS[result.verdict],
        statusDetails=model2.StatusDetails(
            message=visible(f"{phrases.WORD[result.verdict]}: {result.message}"), trace="\n".join(chaos_phrases.details(result))
        ),
        stage="finished",
        description="\n\n".join(_plain(visible(part)) for part in proved if part),
        parameters=[model2.Parameter(name=name, value=value, excluded=True) for name, value in parameters.items() if value],
        labels=[model2.Label(name=n, value=v) for n, v in labels.items()] + [model2.Label(name="tag", value=tag) for tag in tags],
        start=start,
        stop=start + round((chaos_phrases.finite(result.duration_seconds) or 0.0) * 1000),
    )


def _description(report: Report, result: Result) -> str:
    """Markdown of our own words only; text from the cluster is in the attachment, where Allure shows it as plain text."""
    parts = [phrases.banner(report.target), result.rationale, f"What to do: {result.remediation}" if result.remediation else ""]
    return "\n\n".join(_plain(visible(part)) for part in parts if part)


def _plain(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _trace(result: Result) -> str:
    return "\n".join(phrases.subject_sentence(subject) for subject in phrases.troubled(result)[:20])


def _table(result: Result) -> str:
    subjects = phrases.ordered_subjects(result)
    columns = ("observed", "expected", "source", "message")
    rows = [
        [phrases.WORD[s.verdict], phrases.subject_name(s), *(one_line(getattr(s, column), 400) for column in columns)]
        for s in subjects[:MAX_SUBJECTS]
    ]
    text = _aligned([["verdict", "subject", *columns], *rows])
    left = len(subjects) - len(rows) + result.subjects_omitted
    return f"{text}\n\n{left} more subjects are not listed.\n" if left else f"{text}\n"


def _findings(result: ChaosResult) -> str:
    rows = [
        [phrases.WORD[f.verdict], one_line(f.name, NAME_LIMIT), one_line(f.reason_code, NAME_LIMIT), one_line(f.message, 400)]
        for f in result.findings[:MAX_SUBJECTS]
    ]
    text = _aligned([["verdict", "finding", "reason", "message"], *rows])
    left = len(result.findings) - len(rows)
    return f"{text}\n\n{left} more findings are not listed.\n" if left else f"{text}\n"


def _aligned(rows: list[list[str]]) -> str:
    """Rows as columns of plain text; plain padding, because tables of 100,000 subjects have to be quick."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _attachment(source: str, name: str) -> object:
    from allure_commons import model2

    return model2.Attachment(name=name, source=source, type="text/plain")


def _environment(report: Report, chaos: ChaosReport | None) -> str:
    """Java properties: what was judged, without addresses or names of the cluster."""
    facts = {
        "target": phrases.TARGET_NAME[report.target.kind],
        "kubernetes": report.target.kubernetes_version,
        "suite": f"{report.suite.name} {report.suite.version}",
        "run": report.run.id,
        "verdict": chaos_phrases.overall(report, chaos),
        "exitCode": str(report.exit_code),
        "scope": phrases.scope_words(report) if report.results else "",
    }
    if report.target.kind in (TargetKind.SIMULATED, TargetKind.LOCAL):
        facts |= {"warning": phrases.banner(report.target)}
    return "".join(f"{key}={_name(value, 1_000)}\n" for key, value in facts.items() if value).replace("\\", "\\\\")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _name(text: str, limit: int = NAME_LIMIT) -> str:
    return one_line(text, limit)
