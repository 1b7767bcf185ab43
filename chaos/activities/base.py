"""Helpers of the activities: read a target again before the act, check answers, wait with a deadline."""

import threading
import time
from collections.abc import Callable
from typing import Any

from chaoslib.exceptions import ActivityFailed

from chaos.act import canary_pods
from chaos.act.context import current
from chaos.cluster import namespaces
from chaos.cluster.requests import merge, read
from chaos.ledger.undos.objects import AbsentArgs
from chaos.ledger.undos.workloads import PodsReplaced
from chaos.model.experiment import stretched
from chaos.model.plan import PlanFacts, Target, canary_namespace
from chaos.model.records import PREPARATION
from fixtures.cluster.client import Answer
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mappings
from fixtures.model.demand.pod_devices import requested_devices
from fixtures.model.objects import full_name, has_started, is_live, namespace_of, uid_of, uses_claims
from fixtures.model.platform.components import DAEMON_SETS
from fixtures.ownership import owned
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.probes import namespace_limits

__all__ = ["current"]

CONFLICTS = 8
"""How often a change is tried that meets a newer version of its object: nodes are written to all the time."""

CLASS_SECONDS = 30.0
"""How long API servers may take to know a PriorityClass that another of them has created."""

SHORT = 30.0
"""Seconds for one act's own confirmation (a pod that ran a program, a namespace that was made)."""


def targets(kind: str) -> list[Target]:
    """The plan's targets of one kind. Raises ActivityFailed when there are none: an activity never looks for others."""
    found = [target for target in current().plan.targets if target.kind == kind]
    if not found:
        raise ActivityFailed(f"the plan has no target of kind {kind}")
    return found


def node_target() -> Target:
    """The one node of the plan."""
    found = targets("nodes")
    if len(found) != 1:
        raise ActivityFailed(f"the plan has {len(found)} nodes, this activity acts on one")
    return found[0]


def read_target(target: Target) -> Json:
    """The target now. Raises ActivityFailed when it is gone or another object has its name."""
    found = read(current().cluster, target.kind, target.name, target.namespace)
    if found is None:
        raise ActivityFailed(f"{target} is gone since it was planned")
    if uid_of(found) != target.uid:
        raise ActivityFailed(f"{target} was replaced since it was planned (uid {uid_of(found)}, planned {target.uid})")
    return found


def accepted(answer: Answer, what: str) -> Answer:
    """The answer of an act. Raises ActivityFailed when the API refused it."""
    if not answer.ok:
        raise ActivityFailed(f"{what}: {answer.status} {answer.reason}: {answer.message}")
    return answer


def plan_facts() -> PlanFacts:
    """The plan's facts."""
    return PlanFacts.of(current().plan)


def seconds(name: str, *, starting: bool = False) -> float:
    """A duration of the plan; one in which a pod has to start follows how long one took before.

    Raises ActivityFailed for a name that the plan does not have.
    """
    acting = current()
    found = stretched(acting.plan.seconds, {name} if starting else (), acting.slowest_start).get(name)
    if found is None:
        raise ActivityFailed(f"the experiment names no duration {name!r}; it has {', '.join(sorted(current().plan.seconds))}")
    return found


def labelled(obj: Json) -> Json:
    """The object with the run's labels."""
    metadata = dict(obj.get("metadata") or {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **owned.labels(current().plan.run_id)}
    return {**obj, "metadata": metadata}


def create(key: str, obj: Json, namespace: str = "", *, preparation: bool = True, grace: int | None = None) -> Json:
    """Create an object of the run, its deletion written down first; the object as the API returned it."""
    acting = current()
    wanted = labelled(obj)
    name = str(wanted["metadata"]["name"])
    args = AbsentArgs(key=key, namespace=namespace, name=name, run_id=acting.plan.run_id, grace_seconds=grace)
    with acting.fault("object.absent", args) as fault:
        if not namespace:
            wanted["metadata"]["annotations"] = {**(wanted["metadata"].get("annotations") or {}), **acting.proof.will_create(key, name)}
        answer = _created(key, wanted, namespace)
        if not namespace:
            acting.proof.confirm(key, name, answer)
        created = accepted(answer, f"create {key} {name}").json()
        fault.applied({PREPARATION: preparation, "kind": key, "name": name, "namespace": namespace, "uid": uid_of(created)})
    return created


def _created(key: str, obj: Json, namespace: str) -> Answer:
    """The API's answer, which may be asked for again.

    It is while one of its servers does not know the PriorityClass yet that was created just now, or nobody has counted what the new
    namespace holds.
    """
    answers: list[Answer] = []
    unknown = f"no PriorityClass with name {canary_pods.own_class(current().plan)['metadata']['name']} was found"

    def asked() -> bool:
        answers.append(current().cluster.create(key, obj, namespace=namespace))
        late = namespace_limits.is_not_counted_yet(answers[-1]) or (answers[-1].status == 403 and unknown in answers[-1].message)
        return not (key == "pods" and late)

    poll(asked, CLASS_SECONDS)
    return answers[-1]


def change(key: str, obj: Json, patch: Json, same: Callable[[Json], bool]) -> None:
    """Merge-patch the object that was just read, again on its newer version when somebody wrote to it in between.

    ``same`` says whether a newer version still has the prior values that are in the ledger: a status that was written meanwhile does
    not matter, and what somebody else has set is not overwritten. Raises ActivityFailed then, when the object is gone or another
    one, and when every race is lost.
    """
    name, namespace = str(obj["metadata"]["name"]), str(obj["metadata"].get("namespace") or "")
    for _ in range(CONFLICTS):
        try:
            merge(current().cluster, key, obj, patch)
            return
        except ApiTrouble as trouble:
            if trouble.code != "Conflict":
                raise ActivityFailed(trouble.message) from trouble
        newer = read(current().cluster, key, name, namespace)
        if newer is None or uid_of(newer) != uid_of(obj):
            raise ActivityFailed(f"{key} {name} was replaced while it was being changed")
        if not same(newer):
            raise ActivityFailed(f"{key} {name}: somebody else has just changed the value; it is left as it is")
        obj = newer
    raise ActivityFailed(f"{key} {name} changed {CONFLICTS} times while it was to be patched")


def listed(key: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Json]:
    """Objects of a kind now, past every cache. Raises ActivityFailed when the API refuses it."""
    cluster, selectors = current().cluster, {"labelSelector": labels, "fieldSelector": fields}
    query = {name: value for name, value in selectors.items() if value}
    where = " ".join(("list", key, *([f"of {namespace}"] if namespace else ()), *query.values()))
    answer = accepted(cluster.request("GET", cluster.path(key, namespace), query=query), where)
    return mappings(answer.json().get("items"))


def own_namespace() -> str:
    """The namespace of the experiment's own workload, restricted; created on first use, its deletion written down.

    With it the PriorityClass that this workload names, unless the policy names another.
    """
    acting = current()
    own_priority_class()
    name = canary_namespace(acting.plan)
    found = read(acting.cluster, "namespaces", name)
    if found is not None:
        namespaces.require_own(acting.cluster, found, acting.plan.run_id)
    else:
        labels, annotations = namespace_limits.marks("restricted")
        metadata = {"name": name, "labels": labels, "annotations": annotations}
        body: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        create("namespaces", body)
        namespaces.limit(acting.cluster, name, acting.plan.run_id, namespace_limits.quota(namespaces.PODS, _devices()))
    return name


def _devices() -> dict[str, int]:
    """The most devices that the experiment's own workload may ask for at a time: rival gangs ask twice for all that is free."""
    free = sum(plan_facts().free.values())
    return {} if plan_facts().device_class else {plan_facts().resource: 4 * (free + 1)}


def own_priority_class() -> str:
    """The PriorityClass of the experiment's own pods: the policy's, or one of its own, created on first use."""
    cluster, name = current().cluster, canary_pods.priority_class(current().plan, plan_facts())
    if not plan_facts().priority_class and read(cluster, PRIORITY_CLASSES, name) is None:
        create(PRIORITY_CLASSES, canary_pods.own_class(current().plan))
    return name


def host_namespace() -> str:
    """The run's privileged namespace, for injector pods."""
    acting = current()
    return namespaces.ensure_run(acting.cluster, acting.plan.run_id, name=acting.plan.namespace)


def poll(done: Callable[[], Any], limit: float, period: float = 0.0) -> Any:
    """What ``done`` gives as soon as it gives something, asked again at the sampler's pace; None at the limit.

    For states that no watch shows (logs, metrics, several kinds at once). Raises ActivityFailed when the experiment is aborted.
    """
    acting = current()
    period = period or acting.plan.seconds.get("sample", 1.0)
    deadline = time.monotonic() + limit
    while True:
        result = done()
        if result:
            return result
        if time.monotonic() >= deadline:
            return None
        if acting.abort.reason:
            raise ActivityFailed(f"aborted while waiting: {acting.abort.reason}")
        threading.Event().wait(min(period, max(deadline - time.monotonic(), 0.0)))


def must_be_alone(node: str) -> None:
    """Raises ActivityFailed when a pod that is not the experiment's holds devices of the node: it came after the node was planned."""
    own = (current().plan.namespace, canary_namespace(current().plan))
    for pod in listed("pods", fields=f"spec.nodeName={node}"):
        holds = requested_devices(pod, plan_facts().is_device) or uses_claims(pod)
        if holds and is_live(pod) and namespace_of(pod) not in own:
            raise ActivityFailed(f"{full_name(pod)} on {node} holds devices and is not one of this experiment's pods")


def kill_pods(grace: int | None = None) -> list[dict[str, Any]]:
    """Delete the plan's pods, each only if it still is that very pod. ``grace``: seconds; None leaves it to the pod."""
    acting = current()
    done = []
    for target in targets("pods"):
        pod = read_target(target)
        every = listed("pods", target.namespace)
        try:
            args = PodsReplaced().args([pod], every, on_node=target.facts.get("owner_kind") == DAEMON_SETS)
        except ValueError as error:
            raise ActivityFailed(str(error)) from error
        with acting.fault("pods.replaced", args) as fault:
            answer = acting.cluster.delete("pods", target.name, target.namespace, uid=target.uid, grace_seconds=grace)
            accepted(answer, f"delete {target}")
            fault.applied({"deleted": target_record(target), "grace": grace})
        done.append({**target_record(target), "grace": grace})
    return done


def target_record(target: Target) -> dict[str, Any]:
    """A target as activities return it."""
    return {"kind": target.kind, "namespace": target.namespace, "name": target.name, "uid": target.uid, "node": target.node}


EXPIRY = "expiry"
JOBS = "batch/jobs"


def expiry_owner() -> Json:
    """An owner reference by which an object goes at the end of the experiment's lifetime, whether or not its run still lives.

    Raises ActivityFailed when no controller has started the clock: what would live for ever is not created.
    """
    namespace = own_namespace()
    created = create(JOBS, canary_pods.expiry(current().plan, plan_facts(), EXPIRY), namespace)

    if not poll(lambda: has_started(read(current().cluster, JOBS, EXPIRY, namespace)), seconds("start")):
        raise ActivityFailed(f"no controller started Job {EXPIRY} within {seconds('start'):g} s: nothing would end what it is to end")
    return {"apiVersion": "batch/v1", "kind": "Job", "name": EXPIRY, "uid": uid_of(created)}
