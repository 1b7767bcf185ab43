import copy
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from conformance.cli import cleanup
from fixtures.cluster.client import Cluster
from fixtures.localcluster.control_plane.account import grant, shipped, suite_kubeconfig
from fixtures.localcluster.control_plane.components import AUDIT_LOG, SUITE_USER
from fixtures.localcluster.control_plane.control_plane import ControlPlane
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.ownership.proof_record import PROOF
from fixtures.policy.allowlist import cluster_uid
from fixtures.probes.workspace import Workspace
from fixtures.system.process import Process
from tests.simulator.localcluster.rights.targets import unbind
from tests.watching import PATIENCE

pytestmark = [pytest.mark.xdist_group("accounts"), pytest.mark.test_all]

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}


def until(cluster: Cluster, path: str, status: int) -> bool:
    """Whether a request comes to be answered so: the authorizer learns of a role a moment after it is written."""
    deadline = time.monotonic() + PATIENCE
    while cluster.request("GET", path).status != status:
        if time.monotonic() > deadline:
            return False
    return True


def read_only(plane: ControlPlane) -> Cluster:
    """The account with the read-only role alone: other tests give it the full one too."""
    cluster = Cluster.from_kubeconfig(suite_kubeconfig(plane, "read-only"))
    unbind(plane, "full")
    unbind(plane, "full")
    assert until(cluster, "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical", 403), "which only the full role may get"
    return cluster


def test_the_read_only_role_lists_and_changes_nothing(plane: ControlPlane) -> None:
    cluster = read_only(plane)
    assert cluster.page(cluster.path("nodes"), "").status == 200
    assert cluster.page(cluster.path("secrets"), "").status == 403
    refused = cluster.create("namespaces", NAMESPACE, dry_run=True)
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert 'User "system:serviceaccount:gpu-conformance:gpu-conformance" cannot create resource "namespaces"' in refused.message


def test_the_full_role_creates_what_probes_need_and_no_more(plane: ControlPlane) -> None:
    cluster = Cluster.from_kubeconfig(suite_kubeconfig(plane, "full"))
    own = "gpu-conformance-20261121-100000-test"
    assert cluster.create("namespaces", {**NAMESPACE, "metadata": {"name": own}}).status == 201
    assert cluster.create("secrets", SECRET, namespace=own).status == 403
    assert cluster.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}, dry_run=True).status == 403


def test_cleanup_removes_what_a_killed_run_left_with_the_runs_own_account(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig, run = suite_kubeconfig(plane, "full"), "20261121-100000-kill"
    cluster = Cluster.from_kubeconfig(kubeconfig)
    workspace = Workspace(cluster, run)
    left = workspace.namespace()
    proof = workspace._opened
    assert proof is not None
    proof.stop_renewing()
    dead = msgspec.json.decode(cluster.get(PRIORITY_CLASSES, proof.name).json()["metadata"]["annotations"][PROOF])
    dead["process"] = str(msgspec.structs.replace(Process.me(), pid=4_000_000))
    text = msgspec.json.encode(dead).decode()
    assert cluster.patch(PRIORITY_CLASSES, proof.name, {"metadata": {"annotations": {PROOF: text}}}).ok
    confirmed = ("--chaos-cluster", cluster_uid(cluster), "--yes")
    assert cleanup.main(["cleanup", "--kubeconfig", str(kubeconfig), "--run", run, *confirmed]) == 0, capsys.readouterr()
    assert {key for key, name in (("namespaces", left), (PRIORITY_CLASSES, proof.name)) if cluster.find(key, name)} == set()


def test_a_role_that_is_there_gets_other_rules_and_can_be_taken_away(plane: ControlPlane) -> None:
    cluster = read_only(plane)
    less = copy.deepcopy(shipped("read-only"))
    role = next(item for item in less if item["kind"] == "ClusterRole")
    for rule in role["rules"]:
        if "resources" in rule:
            rule["resources"] = [name for name in rule["resources"] if name != "nodes"]
    grant(plane, less)
    assert until(cluster, "/api/v1/nodes", 403)
    assert cluster.request("GET", "/api/v1/pods").status == 200
    suite_kubeconfig(plane, "read-only")
    assert until(cluster, "/api/v1/nodes", 200)


def test_the_audit_log_has_what_the_account_asked_for_and_nobody_else(plane: ControlPlane) -> None:
    suite, admin = Cluster.from_kubeconfig(suite_kubeconfig(plane, "read-only")), Cluster.from_kubeconfig(plane.kubeconfig)
    assert suite.request("GET", "/api/v1/secrets").status == 403
    assert admin.request("GET", "/api/v1/secrets").status == 200
    events = [msgspec.json.decode(line) for line in (plane.folder / AUDIT_LOG).read_bytes().splitlines()]
    assert {event["user"]["username"] for event in events} == {SUITE_USER}
    of_secrets = [event for event in events if (event.get("objectRef") or {}).get("resource") == "secrets"]
    assert {event["annotations"]["authorization.k8s.io/decision"] for event in of_secrets} == {"forbid"}


def test_lists_that_are_read_while_much_is_written_are_never_taken_for_old_ones(plane: ControlPlane) -> None:
    cluster = Cluster.from_kubeconfig(plane.kubeconfig)
    names = [f"written-{number}" for number in range(3)]

    def write(name: str) -> None:
        for turn in range(40):
            cluster.create("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}, namespace="default")
            cluster.patch("configmaps", name, {"data": {"turn": str(turn)}}, "default")
            cluster.delete("configmaps", name, "default")

    def read(name: str) -> None:
        for _ in range(40):
            cluster.find("configmaps", name, "default")
            list(cluster.each("configmaps", page=2))
            cluster.request("GET", cluster.path("configmaps", "default"), query={"labelSelector": "a=b"})

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(act, name) for act in (write, read) for name in names]:
            done.result()
