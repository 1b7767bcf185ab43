"""The account of experiments on real Kubernetes: it creates and deletes in namespaces of its own, and breaks only what it is for."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.cluster.client import Answer, Cluster
from fixtures.localcluster.control_plane.account import suite_kubeconfig
from fixtures.localcluster.control_plane.control_plane import ControlPlane

pytestmark = [pytest.mark.xdist_group("accounts"), pytest.mark.test_all]

OWN = "gpu-conformance-chaos-20261121-100000-test"
CLASSES = "scheduling.k8s.io/priorityclasses"
OBJECTS = yaml.safe_load(Path(__file__).with_name("account_objects.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def chaos(plane: ControlPlane) -> Cluster:
    """A session of the account, once the API server enforces the policy."""
    cluster = Cluster.from_kubeconfig(suite_kubeconfig(plane, "chaos"))
    deadline = time.monotonic() + 60
    while not is_bounded(cluster.create("batch/jobs", OBJECTS["job"], namespace="default", dry_run=True)):
        assert time.monotonic() < deadline, "the policy was never enforced"
        threading.Event().wait(0.2)
    assert cluster.create("namespaces", a_namespace(OWN)).ok
    return cluster


def a_namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def a_class(name: str) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": -5}


def an_operand(kind: str, name: str, *owners: tuple[str, str]) -> dict[str, Any]:
    """A ConfigMap or Service with owners of these API versions and kinds."""
    body: dict[str, Any] = {"data": {"a": "b"}} if kind == "ConfigMap" else {"spec": {"ports": [{"port": 80}]}}
    refs = [{"apiVersion": version, "kind": owner, "name": "cluster-policy", "uid": "u-1"} for version, owner in owners]
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "ownerReferences": refs}, **body}


def a_workload(kind: str) -> dict[str, Any]:
    """A Deployment, StatefulSet or ReplicaSet whose pods need not start."""
    workload = {**OBJECTS["workload"], "kind": kind}
    return {**workload, "spec": {**workload["spec"], "serviceName": "x"}} if kind == "StatefulSet" else workload


def is_bounded(answer: Answer, why: str = "experiments create and delete in namespaces of their own") -> bool:
    """Whether the policy refused it, and nothing else."""
    return answer.status == 403 and why in answer.message


@pytest.mark.parametrize("namespace", ["default", "kube-system"])
@pytest.mark.parametrize(("key", "obj"), [("pods", OBJECTS["pod"]), ("batch/jobs", OBJECTS["job"])], ids=["pod", "job"])
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
    assert admin.create("batch/jobs", OBJECTS["job"], namespace="victim").ok
    assert is_bounded(chaos.delete("namespaces", "victim"))
    assert is_bounded(chaos.delete(CLASSES, "important"))
    assert is_bounded(chaos.patch(CLASSES, "important", {"metadata": {"annotations": {"a": "b"}}}))
    assert is_bounded(chaos.delete("batch/jobs", "j", "victim"))
    assert admin.get("namespaces", "victim").json()["status"]["phase"] == "Active"


def test_its_own_go_again(chaos: Cluster) -> None:
    assert chaos.create(CLASSES, a_class(OWN)).ok
    assert chaos.patch(CLASSES, OWN, {"metadata": {"annotations": {"a": "b"}}}).ok
    assert chaos.delete(CLASSES, OWN).ok
    assert chaos.create("batch/jobs", OBJECTS["job"], namespace=OWN).ok
    assert chaos.delete("batch/jobs", "j", OWN).ok


def test_agents_may_be_killed_wherever_they_are(chaos: Cluster) -> None:
    assert chaos.delete("pods", "agent", "default").status == 404


def test_no_budget_holds_and_no_eviction_ends_the_pods_of_others(plane: ControlPlane, chaos: Cluster) -> None:
    admin = Cluster.from_kubeconfig(plane.kubeconfig)
    assert admin.create("policy/poddisruptionbudgets", OBJECTS["budget"], namespace="default").ok
    assert is_bounded(chaos.delete("policy/poddisruptionbudgets", "freeze", "default"))
    assert is_bounded(chaos.create("policy/poddisruptionbudgets", OBJECTS["budget"], namespace="kube-system", dry_run=True))
    assert chaos.create("policy/poddisruptionbudgets", OBJECTS["budget"], namespace=OWN).ok
    assert chaos.delete("policy/poddisruptionbudgets", "freeze", OWN).ok
    pod = {**OBJECTS["pod"], "spec": {**OBJECTS["pod"]["spec"], "nodeSelector": {"nowhere": "at-all"}}}
    assert admin.create("pods", pod, namespace="default").ok
    assert is_bounded(evict(chaos, "default"))
    assert admin.get("pods", "p", "default").ok
    assert chaos.create("pods", pod, namespace=OWN).ok
    assert evict(chaos, OWN).ok


def evict(cluster: Cluster, namespace: str) -> Answer:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": namespace}}
    return cluster.request("POST", cluster.path("pods", namespace, "p", "eviction"), body=body)


@pytest.mark.parametrize(("key", "kind"), [("configmaps", "ConfigMap"), ("services", "Service")])
def test_operands_of_a_cluster_policy_go_and_come_back_and_nothing_else_does(
    plane: ControlPlane, chaos: Cluster, key: str, kind: str
) -> None:
    admin = Cluster.from_kubeconfig(plane.kubeconfig)
    operand = an_operand(kind, "operand", ("nvidia.com/v1", "ClusterPolicy"))
    assert chaos.create(key, operand, namespace="default").ok
    assert chaos.delete(key, "operand", "default").ok
    others = {
        "nobody-s": (),
        "a-workload-s": (("apps/v1", "Deployment"),),
        "a-lookalike-s": (("tenant.example/v1", "ClusterPolicy"),),
    }
    for name, owners in others.items():
        obj = an_operand(kind, name, *owners)
        held = {**obj, "metadata": {**obj["metadata"], "finalizers": ["example.com/held"]}}  # its owner is made up: it would be collected
        assert admin.create(key, held, namespace="default").ok
        assert is_bounded(chaos.delete(key, name, "default"), "only what a ClusterPolicy owns"), name
        assert is_bounded(
            chaos.create(key, {**obj, "metadata": {**obj["metadata"], "name": "new"}}, namespace="default"), "ClusterPolicy owns"
        )
    assert chaos.create(key, an_operand(kind, "mine"), namespace=OWN).ok
    assert chaos.delete(key, "mine", OWN).ok


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
def test_workloads_of_others_are_scaled_and_otherwise_left_alone(plane: ControlPlane, chaos: Cluster, kind: str) -> None:
    admin, key = Cluster.from_kubeconfig(plane.kubeconfig), f"apps/{kind.lower()}s"
    assert admin.create(key, a_workload(kind), namespace="kube-system").ok
    for replicas in (2, 0):
        answer = chaos.patch(key, "operator", {"spec": {"replicas": replicas}}, "kube-system")
        assert answer.ok, answer.message
    image = {"containers": [{"name": "c", "image": "registry.example/evil:1"}]}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "u-1"}
    for change in (
        {"spec": {"template": {"spec": image}}},
        {"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}},
        {"metadata": {"ownerReferences": [owner]}},
        {"metadata": {"labels": {"app": None}}},
        {"metadata": {"finalizers": ["example.com/never"]}},
    ):
        assert is_bounded(chaos.patch(key, "operator", change, "kube-system"), "only scale workloads"), change
    if kind == "Deployment":
        assert chaos.create(key, a_workload(kind), namespace=OWN).ok
        assert chaos.patch(key, "operator", {"spec": {"template": {"spec": image}}}, OWN).ok


def test_no_other_account_is_bounded(plane: ControlPlane, chaos: Cluster) -> None:
    suite = Cluster.from_kubeconfig(suite_kubeconfig(plane, "full"))
    assert suite.create("namespaces", a_namespace("gpu-conformance-20261121-100000-test-rest"), dry_run=True).ok
