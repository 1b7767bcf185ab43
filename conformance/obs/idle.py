"""OBS-04: no device is allocated and idle for longer than the policy's time. Pure but for what is asked of a Prometheus.

Facts: docs/facts/telemetry.md#idle-and-occupied.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import msgspec

from conformance.obs.attribution import parts_of, shares
from conformance.obs.flaws import busy
from conformance.obs.page import Part
from conformance.obs.scraping import NOT_REACHED, NOT_READ, Scraper
from conformance.outputs.captured_text import Unreadable
from conformance.outputs.dcgm import ACTIVITY, BASELINE_MIB, IDLE_BELOW, UTILISATION, Sample, first_of, parse_samples
from conformance.requirement import Asks, Form
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope, subject
from fixtures.model.platform.renamed_series import renamed
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, not_judged
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject

Query = Callable[[str], list[Sample]]
"""Asks a Prometheus and gives the samples of its answer."""

_PLACE = re.compile(r"(?P<namespace>[a-z0-9.-]{1,63})/(?P<scheme>https:)?(?P<service>[a-z0-9.-]{1,63}):(?P<port>[a-z0-9-]{1,15})\Z")
_ANSWER_BYTES = 8 << 20
_COVERED = 0.9
_MEMORY = ("DCGM_FI_DEV_FB_USED", "gpu_used_vram")


class History(msgspec.Struct, frozen=True):
    """The most that a device did within the time, as a ratio, and for how many seconds that is known."""

    most: float
    seconds: float


def prometheus_of(asks: Asks, place: str) -> Query:
    """A Prometheus by ``namespace/service:port`` (``https:`` before the service), through the API server's proxy."""
    found = _PLACE.match(place)
    if not found:
        raise Inconclusive("BadPrometheus", f"metrics.prometheus is {place!r}, expected NAMESPACE/SERVICE:PORT")
    service = f"{found['scheme'] or ''}{found['service']}:{found['port']}"
    path = f"/api/v1/namespaces/{found['namespace']}/services/{service}/proxy/api/v1/query"

    def ask(query: str, cluster: Cluster) -> str:
        try:
            answer = cluster.request("GET", path, query={"query": query}, accept="*/*", attempts=2, cut_at=_ANSWER_BYTES)
        except ApiTrouble as trouble:
            raise Inconclusive(trouble.code, f"Prometheus {place}: {trouble.message}") from None
        if not answer.ok:
            raise Inconclusive(answer.reason, f"Prometheus {place}: {answer.status} {answer.message}")
        return answer.text

    def samples(query: str) -> list[Sample]:
        try:
            return parse_samples(asks(f"GET {path}, the query {query}", partial(ask, query), Form(str)))
        except Unreadable as error:
            raise Inconclusive("Unreadable", f"Prometheus {place}: {error}") from None

    return samples


def history_of(ask: Query, hours: float) -> dict[tuple[str, str], History]:
    """What devices did within some hours, by UUID and MIG instance (or ""). Minutes are as fine as this looks."""
    window = f"{max(int(hours * 60), 1)}m"
    found: dict[tuple[str, str], History] = {}
    asked = [(UTILISATION, 100.0), ("gpu_gfx_activity", 100.0), (ACTIVITY, 1.0)]
    asked += [(renamed()[name].now, full / renamed()[name].times) for name, full in asked if name in renamed()]
    for name, full in asked:
        known = {_key(one): one.value for one in ask(f"time() - min_over_time(timestamp({name})[{window}:5m])")}
        for one in ask(f"max_over_time({name}[{window}])"):
            key = _key(one)
            before = found.get(key, History(0.0, 0.0))
            found[key] = History(max(before.most, one.value / full), max(before.seconds, known.get(key, 0.0)))
    return found


def _key(sample: Sample) -> tuple[str, str]:
    labels = sample.labels
    return first_of(labels, "UUID", "gpu_uuid", "uuid", "serial_number"), labels.get("GPU_I_ID", "")


def check_idle(scope: Scope, scraper: Scraper, ask: Query | None) -> Iterator[Finding]:
    """One finding per pod that a device's metrics name as its owner."""
    history = history_of(ask, scope.policy.metrics.idle_hours) if ask else None
    pods = {(pod.namespace, pod.name): pod for pod in scope.snapshot.pods}
    nodes = {node.name: node for node in scope.accelerator_nodes}
    held: dict[tuple[str, str], list[Part]] = {}
    left_out: set[tuple[str, str]] = set()
    for name, one in scraper.pages().items():
        for part in parts_of(one.page) if one.page and name in nodes else ():
            for owner in part.owners:
                held.setdefault((owner.namespace, owner.pod), []).append(part)
                if shares(scope, nodes[name]):
                    left_out.add((owner.namespace, owner.pod))
    if not held:
        if silent := [name for name, one in scraper.first().items() if one.silence in {*NOT_REACHED, *NOT_READ}]:
            raise Inconclusive("ExportersNotReached", f"no page names a pod that holds a device, and there is none of {listed(silent)}")
        raise NotApplicable("NoOwners", "no metrics name a pod that holds a device")
    for key, parts in sorted(held.items()):
        if key in left_out:
            who = Subject("Pod", key[1], key[0])
            yield not_judged(who, message="its device is shared, and metrics of a device are not those of one pod", source="metrics")
        elif (pod := pods.get(key)) is not None:
            yield _judged(scope, pod, parts, history)


def _judged(scope: Scope, pod: Pod, parts: list[Part], history: Mapping[tuple[str, str], History] | None) -> Finding:
    hours = scope.policy.metrics.idle_hours
    began = unix(pod.start_time or pod.metadata.creation_timestamp)
    age = scope.snapshot.taken_at - began if began is not None else None
    expected = f"some activity within {hours:g} h on each device that it holds"
    about = About(subject(pod), "", expected)
    if age is not None and age < hours * 3600:
        return about.ok(f"it runs for {age / 3600:.0f} h", source="pod.status.startTime")
    devices = listed(map(str, parts))
    if history is not None:
        known = {str(part): history.get((part.uuid, part.instance)) for part in parts}
        active = [name for name, one in known.items() if one and one.most >= IDLE_BELOW]
        short = [name for name, one in known.items() if one is None or one.seconds < _COVERED * hours * 3600]
        idle = [name for name in known if name not in active and name not in short]
        if idle:
            message = f"it holds {listed(idle)}, whose activity stayed below {IDLE_BELOW:.0%} for {hours:g} h"
            return about.bad(message, cause="DeviceIdle", observed=message, source="metrics.prometheus")
        if short and not active:
            message = f"the Prometheus knows {listed(short)} for less than {hours:g} h"
            return about.undecided(message, source="metrics.prometheus")
        return about.ok(f"{listed(active)} worked", source="metrics.prometheus")
    if working := [str(part) for part in parts if busy(part)]:
        return about.ok(f"{listed(working)} work now", source="metrics")
    memory = [part.value(*_MEMORY) for part in parts]
    if age is not None and all(used is not None and used < BASELINE_MIB / 10 for used in memory):
        message = (
            f"it has held {devices} for {age / 3600:.0f} h, and shows neither activity nor memory in use now: one page does not tell since"
            " when, and the policy names no Prometheus (metrics.prometheus)"
        )
        return about.undecided(message, cause="IdleSinceUnknown", source="metrics, pod.status.startTime")
    message = f"{devices} are idle now; for how long, only a Prometheus tells that the policy names (metrics.prometheus)"
    return about.not_judged(message, source="metrics")
