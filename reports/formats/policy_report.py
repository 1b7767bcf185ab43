"""A report as objects of wgpolicyk8s.io/v1alpha2, for dashboards that read PolicyReports: one for each namespace, and one for the cluster.

https://github.com/kubernetes-retired/wg-policy-prototypes has the kinds; a test holds the objects to their schema. Results of a simulated
cluster are named as such in each of them.
"""

import json
from collections import Counter

from fixtures.verdict.record import Level, Report, Result, SubjectResult, Verdict
from reports import phrases
from reports.safe_text import NAME_LIMIT, one_line
from reports.verdicts import DISPLAY

GROUP = "wgpolicyk8s.io/v1alpha2"
NAME, SOURCE = "gpu-conformance", "gpu-conformance"
MAX_RESULTS, MAX_BYTES = 1_000, 1_000_000
"""Results of one object, and their JSON: etcd takes 1.5 MiB. Those that need attention come first, and the others are counted."""

Json = dict[str, object]


def render(report: Report) -> str:
    """A List for ``kubectl apply --server-side``, as JSON in ASCII: without it kubectl keeps a copy in an annotation of 256 KiB at most."""
    spaces: dict[str, list[tuple[Result, SubjectResult | None]]] = {"": []}
    for result in report.results:
        for subject in phrases.by_urgency(result.subjects):
            spaces.setdefault(subject.namespace, []).append((result, subject))
        if not result.subjects:
            spaces[""].append((result, None))
    items = [_object(report, namespace, found) for namespace, found in sorted(spaces.items())]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=1) + "\n"


def _object(report: Report, namespace: str, found: list[tuple[Result, SubjectResult | None]]) -> Json:
    rank = {verdict: at for at, verdict in enumerate(phrases.SUBJECT_ORDER)}
    found = sorted(found, key=lambda one: rank[_verdict(*one)])
    counts = Counter(DISPLAY[_verdict(*one)].policy for one in found)
    annotations = {"gpu-conformance.io/run": one_line(report.run.id, NAME_LIMIT)}
    results = _fitting(report, found[:MAX_RESULTS])
    if len(found) > len(results):
        annotations["gpu-conformance.io/left-out"] = str(len(found) - len(results))
    labels = {"app.kubernetes.io/managed-by": NAME, "gpu-conformance.io/simulated": str(report.target.simulated).lower()}
    metadata: Json = {"name": NAME, "labels": labels, "annotations": annotations}
    return {
        "apiVersion": GROUP,
        "kind": "PolicyReport" if namespace else "ClusterPolicyReport",
        "metadata": {**metadata, "namespace": one_line(namespace, NAME_LIMIT)} if namespace else metadata,
        "summary": {word: counts[word] for word in ("pass", "fail", "warn", "error", "skip")},
        "results": results,
    }


def _fitting(report: Report, found: list[tuple[Result, SubjectResult | None]]) -> list[Json]:
    results: list[Json] = []
    room = MAX_BYTES
    for one in found:
        made = _result(report, *one)
        room -= len(json.dumps(made))
        if room < 0:
            break
        results.append(made)
    return results


def _verdict(result: Result, subject: SubjectResult | None) -> Verdict:
    """The subject's, else the requirement's. A SHOULD that failed warns."""
    if subject is None or (subject.verdict is Verdict.FAILED and result.verdict is Verdict.WARNED):
        return result.verdict
    return subject.verdict


def _result(report: Report, result: Result, subject: SubjectResult | None) -> Json:
    verdict = _verdict(result, subject)
    begun = phrases.started(report)
    properties = {"verdict": verdict.value, "target": report.target.kind.value, "run": one_line(report.run.id, NAME_LIMIT)}
    found: Json = {
        "source": SOURCE,
        "policy": one_line(result.id, 60),
        "rule": one_line((subject.cause if subject else result.cause) or result.reason_code or result.id, 100),
        "category": one_line(result.area, 60),
        "severity": "high" if result.level is Level.MUST else "medium",
        "scored": result.level is Level.MUST,
        "result": DISPLAY[verdict].policy,
        "message": phrases.subject_detail(subject, 1_000) if subject else one_line(result.message, 1_000),
        "properties": properties,
    }
    if begun is not None:
        found["timestamp"] = {"seconds": int(begun.timestamp()), "nanos": 0}
    if subject is not None:
        resource = {"kind": one_line(subject.kind, 60), "name": one_line(subject.name, NAME_LIMIT).partition(" ")[0]}
        found["resources"] = [{**resource, "namespace": one_line(subject.namespace, 80)} if subject.namespace else resource]
    return found
