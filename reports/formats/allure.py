"""Allure results: one ``*-result.json`` per requirement and chaos experiment, in Allure's own form, for those who already run Allure.

Allure has no waiver and no warning: both pass, and inconclusive is as broken as an error. So the verdict stands behind the name, in
the message, in a parameter and in a tag, and ``categories.json`` tells them apart. Every finding is a step, up to a bound.
Server address and context stay out: an Allure page is often published more widely than the report.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from fixtures.system import private_files
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, TargetKind, Verdict
from reports import chaos_phrases, phrases
from reports.cases import Case, Kind, Step, cases
from reports.safe_text import NAME_LIMIT, link_parts, markdown_plain, one_line, visible
from reports.verdicts import DISPLAY, WORD

MAX_STEPS = 50

_ALIKE = (Verdict.WARNED, Verdict.WAIVED, Verdict.INCONCLUSIVE, Verdict.ERROR)
"""Verdicts that share a status of Allure's with another."""
_OURS = ("*-result.json", "*-attachment.txt", "*-container.json", "environment.properties", "categories.json", "executor.json")
_CATEGORIES: tuple[tuple[str, Verdict], ...] = (
    ("Not conformant", Verdict.FAILED),
    ("Inconclusive: could not be judged", Verdict.INCONCLUSIVE),
    ("Error of the suite", Verdict.ERROR),
    ("Warned: recommended, and does not hold", Verdict.WARNED),
    ("Waived by the owner", Verdict.WAIVED),
    ("Not applicable", Verdict.NOT_APPLICABLE),
)

_Json = dict[str, object]


def write(report: Report, folder: Path, chaos: ChaosReport | None = None, environ: Mapping[str, str] | None = None) -> None:
    """Write the results of ``report`` to ``folder``, which is made when missing. Raises ``OSError``, and then leaves no result there: a
    part of a run looks like all of it.

    ``environ`` is where a CI system says who it is; default: the process's environment.
    """
    private_files.make_folder(folder)
    results = dict(_results(report, chaos))
    reported = {
        "environment.properties": _environment(report, chaos),
        "categories.json": _categories(),
        "executor.json": _executor(report, os.environ if environ is None else environ),
    }
    try:
        for name, data in (results | {name: text.encode() for name, text in reported.items() if text}).items():
            private_files.write(folder / name, data)
    except OSError:
        for name in results:
            (folder / name).unlink(missing_ok=True)
        raise


def _results(report: Report, chaos: ChaosReport | None) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files that a reader counts: each result, and before it the table of those with too many steps."""
    moment = phrases.started(report)
    for index, case in enumerate(cases(report, chaos)):
        digest = _digest(f"{report.run.id} {case.key} {index}")
        attachment = {"name": "subjects" if case.subjects else "findings", "source": f"{digest}-attachment.txt", "type": "text/plain"}
        steps = case.steps
        if long := len(steps) > MAX_STEPS:  # else the steps say all of it
            yield attachment["source"], _table(case, steps).encode()
        began = case.started or moment
        start = (round(began.timestamp() * 1000) if began else 0) + index  # milliseconds keep the order of what has no start of its own
        yield f"{digest}-result.json", msgspec.json.encode(_item(report, case, digest, start, steps, [attachment] if long else []))


def clear(folder: Path) -> None:
    """Remove Allure's results from a folder, and nothing else that is there. Raises ``OSError``."""
    for pattern in _OURS:
        for file in folder.glob(pattern):
            file.unlink()


def _item(report: Report, case: Case, digest: str, start: int, steps: list[Step], attachments: list[dict[str, str]]) -> _Json:
    """An ``*-result.json``. Fields are those of Allure's own model, and empty ones are left out, as its adaptors do it.

    The model itself takes a run as long to import as a hundred results take to write.
    """
    whole, kind = case.kind is Kind.RUN, case.labels.get("target")
    target = phrases.TARGET_NAME[TargetKind(kind)] if kind else phrases.target_name(report.target)
    area = _area(report, case)
    top = "GPU chaos" if case.kind is Kind.EXPERIMENT else "GPU conformance"
    labels = {
        "epic": area,
        "feature": "" if whole else case.name,
        "parentSuite": top,
        "suite": area,
        "package": "" if whole else _name(f"gpu-conformance.{case.area}"),
        "layer": case.labels.get("access", ""),
        "severity": "critical" if case.severe else "minor",
        "framework": "gpu-conformance",
        "host": target,
    }
    tags = [case.area, *case.tags] if case.kind is Kind.EXPERIMENT else case.tags
    tags = case.tags if whole else [*tags, case.verdict.value, target]
    parameters = {"verdict": "" if whole else WORD[case.verdict], **case.parameters}
    seconds = report.run.duration_seconds if whole else case.seconds
    history = _digest(case.key)
    return _filled(
        uuid=digest,
        historyId=history,
        testCaseId=history,
        fullName="gpu-conformance.run" if whole else _name(f"gpu-conformance.{case.area}.{case.labels['id']}"),
        name=case.name + ("" if whole else _sign(case.verdict)),
        titlePath=[top] if case.kind is Kind.EXPERIMENT else [top, area],
        status=DISPLAY[case.verdict].allure,
        statusDetails=_filled(message=visible(f"{WORD[case.verdict]}: {case.message}"), trace="\n".join(map(visible, case.lines))),
        stage="finished",
        # Markdown of our own words only; text from the cluster is in steps and parameters, which Allure shows as plain text
        description="\n\n".join(markdown_plain(visible(part)) for part in (phrases.banner(report.target), *case.meaning) if part),
        steps=_steps(steps, case.total, start),
        parameters=[{"name": name, "value": value, "excluded": True} for name, value in parameters.items() if value],
        labels=[*({"name": n, "value": v} for n, v in labels.items() if v), *({"name": "tag", "value": tag} for tag in tags if tag)],
        links=[{"type": "link", "url": url, "name": name} for one in case.references[:20] for name, url in _named_links(one)],
        attachments=attachments,
        start=start,
        stop=start + round(seconds * 1000),
    )


def _filled(**fields: object) -> _Json:
    return {name: value for name, value in fields.items() if value}


def _sign(verdict: Verdict) -> str:
    """What a name ends with where Allure's status does not say the verdict."""
    return f" [{WORD[verdict]}]" if verdict in _ALIKE else ""


def _area(report: Report, case: Case) -> str:
    """``FENCE: Taint fencing``; the code alone where the record does not name it."""
    titles = {one.area: one.title for one in report.scope.areas} if report.scope and case.kind is Kind.REQUIREMENT else {}
    return _name(f"{case.area}: {titles[case.area]}" if titles.get(case.area) else case.area)


def _named_links(reference: str) -> list[tuple[str, str]]:
    """(name, address) of each link of a reference such as ``Kubernetes, Taints: https://...``; the address where nothing names it."""
    found, words = [], ""
    for text, url in link_parts(one_line(reference)):
        if url:
            found.append((words.strip(" :,;") or url, url))
        words = "" if url else text
    return found


def _steps(steps: list[Step], total: int, start: int) -> list[_Json]:
    """As many steps as are shown, all at the start of the test: the record has no times of findings. What is not shown is counted."""
    kept = [_step(step, start) for step in steps[:MAX_STEPS]]
    if total > len(kept):
        more = f"{total - len(kept)} more are not shown"
        kept.append(_filled(name=more, status="skipped", stage="finished", start=start, stop=start))
    return kept


def _step(step: Step, start: int) -> _Json:
    observed = step.facts.get("observed")
    return _filled(
        name=step.name + (f": {one_line(observed, 200)}" if observed else "") + _sign(step.verdict),
        status=DISPLAY[step.verdict].allure,
        statusDetails={"message": visible(step.message, 1_000)} if step.message else None,
        stage="finished",
        parameters=[{"name": key, "value": one_line(value, 400)} for key, value in step.facts.items() if value],
        start=start,
        stop=start,
    )


def _table(case: Case, steps: list[Step]) -> str:
    what, limit = ("subject", 400) if case.subjects else ("finding", NAME_LIMIT)
    rows = [
        [WORD[step.verdict], step.name, *(one_line(fact, limit) for fact in step.facts.values()), one_line(step.message, 400)]
        for step in steps
    ]
    text = _aligned([["verdict", what, *steps[0].facts, "message"], *rows])
    left = case.total - len(rows)
    return f"{text}\n\n{left} more {what}s are not listed.\n" if left else f"{text}\n"


def _aligned(rows: list[list[str]]) -> str:
    """Rows as columns of plain text; plain padding, because tables of 100,000 subjects have to be quick."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _name(text: str, limit: int = NAME_LIMIT) -> str:
    return one_line(text, limit)


def _categories() -> str:
    """Groups of results by their verdict, which begins each message. Allure 2 reads the file; Allure 3 wants it in its configuration."""
    rules = [
        {"name": name, "matchedStatuses": [DISPLAY[verdict].allure], "messageRegex": rf"{WORD[verdict]}: [\s\S]*"}
        for name, verdict in _CATEGORIES
    ]
    return json.dumps(rules, indent=1) + "\n"


def _environment(report: Report, chaos: ChaosReport | None) -> str:
    """Java properties: what was judged, without addresses or names of the cluster."""
    facts = {
        "target": phrases.target_name(report.target),
        "kubernetes": report.target.kubernetes_version,
        "suite": f"{report.suite.name} {report.suite.version}",
        "run": report.run.id,
        "verdict": chaos_phrases.overall(report, chaos),
        "exitCode": str(report.exit_code),
        "scope": phrases.scope_words(report) if report.results else "",
    }
    if report.target.simulated:
        facts |= {"warning": phrases.banner(report.target)}
    return "".join(f"{key}={one_line(value, 1_000)}\n" for key, value in facts.items() if value).replace("\\", "\\\\")


def _executor(report: Report, environ: Mapping[str, str]) -> str:
    """Who ran it, as the CI system says; "" on any other machine."""
    found = _github(environ) or _gitlab(environ) or _jenkins(environ)
    if not found:
        return ""
    order = found.pop("buildOrder")
    facts: dict[str, object] = {key: one_line(value, NAME_LIMIT) for key, value in found.items() if value}
    for key in ("url", "buildUrl"):
        if [url for _, url in link_parts(str(facts.get(key, "")))] != [facts.get(key)]:
            facts.pop(key, None)  # no address that a page may link
    if order.isascii() and order.isdigit() and len(order) < 16:
        facts["buildOrder"] = int(order)
    return json.dumps(facts | {"reportName": f"GPU conformance ({phrases.target_name(report.target)})"}, indent=1) + "\n"


def _github(environ: Mapping[str, str]) -> dict[str, str]:
    if environ.get("GITHUB_ACTIONS") != "true":
        return {}
    home = f"{environ.get('GITHUB_SERVER_URL', '')}/{environ.get('GITHUB_REPOSITORY', '')}"
    number = environ.get("GITHUB_RUN_NUMBER", "")
    build = f"{home}/actions/runs/{environ.get('GITHUB_RUN_ID', '')}"
    name = f"{environ.get('GITHUB_WORKFLOW', '')} #{number}"
    return {"type": "github", "name": "GitHub Actions", "url": home, "buildName": name, "buildUrl": build, "buildOrder": number}


def _gitlab(environ: Mapping[str, str]) -> dict[str, str]:
    if environ.get("GITLAB_CI") != "true":
        return {}
    number = environ.get("CI_PIPELINE_IID", "")
    return {
        "type": "gitlab",
        "name": "GitLab CI",
        "url": environ.get("CI_PROJECT_URL", ""),
        "buildName": f"{environ.get('CI_JOB_NAME', '')} #{number}",
        "buildUrl": environ.get("CI_JOB_URL", ""),
        "buildOrder": number,
    }


def _jenkins(environ: Mapping[str, str]) -> dict[str, str]:
    if not environ.get("JENKINS_URL"):
        return {}
    number = environ.get("BUILD_NUMBER", "")
    return {
        "type": "jenkins",
        "name": "Jenkins",
        "url": environ["JENKINS_URL"],
        "buildName": f"{environ.get('JOB_NAME', '')} #{number}",
        "buildUrl": environ.get("BUILD_URL", ""),
        "buildOrder": number,
    }
