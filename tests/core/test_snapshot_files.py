import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.coverage.missing_kinds import doubted_time
from fixtures.cluster.kinds import BUILT_IN, kubectl_name
from fixtures.snapshot.files import SnapshotError, load_files
from fixtures.snapshot.folder import SERVED, TAKEN_AT
from fixtures.snapshot.state import Snapshot
from fixtures.text import limits
from fixtures.verdict.record import Verdict
from fixtures.verdict.subjects import Inconclusive
from tests.builders import a_policy
from tests.judging import judge
from tests.tables import each_row

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-0"}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team-a"}, "spec": {"containers": [{"name": "c"}]}}


def write(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_single_object_a_list_and_documents_are_read(tmp_path: Path) -> None:
    write(tmp_path / "nodes.json", {"apiVersion": "v1", "kind": "List", "items": [NODE]})
    write(tmp_path / "pods.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: b}\n")
    snapshot = load_files(tmp_path)
    assert [node.name for node in snapshot.nodes] == ["gpu-0"]
    assert [pod.name for pod in snapshot.pods] == ["a", "b"]


@pytest.mark.parametrize("indent", [None, 4], ids=["a line each", "as kubectl writes"])
def test_json_that_several_commands_wrote_into_one_file_is_read_whole(tmp_path: Path, indent: int | None) -> None:
    odd = {**NODE, "metadata": {"name": "gpu-1", "annotations": {"note": "}\n{", "other": "]\r\n ["}}}
    lists = [{"apiVersion": "v1", "kind": "List", "items": items} for items in ([NODE, odd], [POD], [])]
    snapshot = load_files(write(tmp_path / "dump.json", "\n".join(json.dumps(one, indent=indent) for one in lists)))
    assert [node.name for node in snapshot.nodes] == ["gpu-0", "gpu-1"]
    assert [pod.name for pod in snapshot.pods] == ["p"]


@pytest.mark.parametrize(
    "broken", ["Error from server (Forbidden): pods is forbidden\n", '{"apiVersion": "v1", "kind": "List", "items": [\n']
)
def test_json_of_several_commands_with_something_else_between_is_not_read_in_part(tmp_path: Path, broken: str) -> None:
    path = write(tmp_path / "dump.json", f"{json.dumps(NODE, indent=4)}\n{broken}{json.dumps(POD, indent=4)}\n")
    with pytest.raises(SnapshotError, match="neither JSON nor YAML"):
        load_files(path)


def test_a_terminal_prompt_before_the_yaml_is_no_trouble(tmp_path: Path) -> None:
    path = write(tmp_path / "n.yaml", "$ kubectl get node gpu-0 -o yaml\napiVersion: v1\nkind: Node\nmetadata: {name: gpu-0}\n")
    assert load_files(path).nodes[0].name == "gpu-0"


@each_row
def test_what_is_not_kubernetes_is_one_line(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        load_files(write(tmp_path / "x.yaml", text))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_binary_missing_and_empty_places_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"\x00\xff\xfe")
    with pytest.raises(SnapshotError, match=r"not text|neither"):
        load_files(tmp_path / "x.json")
    with pytest.raises(SnapshotError, match="no such file"):
        load_files(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SnapshotError, match=r"no \.json"):
        load_files(tmp_path / "empty")


# -- what a folder tells beside objects ------------------------------------------------------------------

EMPTY = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": []}
POLICIES = "nvidia.com/clusterpolicies"
STATE = "nvidia.com/mig.config.state"
HOUR = 3600.0
WHOLE = "".join(f"{kubectl_name(key)}\n" for key in sorted(BUILT_IN))
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}


@pytest.mark.parametrize("name", ["clusterpolicies.nvidia.com.json", "clusterpolicies.nvidia.com.yaml"])
def test_an_empty_list_is_of_the_kind_that_its_file_is_named_after(tmp_path: Path, name: str) -> None:
    write(tmp_path / "nodes.json", NODE)
    write(tmp_path / name, EMPTY)
    snapshot = load_files(tmp_path)
    assert snapshot.objects(POLICIES) == []
    assert snapshot.lacks("mellanox.com/nicclusterpolicies")


OWNED = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "d", "namespace": "n", "ownerReferences": [{"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "p"}]},
}
POLICY = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}, "spec": {}}


@pytest.mark.parametrize("policies", [[POLICY], []], ids=["one", "none"])
@pytest.mark.parametrize("cut_off", ["daemonsets.apps.json", "a.json"])
def test_an_unreadable_file_says_nothing_of_kinds_that_have_a_whole_file_of_their_own(
    tmp_path: Path, policies: list[Any], cut_off: str
) -> None:
    write(tmp_path / "nodes.json", NODE)
    write(tmp_path / "clusterpolicies.nvidia.com.json", {**EMPTY, "items": policies})
    write(tmp_path / cut_off, json.dumps({**EMPTY, "items": [OWNED]})[:-1])
    snapshot = load_files(tmp_path)
    assert snapshot.objects(POLICIES) == policies
    with pytest.raises(Inconclusive, match="neither JSON nor YAML"):
        _ = snapshot.items("apps/daemonsets")


@each_row
def test_an_unreadable_file_may_hold_more_of_a_kind_that_no_file_lists_whole(tmp_path: Path, name: str, policies: Any) -> None:
    (tmp_path / "some").mkdir()
    write(tmp_path / "nodes.json", NODE)
    write(tmp_path / name, policies)
    write(tmp_path / "z.json", json.dumps({**EMPTY, "items": [OWNED]})[:-1])
    with pytest.raises(Inconclusive, match=r"z\.json: neither JSON nor YAML"):
        load_files(tmp_path).objects(POLICIES)


def test_a_list_with_more_to_come_is_not_the_list(tmp_path: Path) -> None:
    page = {"apiVersion": "v1", "kind": "NodeList", "metadata": {"remainingItemCount": 9}, "items": [{"metadata": {"name": "gpu-0"}}]}
    with pytest.raises(Inconclusive, match="one page"):
        _ = load_files(write(tmp_path / "nodes.json", page)).nodes


def test_yaml_that_was_cut_off_between_two_lines_is_not_the_list(tmp_path: Path) -> None:
    """kubectl sorts keys: ``kind: List`` stands below the items."""
    whole = f"apiVersion: v1\nitems:\n- {json.dumps(NODE)}\n- {json.dumps(POD)}\nkind: List\nmetadata: {{resourceVersion: ''}}\n"
    assert len(load_files(write(tmp_path / "all.yaml", whole)).pods) == 1
    write(tmp_path / "all.yaml", whole.partition("kind: List")[0])
    for kind in ("nodes", "pods"):
        with pytest.raises(Inconclusive, match=r"all\.yaml holds a list without its kind"):
            load_files(tmp_path).items(kind)


def test_a_complete_list_of_resources_tells_what_is_not_served(tmp_path: Path) -> None:
    write(tmp_path / "nodes.json", NODE)
    write(tmp_path / SERVED, WHOLE)
    snapshot = load_files(tmp_path)
    assert not snapshot.listing(POLICIES).served
    assert snapshot.objects(POLICIES) == []
    assert snapshot.lacks("pods")  # served, and not saved


@pytest.mark.parametrize(
    "text",
    ["", "incomplete\n", f"{WHOLE}incomplete\n", "nodes\npods\n", "NAME SHORTNAMES\nnodes,no\n", f"{WHOLE}clusterpolicies.nvid"],
    ids=["empty", "discovery failed", "discovery failed in part", "two kinds", "a table", "cut within a line"],
)
def test_a_list_of_resources_that_is_not_whole_tells_nothing(tmp_path: Path, text: str) -> None:
    write(tmp_path / "nodes.json", NODE)
    write(tmp_path / SERVED, text)
    assert load_files(tmp_path).lacks(POLICIES)


def test_a_kind_that_is_defined_in_the_cluster_is_served_whatever_the_list_of_resources_says(tmp_path: Path) -> None:
    names = [kubectl_name(key) for key in (POLICIES, "mellanox.com/nicclusterpolicies")]
    group, versions = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}, [{"name": "v1", "served": True}]
    made = [{**group, "metadata": {"name": name}, "spec": {"versions": versions}} for name in names]
    made[0]["status"] = ESTABLISHED
    write(tmp_path / "nodes.json", NODE)
    write(tmp_path / "customresourcedefinitions.apiextensions.k8s.io.json", {"apiVersion": "v1", "kind": "List", "items": made})
    write(tmp_path / SERVED, WHOLE)
    snapshot = load_files(tmp_path)
    assert snapshot.lacks(POLICIES)
    assert not snapshot.listing("mellanox.com/nicclusterpolicies").served


@pytest.mark.parametrize("names", [[], ["team-a"], ["default", "team-a"]], ids=["none", "one by name", "without kube-system"])
def test_namespaces_without_the_one_that_every_cluster_has_are_not_all(tmp_path: Path, names: list[str]) -> None:
    items = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
    write(tmp_path / "nodes.json", NODE)
    write(tmp_path / "namespaces.json", {**EMPTY, "items": items})
    with pytest.raises(Inconclusive, match="kube-system"):
        _ = load_files(tmp_path).namespaces


def test_namespaces_with_the_one_that_every_cluster_has_and_single_ones_are_taken_as_they_are(tmp_path: Path) -> None:
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("kube-system", "team-a")]
    write(tmp_path / "nodes.json", NODE)
    write(tmp_path / "namespaces.json", spaces[1])
    assert [one.name for one in load_files(tmp_path).namespaces] == ["team-a"]
    write(tmp_path / "namespaces.json", {**EMPTY, "items": spaces})
    assert [one.name for one in load_files(tmp_path).namespaces] == ["kube-system", "team-a"]


def test_files_beside_the_objects_may_be_anything(tmp_path: Path) -> None:
    write(tmp_path / "nodes.json", NODE)
    (tmp_path / SERVED).write_bytes(b"nodes\n\xff\xfe")
    (tmp_path / TAKEN_AT).mkdir()
    snapshot = load_files(tmp_path)
    assert snapshot.lacks(POLICIES)
    assert snapshot.taken_at == (tmp_path / "nodes.json").stat().st_mtime


@each_row
def test_an_empty_list_of_one_namespace_says_nothing_of_the_others(tmp_path: Path, name: str, document: dict[str, Any]) -> None:
    write(tmp_path / "nodes.json", NODE)
    (tmp_path / name).parent.mkdir(parents=True)
    write(tmp_path / name, document)
    snapshot = load_files(tmp_path)
    assert snapshot.lacks("pods")
    assert snapshot.lacks("apps/daemonsets")


def a_cluster(uid: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": uid}}, NODE]


def test_two_clusters_in_one_folder_are_not_one(tmp_path: Path) -> None:
    for name, uid in (("a", "1"), ("b", "2")):
        write(tmp_path / f"{name}.json", {"apiVersion": "v1", "kind": "List", "items": a_cluster(uid)})
    with pytest.raises(SnapshotError, match="two clusters"):
        load_files(tmp_path)
    write(tmp_path / "b.json", {"apiVersion": "v1", "kind": "List", "items": a_cluster("1")})
    assert load_files(tmp_path).cluster_uid == "1"


def versions(*pairs: tuple[str, str]) -> list[dict[str, Any]]:
    return [{**NODE, "metadata": {"name": "gpu-0", "uid": uid, "resourceVersion": version}} for uid, version in pairs]


@pytest.mark.parametrize("pairs", [(("1", "99"), ("1", "100")), (("1", "100"), ("1", "99"))])
def test_of_two_versions_of_an_object_the_newer_counts_whatever_the_files_are_called(tmp_path: Path, pairs: Any) -> None:
    for name, node in zip("ab", versions(*pairs), strict=True):
        labels = {"version": node["metadata"]["resourceVersion"]}
        write(tmp_path / f"{name}.json", {**node, "metadata": {**node["metadata"], "labels": labels}})
    assert load_files(tmp_path).nodes[0].metadata.label == {"version": "100"}


def test_two_objects_of_one_name_are_of_two_clusters_or_times(tmp_path: Path) -> None:
    for name, node in zip("ab", versions(("1", "9"), ("2", "9")), strict=True):
        write(tmp_path / f"{name}.json", node)
    with pytest.raises(Inconclusive, match=r"b\.json holds another Node gpu-0 .*two clusters"):
        _ = load_files(tmp_path).nodes


# -- lists that hold a part ------------------------------------------------------------------------------


def controller(kind: str, namespace: str, **status: int) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "c", "namespace": namespace}, "status": status}


def pod(name: str, namespace: str = "team-a", node: str = "gpu-0", phase: str = "Running") -> dict[str, Any]:
    return {**POD, "metadata": {"name": name, "namespace": namespace}, "spec": {"nodeName": node}, "status": {"phase": phase}}


def snapshot_of(folder: Path, *objects: dict[str, Any]) -> Any:
    pods = {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [one for one in objects if one["kind"] == "Pod"]}
    write(folder / "pods.json", pods)
    write(folder / "rest.json", {"apiVersion": "v1", "kind": "List", "items": [NODE, *(one for one in objects if one["kind"] != "Pod")]})
    return load_files(folder)


@each_row
def test_pods_that_their_controllers_count_and_nobody_saved_are_not_absent(tmp_path: Path, objects: list[Any], doubted: bool) -> None:
    snapshot = snapshot_of(tmp_path, *objects)
    if not doubted:
        assert len(snapshot.pods) == sum(one["kind"] == "Pod" for one in objects)
        return
    with pytest.raises(Inconclusive, match=r"by their status.*-n, -l"):
        _ = snapshot.pods


@pytest.mark.parametrize(
    ("objects", "doubted"),
    [
        ([pod("a", node="gpu-0")], False),
        ([pod("a", node="gpu-1")], True),
        ([pod("a", node="gpu-1", phase="Succeeded")], False),
        ([pod("a", node="gone"), *({**NODE, "metadata": {"name": f"n{n}"}} for n in range(9))], False),
        ([pod("a", node="gone"), *({**NODE, "metadata": {"name": f"n{n}"}} for n in range(8))], True),
    ],
    ids=["saved", "not saved", "ended", "one of ten gone", "one of nine gone"],
)
def test_nodes_that_pods_run_on_and_nobody_saved_are_not_absent(tmp_path: Path, objects: list[Any], doubted: bool) -> None:
    snapshot = snapshot_of(tmp_path, *objects)
    if not doubted:
        assert snapshot.nodes
        return
    with pytest.raises(Inconclusive, match="no node was saved"):
        _ = snapshot.nodes


def owned(name: str, owner: str, namespace: str = "team-a", claim: str = "", **metadata: str) -> dict[str, Any]:
    """A running pod of a controller, with a claim that was made for it."""
    kind, _, of = owner.partition("/")
    group = {"Job": "batch/v1", "PyTorchJob": "kubeflow.org/v1", "AdvancedDaemonSet": "apps.kruise.io/v1"}.get(kind, "apps/v1")
    reference = {"apiVersion": group, "kind": kind.removeprefix("Advanced"), "name": of, "controller": True}
    made = pod(name, namespace)
    made["metadata"] = {**made["metadata"], **metadata, "ownerReferences": [reference]}
    made["status"] = {**made["status"], "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": claim or None}]}
    return made


def ended(made: dict[str, Any]) -> dict[str, Any]:
    return {**made, "status": {**made["status"], "phase": "Succeeded"}}


def pending(made: dict[str, Any]) -> dict[str, Any]:
    return {**made, "spec": {}, "status": {**made["status"], "phase": "Pending"}}


def shared(name: str) -> dict[str, Any]:
    """A running pod that names a claim itself."""
    made = owned(name, "ReplicaSet/server-5d4")
    return {**made, "spec": {**made["spec"], "resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}}


def extended(name: str) -> dict[str, Any]:
    """A running pod for whose device resources the scheduler made a claim."""
    made = owned(name, "ReplicaSet/server-5d4")
    return {**made, "status": {**made["status"], "extendedResourceClaimStatus": {"resourceClaimName": f"{name}-extended"}}}


def named(kind: str, name: str, namespace: str = "team-a") -> dict[str, Any]:
    version = {"Job": "batch/v1", "ResourceClaim": "resource.k8s.io/v1", "ConfigMap": "v1", "Namespace": "v1"}.get(kind, "apps/v1")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **({"namespace": namespace} if namespace else {})}}


LISTS = {
    "ConfigMap": "configmaps",
    "DaemonSet": "apps/daemonsets",
    "StatefulSet": "apps/statefulsets",
    "Job": "batch/jobs",
    "ResourceClaim": "resource.k8s.io/resourceclaims",
}


def is_doubted(folder: Path, kind: str, *objects: dict[str, Any]) -> bool:
    """Whether a snapshot of these objects holds a part of the list of a kind. The list is there, if only an empty one."""
    key = LISTS[kind]
    group, _, plural = key.rpartition("/")
    write(folder / f"{plural}{'.' * bool(group)}{group}.json", EMPTY)
    snapshot = snapshot_of(folder, *objects)
    trouble = {listing: snapshot.listing(listing).message for listing in LISTS.values() if snapshot.listing(listing).trouble}
    assert set(trouble) <= {key}
    assert all("kubectl get without -A" in message for message in trouble.values())
    return bool(trouble)


def agents(*namespaces: str) -> list[dict[str, Any]]:
    return [owned(f"agent-{number}", f"DaemonSet/agent-{number}", namespace) for number, namespace in enumerate(namespaces)]


@pytest.mark.parametrize(
    ("kind", "objects", "doubted"),
    [
        ("DaemonSet", agents("a", "a"), True),
        ("DaemonSet", [*agents("a", "b", "b"), named("DaemonSet", "agent-0", "a")], True),
        ("StatefulSet", [owned("a", "StatefulSet/a"), owned("b", "StatefulSet/b")], True),
        ("Job", [owned("a", "Job/a"), owned("b", "Job/b", "team-b")], True),
        ("ResourceClaim", [owned("a", "ReplicaSet/r", claim="a-gpu"), owned("b", "ReplicaSet/r", claim="b-gpu")], True),
        ("ResourceClaim", [owned("a", "Job/a", claim="a-gpu"), owned("b", "Job/b", "team-b", claim="b-gpu")], True),
        ("ResourceClaim", [shared("a"), shared("b")], True),
        ("ResourceClaim", [extended("a"), extended("b")], True),
        ("DaemonSet", [*agents("a", "b"), named("DaemonSet", "agent-0", "a")], False),
        ("DaemonSet", [*agents("a", "a", "a", "a"), *(named("DaemonSet", f"agent-{number}", "a") for number in (0, 1))], False),
        (
            "DaemonSet",
            [*agents("b", "c", *["a"] * 18), *(named("DaemonSet", f"agent-{number}", "a") for number in range(2, 20))],
            False,
        ),
        ("DaemonSet", [owned("a", "AdvancedDaemonSet/a"), owned("b", "AdvancedDaemonSet/b")], False),
        ("DaemonSet", [ended(one) for one in agents("a", "b")], False),
        ("DaemonSet", [owned(name, f"DaemonSet/{name}", deletionTimestamp="2026-11-20T12:00:00Z") for name in "ab"], False),
        ("Job", [owned(name, f"Job/{name}") for name in "abcd"], False),
        ("ResourceClaim", [owned(name, "PyTorchJob/train", claim=f"{name}-gpu") for name in "abcdefgh"], False),
        ("ResourceClaim", [ended(owned(name, f"Job/{name}", f"team-{name}", claim=f"{name}-gpu")) for name in "abcd"], False),
        ("ResourceClaim", [pending(owned(name, "ReplicaSet/r", claim=f"{name}-gpu")) for name in "abcd"], False),
        ("ResourceClaim", [owned(name, "ReplicaSet/r") for name in "abcd"], False),
        (
            "ResourceClaim",
            [
                *(owned(name, "ReplicaSet/r", claim=f"{name}-gpu") for name in "abcd"),
                *(named("ResourceClaim", f"{name}-gpu") for name in "ef"),
            ],
            False,
        ),
    ],
    ids=[
        *(
            "none",
            "one namespace",
            "no StatefulSet",
            "Jobs of two teams",
            "claims of a Deployment",
            "claims of two teams",
            "a shared claim",
        ),
        *("claims for resources", "one that was deleted meanwhile", "half", "two of twenty", "another API", "pods that ended"),
        *("pods that are deleted", "Jobs of one team", "a training run that ended meanwhile", "pods that ended long ago"),
        *("pods that hold no node", "no claim needed", "a roll-out meanwhile"),
    ],
)
def test_what_pods_name_and_nobody_saved_is_not_absent(tmp_path: Path, kind: str, objects: list[Any], doubted: bool) -> None:
    assert is_doubted(tmp_path, kind, *objects) is doubted


def test_what_pods_name_says_nothing_of_a_kind_that_was_not_saved(tmp_path: Path) -> None:
    assert snapshot_of(tmp_path, *agents("a", "b")).lacks("apps/daemonsets")


ROOT_CERTIFICATE = "kube-root-ca.crt"
SPACES = [named("Namespace", name, "") for name in ("default", "gpu-operator", "kube-public", "kube-system")]


def certificates(*namespaces: str) -> list[dict[str, Any]]:
    return [named("ConfigMap", ROOT_CERTIFICATE, namespace) for namespace in namespaces]


def ending(namespace: dict[str, Any]) -> dict[str, Any]:
    return {**namespace, "metadata": {**namespace["metadata"], "deletionTimestamp": "2026-11-20T12:00:00Z"}}


@pytest.mark.parametrize(
    ("objects", "doubted"),
    [
        (SPACES, True),
        ([*SPACES, named("ConfigMap", "device-plugin-config", "gpu-operator")], True),
        ([*SPACES, *certificates("kube-system")], True),
        ([*SPACES, *certificates("default", "kube-system")], False),
        ([*SPACES, named("ConfigMap", "extension-apiserver-authentication", "kube-system")], False),
        ([*SPACES[2:], *certificates("kube-system")], False),
        ([*map(ending, SPACES[:3]), SPACES[3], *certificates("kube-system")], False),
        ([], False),
    ],
    ids=["none", "the operator's", "kube-system's", "two created meanwhile", "no certificates", "one more", "others end", "no namespaces"],
)
def test_config_maps_that_every_namespace_has_and_nobody_saved_are_not_absent(tmp_path: Path, objects: list[Any], doubted: bool) -> None:
    assert is_doubted(tmp_path, "ConfigMap", *objects) is doubted


# -- when it was taken -----------------------------------------------------------------------------------


def wedged(at: float, *, managed: bool = True, heartbeat: float | None = None) -> dict[str, Any]:
    """A node whose MIG state has been pending since ``at``."""
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/mig.config": "all-1g.10gb", STATE: "pending"}
    entry = {"manager": "m", "time": text_of(at), "fieldsV1": {"f:metadata": {"f:labels": {f"f:{STATE}": {}}}}}
    conditions = [{"type": "Ready", "status": "True", "lastHeartbeatTime": text_of(heartbeat)}] if heartbeat is not None else []
    metadata = {"name": "gpu-0", "labels": labels, **({"managedFields": [entry]} if managed else {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"conditions": conditions}}


def text_of(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def mig_01(folder: Path) -> tuple[Verdict, str]:
    result = judge(load_files(folder), a_policy(), ["MIG-01"])["MIG-01"]
    return result.verdict, result.message


TAKEN = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(("hours", "expected"), [(3.0, Verdict.FAILED), (0.05, Verdict.INCONCLUSIVE)])
def test_a_wedged_mig_change_is_known_by_saved_managed_fields(tmp_path: Path, hours: float, expected: Verdict) -> None:
    write(tmp_path / "nodes.json", wedged(TAKEN - hours * HOUR))
    write(tmp_path / TAKEN_AT, f"{text_of(TAKEN)}\n")
    verdict, message = mig_01(tmp_path)
    assert verdict is expected
    assert ("it is stuck" if hours > 1 else "all-1g.10gb: pending for") in message


def test_without_managed_fields_the_missing_option_is_named(tmp_path: Path) -> None:
    write(tmp_path / "nodes.json", wedged(TAKEN, managed=False))
    verdict, message = mig_01(tmp_path)
    assert verdict is Verdict.INCONCLUSIVE
    assert "--show-managed-fields" in message


def test_a_copy_of_a_snapshot_is_not_younger_than_what_it_holds(tmp_path: Path) -> None:
    """Unpacked weeks later its files are new: a change of three minutes then has not been under way for weeks."""
    file = write(tmp_path / "nodes.json", wedged(TAKEN - 180, heartbeat=TAKEN))
    os.utime(file, (TAKEN + 14 * 24 * HOUR,) * 2)
    verdict, message = mig_01(tmp_path)
    assert verdict is Verdict.INCONCLUSIVE
    assert "pending for 8 min" in message
    assert load_files(tmp_path).taken_at == pytest.approx(TAKEN + 300)


@each_row
def test_a_stated_time_that_the_objects_contradict_is_reported_and_does_not_count(
    tmp_path: Path, stated: float, heartbeat: float | None, doubt: str, judged_as: float
) -> None:
    node = wedged(TAKEN - 180, heartbeat=heartbeat)
    node["metadata"]["creationTimestamp"] = text_of(TAKEN - 180)
    file = write(tmp_path / "nodes.json", node)
    write(tmp_path / TAKEN_AT, f"{text_of(stated)}\n")
    os.utime(file, (TAKEN + HOUR,) * 2)
    snapshot = load_files(tmp_path)
    snapshot.save(tmp_path / "handed-on")
    for one in (snapshot, Snapshot.load(tmp_path / "handed-on")):
        assert one.taken_at == pytest.approx(judged_as)
        assert doubt in one.time_doubt
        assert bool(one.time_doubt) == bool(doubt)
        assert [doubt in text for text in doubted_time(one)] == ([True] if doubt else [])


def test_where_every_kubelet_is_silent_the_stated_time_counts(tmp_path: Path) -> None:
    node = wedged(TAKEN - 180, heartbeat=TAKEN - 24 * HOUR)
    node["status"]["conditions"][0]["status"] = "Unknown"
    write(tmp_path / "nodes.json", node)
    write(tmp_path / TAKEN_AT, f"{text_of(TAKEN)}\n")
    assert (load_files(tmp_path).taken_at, load_files(tmp_path).time_doubt) == (TAKEN, "")


def test_yaml_that_takes_minutes_is_refused_and_the_same_as_json_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "YAML_BYTES", 1000)
    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": f"gpu-{number}"}} for number in range(100)]}
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump(nodes))
    with pytest.raises(SnapshotError, match="takes minutes to read: save it as JSON"):
        load_files(tmp_path / "nodes.yaml")
    (tmp_path / "nodes.json").write_text(json.dumps(nodes))
    assert len(load_files(tmp_path / "nodes.json").nodes) == 100
