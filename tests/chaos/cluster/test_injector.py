"""Host programs run by a pod on the very node, and what they changed is put back by pods too."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chaos.cluster import namespaces
from chaos.cluster.injector import HostResult, injector_pod, run_on_host
from chaos.ledger.replay import Reason
from chaos.ledger.undos.host import DeviceArgs, HostKubelet, HostPersistence, KubeletArgs, Means, Programs
from chaos.ledger.undos.nodes import identity
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.watch import Observation
from fixtures.ownership import owned
from fixtures.policy.allowlist import cluster_uid
from tests.chaos.ledger.simulated_cluster import RUN, Json, fetch, ledger, replay, soon, world
from tests.simulated import simulated
from tests.tables import each_row
from tests.watching import PATIENCE

IMAGE = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"


def test_the_pod_reaches_the_host_from_any_node_and_ends_by_itself() -> None:
    pod = injector_pod(name="x", node="gpu-1", image=IMAGE, argv=("systemctl", "stop", "kubelet; rm -rf /"), run_id=RUN, seconds=30)
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    assert (spec["nodeName"], spec["hostPID"], spec["activeDeadlineSeconds"], spec["restartPolicy"]) == ("gpu-1", True, 30, "Never")
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"]["privileged"] is True
    assert container["command"][:3] == ["nsenter", "--target", "1"]
    assert {"/usr/sbin", "/usr/bin"} < set(container["env"][0]["value"].split(":"))  # the host's, not the image's
    assert container["command"][-4:] == ["--", "systemctl", "stop", "kubelet; rm -rf /"]  # one argument, no shell
    assert pod["metadata"]["labels"].items() >= owned.labels(RUN).items()


def test_the_pod_names_no_class_and_the_policys_secrets() -> None:
    """Bound by name it preempts nobody; a class that is gone would keep a late undo from running (chaos/cluster/injector.py)."""
    plain = injector_pod(name="x", node="gpu-1", image=IMAGE, argv=("true",), run_id=RUN)
    assert not {"priorityClassName", "imagePullSecrets"} & plain["spec"].keys()
    pulled = injector_pod(name="x", node="gpu-1", image=IMAGE, argv=("true",), run_id=RUN, pull_secrets=("registry",))
    assert pulled["spec"]["imagePullSecrets"] == [{"name": "registry"}]


@each_row
def test_an_image_that_cannot_be_pulled_says_what_to_do(tmp_path: Path, pull_secrets: tuple[str, ...], expected: str) -> None:
    with world(tmp_path) as (served, _):
        namespace = namespaces.ensure_run(served, RUN)
        wishes: dict[str, Any] = {
            "namespace": namespace,
            "node": "gpu-1",
            "image": IMAGE,
            "argv": ("true",),
            "run_id": RUN,
            "pull_secrets": pull_secrets,
        }
        with written(served, "Pending", {"waiting": {"reason": "ImagePullBackOff"}}), pytest.raises(ApiTrouble, match=expected):
            run_on_host(served, deadline=soon(3), **wishes)


def test_a_program_has_ended_before_its_pod_is_torn_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real kubelet gives the pod its last phase up to half a minute later, where the machine is slow."""
    monkeypatch.setattr(Cluster, "logs", lambda *_, **__: "active\n")
    with world(tmp_path) as (served, _):
        namespace = namespaces.ensure_run(served, RUN)
        with written(served, "Running", {"terminated": {"exitCode": 3, "reason": "Error"}}):
            wishes: dict[str, Any] = {"namespace": namespace, "node": "gpu-1", "image": IMAGE, "argv": ("true",), "run_id": RUN}
            assert run_on_host(served, deadline=soon(), **wishes) == HostResult(exit_code=3, output="active\n")


@contextmanager
def written(cluster: Cluster, phase: str, state: Json) -> Iterator[None]:
    """A kubelet that writes this status of the run's injector pod."""
    container = {"name": "injector", "state": state}

    def write() -> None:
        with Observation(cluster, "pods", namespaces.find_run(cluster, RUN)) as observation:
            for found in observation.until(soon()):
                for pod in found.values():
                    status = {"status": {"phase": phase, "containerStatuses": [container]}}
                    cluster.patch("pods", pod["metadata"]["name"], status, namespaces.find_run(cluster, RUN), "status")
                    return

    kubelet = threading.Thread(target=write)
    kubelet.start()
    try:
        yield
    finally:
        kubelet.join()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with simulated(tmp_path_factory.mktemp("simulated"), "healthy") as kubeconfig:
        yield Cluster.from_kubeconfig(kubeconfig)


@pytest.fixture
def node(cluster: Cluster) -> str:
    nodes = cluster.request("GET", cluster.path("nodes")).json()["items"]
    return str(next(item["metadata"]["name"] for item in nodes if "nvidia.com/gpu" in item["status"]["capacity"]))


def run(cluster: Cluster, node: str, *argv: str, seconds: float = PATIENCE) -> HostResult:
    namespace = namespaces.ensure_run(cluster, RUN)
    return run_on_host(cluster, namespace=namespace, node=node, image=IMAGE, argv=argv, run_id=RUN, deadline=soon(seconds))


def test_a_host_program_gives_its_output_and_exit_code(cluster: Cluster, node: str) -> None:
    assert run(cluster, node, "systemctl", "is-active", "kubelet") == HostResult(exit_code=0, output="active\n")
    failed = run(cluster, node, "systemctl", "is-active", "no-such-unit")
    assert failed.exit_code != 0
    left = cluster.request("GET", cluster.path("pods", namespaces.find_run(cluster, RUN))).json()["items"]
    assert [pod["metadata"]["name"] for pod in left if not pod["metadata"].get("deletionTimestamp")] == []


UNIT = f"gpu-conformance-{RUN}-a1-kubelet-stop"
ACTIVE = ("systemctl", "is-active", f"{UNIT}.timer")


def args_of(cluster: Cluster, node: str, **more: str) -> Json:
    return {**identity(fetch(cluster, "nodes", node)), **more}


def test_what_was_changed_on_a_host_is_put_back_and_read_back(cluster: Cluster, node: str, tmp_path: Path) -> None:
    """A transient timer, which outlives the pod that armed it, is stopped by the undo."""
    book = ledger(tmp_path, uid=cluster_uid(cluster))
    before = run(cluster, node, *ACTIVE).output.strip()
    book.arm("host.kubelet", args_of(cluster, node, pending=UNIT))
    armed = run(cluster, node, "systemd-run", "--on-active=600", f"--unit={UNIT}", "systemctl", "stop", "kubelet")
    assert armed.exit_code == 0, armed.output
    assert run(cluster, node, *ACTIVE).output.strip() == "active"
    assert replay(book, cluster, soon()) == []
    assert run(cluster, node, *ACTIVE).output.strip() == before != "active"


def test_a_host_that_somebody_else_changed_is_left(cluster: Cluster, node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def programs(self: HostPersistence, args: DeviceArgs) -> Programs:
        return Programs(undo=("true",), check=("systemctl", "is-active", "kubelet"), expected="inactive", ours="failed")

    monkeypatch.setattr(HostPersistence, "programs", programs)
    book = ledger(tmp_path, uid=cluster_uid(cluster))
    book.arm("host.persistence", args_of(cluster, node, uuid="GPU-1"))
    (left,) = replay(book, cluster, soon())
    assert (left.reason, left.prior, left.current) == (Reason.CHANGED, "inactive", "active")
    assert left.command.startswith(f"kubectl debug node/{node} --profile=sysadmin")


def test_an_undo_program_that_fails_is_residue(cluster: Cluster, node: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def programs(self: HostPersistence, args: DeviceArgs) -> Programs:
        return Programs(undo=("no-such-program",), check=("systemctl", "is-active", "kubelet"), expected="inactive")

    monkeypatch.setattr(HostPersistence, "programs", programs)
    book = ledger(tmp_path, uid=cluster_uid(cluster))
    book.arm("host.persistence", args_of(cluster, node, uuid="GPU-1"))
    (left,) = replay(book, cluster, soon(4))
    assert left.reason is Reason.NOT_UNDONE
    assert "no-such-program" in left.message


def test_an_undo_ends_programs_in_a_namespace_that_is_being_deleted(tmp_path: Path) -> None:
    """The run that ended has asked for it already, and its pod is still bound to the node."""
    with world(tmp_path) as (served, _):
        own = namespaces.ensure_run(served, RUN)
        late = injector_pod(name="late", node="gpu-1", image=IMAGE, argv=("true",), run_id=RUN)
        late["spec"]["terminationGracePeriodSeconds"] = 30
        assert served.create("pods", late, namespace=own).ok
        assert served.delete("namespaces", own).ok
        assert fetch(served, "pods", "late", own)["metadata"]["deletionTimestamp"]
        args = KubeletArgs(name="gpu-1", uid="uid-gpu-1", machine="machine-gpu-1", pending=UNIT)
        with pytest.raises(ApiTrouble, match="did not end in time"):  # nothing runs pods here
            HostKubelet().by(Means(run_id=RUN, image=IMAGE)).undo(served, args, soon(0))
        assert served.get("pods", "late", own).status == 404
