"""CTRF 1.0, the Common Test Report Format (ctrf.io, ``ctrf.schema.json``): one test per requirement and chaos experiment.

Where CTRF has no word the test is ``other``: inconclusive and error are neither a pass nor a failure. ``rawStatus``
keeps the suite's own verdict, ``extra`` what CTRF has no field for. A run that is not good, for a reason that no test has, is a test
of its own that failed.
"""

import math
import uuid
from collections import Counter

import msgspec

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, TargetKind
from reports import chaos_phrases, phrases
from reports.cases import Case, Kind, cases
from reports.safe_text import NAME_LIMIT, one_line, visible
from reports.verdicts import DISPLAY

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_OID, "gpu-conformance")


def render(report: Report, chaos: ChaosReport | None = None) -> str:
    """The whole document, indented."""
    return msgspec.json.format(msgspec.json.encode(_document(report, chaos)), indent=2).decode() + "\n"


def _document(report: Report, chaos: ChaosReport | None) -> dict[str, object]:
    moment = phrases.started(report)
    start = round(moment.timestamp() * 1000) if moment else 0
    duration = _milliseconds(report.run.duration_seconds)
    subject = "chaos" if chaos_phrases.only_chaos(report, chaos) else "conformance"
    found = cases(report, chaos)
    tests = [_test(case) for case in found]
    statuses = [test["status"] for test in tests]
    document: dict[str, object] = {
        "reportFormat": "CTRF",
        "specVersion": "1.0.0",
        "reportId": str(uuid.uuid5(_NAMESPACE, _name(report.run.id))),
        "generatedBy": "gpu-conformance",
        "results": {
            "tool": {"name": _name(report.suite.name) or "gpu-conformance", "version": _name(report.suite.version)},
            "summary": {
                "tests": len(tests),
                **{status: statuses.count(status) for status in ("passed", "failed", "skipped", "pending", "other")},
                "suites": len({(case.kind, case.area) for case in found}),
                "start": start,
                "stop": start + duration,
                "duration": duration,
                "extra": {"verdict": report.verdict.value, "exitCode": report.exit_code, "residue": len(report.residue)}
                | _scope(report)
                | _blockers(report),
            },
            "tests": tests,
            "environment": {
                "reportName": f"GPU {subject} ({phrases.target_words(report.target)})",
                "testEnvironment": phrases.target_name(report.target),
                "extra": _environment(report),
            },
        },
    }
    if moment:
        document["timestamp"] = moment.isoformat().replace("+00:00", "Z")
    return document


def _scope(report: Report) -> dict[str, object]:
    """How much the verdict rests on; nothing for a run about chaos experiments alone."""
    scope = report.scope
    if scope is None:
        return {}
    causes = Counter(one.cause.value for one in scope.not_judged)
    section: dict[str, object] = {
        "sentence": visible(phrases.scope_words(report)),
        "requirements": scope.requirements,
        "judged": scope.judged,
        "notJudged": dict(causes),
    }
    section |= {"shortfalls": [visible(text) for text in scope.shortfalls], "notes": [visible(text) for text in scope.notes]}
    return {"scope": section}


def _blockers(report: Report) -> dict[str, object]:
    """What is worse than in the baseline, and which waivers are expired or unused; what is empty is left out."""
    found = {"regressions": report.regressions, "waiverProblems": report.waiver_problems}
    return {name: [visible(text) for text in texts] for name, texts in found.items() if texts}


def _environment(report: Report) -> dict[str, object]:
    target = report.target
    extra: dict[str, object] = {
        "targetKind": target.kind.value,
        "kubernetesVersion": _name(target.kubernetes_version),
        "clusterUid": _name(target.cluster_uid),
        "run": _name(report.run.id),
        "policyDigest": _name(report.run.policy_digest),
        "presets": [_name(text) for text in phrases.presets(report)],
    }
    extra |= {"nodes": target.nodes, "simulatedNodes": target.simulated_nodes} if target.nodes is not None else {}
    if target.kind in (TargetKind.SIMULATED, TargetKind.LOCAL):
        extra |= {"scenario": _name(target.scenario), "defects": [_name(d) for d in target.defects]}
        extra |= {"components": [_name(component) for component in target.components]} if target.components else {}
        extra |= {"notes": [_name(note) for note in target.notes]} if target.notes else {}
    return extra


def _test(case: Case) -> dict[str, object]:
    """One test. The run itself has failed, whatever its verdict: no other test may say so."""
    whole = case.kind is Kind.RUN
    test: dict[str, object] = {
        "id": str(uuid.uuid5(_NAMESPACE, _name(case.key))),
        "name": case.name or "none",
        "status": "failed" if whole else DISPLAY[case.verdict].ctrf,
        "rawStatus": case.extra["verdict"],
        "duration": _milliseconds(case.seconds),
        "suite": [_name(case.area) or "none"],
        "type": case.kind.value,
    }
    message = {"message": visible(case.message)} if case.message else {}
    if whole:
        return test | message | {"extra": case.extra}
    test |= {"tags": [tag for tag in (*case.tags, case.labels.get("target")) if tag], "labels": case.labels, "extra": case.extra}
    if case.started:
        test["start"] = _milliseconds(case.started.timestamp())
    return test | message


def _milliseconds(seconds: float) -> int:
    """Whole milliseconds; what is no length of time is 0."""
    if not (math.isfinite(seconds) and 0 <= seconds < 1e12):
        return 0
    return round(seconds * 1000)


def _name(text: str) -> str:
    return one_line(text, NAME_LIMIT)
