"""The real autoscaler of pods adds and takes away pods with devices by what their devices do, and SCALE-03 knows when it cannot.

The controller manager and the API server with its aggregation layer are real. The metric is what the simulated DCGM exporters serve, by
a small adapter of the project's own (metrics_adapter.py). Load is injected into a device's field with ``dcgmi test --inject``.
"""

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos.activities.telemetry import injection
from conformance.obs.scraped import check_served
from conformance.scale.checks import check_autoscaling
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.localcluster.control_plane.certificates import make_for_webhook
from fixtures.localcluster.control_plane.control_plane import free_port
from fixtures.localcluster.install.release import Binaries
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.localcluster.nodes.network import BESIDE
from fixtures.model.cluster import Scope
from fixtures.simulator.api.objects import Json
from fixtures.snapshot.collect import collect
from tests.builders import a_policy
from tests.endtoend.runs import run_suite
from tests.simulator.localcluster.metrics_adapter import GROUP, UTILISATION, VERSION, MetricsAdapter
from tests.watching import PATIENCE

pytestmark = [pytest.mark.xdist_group("device-autoscaling"), pytest.mark.test_all]

KEY, NAMESPACE, NAME, SERVICE = "autoscaling/horizontalpodautoscalers", "autoscaled", "reranker", "metrics-adapter"
FIELD = 203  # of DCGM_FI_DEV_GPU_UTIL
LABELS = {"app": NAME}


def an_object(api_version: str, kind: str, name: str, **fields: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def a_deployment() -> Json:
    idle = {"name": "main", "image": "registry.example.com/reranker:1", "command": ["sh", "-c", "sleep infinity"]}
    spec = {
        "containers": [{**idle, "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
    }
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    return an_object("apps/v1", "Deployment", NAME, spec={"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template})


def an_hpa() -> Json:
    metric = {"type": "Pods", "pods": {"metric": {"name": UTILISATION}, "target": {"type": "AverageValue", "averageValue": "50"}}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "metrics": [metric], "behavior": down("Max")}
    return an_object("autoscaling/v2", "HorizontalPodAutoscaler", NAME, spec=spec)


def down(policy: str) -> Json:
    return {"scaleDown": {"stabilizationWindowSeconds": 0, "selectPolicy": policy}}


class Stage:
    """A workload with devices, its autoscaler, and what serves the metric."""

    def __init__(self, local: LocalCluster, folder: Path) -> None:
        self.local = local
        self.admin = Cluster.from_kubeconfig(local.admin_kubeconfig)
        self._certificate = make_for_webhook(folder / "adapter", "metrics-adapter-ca", [f"{SERVICE}.{NAMESPACE}.svc"])
        self._port = free_port()
        self.adapter = MetricsAdapter(self.admin, self._certificate, local.plane.layout.certificates.authority, self._port)

    def set_up(self) -> None:
        self.adapter.start()
        served = {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": NAMESPACE, "name": SERVICE, "port": self._port},
            "caBundle": base64.b64encode(self._certificate.authority.read_bytes()).decode(),
        }
        beside = {"type": "ExternalName", "externalName": BESIDE}
        self._create("namespaces", an_object("v1", "Namespace", NAMESPACE), "")
        self._create("services", an_object("v1", "Service", SERVICE, spec=beside))
        self._create(
            "apiregistration.k8s.io/apiservices",
            an_object("apiregistration.k8s.io/v1", "APIService", f"{VERSION}.{GROUP}", spec=served),
            "",
        )
        self._create("apps/deployments", a_deployment())
        self._create(KEY, an_hpa())

    def _create(self, key: str, item: Json, namespace: str = NAMESPACE) -> None:
        answer = self.admin.create(key, item, namespace=namespace)
        assert answer.status == 201, f"{item['kind']}: {answer.message}"

    def awaited(self, true: Callable[[Json], bool]) -> Json:
        """The status of the autoscaler, once ``true`` of it."""
        with Observation(self.admin, KEY, NAMESPACE) as seen:
            for objects in seen.until(time.monotonic() + PATIENCE):
                status: Json = objects[f"{NAMESPACE}/{NAME}"].get("status") or {}
                if true(status):
                    return status
        raise AssertionError(f"{status}")

    def replicas(self, wanted: int) -> None:
        """Once the autoscaler has its value, and asks for as many pods as there are."""
        counts = (wanted, wanted)
        self.awaited(lambda status: said(status)["ScalingActive"] == "True" and replicas_in(status) == counts)

    @contextmanager
    def load(self) -> Iterator[None]:
        """Inject into the device of the one pod, as long as the context lasts."""
        node, index = self._held()
        agents = self.admin.each("apps/daemonsets", "gpu-operator", labels="app=nvidia-dcgm")
        image = next(iter(agents))["spec"]["template"]["spec"]["containers"][0]["image"]
        container = {"name": "inject", "image": image, "command": ["sh", "-c", injection({FIELD: "95"}, index, 3600)]}
        spec = {"nodeName": node, "hostNetwork": True, "restartPolicy": "Never", "containers": [container]}
        self._create("pods", an_object("v1", "Pod", "load", spec=spec))
        try:
            yield
        finally:
            assert self.admin.delete("pods", "load", NAMESPACE, grace_seconds=0).ok

    def _held(self) -> tuple[str, int]:
        """Node and index of the device that the pod of the workload holds, as its exporter says them."""
        for exporter in self.adapter.exporters():
            for sample in self.adapter.scraped(exporter):
                if sample.labels.get("namespace") == NAMESPACE:
                    return exporter["spec"]["nodeName"], int(sample.labels["gpu"])
        raise AssertionError("no exporter names a pod of the workload")

    def causes(self) -> list[str]:
        """What SCALE-03 and OBS-07 find where nothing may be missing for a moment."""
        scope = Scope(collect(self.admin, [KEY], version=""), a_policy(requests={"pendingMinutes": 0}))
        return [finding.cause for finding in (*check_autoscaling(scope), *check_served(scope))]


def said(status: Json) -> dict[str, str]:
    """What a condition says, by its type: a status, for a limit its reason."""
    conditions = status.get("conditions") or ()
    found = {str(one["type"]): str(one["reason"] if one["type"] == "ScalingLimited" else one["status"]) for one in conditions}
    return {"ScalingActive": "", "ScalingLimited": "", **found}


def replicas_in(status: Json) -> tuple[int, int]:
    return status.get("currentReplicas", 0), status.get("desiredReplicas", 0)


@pytest.fixture(scope="module")
def stage(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("autoscaling")
    with LocalCluster.start(None, "resilience", folder / "cluster", binaries.paths["kube-apiserver"].parent) as local:
        stage = Stage(local, folder)
        try:
            stage.set_up()
            yield stage
        finally:
            stage.adapter.stop()


def test_pods_come_with_load_and_go_with_it(stage: Stage, tmp_path: Path) -> None:
    stage.replicas(1)
    with stage.load():
        stage.replicas(2)
        done = run_suite(tmp_path, "--kubeconfig", str(stage.local.kubeconfig), "--read-only", "--only", "SCALE-03,OBS-07")
        assert {one.id: str(one.verdict) for one in done.record.results} == {"SCALE-03": "passed", "OBS-07": "passed"}, done.output
    stage.replicas(1)
    assert stage.causes() == ["", ""]


def test_what_may_not_come_down_stays_and_is_said(stage: Stage) -> None:
    stage.replicas(1)
    assert stage.admin.patch(KEY, NAME, {"spec": {"behavior": down("Disabled")}}, NAMESPACE).ok
    with stage.load():
        stage.replicas(2)
    limited = stage.awaited(lambda status: said(status)["ScalingLimited"] == "ScaleDownLimit")
    assert (replicas_in(limited), stage.causes()) == ((2, 2), ["AutoscalerOneWay", ""])
    assert stage.admin.patch(KEY, NAME, {"spec": {"behavior": down("Max")}}, NAMESPACE).ok
    stage.replicas(1)


def another_pool(adapter: MetricsAdapter) -> None:
    adapter.nodes = "t4"


def another_metric(adapter: MetricsAdapter) -> None:
    adapter.metric = "DCGM_FI_DEV_FB_USED"


@pytest.mark.parametrize("fault", [another_pool, another_metric, MetricsAdapter.stop])
def test_an_adapter_without_the_value_keeps_the_replicas_and_fails(stage: Stage, fault: Callable[[MetricsAdapter], None]) -> None:
    stage.replicas(1)
    with stage.load():
        stage.replicas(2)
        fault(stage.adapter)
        stage.awaited(lambda status: said(status)["ScalingActive"] == "False")
    idle = stage.awaited(lambda status: said(status)["ScalingActive"] == "False")
    assert (replicas_in(idle), stage.causes()) == ((2, 2), ["AutoscalerWithoutMetric", "AutoscalerWithoutMetric"])
    stage.adapter.nodes, stage.adapter.metric = "", UTILISATION
    stage.adapter.start()
    stage.replicas(1)
