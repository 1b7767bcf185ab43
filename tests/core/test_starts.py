"""How fast a run starts pods on a node: the first one is timed, and the others wait for their turn."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance.probes.running import pinned_pod
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.cluster import Scope
from fixtures.policy.model import Policy
from fixtures.probes.pods import decode_pod
from fixtures.probes.starts import StartLimits, Starts
from fixtures.probes.workspace import Workspace
from fixtures.snapshot.collect import collect
from fixtures.verdict.subjects import Inconclusive
from tests.simulated import simulated
from tests.watching import PATIENCE

FIRST = "calibration-1"


class Probing:
    """A workspace on a cluster, and its accelerator nodes."""

    def __init__(self, kubeconfig: Path, *, per_node: int = 16, seconds: float = PATIENCE) -> None:
        self.cluster = Cluster.from_kubeconfig(kubeconfig)
        limits = StartLimits(per_node=per_node, seconds=seconds, patience=PATIENCE, image="busybox", run_as_user=1000)
        self.workspace = Workspace(self.cluster, "starts", starts=Starts(limits))
        self.scope = Scope(collect(self.cluster, ["nodes", "pods", "namespaces"], version=self.cluster.probe()), Policy())

    def start(self, name: str, number: int = 0, **tolerations: object) -> None:
        pod = pinned_pod(self.scope, self.scope.accelerator_nodes[number], name, "sleep 1000")
        pod["spec"] |= tolerations
        self.workspace.start(pod)

    def pods(self) -> dict[str, Pod]:
        path = self.cluster.path("pods", self.workspace.namespace())
        return {pod.name: pod for pod in map(decode_pod, self.cluster.request("GET", path).json()["items"])}


def test_a_first_pod_that_is_slow_is_the_only_one_and_its_figure_the_reason(tmp_path: Path) -> None:
    with simulated(tmp_path, "healthy:podStart=600") as kubeconfig:
        probing = Probing(kubeconfig, seconds=0.3)
        for number in (0, 0, 1):
            with pytest.raises(
                Inconclusive, match=r"had not started 0\.\d s after it was bound to h100-0 .*slowStartSeconds: 0\.3"
            ) as reason:
                probing.start(f"probe-{number}", number)
            assert reason.value.code == "SlowRuntime"
        assert list(probing.pods()) == [FIRST]
        probing.workspace.close()


class NoPods:
    """Pods of a wave in which nobody shares any."""

    def start(self, place: str, pods: Sequence[Json]) -> list[str]:
        raise AssertionError(place, pods)


def test_a_pod_that_is_slow_beside_others_makes_their_findings_void_and_the_next_is_timed_alone(tmp_path: Path) -> None:
    with simulated(tmp_path, "healthy:podStart=600") as kubeconfig:
        probing = Probing(kubeconfig, seconds=0.3)
        whole, probing.workspace = probing.workspace, probing.workspace.branch(NoPods())
        probing.start("beside")
        assert probing.pods().keys() == {FIRST, "beside"}
        assert not whole.in_time()
        assert whole.in_time()
        probing.workspace.clear()
        probing.workspace = whole
        with pytest.raises(Inconclusive, match="had not started"):
            probing.start("alone")
        assert list(probing.pods()) == ["calibration-2"]
        whole.close()


def test_a_deadline_that_the_runtime_missed_is_named(tmp_path: Path) -> None:
    with simulated(tmp_path, "healthy", runtimeMissesDeadlines=True) as kubeconfig:
        probing = Probing(kubeconfig)
        with pytest.raises(Inconclusive, match=r"CreateContainerError.*code = DeadlineExceeded"):
            probing.start("probe")
        assert list(probing.pods()) == [FIRST]
        probing.workspace.close()


def test_of_one_node_no_more_pods_start_at_a_time_than_may(tmp_path: Path) -> None:
    with simulated(tmp_path, "healthy:podStart=1") as kubeconfig:
        probing = Probing(kubeconfig, per_node=1)
        for name in ("one", "two", "three"):
            probing.start(name)
            waiting = [pod.name for pod in probing.pods().values() if pod.status.phase == "Pending"]
            assert waiting in ([name], [])
        probing.start("elsewhere", 1)  # another node's first pod waits for nobody
        assert probing.pods().keys() == {FIRST, "one", "two", "three", "elsewhere"}  # and only one was timed
        probing.workspace.close()


def test_a_first_pod_that_no_scheduler_places_tells_nothing_of_the_runtime(tmp_path: Path) -> None:
    with simulated(tmp_path, "healthy") as kubeconfig:
        probing = Probing(kubeconfig)
        probing.start("fenced", tolerations=[])  # by the taint of the pool
        probing.start("next", 1)
        assert probing.pods().keys() == {FIRST, "fenced", "calibration-2", "next"}
        probing.workspace.close()
