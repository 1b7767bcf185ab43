"""Karpenter itself grows a pool for a pending device pod and takes the empty node away, and SCALE-01 and SCALE-02 know when it would not.

Karpenter is built from its Go module with its provider of simulated machines (kwok). API server, scheduler and controller manager are
real. The test is the kubelet of Karpenter's nodes: it says that they are Ready, and with which devices.

Facts: docs/facts/local-control-plane.md#karpenter-without-a-cloud.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from conformance.scale.checks import check_growth, check_node_pools
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.localcluster.control_plane.control_plane import ControlPlane, free_port
from fixtures.localcluster.control_plane.processes import Running
from fixtures.localcluster.gangs import answering
from fixtures.localcluster.install.release import Binaries, cache_root
from fixtures.model.cluster import Scope
from fixtures.simulator.api.objects import Json
from fixtures.snapshot.collect import collect
from tests.builders import a_policy
from tests.sockets.contracts import Missing, contracts, definition
from tests.watching import PATIENCE

pytestmark = [pytest.mark.xdist_group("karpenter"), pytest.mark.test_all]

PROGRAM = cache_root() / "tools" / f"karpenter-{contracts()['karpenter'].version}" / "kwok"
DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
POOLS, CLAIMS, CLASSES = "karpenter.sh/nodepools", "karpenter.sh/nodeclaims", "karpenter.kwok.sh/kwoknodeclasses"
FENCE = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
NOT_READY, UNREGISTERED = "node.kubernetes.io/not-ready", "karpenter.sh/unregistered"
MACHINE = {"cpu": "96", "memory": "1Ti", "ephemeral-storage": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
OFFER = {"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "zone-a"}


def a_type() -> Json:
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in OFFER.items()]
    offerings = [{"Price": 30.0, "Available": True, "Requirements": requirements}]
    return {"name": "gpu-8x", "offerings": offerings, "architecture": "amd64", "operatingSystems": ["linux"], "resources": MACHINE}


def a_pool(*, taints: list[Json], node_class: str = "default") -> Json:
    made = {
        "taints": taints,
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": node_class},
        "expireAfter": "Never",
    }
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"}
    return {"template": {"spec": made}, "limits": {"nvidia.com/gpu": "8"}, "disruption": disruption}


def a_pod(name: str, devices: int) -> Json:
    limits = {"cpu": "1", **({"nvidia.com/gpu": str(devices)} if devices else {})}
    container = {"name": "main", "image": "registry.example.com/model:1", "resources": {"limits": limits}}
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}] if devices else []
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], "tolerations": tolerations}}


class Stage:
    """A control plane without a node, on which Karpenter has one pool."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.admin = Cluster.from_kubeconfig(plane.kubeconfig)

    def set_up(self, definitions: list[Json]) -> None:
        for item in definitions:
            self._define(item)
        self._create(CLASSES, {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}})
        pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "devices"}, "spec": a_pool(taints=[FENCE])}
        self._create(POOLS, pool)
        types, health = self.plane.folder / "types.json", free_port()
        types.write_text(json.dumps([a_type()]))
        own: dict[str, object] = {
            "KUBECONFIG": self.plane.kubeconfig,
            "DISABLE_LEADER_ELECTION": "true",
            "METRICS_PORT": free_port(),
            "HEALTH_PROBE_PORT": health,
            "INSTANCE_TYPES_FILE_PATH": types,
        }
        command: list[str | Path] = [
            "env",
            *(f"{name}={value}" for name, value in own.items()),
            PROGRAM,
        ]  # it takes its kubeconfig from nowhere else
        self.plane.add("karpenter", command, answering(health, "/readyz"), PATIENCE)

    def _define(self, item: Json) -> None:
        item["spec"].pop("conversion", None)
        self._create(DEFINITIONS, item)
        group, plural, name = item["spec"]["group"], item["spec"]["names"]["plural"], item["metadata"]["name"]
        self.awaited(DEFINITIONS, lambda objects: said(objects[f"/{name}"], "Established"), fields=f"metadata.name={name}")
        self.admin.learn_versions({f"{group}/{plural}": item["spec"]["versions"][0]["name"]})

    def _create(self, key: str, item: Json, namespace: str = "") -> None:
        answer = self.admin.create(key, item, namespace=namespace)
        assert answer.status == 201, f"{item['kind']}: {answer.message}"

    def start(self, pod: Json) -> None:
        self._create("pods", pod, "default")

    def end(self, name: str) -> None:
        assert self.admin.delete("pods", name, "default", grace_seconds=0).ok

    def pool(self, **changed: Any) -> None:
        assert self.admin.patch(POOLS, "devices", {"spec": a_pool(**changed)}).ok

    def awaited(self, key: str, true: Callable[[Mapping[str, Json]], bool], **selection: Any) -> Mapping[str, Json]:
        """The objects of a kind, once ``true`` of them."""
        with Observation(self.admin, key, **selection) as seen:
            for objects in seen.until(time.monotonic() + PATIENCE):
                if true(objects):
                    return objects
        self.plane.all_run()
        raise AssertionError(f"{key} {objects}\n{self.plane.last_words('karpenter')}")

    def judged(self) -> dict[str, list[str]]:
        """The causes that SCALE-01 and SCALE-02 find where nothing may take its time."""
        scope = Scope(collect(self.admin, [POOLS, "nodes", "pods", "configmaps"], version=""), a_policy(requests={"pendingMinutes": 0}))
        return {"SCALE-01": [one.cause for one in check_node_pools(scope)], "SCALE-02": [one.cause for one in check_growth(scope)]}


class Kubelets(Thread):
    """Says of each node that has come that it is Ready, with the devices of its machine."""

    def __init__(self, admin: Cluster) -> None:
        super().__init__(daemon=True)
        self._admin = admin
        self.stopped = Event()

    def run(self) -> None:
        with Observation(self._admin, "nodes") as seen:
            while not self.stopped.is_set():
                for objects in seen.until(time.monotonic() + 1):
                    for node in objects.values():
                        self._bring_up(node)

    def _bring_up(self, node: Json) -> None:
        name, taints = node["metadata"]["name"], node["spec"].get("taints") or []
        keys = [taint["key"] for taint in taints]
        if node["metadata"].get("deletionTimestamp"):
            return
        if not said(node, "Ready"):
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "the test says so"}
            self._admin.patch(
                "nodes", name, {"status": {"conditions": [ready], "capacity": MACHINE, "allocatable": MACHINE}}, subresource="status"
            )
        elif NOT_READY in keys and UNREGISTERED not in keys:  # what the controller of node lifecycles does, which wants leases renewed
            version = node["metadata"]["resourceVersion"]
            kept = [taint for taint in taints if taint["key"] != NOT_READY]
            self._admin.patch("nodes", name, {"metadata": {"resourceVersion": version}, "spec": {"taints": kept}})


def said(item: Json, kind: str, status: str = "True") -> bool:
    """Whether a condition has this status."""
    return any((one["type"], one["status"]) == (kind, status) for one in (item.get("status") or {}).get("conditions") or ())


def node_of(pods: Mapping[str, Json], name: str) -> str:
    return str(pods[f"default/{name}"]["spec"].get("nodeName", ""))


@pytest.fixture(scope="module")
def stage(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if not PROGRAM.exists():
        pytest.skip("karpenter is not here (make karpenter builds it)")
    try:
        definitions = [definition(contracts()[name]) for name in ("karpenter", "karpenter-nodeclaims", "karpenter-kwok")]
    except Missing as error:
        pytest.skip(str(error))
    with ControlPlane.start(binaries=binaries, running=Running(tmp_path_factory.mktemp("running"))) as plane:
        stage = Stage(plane)
        kubelets = Kubelets(stage.admin)
        kubelets.start()
        try:
            stage.set_up(definitions)
            yield stage
        finally:
            kubelets.stopped.set()
            kubelets.join()


def test_a_pool_grows_for_a_pending_pod_and_goes_to_zero(stage: Stage) -> None:
    stage.awaited(POOLS, lambda pools: said(pools["/devices"], "Ready"))
    assert stage.judged() == {"SCALE-01": [""], "SCALE-02": [""]}
    stage.start(a_pod("train", 8))
    bound = stage.awaited("pods", lambda pods: node_of(pods, "train") != "", namespace="default")
    (node,) = stage.admin.each("nodes")
    assert (node["metadata"]["name"], node["metadata"]["labels"]["karpenter.sh/nodepool"]) == (node_of(bound, "train"), "devices")
    assert FENCE in node["spec"]["taints"]
    assert stage.judged() == {"SCALE-01": [""], "SCALE-02": [""]}
    stage.end("train")
    stage.awaited("nodes", lambda nodes: not nodes)
    stage.awaited(CLAIMS, lambda claims: not claims)
    assert stage.judged() == {"SCALE-01": [""], "SCALE-02": [""]}


def test_a_pool_without_its_class_does_not_grow(stage: Stage) -> None:
    stage.pool(taints=[FENCE], node_class="gone")
    stage.awaited(POOLS, lambda pools: said(pools["/devices"], "Ready", "False"))
    assert stage.judged() == {"SCALE-01": [""], "SCALE-02": ["NodeGroupCannotGrow"]}
    stage.pool(taints=[FENCE])
    stage.awaited(POOLS, lambda pools: said(pools["/devices"], "Ready"))


def test_a_pool_without_its_fence_grows_for_a_pod_without_devices(stage: Stage) -> None:
    stage.start(a_pod("web", 0))
    refused = stage.awaited("events", lambda events: any(by_karpenter(one) for one in events.values()), namespace="default")
    assert any("did not tolerate taint" in one["message"] for one in refused.values() if by_karpenter(one))
    stage.pool(taints=[])
    assert stage.judged()["SCALE-01"] == ["NodePoolNotFenced"]
    stage.awaited("pods", lambda pods: node_of(pods, "web") != "", namespace="default")
    stage.end("web")
    stage.pool(taints=[FENCE])
    stage.awaited("nodes", lambda nodes: not nodes)


def by_karpenter(event: Json) -> bool:
    """Whether Karpenter says of the pod that no pool takes it."""
    of_web = event["involvedObject"].get("name") == "web"
    return of_web and event["reason"] == "FailedScheduling" and (event.get("source") or {}).get("component") == "karpenter"
