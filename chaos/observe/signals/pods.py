"""Signals of pods that hold devices: the experiment's own canaries, and pods of others, which must not be disturbed anywhere.

A pod of other people that ended counts as damaged only where the cluster ended it. Where its owner can have caused the same, a signal of
its own says so (:func:`chaos.model.experiment.companions`), and the verdict is undecided: an exit code does not name the cause. A program
that lost its device ends with 1, 137 or 139, and so does one with a mistake of its own.

Facts: docs/facts/pod-lifecycle.md#who-ended-a-pod.
"""

from collections.abc import Collection, Iterable

import msgspec

from chaos.model.conditions import JsonValue
from chaos.model.plan import CANARY_LABEL, PlanFacts, canary_namespace
from chaos.observe.signals.nodes import leaving, listed, slowly
from chaos.observe.view import Reading, Signal, View
from fixtures.kubernetes.models import Json
from fixtures.model.demand.pod_devices import requested_devices
from fixtures.model.objects import (
    Budget,
    budget_of,
    condition,
    container_statuses,
    created_at,
    full_name,
    is_going,
    is_live,
    is_ready,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    reason_of,
    restarts_of,
    uid_of,
    unhealthy_devices,
    uses_claims,
)
from fixtures.model.platform.name_servers import KUBE_SYSTEM, ready_name_servers
from fixtures.model.pod_endings import DELETED, DONE, GONE, Ending, FirstSight, ending_of, refusal_of
from fixtures.verdict.record import TargetKind


class WatchedPod(msgspec.Struct, kw_only=True):
    """A pod, as it was when it was first seen running. ``ending`` stays: a pod that is gone by now ended as it was seen to.

    ``failed``: its phase was Failed then.
    """

    name: str
    node: str
    first: FirstSight
    state: str
    ending: Ending | None = None
    failed: bool = False

    @property
    def damaged(self) -> bool:
        """Whether the cluster ended it."""
        return self.ending is not None and self.ending.by_cluster

    @property
    def undecided(self) -> bool:
        """Whether it ended, and nothing tells who caused that. A pod that ends again and again tells nothing."""
        return self.ending is not None and not self.ending.by_cluster and not self.first.looping


class WatchedPods:
    """Pods by UID, each from when it was first seen running.

    ``owned``: all pods are this run's, so that nobody else deletes one. ``ignored`` are endings that mean nothing by themselves.
    """

    def __init__(self, *, owned: bool, ignored: Collection[Ending] = ()) -> None:
        self.known: dict[str, WatchedPod] = {}
        self._owned = owned
        self._ignored = ignored
        self._looked = False

    def look(self, pods: Iterable[Json], at: float, *, newcomers: bool, leaving: Collection[str] = ()) -> None:
        """Take in what pods say at a time in Unix seconds. ``newcomers``: whether those are watched that were not there at first.

        ``leaving``: nodes that somebody takes away. What was not known to have ended there by then is not watched any more.
        """
        now = {uid_of(pod): pod for pod in pods}
        self.known = {uid: one for uid, one in self.known.items() if one.ending is not None or one.node not in leaving}
        for uid, watched in self.known.items():
            self._learn(watched, now.get(uid))
        if newcomers or not self._looked:
            for uid, pod in now.items():
                if uid not in self.known and phase_of(pod) == "Running" and not is_going(pod):
                    self.known[uid] = WatchedPod(name=full_name(pod), node=node_of(pod), first=FirstSight.of(pod, at), state=state_of(pod))
        self._looked = True

    def _learn(self, watched: WatchedPod, pod: Json | None) -> None:
        """Take in how a pod ended. Once it has ended by itself, it may be deleted: only what the cluster did is news then."""
        ending = ending_of(pod, watched.first) if pod is not None else GONE
        if ending in (DELETED, GONE) and self._owned and watched.ending is None:
            ending = Ending(by_cluster=True, text=GONE.text)
        if ending is not None and (watched.ending is None or (ending.by_cluster and not watched.damaged)):
            watched.ending, watched.failed = ending, pod is not None and phase_of(pod) == "Failed"

    def damaged(self) -> list[str]:
        """Pods that the cluster ended, each with how; sorted."""
        return listed(f"{one.name} {one.ending.text}" for one in self.known.values() if one.ending and one.damaged)

    def undecided(self) -> list[str]:
        """Pods that ended, and nothing tells who caused that, each with how; sorted."""
        found = [one for one in self.known.values() if one.undecided and one.ending not in self._ignored]
        return listed(f"{one.name} {one.ending.text}" for one in found if one.ending)

    def failed(self) -> set[str]:
        """Pods whose phase was Failed when the cluster had ended them, each with how."""
        return {f"{one.name} {one.ending.text}" for one in self.known.values() if one.ending and one.damaged and one.failed}

    def states(self) -> dict[str, str]:
        """Every pod by name, as it was at first unless the cluster ended it. A pod that took the name of another does not hide that."""
        found: dict[str, str] = {}
        for one in self.known.values():
            if one.ending and one.damaged:
                found[one.name] = f"{one.state} {one.ending.text}"
            else:
                found.setdefault(one.name, one.state)
        return found

    def endings(self) -> dict[str, str]:
        """Every pod by name whose end tells something, with how it ended; nothing for one that has not."""
        found: dict[str, str] = {}
        for one in self.known.values():
            if one.damaged or not one.first.looping:
                found[one.name] = found.get(one.name) or (one.ending.text if one.ending else "")
        return found


def state_of(pod: Json) -> str:
    """``uid restarts phase``, and whether it is being deleted."""
    gone = " terminating" if is_going(pod) else ""
    return f"{uid_of(pod)} {restarts_of(pod)} {phase_of(pod)}{gone}"


WORKER, PROBE, VICTIM = "worker", "probe", "victim"
"""Roles of canaries.

A worker holds its devices for the whole experiment, a probe asks whether a pod can start now, and a victim holds the device that the
fault is about.
"""


def holding(reading: Reading) -> list[Json]:
    """Pods of the target nodes that hold devices and have not ended."""
    facts = PlanFacts.of(reading.plan)
    return [pod for pod in View.at(reading).pods_on(reading.plan.nodes) if is_live(pod) and uses_devices(pod, facts)]


def uses_devices(pod: Json, facts: PlanFacts) -> bool:
    """Whether a pod asks for devices: by resource, or by claim where the experiment is about claims."""
    return bool(requested_devices(pod, facts.is_device) or (facts.device_class and uses_claims(pod)))


def canaries(reading: Reading, role: str = "") -> list[Json]:
    """The experiment's own pods, of one role or of all."""
    pods = View.at(reading).select("pods", canary_namespace(reading.plan))
    return [pod for pod in pods if (labels_of(pod).get(CANARY_LABEL) == role if role else CANARY_LABEL in labels_of(pod))]


def running(reading: Reading) -> JsonValue:
    """How many workers run and are ready."""
    return sum(phase_of(pod) == "Running" and is_ready(pod) for pod in canaries(reading, WORKER))


def victim(reading: Reading) -> JsonValue:
    """``uid restarts phase`` of the victim; empty when it is gone."""
    return next((state_of(pod) for pod in canaries(reading, VICTIM)), "")


def _budgets(reading: Reading) -> list[Budget]:
    return [budget_of(item) for item in View.at(reading).select("policy/poddisruptionbudgets", canary_namespace(reading.plan))]


def strangers(reading: Reading) -> JsonValue:
    """As ``pods.uids``, without the experiment's own pods."""
    return dict(_here(reading).states())


def ended(reading: Reading) -> JsonValue:
    """``{namespace/name: how it ended}`` of strangers that ran on the target nodes; empty text for one that still runs."""
    return dict(_here(reading).endings())


def failed(reading: Reading) -> JsonValue:
    """Failed pods that asked for devices, with their reasons: the experiment's own, and strangers of the targets that the cluster ended.

    Sorted. A stranger counts if it was seen running. A victim that is being deleted has failed by that alone: ``canaries.victim`` has it.
    """
    pods = [*View.at(reading).pods_on(reading.plan.nodes), *View.at(reading).select("pods", canary_namespace(reading.plan))]
    facts = PlanFacts.of(reading.plan)
    evicted = [pod for pod in canaries(reading, VICTIM) if is_going(pod)]
    own = [pod for pod in pods if _own(reading, pod) and phase_of(pod) == "Failed" and uses_devices(pod, facts) and pod not in evicted]
    return listed({*_here(reading).failed(), *(f"{full_name(pod)} {reason_of(pod) or condition(pod, 'Ready') or 'Failed'}" for pod in own)})


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


def harmed(reading: Reading) -> JsonValue:
    """Those of :func:`others`, and those that hold a device there which their kubelet calls Unhealthy since; sorted."""
    damaged, _, unhealthy = _elsewhere(reading)
    return listed([*damaged, *unhealthy])


def _elsewhere(reading: Reading) -> tuple[list[str], list[str], list[str]]:
    """Device pods elsewhere that the cluster ended, those that ended otherwise, and those that lost a device: all of the same look.

    Pods of a node that an autoscaler takes away are left out: it ends them.
    """

    def read() -> tuple[list[str], list[str], list[str]]:
        facts, plan = PlanFacts.of(reading.plan), reading.plan
        ours = _ours(reading)
        ignored = (DONE,) if ours else (DONE, DELETED, GONE)
        known: WatchedPods = reading.memory.setdefault("pods.elsewhere", WatchedPods(owned=ours, ignored=ignored))
        on = {*plan.nodes, ""}
        pods = [pod for pod in View.at(reading).select("pods") if node_of(pod) not in on and not _own(reading, pod)]
        pods = [pod for pod in pods if uses_devices(pod, facts)]
        known.look(pods, reading.now, newcomers=False, leaving=leaving(reading))
        unhealthy = {
            f"{full_name(pod)} holds {device}, which is Unhealthy"
            for pod in pods
            for status in container_statuses(pod)
            for device in unhealthy_devices(status)
            if is_live(pod)
        }
        first: set[str] = reading.memory.setdefault("pods.unhealthy.first", unhealthy)
        return known.damaged(), known.undecided(), sorted(unhealthy - first)

    found: tuple[list[str], list[str], list[str]] = slowly(reading, "pods.others", read)
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


SIGNALS: dict[str, Signal] = {
    # Devices that kubelets report as Unhealthy in the status of pods that hold them (``allocatedResourcesStatus``, KEP-4680).
    "pods.device.health": lambda reading: sorted(
        {device for pod in holding(reading) for status in container_statuses(pod) for device in unhealthy_devices(status)}
    ),
    "canaries.running": running,
    # ``{name: "uid restarts phase"}`` of the workers.
    "canaries.uids": lambda reading: {name_of(pod): state_of(pod) for pod in canaries(reading, WORKER)},
    # How often containers of workers were started again.
    "canaries.restarts": lambda reading: sum(restarts_of(pod) for pod in canaries(reading, WORKER)),
    # Names of the experiment's pods that no scheduler has placed, sorted.
    "canaries.unbound": lambda reading: sorted(name_of(pod) for pod in canaries(reading) if is_live(pod) and not node_of(pod)),
    "canaries.victim": victim,
    # Nodes that live workers are bound to, sorted, one entry per pod.
    "canaries.nodes": lambda reading: sorted(node_of(pod) for pod in canaries(reading, WORKER) if is_live(pod) and node_of(pod)),
    # How many live workers are bound to the target nodes.
    "canaries.on_target": lambda reading: sum(is_live(pod) and node_of(pod) in reading.plan.nodes for pod in canaries(reading, WORKER)),
    # Phase of the newest probe pod; empty before there is one.
    "probe.phase": lambda reading: phase_of(max(canaries(reading, PROBE), key=lambda pod: (created_at(pod), name_of(pod)), default=None)),
    # Nodes of probe pods that were bound, sorted.
    "probe.nodes": lambda reading: sorted(node_of(pod) for pod in canaries(reading, PROBE) if node_of(pod)),
    # Disruptions that the experiment's budget allows now; -1 without one.
    "budget.allowed": lambda reading: next((one.allowed for one in _budgets(reading)), -1),
    # Whether as many workers are healthy as the experiment's budget demands; false without one: it was not kept either.
    "budget.kept": lambda reading: {one.healthy >= one.desired for one in _budgets(reading)} == {True},
    # ``{namespace/name: "uid restarts phase"}`` of the experiment's live pods that hold devices on the target nodes, and of strangers.
    # A stranger's entry stays as it was first seen unless the cluster ends it.
    "pods.uids": lambda reading: {
        **_here(reading).states(),
        **{full_name(pod): state_of(pod) for pod in _on_targets(reading) if is_live(pod) and _own(reading, pod)},
    },
    "pods.strangers": strangers,
    # How many of the cluster's name servers are ready.
    "names.servers": lambda reading: ready_name_servers(View.at(reading).select("pods", KUBE_SYSTEM)),
    "pods.ended": ended,
    "pods.failed": failed,
    "pods.refused": refused,
    "pods.others": others,
    # Device pods elsewhere than on the targets that ended with an error since the sampler first saw them, with how; sorted.
    # Those of ``pods.others`` are not among them. Nothing tells who caused these.
    "pods.others.ended": lambda reading: _elsewhere(reading)[1],
    "harm.pods": harmed,
}
