"""The experiment's own workload: workers that hold devices, pods that ask whether one can start, a Deployment that is moved."""

import time
from collections.abc import Callable
from typing import Any

from chaoslib.exceptions import ActivityFailed

from chaos.act import canary_pods
from chaos.activities import base
from chaos.cluster.injector import obstacle
from chaos.cluster.requests import read
from chaos.model.plan import CANARY_LABEL, canary_namespace
from chaos.observe.signals.allocations import KNOWN_SECONDS
from chaos.observe.signals.pace import beat_in, uuids_in
from chaos.observe.signals.pods import VICTIM, WORKER
from chaos.observe.view import NoData, View
from fixtures.kubernetes.models import Json
from fixtures.model.dra.slices import CLAIMS
from fixtures.model.objects import budget_of, is_ready, labels_of, name_of, node_of, phase_of, uid_of


def start_workers(
    count: int = 1, devices: int = 1, node: str = "target", within: str = "start", hold: bool = False
) -> list[dict[str, Any]]:
    """Start worker pods that hold devices, and wait until each of them runs, beats and lists its devices.

    ``node``: ``target`` (the plan's node), ``untouched`` or ``any``. ``hold``: they keep a real device open. Raises ActivityFailed
    when they do not start: without them the experiment would not show whether anybody was disturbed.
    """
    plan, known, place = base.current().plan, base.plan_facts(), _place(node)
    names = [f"worker-{index}" for index in range(count)]
    _create([canary_pods.worker(plan, known, name, devices=devices, node=place, hold=hold) for name in names], devices)
    return await_workers(count, within)


def start_deployment(count: int = 1, devices: int = 1, within: str = "start") -> list[dict[str, Any]]:
    """As :func:`start_workers`, but pods of a Deployment, which may run on any healthy node but begin on the target.

    It prefers the target by affinity, so that a drain has something to move and the scheduler somewhere to move it.
    """
    if base.plan_facts().device_class:
        raise ActivityFailed("workers that claim devices cannot be a Deployment: its pods would need a template for their claims")
    namespace = base.own_namespace()
    body = canary_pods.deployment(
        base.current().plan, base.plan_facts(), "service", count=count, devices=devices, prefer=_place("target"), owner=base.expiry_owner()
    )
    base.create("apps/deployments", body, namespace)
    started = await_workers(count, within)
    elsewhere = [pod["name"] for pod in started if pod["node"] != _place("target")]
    if elsewhere:
        raise ActivityFailed(f"{elsewhere[0]} did not start on the target node, so that a drain would move nothing")
    return started


def start_reader() -> dict[str, Any]:
    """Start the pod that prints what the node's kubelet says of device allocations, and wait for its first listing.

    It mounts the folder of the kubelet's PodResources socket, so it runs in the run's privileged namespace. Its image is the injectors',
    and its program ``kubelet-podresources`` (:mod:`fixtures.nodeprobe.pod_resources`).
    """
    namespace, name = base.host_namespace(), "podresources-reader"
    base.own_priority_class()
    created = base.create("pods", canary_pods.reader(base.current().plan, base.plan_facts(), name, _place("target")), namespace, grace=0)
    reported = ""

    def lists() -> bool:
        nonlocal reported
        try:
            reported = View.of(base.current().cluster).log_tail(namespace, name, 1).strip()
        except NoData as error:
            reported = str(error)
        return reported.startswith("{")

    if not base.poll(lists, base.seconds("start")):
        why = obstacle(read(base.current().cluster, "pods", name, namespace), namespace) or reported[:300] or "it prints nothing"
        raise ActivityFailed(f"the reader of the kubelet's PodResources ({base.plan_facts().injector_image}) lists nothing: {why}")
    base.poll(lambda: False, KNOWN_SECONDS)  # what it lists counts once the workers have been seen running for that long
    return {"name": name, "uid": created["metadata"]["uid"]}


def create_budget(min_available: int) -> dict[str, Any]:
    """A PodDisruptionBudget over the workers, and wait until the controller has counted them."""
    namespace = base.own_namespace()
    body: Json = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "canaries"},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": {CANARY_LABEL: WORKER}}},
    }
    created = base.create("policy/poddisruptionbudgets", body, namespace)

    def counted() -> bool:
        found = budget_of(View.of(base.current().cluster).find("policy/poddisruptionbudgets", "canaries", namespace))
        return found.counted is not None and found.healthy >= min_available

    if not base.poll(counted, base.seconds("start")):
        raise ActivityFailed("no disruption controller counted the pods of the budget")
    return {"name": "canaries", "uid": created["metadata"]["uid"], "minAvailable": min_available}


def start_probe(name: str = "probe", devices: int = 1, node: str = "target") -> dict[str, Any]:
    """Create a pod that ends well as soon as it was given a device. It is not waited for: it may have to stay Pending."""
    body = canary_pods.probe(base.current().plan, base.plan_facts(), name, devices=devices, node=_place(node))
    return {"name": name, "uid": _create([body], devices)[0], "devices": devices}


def start_latecomer(name: str = "latecomer", devices: int = 1, node: str = "target") -> dict[str, Any]:
    """Create one more worker. It is not waited for: what it needs may be away. Unlike a probe it goes on telling what it sees."""
    body = canary_pods.worker(base.current().plan, base.plan_facts(), name, devices=devices, node=_place(node))
    return {"name": name, "uid": _create([body], devices)[0], "devices": devices}


def start_victim(name: str = "victim", node: str = "target") -> dict[str, Any]:
    """Start a pod that holds a device as a worker does, and that the fault is for: no worker is counted with it. Waits until it runs."""
    _create([canary_pods.worker(base.current().plan, base.plan_facts(), name, node=_place(node), role=VICTIM)], 1)

    def ready() -> dict[str, Any] | None:
        view = View.of(base.current().cluster)
        pod = view.find("pods", name, canary_namespace(base.current().plan))
        return _started(view, pod) if pod else None

    started: dict[str, Any] | None = _timed(ready, "start")
    if not started:
        raise ActivityFailed(f"{name} did not start within {base.seconds('start'):g} s")
    return started


def start_sharers(name: str = "sharer", count: int = 2, node: str = "target") -> list[dict[str, Any]]:
    """Create workers that share one claim of one device. They are not waited for. Raises ActivityFailed where nothing is claimed."""
    if not base.plan_facts().device_class:
        raise ActivityFailed("only a claim can be shared by pods, and this plan's devices are asked for by resource")
    namespace = base.own_namespace()
    _claim_for(name, 1, namespace)
    done = []
    for index in range(count):
        body = canary_pods.worker(base.current().plan, base.plan_facts(), f"{name}-{index}", node=_place(node), claim=name)
        created = base.create("pods", body, namespace, grace=0)
        done.append({"name": f"{name}-{index}", "uid": created["metadata"]["uid"], "claim": name})
    return done


def await_workers(count: int, within: str) -> list[dict[str, Any]]:
    """Wait until as many workers run, beat and list devices. Raises ActivityFailed with what keeps them."""
    state: dict[str, str] = {}

    def ready() -> list[dict[str, Any]] | None:
        state.clear()
        view = View.of(base.current().cluster)
        found = []
        for pod in view.select("pods", canary_namespace(base.current().plan)):
            if labels_of(pod).get(CANARY_LABEL) != WORKER:
                continue
            state[name_of(pod)] = f"{phase_of(pod) or 'unknown'} on {node_of(pod) or 'no node'}"
            entry = _started(view, pod)
            if entry:
                found.append(entry)
        return found if len(found) >= count else None

    started = _timed(ready, within)
    if not started:
        shown = "; ".join(f"{name} {text}" for name, text in sorted(state.items())) or "none was created"
        raise ActivityFailed(f"{count} workers did not start within {base.seconds(within):g} s: {shown}")
    result: list[dict[str, Any]] = started
    return result


def _timed(ready: Callable[[], Any], within: str) -> Any:
    """What ``ready`` gives within the duration, and how long that took: later pods may take as long, and more."""
    acting, begun = base.current(), time.monotonic()
    started = base.poll(ready, base.seconds(within))
    acting.slowest_start = max(acting.slowest_start, time.monotonic() - begun)
    return started


def _started(view: View, pod: Json) -> dict[str, Any] | None:
    if phase_of(pod) != "Running" or not is_ready(pod):
        return None
    try:
        log = view.log_tail(canary_namespace(base.current().plan), name_of(pod), 40)
    except NoData:
        return None
    uuids = uuids_in(log)
    if beat_in(log) is None or not uuids:
        return None
    return {"name": name_of(pod), "uid": pod["metadata"]["uid"], "node": node_of(pod), "devices": uuids}


def _place(node: str) -> str:
    plan = base.current().plan
    if node == "target":
        if not plan.nodes:
            raise ActivityFailed("the plan has no node for canaries to be on")
        return plan.nodes[0]
    if node == "untouched":
        return plan.untouched
    if node == "any":
        return ""
    raise ActivityFailed(f"node: expected target, untouched or any, got {node!r}")


def _create(pods: list[Json], devices: int) -> list[str]:
    """Create canaries, each with the claim that has its name, where devices are claimed; their UIDs."""
    namespace, uids = base.own_namespace(), []
    for pod in pods:
        _claim_for(name_of(pod), devices, namespace)
        uids.append(uid_of(base.create("pods", pod, namespace, grace=0)))
    return uids


def _claim_for(name: str, devices: int, namespace: str) -> None:
    """Create the claim that the canary of that name uses; nothing where devices are asked for by resource."""
    if base.plan_facts().device_class:
        base.create(CLAIMS, canary_pods.claim(base.plan_facts(), name, devices), namespace)
