"""Who binds where: the same nodes and pods on a real control plane and on the simulated one, each with its scheduler."""

import asyncio
import queue
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml

from conformance.outputs.captured_text import Unreadable
from conformance.outputs.events import parse_unschedulable
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.localcluster.control_plane.control_plane import ControlPlane
from fixtures.simulator.admission.plugins import chain
from fixtures.simulator.api.client import ApiClient
from fixtures.simulator.client.program import Surroundings
from fixtures.simulator.client.watches import Watches
from fixtures.simulator.scheduling.fit import ClusterState
from fixtures.simulator.scheduling.scheduler import DefaultScheduler
from tests.served import served
from tests.simulator.fidelity.comparing import View

Json = dict[str, Any]

NAMESPACE = "binding"
SECONDS = 60.0
GPU = "nvidia.com/gpu"


class Outcome(msgspec.Struct, frozen=True):
    """Where a pod went (empty: nowhere), and what the scheduler said of nodes that do not do: total, reasons with counts, the rest."""

    node: str
    total: int | None = None
    reasons: tuple[tuple[str, int], ...] = ()
    postfilter: str = ""


def node(name: str, gpus: int = 0, taints: Sequence[Json] = (), cordoned: bool = False, **labels: str) -> Json:
    """A node with 4 CPUs, 16Gi and ``gpus`` devices."""
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "20", "ephemeral-storage": "50Gi", **({GPU: str(gpus)} if gpus else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {"taints": list(taints), **({"unschedulable": True} if cordoned else {})},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


ASKED: dict[str, list[Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
NODES = [node(**one) for one in ASKED["nodes"]]


def affinity(expression: Json) -> Json:
    """A required node affinity of one expression."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}


def pods(count: int, first: int = 1) -> list[Json]:
    """Pods for the seed ``first``; every one is judged alone, so that what was bound before does not matter."""
    draw = random.Random(first)
    found = []
    for number in range(count):
        amounts, expression = draw.choice(ASKED["amounts"]), draw.choice(ASKED["expressions"])
        spec: Json = {
            "containers": [{"name": "main", "image": "i:1", "resources": {"limits": amounts}}],
            "tolerations": draw.choice(ASKED["tolerations"]),
            "nodeSelector": draw.choice(ASKED["selectors"]),
            **({"affinity": affinity(expression)} if expression else {}),
        }
        found.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}", "namespace": NAMESPACE}, "spec": spec})
    return found


@contextmanager
def prepared(cluster: Cluster, namespace: str, nodes: Sequence[Json]) -> Iterator[None]:
    """With a new namespace, and with these nodes as the only ones, until the end.

    Their taints are as they are written: the server adds one to a node that is new.
    """
    made(cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    cluster.create("serviceaccounts", account, namespace=namespace)
    assert [item["metadata"]["name"] for item in cluster.each("nodes")] == []
    try:
        for item in nodes:
            name = item["metadata"]["name"]
            made(cluster.create("nodes", item))
            made(cluster.patch("nodes", name, {"status": item["status"]}, subresource="status"))
            made(cluster.patch("nodes", name, {"spec": {"taints": item["spec"]["taints"]}}))
        yield
    finally:
        for item in nodes:
            cluster.delete("nodes", item["metadata"]["name"])


def outcomes(cluster: Cluster, asked: list[Json]) -> list[Outcome]:
    """Create each pod, wait for what the scheduler says, and remove it before the next one."""
    found = []
    with Observation(cluster, "pods", NAMESPACE) as seen:
        for body in asked:
            name = body["metadata"]["name"]
            created = made(cluster.create("pods", body, namespace=NAMESPACE))
            for objects in seen.until(time.monotonic() + SECONDS):
                if outcome := outcome_of(objects.get(f"{NAMESPACE}/{name}")):
                    found.append(outcome)
                    break
            else:
                raise AssertionError(f"the scheduler said nothing of {name}: {body['spec']}")
            cluster.delete("pods", name, NAMESPACE, uid=created["metadata"]["uid"], grace_seconds=0)
            for objects in seen.until(time.monotonic() + SECONDS):
                if f"{NAMESPACE}/{name}" not in objects:
                    break
    return found


def outcome_of(pod: Json | None) -> Outcome | None:
    """What became of a pod; None while the scheduler has said nothing."""
    if pod is None:
        return None
    if bound := pod["spec"].get("nodeName"):
        return Outcome(str(bound))
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            message = str(condition.get("message"))
            try:
                reported = parse_unschedulable(message)
            except Unreadable:
                return Outcome("", postfilter=message)
            reasons = Counter({reason.text: reason.count for reason in reported.reasons})
            return Outcome("", reported.total, tuple(sorted(reasons.items())), reported.postfilter)
    return None


def made(answer: Any) -> Json:
    """The object that was created."""
    assert answer.ok, answer.message
    document: Json = answer.json()
    return document


@contextmanager
def scheduling(server: str, *, claims: bool = False) -> Iterator[None]:
    """The simulated scheduler, as a client of ``server`` in a thread of its own."""
    started: queue.Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def run() -> None:
        ended = asyncio.Event()
        client = ApiClient(server, user_agent="simulator")
        watches = Watches(client)
        scheduler = DefaultScheduler(Surroundings(client, watches), ClusterState.watching(watches), claims=claims)
        program = asyncio.create_task(scheduler.run())
        started.put((asyncio.get_running_loop(), ended))
        await ended.wait()
        program.cancel()
        await asyncio.gather(program, return_exceptions=True)
        await watches.close()
        await client.close()

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    loop, ended = started.get(timeout=10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(10)


def pinned(bound: list[Json]) -> list[Json]:
    """Copies of ``bound`` for each node, so that each tells whether the pod may go there."""
    found = []
    for body in bound:
        for name in (item["metadata"]["name"] for item in NODES):
            spec = {**body["spec"], "nodeSelector": {"kubernetes.io/hostname": name, **body["spec"]["nodeSelector"]}}
            found.append({**body, "metadata": {**body["metadata"], "name": f"{body['metadata']['name']}-{name}"}, "spec": spec})
    return found


class Compared(msgspec.Struct, frozen=True):
    """A pod, and what became of it on the real and on the simulated cluster. ``pinned``: to be tried on one node only."""

    pod: Json
    real: Outcome
    simulated: Outcome
    pinned: bool


def compare_binding(plane: ControlPlane, count: int, first: int = 1) -> list[Compared]:
    """Ask both, then pin the pods that the real one bound to each node: the nodes that are feasible have to be the same."""
    asked = pods(count, first)
    real = Cluster.from_kubeconfig(plane.kubeconfig)
    with prepared(real, NAMESPACE, NODES):
        reported = outcomes(real, asked)
        more = pinned([body for body, outcome in zip(asked, reported, strict=True) if outcome.node])
        reported += outcomes(real, more)
    with (
        tempfile.TemporaryDirectory(prefix="gpu-conformance-binding-") as folder,
        served(Path(folder), admissions=chain()) as (other, _),
        prepared(other, NAMESPACE, NODES),
        scheduling(other.server),
    ):
        received = outcomes(other, [*asked, *more])
    together = zip([*asked, *more], reported, received, strict=True)
    return [Compared(body, one, two, number >= len(asked)) for number, (body, one, two) in enumerate(together)]


def as_views(one: Compared) -> tuple[View, View]:
    """Both outcomes as answers: bound is 201, and a pod that is to go anywhere may go to any node."""
    return _view(one.real, one.pinned), _view(one.simulated, one.pinned)


def _view(outcome: Outcome, pinned: bool) -> View:
    return View(
        status=201 if outcome.node else 409,
        reason=outcome.node if pinned else outcome.postfilter,
        causes=[(str(count), text) for text, count in outcome.reasons],
        violations=str(outcome.total or ""),
        warnings=[],
        message=outcome.postfilter,
        object={},
    )
