"""The account of experiments on real Kubernetes: it creates and deletes in namespaces of its own, and breaks only what it is for."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from fixtures.cluster.client import Answer, Cluster
from fixtures.localcluster.control_plane.account import suite_kubeconfig
from fixtures.localcluster.control_plane.control_plane import ControlPlane

pytestmark = pytest.mark.xdist_group("accounts")

OWN = "gpu-conformance-chaos-20261121-100000-test"
CLASSES = "scheduling.k8s.io/priorityclasses"


@pytest.fixture(scope="module")
def chaos(plane: ControlPlane) -> Cluster:
    """A session of the account, once the API server enforces the policy."""
    cluster = Cluster.from_kubeconfig(suite_kubeconfig(plane, "chaos"))
    deadline = time.monotonic() + 60
    while not is_bounded(cluster.create("batch/jobs", a_job(), namespace="default", dry_run=True)):
        assert time.monotonic() < deadline, "the policy was never enforced"
        threading.Event().wait(0.2)
    assert cluster.create("namespaces", a_namespace(OWN)).ok
    return cluster


def a_namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def a_pod() -> dict[str, Any]:
    """What an injector pod is: root on the host."""
    containers = [{"name": "c", "image": "registry.example/c:1", "securityContext": {"privileged": True}}]
    spec = {"hostPID": True, "containers": containers, "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


def a_job() -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.example/c:1"}]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": template}}


def a_class(name: str) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": -5}


def is_bounded(answer: Answer) -> bool:
    """Whether the policy refused it, and nothing else."""
    return answer.status == 403 and "experiments create and delete in namespaces of their own" in answer.message


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
@pytest.mark.parametrize(("key", "obj"), [("pods", a_pod()), ("batch/jobs", a_job())], ids=["pod", "job"])
def test_nothing_is_created_in_a_namespace_of_others(chaos: Cluster, key: str, obj: dict[str, Any], namespace: str) -> None:
    assert is_bounded(chaos.create(key, obj, namespace=namespace, dry_run=True))
    assert chaos.create(key, obj, namespace=OWN, dry_run=True).status == 201


@pytest.mark.parametrize("name", ["tenant", "gpu-conformance", "gpu-conformance-chaotic", "kube-gpu-conformance-chaos-1"])
def test_namespaces_and_classes_have_names_of_its_own(chaos: Cluster, name: str) -> None:
    assert is_bounded(chaos.create("namespaces", a_namespace(name), dry_run=True))
    assert is_bounded(chaos.create(CLASSES, a_class(name), dry_run=True))
    assert chaos.create(CLASSES, a_class(OWN), dry_run=True).ok


def test_a_generated_name_is_nobody_s(chaos: Cluster) -> None:
    generated = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "gpu-conformance-chaos-"}}
    answer = chaos.create("namespaces", generated, dry_run=True)
    assert answer.ok or is_bounded(answer)
    tenants = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "tenant-"}}
    assert is_bounded(chaos.create("namespaces", tenants, dry_run=True))


def test_nobody_else_s_namespace_or_class_goes_or_is_written_to(plane: ControlPlane, chaos: Cluster) -> None:
    admin = Cluster.from_kubeconfig(plane.kubeconfig)
    assert admin.create("namespaces", a_namespace("victim")).ok
    assert admin.create(CLASSES, a_class("important")).ok
    assert admin.create("batch/jobs", a_job(), namespace="victim").ok
    assert is_bounded(chaos.delete("namespaces", "victim"))
    assert is_bounded(chaos.delete(CLASSES, "important"))
    assert is_bounded(chaos.patch(CLASSES, "important", {"metadata": {"annotations": {"a": "b"}}}))
    assert is_bounded(chaos.delete("batch/jobs", "j", "victim"))
    assert admin.get("namespaces", "victim").json()["status"]["phase"] == "Active"


def test_its_own_go_again(chaos: Cluster) -> None:
    assert chaos.create(CLASSES, a_class(OWN)).ok
    assert chaos.patch(CLASSES, OWN, {"metadata": {"annotations": {"a": "b"}}}).ok
    assert chaos.delete(CLASSES, OWN).ok
    assert chaos.create("batch/jobs", a_job(), namespace=OWN).ok
    assert chaos.delete("batch/jobs", "j", OWN).ok


def test_agents_may_be_killed_wherever_they_are(chaos: Cluster) -> None:
    assert chaos.delete("pods", "agent", "default").status == 404


def test_no_other_account_is_bounded(plane: ControlPlane, chaos: Cluster) -> None:
    suite = Cluster.from_kubeconfig(suite_kubeconfig(plane, "full"))
    assert suite.create("namespaces", a_namespace("gpu-conformance-20261121-100000-test-rest"), dry_run=True).ok
