"""What the suite takes for its own: what its proof knows by UID, and never what carries its name, its labels or its annotations."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance.dra.classes import ask_selectors
from conformance.net.fabric_probe import NAME, objects
from conformance.plugin.session import workspace_limits
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.model.dra.device_classes import DeviceClass
from fixtures.ownership import owned
from fixtures.ownership.proof_record import PROOF
from fixtures.ownership.read_proofs import find_leftovers, read_proofs, remove
from fixtures.policy.model import Network
from fixtures.probes.namespace_limits import DNS_PORT, NETWORK_POLICIES, QUOTA, QUOTAS, among
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.simulator.admission.plugins import chain
from fixtures.text import limits
from fixtures.verdict.subjects import Inconclusive
from tests.builders import a_cpu_node, a_node, a_scope
from tests.definitions import definitions
from tests.hostile.faults import effects
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.served import served
from tests.troubles import Trouble

RUN = "20261121-100000-test"
OTHER = "20261121-100000-else"
NAMESPACE = f"gpu-conformance-{RUN}-rest"
CLASSES = owned.PRIORITY_CLASSES
FLAVORS = "kueue.x-k8s.io/resourceflavors"


def a_namespace(name: str, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **meta}}


@contextmanager
def a_workspace(folder: Path, *troubles: Trouble) -> Iterator[tuple[Workspace, Cluster]]:
    with served(folder, definitions("kueue"), troubles) as (cluster, _):
        yield Workspace(cluster, RUN, folder=folder), cluster


def copied(cluster: Cluster) -> dict[str, Any]:
    """Labels and annotations of the run's namespace, as a tenant may read and write them."""
    meta = cluster.get("namespaces", NAMESPACE).json()["metadata"]
    return {"labels": meta["labels"], "annotations": meta["annotations"]}


# -- before use ---------------------------------------------------------------------------------------


FORGED = [
    {},
    {"labels": owned.labels(RUN)},
    {"labels": owned.labels(RUN), "annotations": {PROOF: "0" * 32}},
    {"labels": owned.labels(OTHER)},
]


@pytest.mark.parametrize("meta", FORGED, ids=["name", "labels", "token", "another run"])
def test_a_namespace_that_is_there_already_is_not_used(tmp_path: Path, meta: dict[str, Any]) -> None:
    with a_workspace(tmp_path) as (workspace, cluster):
        assert cluster.create("namespaces", a_namespace(NAMESPACE, **meta)).ok
        before = cluster.get("namespaces", NAMESPACE).json()
        name = workspace.namespace()
        assert re.fullmatch(f"{NAMESPACE}-[0-9a-f]{{8}}", name)
        assert workspace.namespace() == name
        assert read_proofs(cluster)[RUN].names == (("namespaces", name),)
        workspace.close()
        assert workspace.residue == []
        assert cluster.get("namespaces", name).status == 404
        assert cluster.get("namespaces", NAMESPACE).json() == before


def test_a_namespace_that_somebody_put_in_the_place_of_the_run_s_is_left_alone(tmp_path: Path) -> None:
    """He knows everything that can be read of it, the token included."""
    with a_workspace(tmp_path) as (workspace, cluster):
        workspace.namespace()
        known = copied(cluster)
        assert cluster.delete("namespaces", NAMESPACE).ok
        assert cluster.create("namespaces", a_namespace(NAMESPACE, **known)).ok
        views = read_proofs(cluster)
        found = find_leftovers(cluster, views)
        assert [item.name for item in found.unproven] == [NAMESPACE]
        workspace.close()
        assert workspace.residue == []
        assert cluster.get("namespaces", NAMESPACE).ok


def test_nothing_is_created_before_the_proof_knows_of_it(tmp_path: Path) -> None:
    with a_workspace(tmp_path, Trouble("patch", CLASSES, 403, 9)) as (workspace, cluster):
        with pytest.raises(ApiTrouble, match="could not be written"):
            workspace.namespace()
        assert "create namespaces" not in cluster.requests().by_verb_and_resource
        workspace.close()
        assert (workspace.residue, find_leftovers(cluster, read_proofs(cluster)).runs) == ([], frozenset())


def test_each_object_is_in_the_proof_by_its_uid_before_it_is_used(tmp_path: Path) -> None:
    with a_workspace(tmp_path) as (workspace, cluster):
        workspace.namespace()
        workspace.create(FLAVORS, {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "f"}, "spec": {}})
        view = read_proofs(cluster)[RUN]
        for key, name in (("namespaces", NAMESPACE), (FLAVORS, "f")):
            assert view.created_here(key, name, cluster.get(key, name).json()["metadata"]["uid"])
        workspace.clear()
        assert read_proofs(cluster)[RUN].names == (("namespaces", NAMESPACE),)
        workspace.close()
        assert read_proofs(cluster) == {}
        assert list(tmp_path.glob("created*.json")) == []


# -- afterwards ---------------------------------------------------------------------------------------


def test_what_lost_its_labels_is_still_the_run_s(tmp_path: Path) -> None:
    with a_workspace(tmp_path) as (workspace, cluster):
        workspace.namespace()
        assert cluster.patch("namespaces", NAMESPACE, {"metadata": {"labels": dict.fromkeys(owned.labels(RUN))}}).ok
        views = read_proofs(cluster)
        found = find_leftovers(cluster, views, RUN)
        assert [(item.name, item.run_id) for item in found.objects] == [(NAMESPACE, RUN)]
        assert remove(cluster, found, views) == []
        assert cluster.get("namespaces", NAMESPACE).status == 404
        assert read_proofs(cluster) == {}
        workspace.close()


def test_namespaces_filled_to_the_brim_hide_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant's namespaces of the suite's labels may make the list larger than one answer may be."""
    with a_workspace(tmp_path) as (workspace, cluster):
        workspace.namespace()
        for number in range(8):
            labelled = {"labels": owned.labels(RUN), "annotations": {"a": "x" * 5_000}}
            assert cluster.create("namespaces", a_namespace(f"full-{number}", **labelled)).ok
        views = read_proofs(cluster)
        monkeypatch.setattr(limits, "BODY_BYTES", 20_000)
        monkeypatch.setattr(owned, "_PAGE", 2)
        found = find_leftovers(cluster, views, RUN, keys=("namespaces",))
        assert [item.name for item in found.objects] == [NAMESPACE]
        assert len(found.unproven) == 8
        workspace.clear()
        workspace.close()


@pytest.mark.parametrize("finalizers", [[], ["kueue.x-k8s.io/managed"]], ids=["free", "held"])
def test_a_namespace_goes_where_workloads_are_not_listed_and_one_that_they_hold_is_reported(tmp_path: Path, finalizers: list[str]) -> None:
    """Discovery may be silent about Kueue where there is none: a list of its Workloads is then an error, not an empty one."""
    pod = {"metadata": {"name": "p", "finalizers": finalizers}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    with a_workspace(tmp_path, Trouble("list", "kueue.x-k8s.io/workloads", 503, 99)) as (workspace, cluster):
        workspace.namespace()
        assert cluster.create("pods", {"apiVersion": "v1", "kind": "Pod", **pod}, namespace=NAMESPACE).ok
        found = find_leftovers(cluster, read_proofs(cluster), RUN, keys=("namespaces",)).objects
        assert [item.name for item in owned.remove(cluster, list(found), seconds=1.0)] == [NAMESPACE] * len(finalizers)
        if finalizers:
            assert cluster.patch("pods", "p", {"metadata": {"finalizers": None}}, namespace=NAMESPACE).ok
        workspace.close()
        assert workspace.residue == []


# -- namespaces of a run: closed to all traffic but what a probe needs, and bounded in what they may hold --


GPU = "nvidia.com/gpu"


def items(cluster: Cluster, key: str, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.request("GET", cluster.path(key, namespace)).json()["items"]
    return found


def a_pod(name: str, devices: int = 0) -> dict[str, Any]:
    return probe_pod(PodShape(name=name, image="registry.example/probe:1", script="true", resources={GPU: devices} if devices else {}))


@pytest.mark.parametrize(("level", "suffix"), [("restricted", ""), ("privileged", ""), ("restricted", "quota")])
def test_every_namespace_lets_nothing_in_or_out(tmp_path: Path, level: str, suffix: str) -> None:
    with served(tmp_path) as (cluster, _):
        name = Workspace(cluster, RUN).namespace(level, suffix)
        [policy] = items(cluster, NETWORK_POLICIES, name)
        assert policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_every_namespace_is_bounded(tmp_path: Path) -> None:
    with served(tmp_path, admissions=chain()) as (cluster, _):
        workspace = Workspace(cluster, RUN, pods=2, devices={GPU: 1})
        workspace.start(a_pod("one", devices=1))
        refused = workspace.try_create("pods", a_pod("two", devices=1), workspace.namespace())
        assert (refused.status, f"exceeded quota: {QUOTA}" in refused.message) == (403, True)
        workspace.start(a_pod("two"))
        assert workspace.try_create("pods", a_pod("three"), workspace.namespace()).status == 403
        [quota] = items(cluster, QUOTAS, workspace.namespace())
        hard = quota["spec"]["hard"]
        assert {hard[key] for key in ("persistentvolumeclaims", "services.loadbalancers", "services.nodeports")} == {"0"}
        workspace.close()
        assert workspace.residue == []


@pytest.mark.parametrize("key", [NETWORK_POLICIES, QUOTAS])
def test_a_namespace_that_cannot_be_bounded_is_not_used(tmp_path: Path, key: str) -> None:
    with served(tmp_path, troubles=[Trouble("create", key, 403, 2)]) as (cluster, _):
        workspace = Workspace(cluster, RUN)
        for _ in range(2):
            with pytest.raises(Inconclusive, match=f"could not be limited .*{key}"):
                workspace.start(a_pod("one"))
        assert "create pods" not in cluster.requests().by_verb_and_resource
        assert workspace.namespace()  # the right was given meanwhile
        workspace.close()
        assert workspace.residue == []


def test_ranks_talk_to_each_other_and_ask_for_names_and_nothing_else(tmp_path: Path) -> None:
    labels = dict(objects(Network(), [NAME]))["services"]["spec"]["selector"]
    with served(tmp_path) as (cluster, _):
        workspace = Workspace(cluster, RUN)
        workspace.let_talk(NAME, labels)
        workspace.let_talk(NAME, labels)  # NET-05 and NET-06 share a run, and perhaps a namespace
        spec = next(item["spec"] for item in items(cluster, NETWORK_POLICIES, workspace.namespace()) if item["metadata"]["name"] == NAME)
        peers = [{"podSelector": {"matchLabels": labels}}]
        assert spec["podSelector"] == {"matchLabels": labels}
        assert spec["ingress"] == [{"from": peers}]
        [to_peers, names] = spec["egress"]
        assert to_peers == {"to": peers}
        assert {(port["protocol"], port["port"]) for port in names["ports"]} == {("UDP", DNS_PORT), ("TCP", DNS_PORT)}
        assert among(NAME, labels)["spec"] == spec


def test_there_is_room_for_a_gang_and_its_rival_and_a_pod_too_many() -> None:
    pods, devices = workspace_limits(a_scope(nodes=[a_node("a"), a_node("b"), a_cpu_node()]))
    assert devices[GPU] > 2 * 16 + 8
    assert pods >= 60 + 2 * 4
    assert workspace_limits(a_scope())[1] == {}


# -- a dry-run that something on the way turns into a creation proves nothing, and what it made does not stay --


CLAIMS = "resource.k8s.io/resourceclaims"
TENANT: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tenant"}}
DEFAULT: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
POD: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def in_earnest() -> list[Fault]:
    return [Fault(name="in earnest", verb="create", effect=effects.done_in_earnest, times=ALWAYS)]


def test_what_a_dry_run_created_and_what_stays_is_residue(tmp_path: Path) -> None:
    refused = Trouble("delete", "pods", 403, 99)
    with served(tmp_path, [TENANT], troubles=[refused]), through(tmp_path / "kubeconfig", tmp_path / "proxied", in_earnest()):
        workspace = Workspace(Cluster.from_kubeconfig(tmp_path / "proxied"), RUN, folder=tmp_path)
        with pytest.raises(Inconclusive):
            workspace.ask("pods", POD, "tenant")
        workspace.close()
        assert [line.startswith("pods tenant/p: ") for line in workspace.residue] == [True]


def test_a_claim_that_was_only_asked_for_does_not_stay(tmp_path: Path) -> None:
    with served(tmp_path, [DEFAULT]) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", in_earnest()):
        workspace = Workspace(Cluster.from_kubeconfig(tmp_path / "proxied"), RUN, folder=tmp_path)
        known = DeviceClass(name="gpu", expressions=('device.driver == "gpu"',), drivers=())
        assert "was created although a dry-run was asked for" in ask_selectors(workspace, known).words
        workspace.close()
        assert workspace.residue == []
        assert cluster.request("GET", cluster.path(CLAIMS, "default")).json()["items"] == []


def test_a_dry_run_is_answered_without_a_version(tmp_path: Path) -> None:
    with served(tmp_path, [TENANT]) as (cluster, _):
        workspace = Workspace(cluster, RUN, folder=tmp_path)
        assert workspace.ask("pods", POD, "tenant").ok
        workspace.close()
        assert cluster.get("pods", "p", "tenant").status == 404


def test_a_quota_that_nobody_has_counted_yet_is_waited_for(tmp_path: Path) -> None:
    with served(tmp_path, admissions=chain()) as (cluster, _):
        workspace = Workspace(cluster, RUN)
        namespace = workspace.namespace()
        plain, refusals = cluster.create, [2]

        def create(key: str, obj: dict[str, Any], **more: Any) -> Any:
            if key == "pods" and refusals[0]:
                refusals[0] -= 1
                hard = {"pods": "5"}
                status = {"status": {"hard": hard, "used": hard if not refusals[0] else {}}}
                assert cluster.patch(QUOTAS, QUOTA, status, namespace, "status").ok
            return plain(key, obj, **more)

        cluster.create = create  # type: ignore[method-assign]
        assert workspace.start(a_pod("one")) == "one"
        refusals[0] = 2
        assert workspace.ask("pods", a_pod("two"), namespace).ok
