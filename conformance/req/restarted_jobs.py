"""REQ-14 for jobs that replace their pods instead of restarting them: restarts counted by owner.

Facts: docs/facts/pod-lifecycle.md#restarts.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from conformance.req.crash_loops import LONGEST_TURN, RESTARTS
from conformance.req.ending import device_count, device_hours
from fixtures.kubernetes.models import Json, Pod
from fixtures.kubernetes.times import moment, newest
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.cluster import Scope
from fixtures.text.ages import duration
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Inconclusive, Subject


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """Where a kind of jobs counts its restarts, and the label of its pods that names the job."""

    kind: str
    field: str
    labels: tuple[str, ...]
    each: str = ""  # field of the spec that says how many pods fail at a time


_COUNTERS = {
    "batch/jobs": Counter(kind="Job", field="failed", labels=("batch.kubernetes.io/job-name", "job-name"), each="parallelism"),
    "jobset.x-k8s.io/jobsets": Counter(kind="JobSet", field="restarts", labels=("jobset.sigs.k8s.io/jobset-name",)),
    "batch.volcano.sh/jobs": Counter(kind="VolcanoJob", field="retryCount", labels=("volcano.sh/job-name",)),
}


def check_restarted_jobs(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per job that has restarted and holds devices. Raises :class:`Inconclusive` where jobs could not be listed."""
    for key, counter in _COUNTERS.items():
        listing = scope.snapshot.listing(key)
        if listing.trouble:
            raise Inconclusive(listing.trouble, f"{key} could not be listed: {listing.message}")
        restarted = [obj for obj in listing.objects if _restarts(obj, counter)]
        holding = _holding(scope, counter) if restarted else {}
        for obj in restarted:
            meta = mapping(obj, "metadata")
            if pods := holding.get((text_of(meta.get("namespace")), text_of(meta.get("name")))):
                yield _judge(scope, obj, counter, pods, now)


def _restarts(obj: Json, counter: Counter) -> int:
    """Restarts of a job as a whole: pods that failed together are one. A job of which more succeeds than fails is at work."""
    status, spec = mapping(obj, "status"), mapping(obj, "spec")
    failed = count_of(status.get(counter.field))
    if not counter.each:
        return failed
    return 0 if count_of(status.get("succeeded")) >= failed else failed // max(count_of(spec.get(counter.each)), 1)


def count_of(value: object) -> int:
    """A whole number above 0; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _holding(scope: Scope, counter: Counter) -> dict[tuple[str, str], list[Pod]]:
    """Bound device pods by the job that their labels name."""
    found: dict[tuple[str, str], list[Pod]] = {}
    for pod in scope.holding_pods:
        name = next((name for label in counter.labels if (name := pod.metadata.label.get(label, ""))), "")
        if name and pod.spec.node_name:
            found.setdefault((pod.namespace, name), []).append(pod)
    return found


def _judge(scope: Scope, obj: Json, counter: Counter, pods: list[Pod], now: float) -> Finding:
    meta, restarts = mapping(obj, "metadata"), _restarts(obj, counter)
    place = Subject(counter.kind, text_of(meta.get("name")), text_of(meta.get("namespace")))
    begun = moment(text_of(mapping(obj, "status").get("startTime"))) or moment(text_of(meta.get("creationTimestamp")))
    youngest = newest(pod.metadata.creation_timestamp for pod in pods)
    source, expected = f"status.{counter.field}", "no crash loop while it holds devices"
    observed = f"{restarts} restarts" + (f" within {duration(now - begun)}" if begun is not None else "")
    limit = scope.policy.requests.end_minutes * 60
    about = About(place, source, expected, observed)
    if begun is None or now - begun < limit or restarts < RESTARTS or (now - begun) / restarts > LONGEST_TURN:
        return about.ok()
    if youngest is not None and now - youngest > LONGEST_TURN:
        return about.ok(f"{observed}, its pods have run for {duration(now - youngest)} now")
    devices = sum(device_count(scope, pod) for pod in pods)
    lost = device_hours(devices or 1, now - begun)
    message = (
        f"it has started all its pods anew {restarts} times within {duration(now - begun)} and holds {devices} devices each time ({lost})"
    )
    return about.advised(message, cause="CrashLoopHoldsDevices")
