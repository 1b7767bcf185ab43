"""What a tenant writes against a real API server, and ledger, Lease and undos there: what it checks, and in which words it refuses."""

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from chaos.cluster import namespaces
from chaos.cluster.requests import Reviewer, await_object, merge
from chaos.ledger import authentic, config_maps
from chaos.ledger.undos.nodes import NodeLabels, NodeUnschedulable, identity
from chaos.ledger.undos.objects import AbsentArgs, NodeExists, ObjectPresent
from chaos.ledger.undos.workloads import WorkloadReplicas
from chaos.model.records import Entry, Line, MirrorRefused, State, encode, now
from chaos.safety.lease import HALT, halt, must_hold, read_lease
from chaos.safety.lease_keeper import LeaseKeeper
from chaos.surface.cli import main
from conformance.cli.main import main as suite
from deploy.chaos_rights import everything
from fixtures.cluster.access import Right
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.localcluster.control_plane.control_plane import ControlPlane
from fixtures.localcluster.install.release import BinariesMissing
from fixtures.ownership import owned
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX
from fixtures.ownership.read_proofs import read_proofs
from fixtures.policy.allowlist import cluster_uid
from fixtures.text import limits
from tests.chaos import leak_scan
from tests.chaos.ledger.simulated_cluster import RUN, Json, fetch, ledger, recover, replay, soon
from tests.tables import filled, table
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

DEPLOY = Path(__file__).parents[2] / "deploy"
PRODUCT = "nvidia.com/gpu.product"
TENANT = "tenant-of-a-test"
TABLE = filled(table(__file__), {"TENANT": TENANT})


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    try:
        started = ControlPlane.start(folder=tmp_path_factory.mktemp("plane"))
    except BinariesMissing as missing:
        pytest.skip(str(missing))
    with started:
        yield started.kubeconfig


@pytest.fixture
def plane(kubeconfig: Path) -> Cluster:
    return Cluster.from_kubeconfig(kubeconfig)


@pytest.fixture
def account(kubeconfig: Path, plane: Cluster, cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """A session of the suite's ServiceAccount, which has the deployed rights of chaos and no other."""
    applied = []
    for name in ("serviceaccount.yaml", "clusterrole-chaos.yaml"):
        for document in yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8")):
            group, _, _ = document["apiVersion"].rpartition("/")
            plural = re.sub("ys$", "ies", f"{document['kind'].lower()}s")
            key = f"{group}/{plural}" if group else plural
            namespace = document["metadata"].get("namespace", "")
            create(plane, key, document, namespace)
            applied.append((key, document["metadata"]["name"], namespace))
    yield session(plane, kubeconfig, "gpu-conformance-chaos", "gpu-conformance", tmp_path)
    for key, name, namespace in applied:
        plane.delete(key, name, namespace)


@pytest.fixture
def cluster(plane: Cluster) -> Iterator[Cluster]:
    """The control plane with a node, a workload and an operand, and without any of them afterwards."""
    for key, obj in TABLE["objects"].items():
        create(plane, key, obj, obj["metadata"].get("namespace", ""))
    assert plane.patch("nodes", "gpu-1", {"status": TABLE["status"]}, subresource="status").ok
    create(plane, "services", filled(TABLE["operand"], {"POLICY_UID": cluster_policy(plane)}))
    yield plane
    plane.delete("nodes", "gpu-1")
    recover(plane, seconds=PATIENCE, accept={(RUN, "A1", seq) for seq in range(50)})
    plane.delete("apps/deployments", "operator", "gpu-operator")
    plane.delete("services", "operand", "gpu-operator")


def session(plane: Cluster, kubeconfig: Path, account: str, namespace: str, folder: Path) -> Cluster:
    """A session of a ServiceAccount."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    token = plane.request("POST", plane.path("serviceaccounts", namespace, account, "token"), body=body).json()["status"]["token"]
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    file = folder / f"{account}.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return Cluster.from_kubeconfig(file)


def cluster_policy(plane: Cluster) -> str:
    """The UID of a ClusterPolicy, once its kind is served."""
    deadline = time.monotonic() + PATIENCE
    while plane.create("nvidia.com/clusterpolicies", TABLE["policy"]).status == 404:
        assert time.monotonic() < deadline, "the kind was never served"
        threading.Event().wait(0.2)
    return str(fetch(plane, "nvidia.com/clusterpolicies", "cluster-policy", "")["metadata"]["uid"])


def create(plane: Cluster, key: str, obj: Json, namespace: str = "gpu-operator") -> None:
    answer = plane.create(key, obj, namespace=namespace)
    assert answer.ok or answer.reason == "AlreadyExists", answer.message


def test_the_deployed_rights_are_enough_and_no_more_is_asked(account: Cluster, plane: Cluster, tmp_path: Path) -> None:
    administrators = fetch(account, "namespaces", namespaces.SHARED)["metadata"]["uid"]
    with pytest.raises(ApiTrouble, match=rf"namespace gpu-conformance-chaos \(UID {administrators}\) .* chaos\.namespaceUid"):
        namespaces.ensure_shared(account)
    comes_back(account, plane, tmp_path, administrators)
    lease = LeaseKeeper(account, RUN, lambda reason: None, administrators=administrators)
    lease.acquire()
    must_hold(account, RUN)
    halt(account)
    halt(account, on=False)
    lease.release()
    assert read_lease(account) is None
    assert account.get("namespaces", namespaces.SHARED).ok  # an administrator's
    denied = Reviewer(account).denied(everything())
    assert denied == []
    assert Reviewer(account).denied([Right.parse("get secrets"), Right.parse("patch configmaps in gpu-operator")]) != []


def comes_back(cluster: Cluster, plane: Cluster, tmp_path: Path, administrators: str) -> None:
    """A session with rights of chaos puts back what it changed; an administrator looks for what is left."""
    cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {PRODUCT: "H100"}}})
    before = leak_scan.scan(plane)
    namespaces.ensure_shared(cluster, administrators)
    book = ledger(tmp_path, cluster)
    node = fetch(cluster, "nodes", "gpu-1")
    book.arm("node.labels", NodeLabels().args(node, {PRODUCT: None, "chaos": "yes"}))
    book.arm("node.unschedulable", NodeUnschedulable().args(node, True))
    metadata = {"labels": {PRODUCT: None, "chaos": "yes"}}
    assert cluster.patch("nodes", "gpu-1", {"metadata": metadata, "spec": {"unschedulable": True}}).ok
    found = fetch(cluster, "apps/deployments", "operator", "gpu-operator")
    book.arm("workload.replicas", WorkloadReplicas().args("apps/deployments", found, 1))
    assert cluster.patch("apps/deployments", "operator", {"spec": {"replicas": 1}}, "gpu-operator").ok
    operand = fetch(cluster, "services", "operand", "gpu-operator")
    book.arm("object.present", ObjectPresent().args("services", operand))
    assert cluster.delete("services", "operand", "gpu-operator", uid=operand["metadata"]["uid"]).ok
    book.arm("object.absent", AbsentArgs(key="configmaps", namespace="gpu-operator", name="canary", run_id=RUN))
    owners = operand["metadata"]["ownerReferences"]  # without one, the account may create nothing in this namespace
    meta = {"name": "canary", "labels": owned.labels(RUN), "ownerReferences": owners}
    create(cluster, "configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    assert len(authentic.read_ledgers(cluster).open_entries) == 5
    assert recover(cluster, seconds=PATIENCE).clean
    assert before.differences(leak_scan.scan(plane)) == []
    assert fetch(cluster, "services", "operand", "gpu-operator")["spec"]["ports"][0]["port"] == 80


def test_a_node_that_never_comes_back_is_created_from_what_was_saved(cluster: Cluster, tmp_path: Path) -> None:
    node = fetch(cluster, "nodes", "gpu-1")
    book = ledger(tmp_path, cluster)
    book.arm("node.exists", NodeExists().args(node, 0.2))
    assert cluster.delete("nodes", "gpu-1").ok
    (left,) = replay(book, cluster, soon(4))
    assert "not Ready" in left.message
    assert fetch(cluster, "nodes", "gpu-1")["spec"]["podCIDR"] == node["spec"]["podCIDR"]


def test_a_stale_version_is_a_conflict(cluster: Cluster) -> None:
    seen = fetch(cluster, "nodes", "gpu-1")
    cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {"x": "newer"}}})
    with pytest.raises(ApiTrouble, match="409"):
        merge(cluster, "nodes", seen, {"metadata": {"labels": {"x": None}}})


def test_a_copy_that_was_deleted_refuses_the_act(cluster: Cluster, tmp_path: Path) -> None:
    book = ledger(tmp_path, cluster)
    assert cluster.delete("configmaps", config_maps.config_map_name(RUN), namespaces.SHARED).ok
    with pytest.raises(MirrorRefused):
        book.arm("node.labels", {"name": "gpu-1"})


# -- a tenant --------------------------------------------------------------------------------------------


def owners_of_fields(levels: int) -> list[Json]:
    """What a tenant may say of who owns the fields of his object, and the API server keeps: nobody can read a list that holds it whole."""
    fields: Json = {}
    for _ in range(levels):
        fields = {"f:x": fields}
    return [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}]


@pytest.fixture
def tenant(kubeconfig: Path, plane: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    for key, obj in TABLE["tenant"].items():
        create(plane, key, obj, obj["metadata"].get("namespace", ""))
    yield session(plane, kubeconfig, TENANT, TENANT, tmp_path)
    for key in ("clusterrolebindings", "clusterroles"):
        plane.delete(f"rbac.authorization.k8s.io/{key}", TENANT)
    for name in (TENANT, namespaces.SHARED):
        plane.delete("namespaces", name)
    for name in (TENANT, namespaces.SHARED):
        await_object(plane, "namespaces", name, "", soon(60), lambda found: "it is there" if found else "")


def test_a_tenant_who_copied_a_token_has_neither_lease_nor_halt_nor_ledger(
    cluster: Cluster, tenant: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run made the shared namespace and died before it wrote down the UID; somebody deleted it, and the tenant had read its token."""
    monkeypatch.setattr(namespaces, "AGREE_SECONDS", 1.0)
    announced = Proof.open(cluster, namespaces.SHARING, prefix=CHAOS_PREFIX, renewing=False).will_create("namespaces", namespaces.SHARED)
    proof = Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False)
    proof.vouch(lost := "0" * 64)
    metadata: Json = {"name": namespaces.SHARED, "annotations": announced}
    create(tenant, "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, "")
    theirs = fetch(cluster, "namespaces", namespaces.SHARED)["metadata"]["uid"]
    metadata = {"name": config_maps.config_map_name(RUN), "labels": {**owned.labels(RUN), **config_maps.COMPONENT}}
    create(tenant, "configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, namespaces.SHARED)
    metadata = {"name": "gpu-conformance-chaos", "annotations": {HALT: "true"}}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    create(tenant, "coordination.k8s.io/leases", lease, namespaces.SHARED)
    assert read_lease(cluster) is None
    done = recover(cluster, seconds=PATIENCE)
    assert any("the cluster no longer holds its undo" in line for line in done.unreadable), done
    assert lost in read_proofs(cluster)[RUN].digests  # an empty ledger says nothing of what was never written
    found = cluster.find("namespaces", namespaces.SHARED)
    assert found is None or found["metadata"]["uid"] != theirs
    proof.only(())
    assert proof.close() == ""


def test_what_a_tenant_writes_puts_no_pod_anywhere_and_keeps_nobody_from_working(
    cluster: Cluster, tenant: Cluster, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """He makes the namespace, the Lease and a ledger with a program of his own, and cannot make what would vouch for them."""
    cluster.delete("scheduling.k8s.io/priorityclasses", f"gpu-conformance-chaos-{RUN}")  # of the tests before, where a ledger was lost
    marked: Json = {"labels": owned.labels(RUN), "managedFields": owners_of_fields(limits.JSON_DEPTH)}
    create(tenant, "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespaces.SHARED, **marked}}, "")
    node = fetch(cluster, "nodes", "gpu-1")
    args = {**identity(node), "run_id": RUN, "image": "evil.example/shell:1", "undo": ["sh"], "check": ["true"], "expected": ""}
    cluster_is = cluster_uid(cluster)
    entry = Entry(
        seq=1, run_id=RUN, experiment="N2", cluster_uid=cluster_is, undo="host.command", args=args, expires_at="2099-01-01T00:00:00Z"
    )
    typed = msgspec.structs.replace(
        entry, seq=2, undo="host.kubelet", args={**identity(node), "pending": f"gpu-conformance-{RUN}-n2-kubelet-stop"}
    )
    lines = [Line(seq=one.seq, state=State.ARMED, at=now(), entry=one) for one in (entry, typed)]
    metadata = {"name": config_maps.config_map_name(RUN), **marked, "labels": {**owned.labels(RUN), **config_maps.COMPONENT}}
    data = {"N2.jsonl": b"".join(map(encode, lines)).decode()}
    create(tenant, "configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, namespaces.SHARED)
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "gpu-conformance-chaos", "annotations": {HALT: "true"}},
    }
    create(tenant, "coordination.k8s.io/leases", lease, namespaces.SHARED)
    vouching = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": f"gpu-conformance-chaos-{RUN}"},
        "value": 1,
    }
    assert tenant.create("scheduling.k8s.io/priorityclasses", vouching).status == 403
    before = fetch(cluster, "configmaps", config_maps.config_map_name(RUN), namespaces.SHARED)
    consent = ["--kubeconfig", str(kubeconfig), "--chaos-cluster", cluster_is, "--yes"]
    assert main(["chaos", "recover", *consent]) == 0
    assert main(["chaos", "status", "--kubeconfig", str(kubeconfig)]) == 0
    stated = capsys.readouterr().out
    assert stated.count(f"possible attack: entry {RUN}/N2/1 (host.command)") == 2
    assert f"possible attack: entry {RUN}/N2/2 (host.kubelet)" in stated
    assert suite(["cleanup", "--kubeconfig", str(kubeconfig), "--dry-run"]) == 10, "what is only labelled is told"
    assert f"NOT touched: namespaces {namespaces.SHARED} " in capsys.readouterr().out
    run = LeaseKeeper(cluster, "20261121-130000-beef", lambda reason: None)
    run.acquire()
    must_hold(cluster, "20261121-130000-beef")
    run.release()
    assert cluster.request("GET", cluster.path("pods")).json()["items"] == []
    there = [item["metadata"]["name"] for item in cluster.request("GET", cluster.path("namespaces")).json()["items"]]
    assert [name for name in there if namespaces.is_name_of_run(name, RUN)] == []
    assert fetch(cluster, "configmaps", config_maps.config_map_name(RUN), namespaces.SHARED) == before
