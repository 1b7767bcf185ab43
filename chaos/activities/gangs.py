"""Canary gangs on the schedulers and queues that the cluster has, and what happens to them in the middle of their placement."""

import time
from typing import Any

from chaoslib.exceptions import ActivityFailed

from chaos.act import canary_pods
from chaos.activities import base
from chaos.ledger.undos.objects import AbsentArgs
from chaos.model.plan import GANG_LABEL, canary_namespace
from chaos.observe.signals.gangs import WORKLOADS
from conformance.gang.adapters.base import Gang
from conformance.gang.adapters.grouped import Native, Volcano
from conformance.gang.adapters.kueue import Kueue, queues
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.model.objects import condition, is_live, labels_of, name_of, node_of, phase_of, uid_of
from fixtures.model.queues.kueue import CLUSTER_QUEUES, LOCAL_QUEUES

VOLCANO_GROUPS = "scheduling.volcano.sh/podgroups"
VOLCANO_JOBS = "batch.volcano.sh/jobs"
NATIVE_GROUPS = "scheduling.k8s.io/podgroups"


def submit_gangs(system: str, count: int = 1, size: int = 4, devices: int = 1, wait: bool = True, quota: int = 0) -> list[dict[str, Any]]:
    """Submit gangs of ``size`` pods with ``devices`` each to ``system`` (volcano, kueue, native); wait until each is whole.

    Without ``wait`` they are left to their fate: what follows happens in the middle of their placement. Gangs keep out of the
    untouched node. ``size`` 0 makes gangs of which one fits and two do not. ``quota``: devices of the queue (Kueue); 0 is what all
    gangs need together.
    """
    namespace = base.own_namespace()
    size = size or _fitting(devices)
    names = [f"gang-{index}" for index in range(count)]
    plan, known = base.current().plan, base.plan_facts()
    members = {name: [canary_pods.gang_member(plan, known, name, index, size, devices) for index in range(size)] for name in names}
    gangs = [Gang(name=name, pods=tuple(pods)) for name, pods in members.items()]
    if system == "kueue":
        _queues(namespace, quota or count * size * devices)
    for gang in gangs:
        _group(system, gang, namespace)
    for row in zip(*(gang.pods for gang in gangs), strict=True):  # in turn, so that gangs compete
        for gang, pod in zip(gangs, row, strict=True):
            base.create("pods", _member(system, gang, pod), namespace, grace=0)
    if wait and not base.poll(lambda: all(_whole(name, size) for name in names), base.seconds("start")):
        raise ActivityFailed(f"gangs were not placed within {base.seconds('start'):g} s: {_bound(names)}")
    return [{"gang": name, "size": size, "devices": devices, "bound": bound} for name, bound in _bound(names).items()]


def submit_job(size: int = 2, devices: int = 1, name: str = "gang-0") -> dict[str, Any]:
    """A Volcano Job whose policy restarts all of it when a pod is lost, and wait until it runs."""
    namespace, version = base.own_namespace(), _version(VOLCANO_JOBS)
    owner, known = base.expiry_owner(), base.plan_facts()
    body = canary_pods.volcano_job(base.current().plan, known, name, version=version, size=size, devices=devices, owner=owner)
    created = base.create(VOLCANO_JOBS, body, namespace)
    if not base.poll(lambda: _whole(name, size), base.seconds("start")):
        raise ActivityFailed(f"the job was not placed within {base.seconds('start'):g} s: {_bound([name])}")
    return {"job": name, "uid": uid_of(created), "size": size}


def kill_member(gang: str = "gang-0") -> dict[str, Any]:
    """Delete one running pod of a gang, at once."""
    acting = base.current()
    namespace = canary_namespace(acting.plan)
    pods = sorted((pod for pod in _pods(gang) if phase_of(pod) == "Running"), key=name_of)
    if not pods:
        raise ActivityFailed(f"no pod of {gang} runs")
    pod = pods[-1]
    args = AbsentArgs(key="pods", namespace=namespace, name=f"{name_of(pod)}", run_id=acting.plan.run_id, grace_seconds=0)
    with acting.fault("object.absent", args) as fault:
        base.accepted(
            acting.cluster.delete("pods", name_of(pod), namespace, uid=uid_of(pod), grace_seconds=0), f"delete pod {name_of(pod)}"
        )
        fault.applied({"killed": name_of(pod), "uid": uid_of(pod), "node": node_of(pod)})
    return {"killed": name_of(pod), "uid": uid_of(pod)}


def kill_controller_while_placing(gang: str = "gang-0", size: int = 4) -> dict[str, Any]:
    """Kill the plan's controller pod as soon as a member is bound, or after the duration ``partial`` when none is.

    Raises ActivityFailed when the gang was whole before the scheduler was gone: nothing was proven then.
    """
    bound = 0
    with Observation(base.current().cluster, "pods", canary_namespace(base.current().plan), labels=f"{GANG_LABEL}={gang}") as observation:
        for objects in observation.until(time.monotonic() + base.seconds("partial")):
            bound = sum(bool(node_of(pod)) for pod in objects.values())
            if bound:
                break
        done = base.kill_pods(0)
        now = base.listed("pods", canary_namespace(base.current().plan), labels=f"{GANG_LABEL}={gang}")
        bound = sum(bool(node_of(pod)) for pod in now)
    if bound >= size:
        raise ActivityFailed(f"all {size} members of {gang} were bound before the scheduler was gone: it was not killed in the middle")
    return {"bound": bound, "of": size, "killed": done}


def kill_controller_after_reservation() -> dict[str, Any]:
    """Kill the plan's controller pod as soon as a Workload of the experiment has its quota reserved."""
    state = {"reserved": False, "admitted": False}
    with Observation(base.current().cluster, WORKLOADS, canary_namespace(base.current().plan)) as observation:
        for objects in observation.until(time.monotonic() + base.seconds("partial")):
            state = {
                "reserved": any(condition(item, "QuotaReserved") == "True" for item in objects.values()),
                "admitted": any(condition(item, "Admitted") == "True" for item in objects.values()),
            }
            if state["reserved"]:
                break
    if not state["reserved"]:
        raise ActivityFailed(f"no quota was reserved within {base.seconds('partial'):g} s")
    return {**state, "killed": base.kill_pods(0)}


# -- building ------------------------------------------------------------------------------------------


def _fitting(devices: int) -> int:
    """Members of a gang of which one fits and two do not."""
    known = base.plan_facts()
    slots = sum(known.free[node] // devices for node in canary_pods.usable_nodes(base.current().plan, known))
    if slots < 2:
        raise ActivityFailed(f"{slots} pods of {devices} {known.resource} fit, and gangs that compete need room for two")
    return slots // 2 + 1


def _member(system: str, gang: Gang, pod: Json) -> Json:
    if system == "volcano":
        return Volcano().member(pod, gang.name)
    if system == "kueue":
        return Kueue().member(pod, gang)
    return Native().member(pod, gang.name)


def _group(system: str, gang: Gang, namespace: str) -> None:
    """The group object, where the system has one."""
    if system == "volcano":
        body = Volcano().group(gang, base.own_priority_class())
        base.create(VOLCANO_GROUPS, {**body, "apiVersion": _version(VOLCANO_GROUPS)}, namespace)
    elif system == "native":
        base.create(NATIVE_GROUPS, {**Native().group(gang, base.own_priority_class()), "apiVersion": _version(NATIVE_GROUPS)}, namespace)
    elif system != "kueue":
        raise ActivityFailed(f"system: expected volcano, kueue or native, got {system!r}")


def _queues(namespace: str, quota: int) -> None:
    """A flavor, a ClusterQueue and a LocalQueue of this experiment alone."""
    for key, body in queues(_version(CLUSTER_QUEUES), namespace, base.plan_facts().resource, quota, {}):
        if key == CLUSTER_QUEUES:
            body["metadata"]["labels"] = {GANG_LABEL: base.current().plan.run_id}
        base.create(key, body, namespace if key == LOCAL_QUEUES else "")


def _version(key: str) -> str:
    """``group/version`` in which the server serves a kind."""
    return "/".join(base.current().cluster.path(key).split("/")[2:4])


def _pods(gang: str) -> list[Json]:
    return [pod for pod in base.listed("pods", canary_namespace(base.current().plan)) if labels_of(pod).get(GANG_LABEL) == gang]


def _whole(gang: str, size: int) -> bool:
    return sum(phase_of(pod) == "Running" for pod in _pods(gang)) >= size


def _bound(names: list[str]) -> dict[str, int]:
    return {name: sum(bool(node_of(pod)) and is_live(pod) for pod in _pods(name)) for name in names}
