"""What ``deploy/`` installs, on real Kubernetes: strict field validation, the restricted Pod Security Standard, and rights that suffice."""

import json
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.catalogue import load_catalogue
from conformance.delivery import destinations
from conformance.delivery.node_labels import LABEL, UNTIL, NodeVerdict, apply, changes, expired, read_nodes
from conformance.delivery.outcome import DeliveryError, Outcome
from conformance.delivery.releases import release
from deploy import workload
from deploy.templates import resolved
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.localcluster.control_plane.account import ROLES, shipped, suite_kubeconfig
from fixtures.localcluster.control_plane.control_plane import ControlPlane
from fixtures.policy.allowlist import cluster_uid
from tests.deploy.test_packages import CASES
from tests.tables import each_row
from tests.watching import PATIENCE

pytestmark = [pytest.mark.xdist_group("accounts"), pytest.mark.test_all]

LABELLING = {"publishHours": 26}


def key(item: dict[str, Any]) -> str:
    """The resource key of an object's kind."""
    group, plural = item["apiVersion"].rpartition("/")[0], re.sub("y$", "ie", item["kind"].lower()) + "s"
    return f"{group}/{plural}" if group else plural


def objects(chosen: dict[str, Any]) -> list[dict[str, Any]]:
    values = workload.values(**chosen)
    trees = [*workload.beside(), *workload.grants(load_catalogue()), *workload.runs()]
    return [document for tree in trees if (document := resolved(tree, values)) is not None]


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Iterator[Cluster]:
    """An administrator who has installed the suite with node labels, where nothing was left of what other tests had installed."""
    cluster, installed, nodes = Cluster.from_kubeconfig(plane.kubeconfig), [workload.namespace(), *objects(LABELLING)], ("gpu-0", "gpu-1")
    uninstall(cluster, [*(item for role in ROLES for item in shipped(role)), *installed])
    for item in installed:
        answer = cluster.create(key(item), item, namespace=item["metadata"].get("namespace", ""))
        assert answer.ok, f"{item['kind']}: {answer.message}"
        assert answer.warnings == (), item["kind"]
    for name in nodes:
        assert cluster.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}).ok
    yield cluster
    uninstall(cluster, installed)
    for name in nodes:
        assert cluster.delete("nodes", name).ok


def uninstall(cluster: Cluster, items: Iterable[dict[str, Any]]) -> None:
    """Delete what is there, and wait until the namespace is gone with what is in it."""
    for item in items:
        if "namespace" not in item["metadata"]:
            answer = cluster.delete(key(item), item["metadata"]["name"])
            assert answer.ok or answer.status == 404, f"{item['kind']}: {answer.message}"
    with Observation(cluster, "namespaces", fields="metadata.name=gpu-conformance") as seen:
        assert seen.await_shown(time.monotonic() + PATIENCE, lambda objects: ", ".join(objects)) == ""


@pytest.fixture(scope="module")
def suite(plane: ControlPlane, admin: Cluster) -> Cluster:
    """The suite's account with exactly the rights that were installed, once the API server enforces the policy."""
    cluster, deadline = Cluster.from_kubeconfig(suite_kubeconfig(plane, objects=[])), time.monotonic() + PATIENCE
    early: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "early"}}
    while (answer := cluster.create("configmaps", early, namespace="gpu-conformance")).status != 403:
        assert time.monotonic() < deadline, "the policy was never enforced"
        admin.delete("configmaps", "early", "gpu-conformance")
    assert "whose names a run gives" in answer.message
    return cluster


@pytest.mark.parametrize("chosen", CASES.values(), ids=CASES)
def test_the_api_server_takes_every_object_as_it_is(admin: Cluster, chosen: dict[str, Any]) -> None:
    for item in objects(chosen):
        item["metadata"]["name"] += "-again"
        answer = admin.create(key(item), item, namespace=item["metadata"].get("namespace", ""), dry_run=True)
        assert (answer.status, answer.warnings) == (201, ()), f"{item['kind']}: {answer.message}"


def a_pod(chosen: dict[str, Any]) -> dict[str, Any]:
    spec = next(item for item in objects(chosen) if item["kind"] in ("Job", "CronJob"))["spec"]
    template = spec.get("jobTemplate", {}).get("spec", spec)["template"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "run", "labels": template["metadata"]["labels"]},
        "spec": template["spec"],
    }


@pytest.mark.parametrize("chosen", CASES.values(), ids=CASES)
def test_its_pod_meets_the_restricted_standard(admin: Cluster, chosen: dict[str, Any]) -> None:
    answer = admin.create("pods", a_pod({**chosen, "image": "registry.example/a:1"}), namespace="gpu-conformance", dry_run=True)
    assert (answer.status, answer.warnings) == (201, ()), answer.message


def test_a_pod_with_a_privilege_more_is_refused(admin: Cluster) -> None:
    pod = a_pod({})
    pod["spec"]["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": True}
    answer = admin.create("pods", pod, namespace="gpu-conformance", dry_run=True)
    assert answer.status == 403
    assert "violates PodSecurity" in answer.message


def test_its_account_writes_its_own_results_and_no_other_config_map(admin: Cluster, suite: Cluster, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("{}")
    for code in (1, 0):  # created, and then replaced
        destinations.write_config_map(suite, "gpu-conformance/gpu-conformance-result", tmp_path, Outcome(exit_code=code))
        held = admin.get("configmaps", "gpu-conformance-result", "gpu-conformance").json()
        assert json.loads(held["data"]["summary.json"])["gpuConformance"]["exitCode"] == code
    with pytest.raises(DeliveryError, match="403 Forbidden"):
        destinations.write_config_map(suite, "gpu-conformance/gpu-conformance-policy", tmp_path, Outcome(exit_code=0))
    with pytest.raises(DeliveryError, match="403 Forbidden"):
        destinations.write_config_map(suite, "default/gpu-conformance-result", tmp_path, Outcome(exit_code=0))


def test_its_account_labels_nodes_and_takes_the_labels_away(admin: Cluster, suite: Cluster) -> None:
    assert cluster_uid(suite) == cluster_uid(admin)
    wanted = changes(read_nodes(suite), {"gpu-0": NodeVerdict.PASSED}, 1_900_000_000)
    assert apply(suite, wanted) == []
    labels = admin.get("nodes", "gpu-0").json()["metadata"]["labels"]
    assert (labels[LABEL], labels[UNTIL]) == ("passed", "1900000000")
    assert apply(suite, expired(read_nodes(suite), 2_000_000_000)) == []
    assert not {LABEL, UNTIL} & set(admin.get("nodes", "gpu-0").json()["metadata"].get("labels") or {})


def test_its_account_takes_the_suites_own_taint_off_and_no_other(admin: Cluster, suite: Cluster) -> None:
    own, other = {"key": "gpu-conformance.io/startup", "effect": "NoSchedule"}, {"key": "node.cilium.io/a", "effect": "NoSchedule"}
    assert admin.patch("nodes", "gpu-0", {"spec": {"taints": [own, other]}}).ok
    assert suite.patch("nodes", "gpu-0", {"spec": {"taints": [own]}}).status == 403
    uid = admin.get("nodes", "gpu-0").json()["metadata"]["uid"]
    assert release(suite, "gpu-0", uid, [own["key"]], "20261121-100000-test", time.time() + 60) == (
        "gpu-conformance.io/startup:NoSchedule",
        "",
    )
    assert admin.get("nodes", "gpu-0").json()["spec"]["taints"] == [other]
    assert admin.patch("nodes", "gpu-0", {"spec": {"taints": None}}).ok


@each_row
def test_its_account_changes_nothing_else_of_a_node(admin: Cluster, suite: Cluster, change: dict[str, Any]) -> None:
    assert admin.patch("nodes", "gpu-1", {"metadata": {"labels": {"kubernetes.io/hostname": "gpu-1"}}}).ok
    answer = suite.patch("nodes", "gpu-1", change)
    assert answer.status == 403
    assert "whose names a run gives" in answer.message


def test_without_node_labels_nobody_may_write_to_nodes(admin: Cluster, suite: Cluster) -> None:
    role = "gpu-conformance-publish"
    assert admin.delete("rbac.authorization.k8s.io/clusterrolebindings", role).ok
    problems: list[str] = []
    for _ in range(50):  # an authorizer forgets a binding a moment after it is gone
        problems = apply(suite, changes(read_nodes(suite), {"gpu-1": NodeVerdict.FAILED}, 1_900_000_000 + len(problems)))
        if problems:
            break
        apply(admin, expired(read_nodes(admin), 2_000_000_000))
    assert "403 Forbidden" in problems[0]
