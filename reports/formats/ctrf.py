"""CTRF 1.0, the Common Test Report Format (ctrf.io, ``ctrf.schema.json``): one test per requirement and chaos experiment.

Where CTRF has no word the test is ``other``: inconclusive and error are neither a pass nor a failure. ``rawStatus``
keeps the suite's own verdict, ``extra`` what CTRF has no field for. A run that is not good, for a reason that no test has, is a test
of its own that failed.
"""

from __future__ import annotations

import math
import uuid
from collections import Counter

import msgspec

from fixtures.verdict.chaos_record import ChaosReport, ChaosResult
from fixtures.verdict.record import Report, Result, TargetKind
from reports import chaos_phrases, phrases, run_case
from reports.safe_text import NAME_LIMIT, one_line, visible
from reports.verdicts import DISPLAY

MAX_SUBJECTS = 20

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_OID, "gpu-conformance")


def render(report: Report, chaos: ChaosReport | None = None) -> str:
    """The whole document, indented."""
    return msgspec.json.format(msgspec.json.encode(_document(report, chaos)), indent=2).decode() + "\n"


def _document(report: Report, chaos: ChaosReport | None) -> dict[str, object]:
    moment = phrases.started(report)
    start = round(moment.timestamp() * 1000) if moment else 0
    duration = _milliseconds(report.run.duration_seconds)
    held = chaos.experiments if chaos else []
    subject = "chaos" if chaos_phrases.only_chaos(report, chaos) else "conformance"
    tests = [_test(result) for result in report.results] + [_experiment(result) for result in held]
    own = run_case.run_case(report, chaos)
    tests += [_run(own, report)] if own is not None else []
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
                "suites": len(phrases.by_area(report.results)) + bool(held) + (own is not None),
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


def _test(result: Result) -> dict[str, object]:
    troubled = phrases.troubled(result)
    test: dict[str, object] = {
        "id": str(uuid.uuid5(_NAMESPACE, _name(result.id))),
        "name": _name(f"{result.id} {result.title}") or "none",
        "status": DISPLAY[result.verdict].ctrf,
        "rawStatus": result.verdict.value,
        "duration": _milliseconds(result.duration_seconds),
        "suite": [_name(result.area) or "none"],
        "type": "conformance",
        "tags": [result.level.value, result.access.value],
        "labels": {"id": _name(result.id), "level": result.level.value, "access": result.access.value},
        "extra": {
            "verdict": result.verdict.value,
            "reasonCode": _name(result.reason_code),
            "judged": result.judged,
            "total": result.total,
            "subjects": [phrases.subject_sentence(subject) for subject in troubled[:MAX_SUBJECTS]],
            "subjectsNotShown": max(0, len(troubled) - MAX_SUBJECTS) + result.subjects_omitted,
            "remediation": visible(result.remediation),
        },
    }
    if result.message:
        test["message"] = visible(result.message)
    return test


def _experiment(result: ChaosResult) -> dict[str, object]:
    recovery, detection = chaos_phrases.recovery(result), chaos_phrases.detection(result)
    word = chaos_phrases.fidelity(result)
    test: dict[str, object] = {
        "id": str(uuid.uuid5(_NAMESPACE, _name(f"{chaos_phrases.AREA} {result.id}"))),
        "name": _name(f"{result.id} {result.title}") or "none",
        "status": DISPLAY[result.verdict].ctrf,
        "rawStatus": result.verdict.value,
        "duration": _milliseconds(chaos_phrases.finite(result.duration_seconds) or 0.0),
        "suite": [chaos_phrases.AREA],
        "type": chaos_phrases.AREA,
        "tags": [tag for tag in (chaos_phrases.level_words(result), word, result.target_kind.value) if tag],
        "labels": {
            "id": _name(result.id),
            "level": chaos_phrases.level_words(result),
            "fidelity": word,
            "target": result.target_kind.value,
        },
        "extra": {
            "verdict": result.verdict.value,
            "reasonCodes": [_name(code) for code in result.reason_codes[:MAX_SUBJECTS]],
            "level": result.level,
            "fidelity": word,
            "targetKind": result.target_kind.value,
            "targets": chaos_phrases.targets(result),
            "detectionSeconds": detection.seconds if detection else None,
            "recoverySeconds": recovery.seconds if recovery else None,
            "recoveryUncertaintySeconds": recovery.uncertainty if recovery else None,
            "recoveryFrom": _name(result.recovery_from),
            "neverLost": result.never_lost,
            "recoveryBoundSeconds": chaos_phrases.finite(result.bound_seconds),
            "samplerGapSeconds": chaos_phrases.finite(result.sampler_gap_seconds),
            "details": chaos_phrases.details(result),
            "residue": len(result.residue),
            "artefacts": _name(result.artefacts),
        },
    }
    moment = chaos_phrases.started(result)
    if moment:
        test["start"] = _milliseconds(moment.timestamp())
    if result.message:
        test["message"] = visible(result.message)
    return test


def _run(case: run_case.RunCase, report: Report) -> dict[str, object]:
    """The run itself has failed, whatever its verdict: no other test may say so."""
    return {
        "id": str(uuid.uuid5(_NAMESPACE, run_case.AREA)),
        "name": run_case.NAME,
        "status": "failed",
        "rawStatus": report.verdict.value,
        "duration": 0,
        "suite": [run_case.AREA],
        "type": run_case.AREA,
        "message": visible(case.message),
        "extra": {"verdict": report.verdict.value, "reasonCode": case.kind, "details": [visible(line) for line in case.lines]},
    }


def _milliseconds(seconds: float) -> int:
    """Whole milliseconds; what is no length of time is 0."""
    if not (math.isfinite(seconds) and 0 <= seconds < 1e12):
        return 0
    return round(seconds * 1000)


def _name(text: str) -> str:
    return one_line(text, NAME_LIMIT)
