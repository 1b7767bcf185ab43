"""Allure results: one ``*-result.json`` per requirement and chaos experiment, in Allure's own form, for those who already run Allure.

Allure has no waiver and no warning: both pass, and inconclusive is as broken as an error. So the verdict stands behind the name, in
the message, in a parameter and in a tag, and ``categories.json`` tells them apart. Every finding is a step, up to a bound.
Server address and context stay out: an Allure page is often published more widely than the report.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec

from fixtures.system import private_files
from fixtures.verdict.chaos_record import ChaosReport, ChaosResult
from fixtures.verdict.record import Level, Report, Result, SubjectResult, Verdict
from reports import chaos_phrases, phrases, run_case
from reports.formats import allure_files
from reports.formats.allure_model import Attachment, Label, Link, Parameter, StatusDetails, TestResult, TestStepResult
from reports.safe_text import NAME_LIMIT, link_parts, markdown_plain, one_line, visible
from reports.verdicts import DISPLAY, WORD

MAX_SUBJECTS = 200
MAX_STEPS = 50

_TOLD_APART = (Verdict.WARNED, Verdict.WAIVED, Verdict.INCONCLUSIVE, Verdict.ERROR)
"""Verdicts that share a status of Allure's with another."""
_OURS = ("*-result.json", "*-attachment.txt", "*-container.json", "environment.properties", "categories.json", "executor.json")
_SEVERITY = {Level.MUST: "critical", Level.SHOULD: "minor"}


def write(report: Report, folder: Path, chaos: ChaosReport | None = None, environ: Mapping[str, str] | None = None) -> None:
    """Write the results of ``report`` to ``folder``, which is made when missing. Raises ``OSError``, and then leaves no result there: a
    part of a run looks like all of it.

    ``environ`` is where a CI system says who it is; default: the process's environment.
    """
    private_files.make_folder(folder)
    results = dict(_results(report, chaos))
    said = {
        "environment.properties": allure_files.environment(report, chaos),
        "categories.json": allure_files.categories(),
        "executor.json": allure_files.executor(report, os.environ if environ is None else environ),
    }
    try:
        for name, data in (results | {name: text.encode() for name, text in said.items() if text}).items():
            private_files.write(folder / name, data)
    except OSError:
        for name in results:
            (folder / name).unlink(missing_ok=True)
        raise


def _results(report: Report, chaos: ChaosReport | None) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files that a reader counts."""
    for index, result in enumerate(report.results):
        digest = _digest(f"{report.run.id} {result.id} {index}")
        yield from _files(digest, "subjects", _table(result) if result.subjects else "", partial(_item, report, result, index))
    for index, experiment in enumerate(chaos.experiments if chaos else []):
        digest = _digest(f"{report.run.id} {chaos_phrases.AREA} {experiment.id} {index}")
        item = partial(_experiment, report, experiment, len(report.results) + index)
        yield from _files(digest, "findings", _findings(experiment) if experiment.findings else "", item)
    if (own := run_case.run_case(report, chaos)) is not None:
        yield from _files(_digest(f"{report.run.id} {run_case.AREA}"), "", "", lambda _: _run(report, own))


def _files(digest: str, name: str, text: str, item: Callable[[list[Attachment]], TestResult]) -> Iterator[tuple[str, bytes]]:
    """The file of a result, and before it the one of its attachment."""
    attachments = []
    if text:
        attachments = [Attachment(name=name, source=f"{digest}-attachment.txt", type="text/plain")]
        yield attachments[0].source, text.encode()
    yield f"{digest}-result.json", msgspec.json.encode(item(attachments))


def clear(folder: Path) -> None:
    """Remove Allure's results from a folder, and nothing else that is there. Raises ``OSError``."""
    for pattern in _OURS:
        for file in folder.glob(pattern):
            file.unlink()


def _item(report: Report, result: Result, index: int, attachments: list[Attachment]) -> TestResult:
    moment = phrases.started(report)
    start = (round(moment.timestamp() * 1000) if moment else 0) + index
    target = phrases.target_name(report.target)
    area = _area(report, result.area)
    labels = {
        "epic": area,
        "feature": _name(f"{result.id} {result.title}"),
        "parentSuite": "GPU conformance",
        "suite": area,
        "package": _name(f"gpu-conformance.{result.area}"),
        "layer": result.access.value,
        "severity": _SEVERITY[result.level],
        "framework": "gpu-conformance",
        "host": target,
    }
    tags = [result.level.value, result.access.value, result.verdict.value, target]
    digest = _digest(result.id)
    return TestResult(
        uuid=_digest(f"{report.run.id} {result.id}"),
        history_id=digest,
        test_case_id=digest,
        full_name=_name(f"gpu-conformance.{result.area}.{result.id}"),
        title_path=["GPU conformance", area],
        name=_titled(result.id, result.title, result.verdict),
        status=DISPLAY[result.verdict].allure,
        status_details=StatusDetails(message=visible(f"{WORD[result.verdict]}: {result.message}"), trace=_trace(result)),
        stage="finished",
        attachments=attachments,
        description=_description(report, result),
        parameters=[
            Parameter(name=name, value=value, excluded=True)
            for name, value in (
                ("verdict", WORD[result.verdict]),
                ("judged", str(result.judged)),
                ("total", str(result.total)),
                ("reason", _name(result.reason_code)),
            )
            if value
        ],
        labels=[Label(name=n, value=v) for n, v in labels.items()] + [Label(name="tag", value=tag) for tag in tags],
        links=[Link(type="link", url=url, name=name) for reference in result.references[:20] for name, url in _named_links(reference)],
        steps=_steps(map(_subject_step, phrases.ordered_subjects(result)), len(result.subjects) + result.subjects_omitted, start),
        start=start,  # the record has no start per requirement: milliseconds keep the order of the report
        stop=start + round(result.duration_seconds * 1000),
    )


def _experiment(report: Report, result: ChaosResult, index: int, attachments: list[Attachment]) -> TestResult:
    moment = chaos_phrases.started(result) or phrases.started(report)
    start = (round(moment.timestamp() * 1000) if moment else 0) + index
    target, word = phrases.TARGET_NAME[result.target_kind], chaos_phrases.fidelity(result)
    title, digest = _name(f"{result.id} {result.title}"), _digest(f"{chaos_phrases.AREA} {result.id}")
    parameters = {
        "verdict": WORD[result.verdict],
        "reason": chaos_phrases.reason(result),
        "level": chaos_phrases.level_words(result),
        "fidelity": word,
        "recovery, s": chaos_phrases.recovery_cell(result),
    }
    labels = {"epic": chaos_phrases.AREA, "feature": title, "suite": chaos_phrases.AREA, "severity": _SEVERITY[Level.MUST]}
    labels |= {"parentSuite": "GPU chaos", "package": f"gpu-conformance.{chaos_phrases.AREA}"}
    labels |= {"framework": "gpu-conformance", "host": target}
    tags = [tag for tag in (chaos_phrases.AREA, chaos_phrases.level_words(result), word, result.verdict.value, target) if tag]
    proved = [phrases.banner(report.target), result.proves]
    return TestResult(
        uuid=_digest(f"{report.run.id} {chaos_phrases.AREA} {result.id} {index}"),
        history_id=digest,
        test_case_id=digest,
        full_name=_name(f"gpu-conformance.{chaos_phrases.AREA}.{result.id}"),
        title_path=["GPU chaos"],
        name=_titled(result.id, result.title, result.verdict),
        status=DISPLAY[result.verdict].allure,
        status_details=StatusDetails(
            message=visible(f"{WORD[result.verdict]}: {result.message}"), trace="\n".join(chaos_phrases.details(result))
        ),
        stage="finished",
        attachments=attachments,
        description="\n\n".join(markdown_plain(visible(part)) for part in proved if part),
        parameters=[Parameter(name=name, value=value, excluded=True) for name, value in parameters.items() if value],
        labels=[Label(name=n, value=v) for n, v in labels.items()] + [Label(name="tag", value=tag) for tag in tags],
        steps=_steps(
            (_step(f.verdict, one_line(f.name, NAME_LIMIT), f.message, {"reason": f.reason_code}) for f in result.findings),
            len(result.findings),
            start,
        ),
        start=start,
        stop=start + round((chaos_phrases.finite(result.duration_seconds) or 0.0) * 1000),
    )


def _run(report: Report, case: run_case.RunCase) -> TestResult:
    """The run itself, broken for a reason that no other result has."""
    moment = phrases.started(report)
    start = round(moment.timestamp() * 1000) if moment else 0
    digest = _digest(run_case.AREA)
    undecided = report.verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE)
    verdict = Verdict.INCONCLUSIVE if undecided else Verdict.FAILED if report.verdict is Verdict.FAILED else Verdict.ERROR
    labels = {"epic": run_case.AREA, "parentSuite": "GPU conformance", "suite": run_case.AREA, "severity": "critical"}
    labels |= {"framework": "gpu-conformance", "host": phrases.target_name(report.target), "tag": report.verdict.value}
    return TestResult(
        uuid=_digest(f"{report.run.id} {run_case.AREA}"),
        history_id=digest,
        test_case_id=digest,
        full_name="gpu-conformance.run",
        title_path=["GPU conformance", run_case.AREA],
        name=run_case.NAME,
        status=DISPLAY[verdict].allure,
        status_details=StatusDetails(
            message=visible(f"{WORD[verdict]}: {case.message}"), trace="\n".join(visible(line) for line in case.lines)
        ),
        stage="finished",
        description="\n\n".join(markdown_plain(visible(part)) for part in (phrases.banner(report.target), run_case.MEANING) if part),
        labels=[Label(name=name, value=value) for name, value in labels.items()],
        start=start,
        stop=start + round(report.run.duration_seconds * 1000),
    )


def _titled(identifier: str, title: str, verdict: Verdict) -> str:
    """The name of a result, with its verdict where Allure's status does not say it."""
    return _name(f"{identifier} {title}") + (f" [{WORD[verdict]}]" if verdict in _TOLD_APART else "")


def _area(report: Report, area: str) -> str:
    """``FENCE: Taint fencing``; the code alone where the record does not name it."""
    titles = {one.area: one.title for one in report.scope.areas} if report.scope else {}
    return _name(f"{area}: {titles[area]}" if titles.get(area) else area)


def _named_links(reference: str) -> list[tuple[str, str]]:
    """(name, address) of each link of a reference such as ``Kubernetes, Taints: https://...``; the address where nothing names it."""
    found, words = [], ""
    for text, url in link_parts(one_line(reference)):
        if url:
            found.append((words.strip(" :,;") or url, url))
        words = "" if url else text
    return found


def _subject_step(subject: SubjectResult) -> TestStepResult:
    seen = f": {one_line(subject.observed, 200)}" if subject.observed else ""
    facts = {"observed": subject.observed, "expected": subject.expected, "source": subject.source}
    return _step(subject.verdict, f"{phrases.subject_name(subject)}{seen}", subject.message, facts)


def _step(verdict: Verdict, name: str, message: str, facts: Mapping[str, str]) -> TestStepResult:
    shown = {key: one_line(value, 400) for key, value in facts.items() if value}
    return TestStepResult(
        name=name + (f" [{WORD[verdict]}]" if verdict in _TOLD_APART else ""),
        status=DISPLAY[verdict].allure,
        status_details=StatusDetails(message=visible(message, 1_000)) if message else None,
        stage="finished",
        parameters=[Parameter(name=key, value=value) for key, value in shown.items()],
    )


def _steps(steps: Iterable[TestStepResult], total: int, start: int) -> list[TestStepResult]:
    """As many steps as are shown, all at the start of the test: the record has no times of findings. What is not shown is counted."""
    kept = [msgspec.structs.replace(step, start=start, stop=start) for step, _ in zip(steps, range(MAX_STEPS), strict=False)]
    if total > len(kept):
        more = f"{total - len(kept)} more are not shown"
        kept.append(TestStepResult(name=more, status="skipped", stage="finished", start=start, stop=start))
    return kept


def _description(report: Report, result: Result) -> str:
    """Markdown of our own words only; text from the cluster is in the attachment, where Allure shows it as plain text."""
    parts = [phrases.banner(report.target), result.rationale, f"What to do: {result.remediation}" if result.remediation else ""]
    return "\n\n".join(markdown_plain(visible(part)) for part in parts if part)


def _trace(result: Result) -> str:
    return "\n".join(phrases.subject_sentence(subject) for subject in phrases.troubled(result)[:20])


def _table(result: Result) -> str:
    subjects = phrases.ordered_subjects(result)
    columns = ("observed", "expected", "source", "message")
    rows = [
        [WORD[s.verdict], phrases.subject_name(s), *(one_line(getattr(s, column), 400) for column in columns)]
        for s in subjects[:MAX_SUBJECTS]
    ]
    text = _aligned([["verdict", "subject", *columns], *rows])
    left = len(subjects) - len(rows) + result.subjects_omitted
    return f"{text}\n\n{left} more subjects are not listed.\n" if left else f"{text}\n"


def _findings(result: ChaosResult) -> str:
    rows = [
        [WORD[f.verdict], one_line(f.name, NAME_LIMIT), one_line(f.reason_code, NAME_LIMIT), one_line(f.message, 400)]
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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _name(text: str, limit: int = NAME_LIMIT) -> str:
    return one_line(text, limit)
