"""Undos by restarting an agent: so that it forgets a fault, or publishes its devices again."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from chaos.cluster.requests import accepted, await_object, kubectl, read
from chaos.ledger.undos import Args, Undo
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.model.dra.slices import slices_of
from fixtures.model.objects import amounts_of, containers_of, controller_of, is_going, is_ready, node_of, uid_of


class RestartedArgs(Args, frozen=True, kw_only=True):
    """The agent's pods on a node: ``owner``, whose UID is ``owner_uid``, makes them. ``uids`` are those that were there before the fault.

    ``selector`` keeps lists short, and proves nothing.

    ``allocatable`` are the node's devices to be read back once the new pod has registered; empty where the agent advertises none.
    ``env`` are variables of the experiment: a pod that runs with them is to go too.
    """

    namespace: str
    owner: str
    owner_uid: str
    selector: str
    node: str
    uids: tuple[str, ...]
    allocatable: dict[str, str] = msgspec.field(default_factory=dict)
    env: dict[str, str] = msgspec.field(default_factory=dict)


class AgentRestarted(Undo):
    """``agent.restarted``: delete the pods that saw the fault, verify that others are Ready and that the node's devices are back.

    A device plugin never takes a device back into service, and a host engine keeps its last Xid, until they are restarted.
    """

    name = "agent.restarted"
    Args = RestartedArgs
    RIGHTS = ("get pods", "list pods", "watch pods", "delete pods", "get nodes", "list nodes", "watch nodes")

    def undo(self, cluster: Cluster, args: RestartedArgs, deadline: float) -> None:
        """Delete the pods that were there before the fault; one that was replaced since has forgotten already.

        Unless the devices say otherwise: a plugin that was started while the fault was there knows of it as well.
        """
        blind = bool(args.allocatable) and bool(_devices_differ(args, read(cluster, "nodes", args.node)))

        def saw(pod: Json) -> bool:
            here = node_of(pod) == args.node and controller_of(pod) == args.owner_uid != ""
            return uid_of(pod) in args.uids or (here and (_configured(args, pod) or (blind and is_ready(pod))))

        delete_pods(cluster, args.namespace, args.selector, saw)

    def verify(self, cluster: Cluster, args: RestartedArgs, deadline: float) -> str:
        """Empty once new pods are Ready on the node, and its devices are as they were."""
        with Observation(cluster, "pods", args.namespace, labels=args.selector) as observation:
            reported = observation.await_shown(deadline, lambda pods: _pods_differ(args, pods.values()))
        if reported or not args.allocatable:
            return reported
        return await_object(cluster, "nodes", args.node, "", max(deadline, time.monotonic()), lambda node: _devices_differ(args, node))

    def human(self, args: RestartedArgs) -> tuple[str, str]:
        """The agent, and the line that restarts it on the node."""
        words = ("delete", "pods", f"--selector={args.selector}", f"--field-selector=spec.nodeName={args.node}")
        return f"pods {args.namespace}/{args.owner} on {args.node}", kubectl(*words, namespace=args.namespace)


def delete_pods(cluster: Cluster, namespace: str, selector: str, wanted: Callable[[Json], bool]) -> None:
    """Delete the pods that are ``wanted``, of those that the selector finds. Raises ApiTrouble."""
    answer = accepted(cluster.request("GET", cluster.path("pods", namespace), query={"labelSelector": selector}), "list agent's pods")
    for pod in answer.json().get("items") or ():
        if wanted(pod) and not is_going(pod):
            deleted = cluster.delete("pods", str(pod["metadata"]["name"]), namespace, uid=uid_of(pod))
            if deleted.status not in (404, 409):
                accepted(deleted, f"delete pod {pod['metadata']['name']}")


def _pods_differ(args: RestartedArgs, pods: Iterable[Json]) -> str:
    here = [pod for pod in pods if node_of(pod) == args.node]
    if any(uid_of(pod) in args.uids for pod in here):
        return f"the pod of {args.owner} on {args.node} that saw the fault is still there"
    if any(_configured(args, pod) for pod in here):
        return f"a pod of {args.owner} on {args.node} still runs with {', '.join(args.env)}"
    ready = [pod for pod in here if is_ready(pod)]
    return "" if ready else f"no pod of {args.owner} is Ready on {args.node}"


def _configured(args: RestartedArgs, pod: Json) -> bool:
    """Whether a pod runs with the experiment's variables."""
    entries = [entry for item in containers_of(pod) for entry in item.get("env") or ()]
    return any(args.env.get(str(entry.get("name"))) == entry.get("value") for entry in entries if entry.get("name") in args.env)


def _devices_differ(args: RestartedArgs, node: Json | None) -> str:
    if node is None:
        return f"node {args.node} is gone"
    now: dict[str, Any] = amounts_of(node, "allocatable")
    wrong = {name: now.get(name) for name, count in args.allocatable.items() if str(now.get(name)) != count}
    return "; ".join(f"{name}: {count} allocatable instead of {args.allocatable[name]}" for name, count in sorted(wrong.items()))


SLICES = "resource.k8s.io/resourceslices"
PATIENCE = 20.0
"""Seconds that a driver gets to publish by itself before its pod on the node is deleted."""


class PublishedArgs(Args, frozen=True, kw_only=True):
    """What ``driver`` published for ``node``: ``devices`` as ``pool/device``. ``owner``, whose UID is ``owner_uid``, makes its pods.

    ``selector`` keeps lists short, and proves nothing.
    """

    driver: str
    node: str
    devices: tuple[str, ...]
    namespace: str
    owner: str
    owner_uid: str
    selector: str

    def __post_init__(self) -> None:
        if not (self.driver and self.node and self.devices and self.owner_uid and self.selector):
            raise ValueError("slices.published: expected a driver, a node, its devices, and the owner and selector of the driver's pods")


class SlicesPublished(Undo):
    """``slices.published``: every device of before is in a complete pool again. Nobody but the driver writes what it offers."""

    name = "slices.published"
    Args = PublishedArgs
    RIGHTS = (*(f"{verb} {SLICES}" for verb in ("get", "list", "watch")), "list pods", "delete pods")

    def args(self, driver: str, node: str, slices: Iterable[Json], plugin: dict[str, str]) -> PublishedArgs:
        """Arguments for deleting the driver's slices of a node that were just read. Raises ValueError when they offer nothing."""
        return PublishedArgs(driver=driver, node=node, devices=tuple(sorted(offered(slices, driver, node))), **plugin)

    def undo(self, cluster: Cluster, args: PublishedArgs, deadline: float) -> None:
        """Wait for the driver; delete its pod on the node when it does not publish, for a new one begins by publishing."""
        patience = min(PATIENCE, max(deadline - time.monotonic(), 0.0) / 2)
        if not self.verify(cluster, args, time.monotonic() + patience):
            return
        delete_pods(
            cluster,
            args.namespace,
            args.selector,
            lambda pod: node_of(pod) == args.node and controller_of(pod) == args.owner_uid != "",
        )

    def verify(self, cluster: Cluster, args: PublishedArgs, deadline: float) -> str:
        """Empty once all devices are offered."""

        def differs(slices: Mapping[str, Json]) -> str:
            missing = sorted(set(args.devices) - offered(slices.values(), args.driver, args.node))
            reported = f"{args.driver} does not offer {', '.join(missing[:5])} of {args.node}" + (" and others" if missing[5:] else "")
            return reported if missing else ""

        with Observation(cluster, SLICES, fields=f"spec.nodeName={args.node}") as observation:
            return observation.await_shown(deadline, differs)

    def human(self, args: PublishedArgs) -> tuple[str, str]:
        """The node's devices, and the line that restarts the driver there."""
        words = ("delete", "pods", f"--selector={args.selector}", f"--field-selector=spec.nodeName={args.node}")
        return f"ResourceSlices of {args.driver} for node {args.node}", kubectl(*words, namespace=args.namespace)


def offered(slices: Iterable[Json], driver: str, node: str) -> set[str]:
    """``pool/device`` of a driver's complete pools of a node (docs/facts/dra.md#slices-and-pools)."""
    found = [item for item in slices_of({**item, "kind": "ResourceSlice"} for item in slices) if (item.driver, item.node) == (driver, node)]
    devices: set[str] = set()
    for pool in {item.pool for item in found}:
        newest = max(item.generation for item in found if item.pool == pool)
        live = [item for item in found if item.pool == pool and item.generation == newest]
        if len(live) == live[0].expected_slices and not any(item.incomplete for item in live):
            devices |= {f"{pool}/{device.name}" for item in live for device in item.devices}
    return devices
