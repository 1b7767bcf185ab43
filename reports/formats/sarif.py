"""SARIF 2.1.0: what ``read`` requirements found wrong with objects of the cluster, for code scanning and other readers of SARIF.

A probe is no static analysis, so requirements with more access stay out. What passed is left out too: code scanning makes an alert of
every result. A waived subject carries a suppression, one that could not be decided is ``open``.

A run that is not good is never green: where no result is an error and says why, the run has a result of its own, besides the exit code
and the notifications of its invocation: code scanning makes alerts of results only.

An object is no file, and GitHub takes no result without one. So the location is a path that says which object it is
(``Pod/team-a/train-0``), line 1: alerts are grouped by object, and stay the same from run to run.
"""

import hashlib
from collections.abc import Iterator
from urllib.parse import quote

import msgspec

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Access, Level, Report, Result, SubjectResult, TargetKind, Verdict
from reports import chaos_phrases, phrases
from reports.cases import RUN_MEANING, Case, Kind, run_case
from reports.safe_text import NAME_LIMIT, link_parts, markdown_plain, one_line, visible
from reports.verdicts import DISPLAY, WORD

MAX_RESULTS = 5_000
"""Results of a run that GitHub keeps."""

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_DEFAULT_LEVEL = {Level.MUST: "error", Level.SHOULD: "warning"}

_Json = dict[str, object]


def render(report: Report, chaos: ChaosReport | None = None) -> str:
    """The whole document, indented. Chaos experiments are no findings about objects, so a failed one is in the run's own result only."""
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(report, chaos)]}
    return msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"


def _run(report: Report, chaos: ChaosReport | None) -> _Json:
    judged = list({r.id: r for r in report.results if r.access is Access.READ}.values())
    found = [one for index, result in enumerate(judged) for one in _results(report, result, index)]
    case = run_case(report, chaos, [Verdict.FAILED] if any(one["level"] == "error" for one in found) else [])
    if case is not None:
        own = _of_run(case)
        # first, so that no limit on results cuts it off; its rule is the last, so that the others keep their index
        found.insert(
            0, _result(report, own, len(judged), own.verdict, own.message, SubjectResult(kind="Run", name="", verdict=own.verdict))
        )
        judged.append(own)
    rules = [_rule(result) for result in judged]
    driver: _Json = {
        "name": _text(report.suite.name) or "gpu-conformance",
        "rules": rules,
    }
    if version := _text(report.suite.version):
        driver["version"] = version
    return {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"gpu-conformance/{report.target.kind.value}/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(report, chaos, case, len(found))],
        "results": found[:MAX_RESULTS],
        "properties": {
            "target": phrases.target_words(report.target),
            "kubernetesVersion": _text(report.target.kubernetes_version),
            "run": _text(report.run.id),
            "verdict": report.verdict.value,
            "scope": visible(phrases.scope_words(report)),
        },
    }


def _of_run(case: Case) -> Result:
    """What is wrong with the run as a whole, as if it were a requirement."""
    return Result(
        id=Kind.RUN.value,
        title=case.name,
        area=Kind.RUN.value,
        level=Level.MUST,
        access=Access.READ,
        verdict=Verdict.FAILED,
        message=case.message,
        rationale=RUN_MEANING,
    )


def _invocation(report: Report, chaos: ChaosReport | None, case: Case | None, found: int) -> _Json:
    """How the run went: what a reader must know besides the results, and the exit code."""
    notices = [("warning", text) for text in [phrases.banner(report.target)] if text]
    notices += [("error", text) for text in ((case.message, *case.lines) if case is not None else ())]
    if found > MAX_RESULTS:
        notices.append(("error", f"{found - MAX_RESULTS} more results are in report.json only"))
    invocation: _Json = {
        "executionSuccessful": report.exit_code in (0, 1),
        "exitCode": report.exit_code,
        "exitCodeDescription": visible(chaos_phrases.exit_meaning(report, chaos)),
    }
    if notices:
        invocation["toolExecutionNotifications"] = [{"level": level, "message": {"text": visible(text)}} for level, text in notices]
    moment = phrases.started(report)
    if moment:
        invocation["startTimeUtc"] = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return invocation


def _rule(result: Result) -> _Json:
    links = [(words.strip(" :"), url) for reference in result.references[:20] for words, url in _links(reference)]
    rationale, remediation = visible(result.rationale), visible(result.remediation)
    plain = [rationale, f"What to do: {remediation}" if remediation else "", *(f"{words} {url}".strip() for words, url in links)]
    marked = [
        markdown_plain(rationale),
        f"**What to do:** {markdown_plain(remediation)}" if remediation else "",
        "\n".join(f"- [{markdown_plain(words or url)}](<{url}>)" for words, url in links),
    ]
    title = _text(result.title) or _text(result.id) or "none"
    rule: _Json = {
        "id": _text(result.id) or "none",
        "shortDescription": {"text": title},
        "fullDescription": {"text": rationale or title},
        "help": {"text": "\n\n".join(filter(None, plain)) or title, "markdown": "\n\n".join(filter(None, marked)) or markdown_plain(title)},
        "defaultConfiguration": {"level": _DEFAULT_LEVEL[result.level]},
        "properties": {"tags": [tag for tag in (_text(result.area), result.level.value, "gpu", "kubernetes") if tag]},
    }
    if links:
        rule["helpUri"] = links[0][1]
    return rule


def _links(reference: str) -> Iterator[tuple[str, str]]:
    """(words, address) for each address of a reference that a link can hold."""
    words = ""
    for text, url in link_parts(one_line(reference)):
        if url:
            yield words, quote(url, safe=":/?#[]@!$&'*+,;=%~-._")
        words = "" if url else text


def _results(report: Report, result: Result, index: int) -> Iterator[_Json]:
    """One result for each subject that did not pass; one for the requirement itself when it has none."""
    subjects = [subject for subject in phrases.troubled(result) if DISPLAY[subject.verdict].sarif]
    for subject in subjects:
        # what fails in a SHOULD only warns, as the requirement's own verdict says
        verdict = Verdict.WARNED if (subject.verdict, result.verdict) == (Verdict.FAILED, Verdict.WARNED) else subject.verdict
        text = phrases.subject_sentence(subject)
        yield _result(report, result, index, verdict, text, subject)
    if not subjects and DISPLAY[result.verdict].sarif:
        whole = SubjectResult(kind="Cluster", name="", verdict=result.verdict)
        yield _result(report, result, index, result.verdict, result.message or WORD[result.verdict], whole)


def _result(report: Report, result: Result, index: int, verdict: Verdict, text: str, subject: SubjectResult) -> _Json:
    kind, level = DISPLAY[verdict].sarif or ("pass", "none")
    real = report.target.kind is TargetKind.LIVE
    reported = text if real else f"[{phrases.target_name(report.target)}] {text}"
    path = "/".join(_segment(part) for part in (subject.kind, subject.namespace, subject.name) if part) or "Cluster"
    digest = hashlib.sha256("\0".join((result.id, subject.kind, subject.namespace, subject.name)).encode("utf-8", "backslashreplace"))
    one: _Json = {
        "ruleId": _text(result.id) or "none",
        "ruleIndex": index,
        "kind": kind,
        "level": level,
        "message": {"text": visible(reported)},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": path}, "region": {"startLine": 1}},
                "logicalLocations": [
                    {
                        "name": _text(subject.name) or _text(subject.kind) or "Cluster",
                        "fullyQualifiedName": phrases.subject_name(subject) or "Cluster",
                        "kind": "resource",
                    }
                ],
            }
        ],
        "partialFingerprints": {"gpuConformance/v1": digest.hexdigest(), "primaryLocationLineHash": f"{digest.hexdigest()[:16]}:1"},
        "properties": {
            "verdict": verdict.value,
            "level": result.level.value,
            "source": _text(subject.source),
            "target": report.target.kind.value,
        },
    }
    if verdict is Verdict.WAIVED:
        one["suppressions"] = [{"kind": "external", "status": "accepted", "justification": visible(subject.message or result.message)}]
    return one


def _segment(text: str) -> str:
    """One segment of a path, never one that leads out of it."""
    return quote(_text(text), safe="") if text.strip(".") else "".join("%2E" for _ in text)


def _text(text: str) -> str:
    return one_line(text, NAME_LIMIT)
