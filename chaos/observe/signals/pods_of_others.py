"""Signals of pods that hold devices and must not be disturbed: those of the target nodes, and other people's elsewhere.

A pod of other people that ended counts as damaged only where the cluster ended it. Where its owner can have caused the same, a signal of
its own says so (chaos/model/companions.py), and the verdict is undecided.
"""

from __future__ import annotations

from chaos.model.conditions import JsonValue
from chaos.model.plan_facts import PlanFacts, canary_namespace
from chaos.observe.pod_endings import DELETED, DONE, GONE, refusal_of
from chaos.observe.sample import Reading
from chaos.observe.signals.nodes import slowly
from chaos.observe.signals.pods import live, uses_devices
from chaos.observe.view import View, condition, dig, full_name, namespace_of, node_of, phase_of, text_of, uid_of
from chaos.observe.watched_pods import WatchedPods, listed, state_of
from fixtures.kubernetes.models import Json
from fixtures.verdict.record import TargetKind


def uids(reading: Reading) -> JsonValue:
    """``{namespace/name: "uid restarts phase"}`` of the experiment's live pods that hold devices on the target nodes, and of strangers.

    A stranger's entry stays as it was first seen unless the cluster ends it.
    """
    return {
        **_here(reading).states(),
        **{full_name(pod): state_of(pod) for pod in _on_targets(reading) if live(pod) and _own(reading, pod)},
    }


def strangers(reading: Reading) -> JsonValue:
    """As ``pods.uids``, without the experiment's own pods."""
    return dict(_here(reading).states())


def ended(reading: Reading) -> JsonValue:
    """``{namespace/name: how it ended}`` of strangers that ran on the target nodes; empty text for one that still runs."""
    return dict(_here(reading).endings())


def failed(reading: Reading) -> JsonValue:
    """Failed pods that asked for devices, with their reasons: the experiment's own, and strangers of the targets that the cluster ended.

    Sorted. A stranger counts if it was seen running.
    """
    pods = [*View.at(reading).pods_on(reading.plan.nodes), *View.at(reading).select("pods", canary_namespace(reading.plan))]
    facts = PlanFacts.of(reading.plan)
    own = [pod for pod in pods if _own(reading, pod) and phase_of(pod) == "Failed" and uses_devices(pod, facts)]
    return listed({*_here(reading).failed(), *(f"{full_name(pod)} {_reason(pod)}" for pod in own)})


def refused(reading: Reading) -> JsonValue:
    """Strangers that a target node refused since the sampler began and before they ran, with the reason; sorted.

    Whoever binds a pod to a node without the scheduler can have it refused.
    """
    known = _here(reading).known
    now = {
        uid_of(pod): f"{full_name(pod)} {found.text}"
        for pod in _on_targets(reading)
        if not _own(reading, pod) and uid_of(pod) not in known and (found := refusal_of(pod))
    }
    first: set[str] = reading.memory.setdefault("pods.refused.first", set(now))
    seen: dict[str, str] = reading.memory.setdefault("pods.refused", {})
    seen.update({uid: text for uid, text in now.items() if uid not in first})
    return listed(seen.values())


def others(reading: Reading) -> JsonValue:
    """Device pods elsewhere than on the targets that the cluster ended since the sampler first saw them, with how; sorted.

    On a cluster that is all ours one that is gone counts too; on a live one its owner may have ended it.
    """
    return _elsewhere(reading)[0]


def others_ended(reading: Reading) -> JsonValue:
    """Device pods elsewhere than on the targets that ended with an error since the sampler first saw them, with how; sorted.

    Those of ``pods.others`` are not among them. Nothing tells who caused these.
    """
    return _elsewhere(reading)[1]


def _elsewhere(reading: Reading) -> tuple[list[str], list[str]]:
    """What :func:`others` and :func:`others_ended` say: both of the same look."""

    def read() -> JsonValue:
        facts, plan = PlanFacts.of(reading.plan), reading.plan
        ours = _ours(reading)
        ignored = (DONE,) if ours else (DONE, DELETED, GONE)
        known: WatchedPods = reading.memory.setdefault("pods.elsewhere", WatchedPods(owned=ours, ignored=ignored))
        pods = [pod for pod in View.at(reading).select("pods") if node_of(pod) and node_of(pod) not in plan.nodes]
        known.look([pod for pod in pods if not _own(reading, pod) and uses_devices(pod, facts)], reading.now, newcomers=False)
        return known.damaged(), known.undecided()

    found: tuple[list[str], list[str]] = slowly(reading, "pods.others", read)
    return found


def _here(reading: Reading) -> WatchedPods:
    """Strangers on the target nodes, with what this reading says of them."""
    known: WatchedPods = reading.memory.setdefault("pods.here", WatchedPods(owned=_ours(reading)))
    known.look([pod for pod in _on_targets(reading) if not _own(reading, pod)], reading.now, newcomers=True)
    return known


def _on_targets(reading: Reading) -> list[Json]:
    facts = PlanFacts.of(reading.plan)
    return [pod for pod in View.at(reading).pods_on(reading.plan.nodes) if uses_devices(pod, facts)]


def _own(reading: Reading, pod: Json) -> bool:
    return namespace_of(pod) in (reading.plan.namespace, canary_namespace(reading.plan))


def _ours(reading: Reading) -> bool:
    return reading.plan.target_kind is not TargetKind.LIVE


def _reason(pod: Json) -> str:
    return text_of(dig(pod, "status").get("reason")) or condition(pod, "Ready") or "Failed"


SIGNALS = {
    "pods.uids": uids,
    "pods.strangers": strangers,
    "pods.ended": ended,
    "pods.failed": failed,
    "pods.refused": refused,
    "pods.others": others,
    "pods.others.ended": others_ended,
}
