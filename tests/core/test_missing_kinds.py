"""What a saved snapshot does not hold is never taken for what the cluster does not have, whichever kind and requirement it is."""

import json
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_overloads, get_type_hints

import msgspec
import pytest

from conformance.coverage.missing_kinds import notes, one_namespace, unsaved_namespaces
from conformance.coverage.run import coverage_of_run
from fixtures.cluster.kinds import KINDS, kubectl_name
from fixtures.kubernetes.models import Condition, Json, Node, Pod
from fixtures.model.cluster import Scope
from fixtures.policy.model import Policy
from fixtures.simulator.builder import build
from fixtures.simulator.config.scenario import defect_names, load_defect, load_scenario, scenario_names
from fixtures.simulator.simulated_cluster import with_defects
from fixtures.snapshot.files import load_files
from fixtures.snapshot.state import Listing, Object, Snapshot
from fixtures.verdict.coverage import Floor
from fixtures.verdict.record import Access, Result, Verdict
from tests.builders import a_container, a_daemonset, a_namespace, a_node, a_pod, a_policy, a_snapshot
from tests.judging import CATALOGUE, READ, judge
from tests.requirements_offline import NOW, scope_of
from tests.tables import each_row

SCENARIOS = ("showcase", "dra", "amd", "kueue-inference", "h100-exclusive")
in_scenarios = pytest.mark.parametrize("scenario", ["showcase", *(pytest.param(one, marks=pytest.mark.test_all) for one in SCENARIOS[1:])])
FEW = ("nodes", "pods", "namespaces", "apps/daemonsets", "configmaps")
ABSENCE = re.compile(r"\b(no|none|not|without|missing|lacks|absent|nobody|nothing|cannot)\b")
SAID = "the snapshot holds no "
RED = (Verdict.FAILED, Verdict.WARNED)
_OF_EVERY_CLUSTER = ("resource.k8s.io", "node.k8s.io")


class Saved:
    """A cluster as a full snapshot tells of it: of every kind its objects, that there are none, or that it is not served."""

    def __init__(self, scenario: str, defect: str = "") -> None:
        scope = scope_of(load_scenario(scenario), [load_defect(defect)] if defect else ())
        self.policy: Policy = scope.policy
        self._taken_at = scope.snapshot.taken_at
        self._listings = {key: _stated(scope.snapshot.listing(key)) for key in KINDS}

    def judged(self, *, without: Collection[str] = (), refused: str = "", ids: Collection[str] = READ) -> dict[str, Result]:
        kept = [listing for key, listing in self._listings.items() if key not in (*without, refused)]
        if refused:
            kept.append(Listing(key=refused, trouble="Forbidden", message=f"list {refused}: forbidden"))
        return judge(Snapshot(kept, taken_at=self._taken_at, offline=not refused), self.policy, ids)


def _stated(listing: Listing[Object]) -> Listing[Object]:
    group = listing.key.rpartition("/")[0]
    custom = "." in group and group not in _OF_EVERY_CLUSTER
    return Listing(key=listing.key, served=False) if custom and not listing.items else listing


@cache
def saved(scenario: str) -> tuple[Saved, dict[str, Result]]:
    cluster = Saved(scenario)
    return cluster, cluster.judged()


def texts(result: Result) -> set[str]:
    return {result.message, *(subject.message or subject.observed for subject in result.subjects)}


def untrue(full: dict[str, Result], less: dict[str, Result], limit: str = SAID) -> Iterator[str]:
    """What a smaller snapshot says that the full one does not, and that does not say what was not read: ``limit``."""
    for id_, result in less.items():
        reported = texts(result)
        if result.verdict is not full[id_].verdict:
            honest = result.verdict in (Verdict.NOT_APPLICABLE, Verdict.INCONCLUSIVE) and any(limit in text for text in reported)
            if not honest:
                yield f"{id_}: {full[id_].verdict} became {result.verdict}: {result.message}"
        for text in reported - texts(full[id_]):
            if ABSENCE.search(text) and limit not in text:
                yield f"{id_}: {text}"


@in_scenarios
@pytest.mark.parametrize("key", KINDS)
def test_without_a_kind_nothing_is_reported_of_it(scenario: str, key: str) -> None:
    cluster, full = saved(scenario)
    assert list(untrue(full, cluster.judged(without=[key]))) == []


@pytest.mark.test_all
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("kept", [("nodes",), ("pods",), ("nodes", "pods"), FEW, ("apps/deployments",)], ids=" ".join)
def test_with_few_kinds_nothing_is_reported_of_the_others(scenario: str, kept: tuple[str, ...]) -> None:
    cluster, full = saved(scenario)
    assert list(untrue(full, cluster.judged(without=set(KINDS) - set(kept)))) == []


@pytest.mark.test_all
@pytest.mark.parametrize("name", [name for name in defect_names() if set(load_defect(name).trips) & set(READ)])
def test_a_defect_does_not_vanish_with_a_kind(name: str) -> None:
    defect = load_defect(name)
    cluster, ids = Saved(defect.scenario, name), [id_ for id_ in defect.trips if id_ in READ]
    full = cluster.judged(ids=ids)
    for key in {key for id_ in ids for key in (*CATALOGUE.by_id[id_].reads, *CATALOGUE.by_id[id_].optional_reads)}:
        assert list(untrue(full, cluster.judged(without=[key], ids=ids))) == []


@pytest.mark.test_all
@pytest.mark.parametrize("id_", READ)
def test_no_requirement_passes_without_a_kind_that_it_reads(id_: str) -> None:
    """But for dynamic allocation where nothing uses it: nodes are then judged by their capacity, and the text says what was not read.

    Without what proves a namespace to be the platform's it counts as a tenant's, and what passes then passes by the stricter rule.
    """
    requirement = CATALOGUE.by_id[id_]
    for scenario in SCENARIOS:
        cluster, full = saved(scenario)
        for key in (*requirement.reads, *requirement.optional_reads):
            result = cluster.judged(without=[key], ids=[id_])[id_]
            if key in requirement.tenant_proofs:
                assert result.verdict is full[id_].verdict
            elif result.verdict is Verdict.PASSED:
                assert key.startswith(("resource.k8s.io/", "scheduling.k8s.io/"))
                assert f"{SAID}{key}" in result.message
            else:
                assert result.verdict is Verdict.NOT_APPLICABLE
                assert result.reason_code == "NotInSnapshot" or result.reason_code == full[id_].reason_code == "NotServed"


@in_scenarios
@pytest.mark.parametrize("id_", READ)
def test_no_requirement_passes_or_fails_where_a_list_that_it_needs_was_refused(scenario: str, id_: str) -> None:
    requirement, (cluster, _) = CATALOGUE.by_id[id_], saved(scenario)
    for key in (*requirement.reads, *requirement.optional_reads):
        result = cluster.judged(refused=key, ids=[id_])[id_]
        if key in requirement.weighs:
            assert result.verdict not in (Verdict.PASSED, *RED), key
        else:
            assert (result.verdict, result.reason_code) == (Verdict.INCONCLUSIVE, "Forbidden"), key


LOST = {"type": "GPUMissing", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
LOOPS = {"name": "main", "restartCount": 900, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}


def sick() -> Node:
    """A node whose monitor misses a GPU."""
    node = a_node()
    node.status.conditions.append(msgspec.convert(LOST, Condition))
    return node


LATEST: dict[str, Any] = {"containers": [{"name": "plugin", "image": "registry.example.com/nvidia/k8s-device-plugin:latest"}]}

ESCAPES: dict[str, Any] = {"containers": [{"name": "toolkit", "image": "nvcr.io/nvidia/k8s/container-toolkit:v1.17.4"}]}


def with_an_old_runtime() -> Node:
    node = a_node()
    node.status.node_info.container_runtime_version = "containerd://1.7.29"
    return node


def _leaving(pod: Pod) -> Pod:
    pod.metadata.deletion_timestamp = "2020-01-01T00:00:00Z"
    return pod


def a_service_that_nobody_made() -> Json:
    model = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    made = {"name": "llama", "namespace": "team-a", "creationTimestamp": "2020-01-01T00:00:00Z"}
    return {"metadata": made, "spec": {"predictor": {"model": model}}}


BAD_ALONE: dict[str, dict[str, Any]] = {
    "FENCE-01": {"nodes": [a_node(taints=[])]},
    "FENCE-03": {"pods": [a_pod(tolerations=["*"])]},
    "FENCE-04": {"nodes": [a_node()], "pods": [], "daemonsets": [a_daemonset(tolerations=[])]},
    "FENCE-09": {"nodes": [sick()]},
    "FENCE-10": {"nodes": [a_node(taints=["ToBeDeletedByClusterAutoscaler=1700000000:NoSchedule"])]},
    "FENCE-12": {
        "nodes": [a_node(labels={"k8s.nvidia.com/uncordon-by": "NVSentinel", "k8s.nvidia.com/uncordon-at": "1700000000"})],
        "pods": [],
    },
    "OBS-10": {"nodes": [sick()]},
    "REQ-02": {"pods": [a_pod(devices={"nvidia.com/gpu": "1.5"})]},
    "REQ-05": {"pods": [a_pod(devices={"nvidia.com/gqu": "1"})]},
    "REQ-08": {"pods": [a_pod(devices=1)]},
    "REQ-10": {"pods": [a_pod(devices={"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1})]},
    "REQ-11": {
        "nodes": [],
        "pods": [
            a_pod(
                devices=1,
                node="gpu-0",
                phase="Failed",
                status={"reason": "UnexpectedAdmissionError", "message": "no healthy devices present"},
            )
        ],
    },
    "REQ-13": {"nodes": [], "pods": [a_pod(devices=1, node="gpu-0", phase="Pending", status={"startTime": "2020-01-01T00:00:00Z"})]},
    "REQ-14": {"nodes": [], "pods": [_leaving(a_pod(devices=1, node="gpu-0"))]},
    "REQ-15": {"pods": [a_pod(devices=2)]},
    "REQ-16": {"pods": [a_pod(containers=[a_container(devices=1, image="registry.example.com/train:latest")])]},
    "PSA-02": {"pods": [a_pod(devices=1, securityContext={"runAsUser": 0})], "namespaces": []},
    "PSA-05": {"pods": [a_pod(hostIPC=True)]},
    "OPS-01": {"nodes": [a_node()], "clusterpolicies": [{"metadata": {"name": "cluster-policy"}, "status": {"state": "notReady"}}]},
    "OPS-02": {"nodes": [a_node()], "pods": [], "daemonsets": [a_daemonset(status={"numberReady": 0})]},
    "OPS-03": {
        "nodes": [a_node()],
        "pods": [
            a_pod(namespace="gpu-operator", node="gpu-0", owner="ReplicaSet/gpu-operator-7d9f8b6c5d", status={"containerStatuses": [LOOPS]})
        ],
        "daemonsets": [],
    },
    "OPS-04": {"nodes": [a_node()], "pods": [], "daemonsets": [a_daemonset(**LATEST)]},
    "OPS-10": {"nodes": [a_node()], "runtimeclasses": [], "pods": [a_pod(devices=1, runtimeClassName="nvidia")]},
    "OPS-11": {"nodes": [a_node()], "pods": [], "daemonsets": [a_daemonset(**ESCAPES)]},
    "PLAT-02": {"pods": [], "inferenceservices": [a_service_that_nobody_made()]},
    "UPG-04": {"nodes": [with_an_old_runtime()]},
    "OPS-06": {"nodes": [a_node(labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-failed"})], "pods": []},
}
"""For each requirement whose findings stand without its other kinds: a snapshot that holds little more than one bad object."""


def test_what_is_bad_stands_where_the_catalogue_says_so() -> None:
    assert {id_ for id_, one in CATALOGUE.by_id.items() if one.excuses == []} - set(BAD_ALONE) == {"ADV-02", "DRA-04", "INV-05", "OPS-12"}


@pytest.mark.parametrize("id_", BAD_ALONE)
def test_what_is_bad_without_the_rest_stays_bad(id_: str) -> None:
    result = judge(a_snapshot(offline=True, **BAD_ALONE[id_]), a_policy(upgrade={"target": "1.38"}), [id_])[id_]
    assert result.verdict in RED
    assert result.reason_code == "NonConformant"


def test_a_requirement_that_must_judge_something_is_inconclusive_and_says_what_was_not_read() -> None:
    snapshot = a_snapshot(offline=True, nodes=[a_node()], pods=[])
    result = judge(snapshot, a_policy(required=["MIG-05"]), ["MIG-05"])["MIG-05"]
    assert (result.verdict, result.reason_code) == (Verdict.INCONCLUSIVE, "NotInSnapshot")


def in_one_list(file: Path, scenario: str, defect: str = "", without: Collection[str] = ()) -> tuple[Snapshot, Policy]:
    """A cluster as ``kubectl get a,b,c -A -o json`` saves it: no trace of kinds without objects, nor of those ``without``."""
    defects = [load_defect(defect)] if defect else []
    objects = with_defects(build(load_scenario(scenario), now=NOW), defects, NOW)
    gone = {(KINDS[key].group, KINDS[key].kind) for key in without}
    items = [one for one in objects if (one["apiVersion"].rpartition("/")[0], one["kind"]) not in gone]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return load_files(file), Saved(scenario, defect).policy


@each_row
def test_what_is_bad_or_warned_in_one_list_is_reported(tmp_path: Path, defect: str, id_: str, without: list[str]) -> None:
    snapshot, policy = in_one_list(tmp_path / "all.json", load_defect(defect).scenario, defect, without)
    assert judge(snapshot, policy, [id_])[id_].verdict in RED


def test_a_list_with_definitions_says_which_custom_kinds_are_not_served(tmp_path: Path) -> None:
    definitions = "apiextensions.k8s.io/customresourcedefinitions"
    snapshot, policy = in_one_list(tmp_path / "all.json", "showcase")
    assert not snapshot.listing("amd.com/deviceconfigs").served
    assert snapshot.lacks("nvidia.com/nvidiadrivers")  # defined, and without an object
    few = sum(result.reason_code == "NotInSnapshot" for result in judge(snapshot, policy).values())
    without, _ = in_one_list(tmp_path / "less.json", "showcase", without=[definitions])
    assert without.lacks("amd.com/deviceconfigs")
    assert few < sum(result.reason_code == "NotInSnapshot" for result in judge(without, policy).values()) / 1.3
    saved_objects = json.loads((tmp_path / "all.json").read_text())
    saved_objects["items"] = [one for one in saved_objects["items"] if one["metadata"]["name"] != "clusterpolicies.nvidia.com"]
    (tmp_path / "part.json").write_text(json.dumps(saved_objects))
    assert load_files(tmp_path / "part.json").lacks("amd.com/deviceconfigs")  # a ClusterPolicy shows that definitions are missing


@pytest.mark.parametrize(
    ("without", "share", "short"),
    [
        ((), 0.25, False),
        (set(KINDS) - {"nodes", "pods", "namespaces", "apps/daemonsets"}, 0.25, True),
        (set(KINDS) - {"nodes"}, 1.0, False),
    ],
    ids=["all kinds that have objects", "four kinds", "no bound"],
)
def test_a_snapshot_that_leaves_too_much_unjudged_is_a_shortfall(
    tmp_path: Path, without: Collection[str], share: float, short: bool
) -> None:
    snapshot, policy = in_one_list(tmp_path / "all.json", "healthy", without=without)
    results = list(judge(snapshot, policy).values())
    scope, floor = Scope(snapshot, policy), Floor(not_in_snapshot=share)
    reported = coverage_of_run(CATALOGUE, results, {}, access=Access.READ, floor=floor, scope=scope).shortfalls
    assert any("gate.maxNotInSnapshot" in sentence for sentence in reported) is short


def test_a_good_subject_that_depends_on_no_missing_kind_is_judged() -> None:
    """A node with a plugin's devices, beside one whose devices may be claimed."""
    bare = a_node("gpu-1", gpus=0, labels={"nvidia.com/gpu.present": "true"})
    result = judge(a_snapshot(offline=True, nodes=[a_node(), bare], pods=[]), a_policy(), ["ADV-01"])["ADV-01"]
    assert (result.verdict, result.judged, result.total) == (Verdict.NOT_APPLICABLE, 1, 2)
    (unclear,) = [subject for subject in result.subjects if subject.verdict is Verdict.INCONCLUSIVE]
    assert (unclear.name, "which may excuse it" in unclear.message) == ("gpu-1", True)


def test_nodes_whose_devices_nothing_offers_may_offer_them_by_slices() -> None:
    bare = a_node(gpus=0, labels={"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "8"})
    results = judge(a_snapshot(offline=True, nodes=[bare]), a_policy(), ["INV-01", "ADV-01", "ADV-03"])
    assert {result.reason_code for result in results.values()} == {"NotInSnapshot"}


@pytest.mark.parametrize(("namespace", "expected"), [("team-a", Verdict.FAILED), ("our-gpu-operator", Verdict.INCONCLUSIVE)])
def test_only_a_name_like_the_platforms_leaves_open_whose_the_namespace_is(namespace: str, expected: Verdict) -> None:
    """The ClusterPolicy may say that its operator runs there; a tenant who chooses such a name gains no pass by it."""
    snapshot = a_snapshot(offline=True, pods=[a_pod(namespace=namespace, tolerations=["*"])])
    result = judge(snapshot, a_policy(), ["FENCE-03"])["FENCE-03"]
    assert result.verdict is expected
    assert (SAID in result.message) == (expected is Verdict.INCONCLUSIVE)


def write_lists(folder: Path, objects: list[Json], key: str = "", namespace: str = "") -> None:
    """Save objects as the README's command does, a list of every kind: of one kind those of one namespace, or none."""
    for kind in KINDS.values():
        items = [one for one in objects if (one["apiVersion"].rpartition("/")[0], one["kind"]) == (kind.group, kind.kind)]
        if kind.key == key:
            items = [one for one in items if one["metadata"]["namespace"] == namespace]
        file = folder / f"{kubectl_name(kind.key)}.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))


@pytest.mark.parametrize("scenario", scenario_names())
def test_lists_of_all_namespaces_are_whole(tmp_path: Path, scenario: str) -> None:
    write_lists(tmp_path, build(load_scenario(scenario), now=NOW))
    snapshot = load_files(tmp_path)
    assert {key: snapshot.listing(key).message for key in KINDS if snapshot.listing(key).trouble} == {}


@pytest.mark.parametrize("namespace", ["gpu-operator", *(pytest.param(one, marks=pytest.mark.test_all) for one in ("", "kube-system"))])
@each_row
def test_a_list_of_one_namespace_is_not_the_clusters(tmp_path: Path, defect: str, key: str, namespace: str) -> None:
    scenario = load_scenario(load_defect(defect).scenario)
    objects = with_defects(build(scenario, now=NOW), [load_defect(defect)], NOW)
    policy = Saved(scenario.name, defect).policy
    write_lists(tmp_path, objects)
    full = judge(load_files(tmp_path), policy)
    write_lists(tmp_path, objects, key, namespace)
    less = judge(load_files(tmp_path), policy)
    reported = f"{key} could not be listed"
    assert list(untrue(full, less, reported)) == []
    for id_ in (id_ for id_ in READ if key in CATALOGUE.by_id[id_].reads):
        assert less[id_].verdict is Verdict.INCONCLUSIVE
        assert reported in less[id_].message


NAMESPACES = [a_namespace(name) for name in ("kube-system", "team-a", "team-b")]


@pytest.mark.parametrize(
    ("offline", "namespaces", "pods", "doubted"),
    [
        (True, NAMESPACES, [a_pod("a"), a_pod("b")], True),
        (True, NAMESPACES, [a_pod("a"), a_pod("b", "team-b")], False),
        (True, NAMESPACES, [a_pod("a", "kube-system")], False),
        (True, NAMESPACES[:2], [a_pod("a")], False),
        (True, NAMESPACES, [], False),
        (False, NAMESPACES, [a_pod("a")], False),
    ],
    ids=["one", "two", "the control plane's", "a small cluster", "no pod", "a cluster that was read"],
)
def test_pods_of_one_namespace_of_several_were_saved_without_the_others(
    offline: bool, namespaces: list[Any], pods: list[Any], doubted: bool
) -> None:
    reported = list(one_namespace(a_snapshot(offline=offline, namespaces=namespaces, pods=pods)))
    assert [("-A" in text, "team-a" in text) for text in reported] == ([(True, True)] if doubted else [])


def test_pods_in_namespaces_that_were_not_saved_are_a_shortfall() -> None:
    pods = [a_pod("a"), a_pod("b", "team-c")]
    assert [
        ("team-c" in text, "team-a" in text) for text in unsaved_namespaces(a_snapshot(offline=True, namespaces=NAMESPACES, pods=pods))
    ] == [(True, False)]
    for stated in (a_snapshot(namespaces=NAMESPACES, pods=pods), a_snapshot(offline=True, pods=pods)):
        assert list(unsaved_namespaces(stated)) == []


def test_an_empty_list_of_namespaces_holds_none_of_those_that_pods_are_in() -> None:
    (reported,) = unsaved_namespaces(a_snapshot(offline=True, namespaces=[], pods=[a_pod("a")]))
    assert "team-a" in reported


def test_a_note_lists_every_kind_that_was_not_saved_and_that_somebody_reads() -> None:
    (note,) = notes(CATALOGUE.by_id.values(), a_snapshot(offline=True, nodes=[a_node()]))
    read = {key for id_ in READ for key in CATALOGUE.by_id[id_].lists} - {"nodes"}
    assert all(key in note for key in read)
    assert f"({len(read)} kinds that requirements read)" in note
    assert list(notes(CATALOGUE.by_id.values(), a_snapshot(nodes=[a_node()]))) == []


# -- What ``listing("…")`` promises to a type checker is how the items of each kind are decoded


def test_overloads_are_the_shapes_of_the_kinds() -> None:
    promised: dict[str, object] = {}
    others: list[object] = []
    for overload in get_overloads(Snapshot.listing):
        hints = get_type_hints(overload)
        (item,) = get_args(hints["return"])
        if get_origin(hints["key"]) is Literal:
            promised |= dict.fromkeys(get_args(hints["key"]), item)
        else:
            others.append(item)
    assert promised == {key: kind.shape for key, kind in KINDS.items() if kind.shape != dict[str, Any]}
    assert others == [Object]
    assert set(get_args(Object)) == {*promised.values(), Json}


def test_objects_are_items_without_a_struct_of_their_own() -> None:
    queue = {"metadata": {"name": "a"}}
    snapshot = Snapshot([Listing(key="kueue.x-k8s.io/clusterqueues", items=[queue])], taken_at=0.0)
    assert snapshot.listing("kueue.x-k8s.io/clusterqueues").objects == snapshot.objects("kueue.x-k8s.io/clusterqueues") == [queue]
