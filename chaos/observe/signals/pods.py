"""Signals of pods on the target nodes that hold devices, and of the experiment's own canaries."""

from __future__ import annotations

import re
import time

from chaos.model.conditions import JsonValue
from chaos.model.plan_facts import CANARY_LABEL, PlanFacts, canary_namespace
from chaos.observe.device_requests import requested_devices
from chaos.observe.sample import Reading
from chaos.observe.view import (
    View,
    dig,
    is_ready,
    items_of,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    number_of,
    phase_of,
    restarts_of,
    text_of,
    uid_of,
)
from chaos.observe.watched_pods import state_of
from fixtures.kubernetes.models import Json

_BEAT = re.compile(r"^beat (\d{1,12})\s*$", re.MULTILINE)
_UUID = re.compile(r"\(UUID: ([A-Za-z0-9-]{1,80})\)")
WORKER, PROBE, VICTIM = "worker", "probe", "victim"
"""Roles of canaries: a worker holds its devices for the whole experiment, a probe asks whether a pod can start now, a victim holds the

device that the fault is about.
"""


def holding(reading: Reading) -> list[Json]:
    """Pods of the target nodes that hold devices and have not ended."""
    facts = PlanFacts.of(reading.plan)
    return [pod for pod in View.at(reading).pods_on(reading.plan.nodes) if live(pod) and uses_devices(pod, facts)]


def uses_devices(pod: Json, facts: PlanFacts) -> bool:
    """Whether a pod asks for devices: by resource, or by claim where the experiment is about claims."""
    return bool(requested_devices(pod, facts.is_device) or (facts.device_class and dig(pod, "spec").get("resourceClaims")))


def live(pod: Json) -> bool:
    """Whether a pod has not ended."""
    return phase_of(pod) not in ("Succeeded", "Failed")


def canaries(reading: Reading, role: str = "") -> list[Json]:
    """The experiment's own pods, of one role or of all."""
    pods = View.at(reading).select("pods", canary_namespace(reading.plan))
    return [pod for pod in pods if (labels_of(pod).get(CANARY_LABEL) == role if role else CANARY_LABEL in labels_of(pod))]


def running(reading: Reading) -> JsonValue:
    """How many workers run and are ready."""
    return sum(phase_of(pod) == "Running" and is_ready(pod) for pod in canaries(reading, WORKER))


def canary_uids(reading: Reading) -> JsonValue:
    """``{name: "uid restarts phase"}`` of the workers."""
    return {name_of(pod): state_of(pod) for pod in canaries(reading, WORKER)}


def victim(reading: Reading) -> JsonValue:
    """``uid restarts phase`` of the victim; empty when it is gone."""
    return next((state_of(pod) for pod in canaries(reading, VICTIM)), "")


def unbound(reading: Reading) -> JsonValue:
    """Names of the experiment's pods that no scheduler has placed, sorted."""
    return sorted(name_of(pod) for pod in canaries(reading) if live(pod) and not node_of(pod))


def canary_restarts(reading: Reading) -> JsonValue:
    """How often containers of workers were started again."""
    return sum(restarts_of(pod) for pod in canaries(reading, WORKER))


def canary_nodes(reading: Reading) -> JsonValue:
    """Nodes that live workers are bound to, sorted, one entry per pod."""
    return sorted(node_of(pod) for pod in canaries(reading, WORKER) if live(pod) and node_of(pod))


def progress(reading: Reading) -> JsonValue:
    """The smallest heartbeat counter of the workers; -1 while none beats."""
    return min(_beats(reading).values(), default=-1)


def stalled(reading: Reading) -> JsonValue:
    """Seconds since the slowest worker's counter last moved, seen from here."""
    memory: dict[str, tuple[int, float]] = reading.memory.setdefault("canaries.stalled", {})
    now, worst = time.monotonic(), 0.0
    for uid, beat in _beats(reading).items():
        if uid not in memory or memory[uid][0] != beat:
            memory[uid] = (beat, now)
        worst = max(worst, now - memory[uid][1])
    return round(worst, 2)


def seen(reading: Reading) -> JsonValue:
    """``{worker: [UUID…]}``: devices that the workers see from inside."""
    found = {name_of(pod): uuids_in(View.at(reading).log_tail(namespace_of(pod), name_of(pod), 40)) for pod in _beating(reading)}
    return {name: uuids for name, uuids in sorted(found.items()) if uuids}


def uuids_in(text: str) -> list[str]:
    """UUIDs of an ``nvidia-smi -L`` listing, each once, sorted."""
    return sorted(set(_UUID.findall(text)))


def beat_in(text: str) -> int | None:
    """The last heartbeat of a worker's log; None without one."""
    found = _BEAT.findall(text)
    return int(found[-1]) if found else None


def probe_phase(reading: Reading) -> JsonValue:
    """Phase of the newest probe pod; empty before there is one."""
    probes = sorted(canaries(reading, PROBE), key=lambda pod: (text_of(dig(pod, "metadata").get("creationTimestamp")), name_of(pod)))
    return phase_of(probes[-1]) if probes else ""


def probe_nodes(reading: Reading) -> JsonValue:
    """Nodes of probe pods that were bound, sorted."""
    return sorted(node_of(pod) for pod in canaries(reading, PROBE) if node_of(pod))


def device_health(reading: Reading) -> JsonValue:
    """Devices that kubelets report as Unhealthy in the status of pods that hold them (``allocatedResourcesStatus``, KEP-4680)."""
    found = set()
    for pod in holding(reading):
        for status in items_of(dig(pod, "status").get("containerStatuses")):
            for resource in items_of(status.get("allocatedResourcesStatus")):
                found |= {
                    text_of(item.get("resourceID")) for item in items_of(resource.get("resources")) if item.get("health") == "Unhealthy"
                }
    return sorted(found)


def budget(reading: Reading) -> JsonValue:
    """Disruptions that the experiment's budget allows now; -1 without one."""
    budgets = View.at(reading).select("policy/poddisruptionbudgets", canary_namespace(reading.plan))
    return number_of(dig(budgets[0], "status").get("disruptionsAllowed")) if budgets else -1


def budget_kept(reading: Reading) -> JsonValue:
    """Whether as many workers are healthy as the experiment's budget demands; false without one: it was not kept either."""
    budgets = View.at(reading).select("policy/poddisruptionbudgets", canary_namespace(reading.plan))
    return bool(budgets) and all(
        number_of(dig(item, "status").get("currentHealthy")) >= number_of(dig(item, "status").get("desiredHealthy")) for item in budgets
    )


def _beating(reading: Reading) -> list[Json]:
    return [pod for pod in canaries(reading, WORKER) if phase_of(pod) == "Running" and not dig(pod, "metadata").get("deletionTimestamp")]


def _beats(reading: Reading) -> dict[str, int]:
    """Counters by UID of the workers that run; -1 before the first beat. Raises NoData when a log cannot be read."""
    beats = {}
    for pod in _beating(reading):
        beat = beat_in(View.at(reading).log_tail(namespace_of(pod), name_of(pod), 40))
        beats[uid_of(pod)] = -1 if beat is None else beat
    return beats


SIGNALS = {
    "pods.device.health": device_health,
    "canaries.running": running,
    "canaries.uids": canary_uids,
    "canaries.restarts": canary_restarts,
    "canaries.unbound": unbound,
    "canaries.victim": victim,
    "canaries.nodes": canary_nodes,
    "canaries.progress": progress,
    "canaries.stalled": stalled,
    "canaries.seen": seen,
    "probe.phase": probe_phase,
    "probe.nodes": probe_nodes,
    "budget.allowed": budget,
    "budget.kept": budget_kept,
}
