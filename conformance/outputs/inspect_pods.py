"""Inspections of a table of pods, and of the API server's refusal of an object."""

from __future__ import annotations

from collections import Counter

from conformance.outputs import api_refusal, pod_table
from conformance.outputs.inspection import Inspection, InspectionFinding, Judged, worst

_MAX_FINDINGS = 200
_MANY_RESTARTS = 5


def inspect_pods(text: str) -> Inspection:
    """``pods``: whether all of ``kubectl get pods`` run or have ended well. Raises ``Unreadable``."""
    rows = pod_table.parse(text)
    findings = []
    for row in rows:
        verdict = Judged.of(row.well)
        subject = f"{row.namespace}/{row.name}".strip("/")
        if verdict is not Judged.GOOD:
            findings.append(InspectionFinding(subject, verdict, f"{row.status}, {row.ready} of {row.total} ready", row.status, "Running"))
        elif row.restarts >= _MANY_RESTARTS:
            findings.append(InspectionFinding(subject, Judged.GOOD, f"{row.restarts} restarts"))
    verdict = worst([Judged.of(row.well) for row in rows])
    states = Counter(row.status for row in rows)
    facts: dict[str, object] = {"pods": len(rows), "states": dict(sorted(states.items())), "restarts": sum(row.restarts for row in rows)}
    if verdict is Judged.GOOD:
        return Inspection("pods", verdict, "ALL_WELL", f"{len(rows)} pods run or have ended well", facts, findings[:_MAX_FINDINGS])
    first = next(finding for finding in findings if finding.verdict is verdict)
    code = "POD_FAILED" if verdict is Judged.BAD else "NOT_YET"
    return Inspection("pods", verdict, code, f"{first.subject}: {first.message}", facts, findings[:_MAX_FINDINGS])


def inspect_api_refusal(text: str) -> Inspection:
    """``api-refusal``: an object that the API server refused as not valid, field by field. Raises ``Unreadable``."""
    refusal = api_refusal.parse(text)
    facts: dict[str, object] = {
        "kind": refusal.kind,
        "name": refusal.name,
        "causes": [{"field": cause.field, "what": cause.what, "detail": cause.detail} for cause in refusal.causes],
    }
    if not refusal.causes:
        message = "the refusal names no field: the text is cut, or not the API server's"
        return Inspection("api-refusal", Judged.UNDECIDABLE, "INCOMPLETE", message, facts, [])
    first = refusal.causes[0]
    what = f"{first.field}: {first.what}{f': {first.detail}' if first.detail else ''}"
    return Inspection("api-refusal", Judged.GOOD, "REFUSED", f"refused by the API server: {what}"[:400], facts, [])
