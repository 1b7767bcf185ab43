"""Each undo by itself: what it restores, what it leaves alone, what it says; and changes while somebody else writes."""

import subprocess
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.activities.base import change, must_be_alone
from chaos.ledger.bounds import REGISTRY, Terms
from chaos.ledger.undos import agents as module
from chaos.ledger.undos.agents import PublishedArgs, SlicesPublished, offered
from chaos.ledger.undos.nodes import NodeLabels, NodeUnschedulable
from chaos.ledger.undos.objects import AbsentArgs, NodeExists, ObjectAbsent, ObjectPresent
from chaos.ledger.undos.workloads import PodsReplaced, WorkloadReplicas
from chaos.model.records import UndoRefused
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned
from fixtures.policy.model import Policy
from fixtures.simulator.server.store import Store
from tests.chaos.ledger.simulated_cluster import RUN, Json, acting, config_map, daemon_pod, fetch, ledger, node, plan, soon, world
from tests.chaos.shipped import EXPERIMENTS

PRODUCT = "nvidia.com/gpu.product"


def patch_node(cluster: Cluster, patch: Json, name: str = "gpu-1") -> None:
    assert cluster.patch("nodes", name, patch).ok


def put_back(name: str, cluster: Cluster, args: Any) -> str:
    undo = REGISTRY[name]
    undo.undo(cluster, args, soon())
    return undo.verify(cluster, args, soon(1))


def test_labels_of_a_node_get_back_what_was_removed_set_and_overwritten(cluster: Cluster) -> None:
    undo, name = NodeLabels(), "labels"
    patch_node(cluster, {"metadata": {name: {"a": "1", "b": "2", "kept": "3"}}})
    before = fetch(cluster, "nodes", "gpu-1")["metadata"][name]
    args = undo.args(fetch(cluster, "nodes", "gpu-1"), {"a": None, "b": "other", "c": "new"})
    patch_node(cluster, {"metadata": {name: args.ours}})
    assert undo.verify(cluster, args, soon(0)) == "a: absent instead of '1'; b: 'other' instead of '2'; c: 'new' instead of absent"
    assert put_back(undo.name, cluster, args) == ""
    assert fetch(cluster, "nodes", "gpu-1")["metadata"][name] == before
    assert put_back(undo.name, cluster, args) == ""  # again: nothing to do


def test_another_node_of_the_same_name_is_left_alone_and_the_same_machine_is_not_another(cluster: Cluster, store: Store) -> None:
    undo = NodeLabels()
    args = undo.args(fetch(cluster, "nodes", "gpu-1"), {"x": "ours"})
    for machine, same in (("machine-gpu-1", True), ("machine-other", False)):
        cluster.delete("nodes", "gpu-1")
        fresh = node("gpu-1", x="ours")
        fresh["metadata"]["uid"], fresh["status"]["nodeInfo"]["systemUUID"] = f"uid-{machine}", machine
        store.put_initial(fresh)
        if same:
            assert put_back("node.labels", cluster, args) == ""
        else:
            with pytest.raises(UndoRefused, match="another one"):
                undo.undo(cluster, args, soon())
            assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"]["x"] == "ours"
    cluster.delete("nodes", "gpu-1")
    with pytest.raises(UndoRefused, match="gone"):
        undo.undo(cluster, args, soon())


def test_a_node_is_uncordoned_when_its_taint_is_gone_too(cluster: Cluster) -> None:
    undo = NodeUnschedulable()
    args = undo.args(fetch(cluster, "nodes", "gpu-1"), True)
    taints = fetch(cluster, "nodes", "gpu-1")["spec"]["taints"]
    patch_node(cluster, {"spec": {"taints": [*taints, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}})
    assert "still there" in undo.verify(cluster, args, soon(0.1))
    patch_node(cluster, {"spec": {"taints": taints}})
    assert undo.verify(cluster, args, soon(0.1)) == ""


# -- the Node object -----------------------------------------------------------------------------------


def deleted_node(cluster: Cluster, wait: float) -> Any:
    patch_node(cluster, {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "by hand"}}, "spec": {"unschedulable": True}})
    args = NodeExists().args(fetch(cluster, "nodes", "gpu-1"), wait)
    assert cluster.delete("nodes", "gpu-1", uid="uid-gpu-1").ok
    return args


def registered(cluster: Cluster) -> None:
    """What a kubelet does that finds its node gone."""
    fresh = node("gpu-1")
    del fresh["metadata"]["uid"]
    fresh["metadata"]["labels"] = {"kubernetes.io/hostname": "gpu-1"}
    fresh["spec"] = {}
    assert cluster.create("nodes", fresh).ok
    assert cluster.patch("nodes", "gpu-1", {"status": fresh["status"]}, subresource="status").ok


def test_a_node_that_registers_anew_gets_back_what_people_wrote_on_it(cluster: Cluster) -> None:
    before = fetch(cluster, "nodes", "gpu-1")
    args = deleted_node(cluster, wait=20)
    timer = threading.Timer(0.2, lambda: registered(cluster))
    timer.start()
    assert put_back("node.exists", cluster, args) == ""
    timer.join()
    after = fetch(cluster, "nodes", "gpu-1")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["metadata"]["labels"] == {**before["metadata"]["labels"], "team": "a"}
    assert after["metadata"]["annotations"]["note"] == "by hand"
    assert (after["spec"]["taints"][0]["key"], after["spec"]["unschedulable"]) == ("nvidia.com/gpu", True)


def test_another_machine_that_took_the_name_gets_nothing_of_what_the_node_had(cluster: Cluster) -> None:
    """Its labels and taints tell of other devices: a cloud gives a new machine the name of one that is gone."""
    args = deleted_node(cluster, wait=0.2)
    registered(cluster)
    assert cluster.patch("nodes", "gpu-1", {"status": {"nodeInfo": {"systemUUID": "another"}}}, subresource="status").ok
    with pytest.raises(UndoRefused, match="node gpu-1 is another machine now"):
        REGISTRY["node.exists"].undo(cluster, args, soon())
    assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"] == {"kubernetes.io/hostname": "gpu-1"}


@pytest.mark.parametrize("recorded", [True, False])
def test_a_node_that_does_not_say_which_machine_it_is_is_asked_again_if_it_once_did(cluster: Cluster, recorded: bool) -> None:
    args = msgspec.structs.replace(deleted_node(cluster, wait=0.2), **({} if recorded else {"machine": ""}))
    registered(cluster)
    assert cluster.patch("nodes", "gpu-1", {"status": {"nodeInfo": {"systemUUID": ""}}}, subresource="status").ok
    if not recorded:
        assert put_back("node.exists", cluster, args) == ""
        return
    with pytest.raises(ApiTrouble, match="does not say yet which machine it is"):
        REGISTRY["node.exists"].undo(cluster, args, soon())
    timer = threading.Timer(0.1, lambda: cluster.patch("nodes", "gpu-1", {"status": node("gpu-1")["status"]}, subresource="status"))
    timer.start()
    assert put_back("node.exists", cluster, msgspec.structs.replace(args, wait_seconds=20.0)) == ""
    timer.join()
    assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"]["team"] == "a"


def test_a_node_that_was_never_deleted_is_left_as_it_is(cluster: Cluster) -> None:
    args = NodeExists().args(fetch(cluster, "nodes", "gpu-1"), 20)
    patch_node(cluster, {"metadata": {"labels": {PRODUCT: None}}})
    version = fetch(cluster, "nodes", "gpu-1")["metadata"]["resourceVersion"]
    assert put_back("node.exists", cluster, args) == ""
    assert fetch(cluster, "nodes", "gpu-1")["metadata"]["resourceVersion"] == version


# -- whole objects -------------------------------------------------------------------------------------


def canary(**labels: str) -> Json:
    meta = {"name": "canary", "namespace": "gpu-operator", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def test_what_the_run_created_is_deleted_and_anothers_of_that_name_is_not(cluster: Cluster) -> None:
    args = AbsentArgs(key="configmaps", namespace="gpu-operator", name="canary", run_id=RUN)
    assert put_back("object.absent", cluster, args) == ""  # never created
    cluster.create("configmaps", canary(**owned.labels(RUN)), namespace="gpu-operator")
    assert ObjectAbsent().verify(cluster, args, soon(0)) == "it is still there"
    assert put_back("object.absent", cluster, args) == ""
    assert cluster.get("configmaps", "canary", "gpu-operator").status == 404
    cluster.create("configmaps", canary(**owned.labels("another-run")), namespace="gpu-operator")
    assert put_back("object.absent", cluster, args) == ""
    assert cluster.get("configmaps", "canary", "gpu-operator").ok


def test_what_stands_in_no_namespace_is_deleted_by_proof_and_never_by_its_label(cluster: Cluster) -> None:
    """A tenant's label on somebody's PriorityClass is no reason to delete it."""
    args = AbsentArgs(key="scheduling.k8s.io/priorityclasses", name="urgent", run_id=RUN)
    urgent: Json = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent", "labels": owned.labels(RUN)},
        "value": 10,
    }
    cluster.create("scheduling.k8s.io/priorityclasses", urgent)
    assert put_back("object.absent", cluster, args) == "nothing proves that the run created it: it is left as it is"
    assert cluster.get("scheduling.k8s.io/priorityclasses", "urgent").ok


def test_what_a_finalizer_holds_is_reported(cluster: Cluster) -> None:
    args = AbsentArgs(key="configmaps", namespace="gpu-operator", name="canary", run_id=RUN)
    held = canary(**owned.labels(RUN))
    held["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create("configmaps", held, namespace="gpu-operator")
    assert put_back("object.absent", cluster, args) == "it is still there, held by example.com/hold"


def test_an_object_that_its_operator_has_made_again_is_left_alone(cluster: Cluster, store: Store) -> None:
    undo = ObjectPresent()
    args = undo.args("configmaps", fetch(cluster, "configmaps", "operand", "gpu-operator"))
    cluster.delete("configmaps", "operand", "gpu-operator")
    store.put_initial(config_map("operand", key="newer"))
    assert put_back("object.present", cluster, args) == ""
    assert fetch(cluster, "configmaps", "operand", "gpu-operator")["data"] == {"key": "newer"}


@pytest.mark.parametrize(("owner_uid", "kept"), [("uid-gpu-operator", True), ("uid-of-a-dead-one", False)])
def test_an_owner_is_named_again_only_while_it_lives(tmp_path: Path, owner_uid: str, kept: bool) -> None:
    undo = ObjectPresent()
    owned = config_map("owned", key="value")
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gpu-operator", "uid": owner_uid},
        {"apiVersion": "example.com/v1", "kind": "Unknown", "name": "x", "uid": "y"},
    ]
    with world(tmp_path, extra=[owned]) as (cluster, _):
        args = undo.args("configmaps", fetch(cluster, "configmaps", "owned", "gpu-operator"))
        cluster.delete("configmaps", "owned", "gpu-operator")
        assert put_back("object.present", cluster, args) == ""
        owners = fetch(cluster, "configmaps", "owned", "gpu-operator")["metadata"].get("ownerReferences") or []
        assert [ref["uid"] for ref in owners] == ([owner_uid] if kept else [])


def test_secrets_are_neither_created_nor_saved() -> None:
    with pytest.raises(ValueError, match="none of the kinds"):
        AbsentArgs(key="secrets", namespace="n", name="x", run_id=RUN)
    with pytest.raises(ValueError, match="none of the kinds"):
        ObjectPresent().args("secrets", {"metadata": {"name": "x", "namespace": "n"}, "data": {"password": "hidden"}})


# -- workloads -----------------------------------------------------------------------------------------


def test_replicas_are_restored_while_they_are_ours(cluster: Cluster) -> None:
    undo = WorkloadReplicas()
    where = ("apps/deployments", "gpu-operator", "gpu-operator")
    args = undo.args("apps/deployments", fetch(cluster, *where), 0)
    cluster.patch("apps/deployments", "gpu-operator", {"spec": {"replicas": 0}}, "gpu-operator")
    assert undo.verify(cluster, args, soon(0)) == "replicas: 0 instead of 1"
    assert put_back("workload.replicas", cluster, args) == ""
    assert fetch(cluster, *where)["spec"]["replicas"] == 1
    cluster.patch("apps/deployments", "gpu-operator", {"spec": {"replicas": 3}}, "gpu-operator")
    with pytest.raises(UndoRefused) as caught:
        undo.undo(cluster, args, soon())
    assert (caught.value.reason, caught.value.prior, caught.value.current) == ("changed by another", 1, 3)


def test_replicas_are_back_when_as_many_are_ready_as_were(cluster: Cluster) -> None:
    undo = WorkloadReplicas()
    args = undo.args("apps/deployments", fetch(cluster, "apps/deployments", "gpu-operator", "gpu-operator"), 0)
    cluster.patch("apps/deployments", "gpu-operator", {"status": {"readyReplicas": 0}}, "gpu-operator", "status")
    assert put_back("workload.replicas", cluster, args) == "0 of 1 replicas are ready"


def test_killed_pods_are_back_when_their_owner_has_as_many_ready_ones_on_that_node(cluster: Cluster, store: Store) -> None:
    undo = PodsReplaced()
    pods = [fetch(cluster, "pods", name, "gpu-operator") for name in ("plugin-1", "plugin-2")]
    args = undo.args(pods[:1], pods, on_node=True)
    assert (args.node, args.ready, args.killed) == ("gpu-1", 1, ("uid-plugin-1",))
    assert put_back("pods.replaced", cluster, args) == ""  # the kill never happened
    cluster.delete("pods", "plugin-1", "gpu-operator", grace_seconds=0)
    assert put_back("pods.replaced", cluster, args) == "0 of 1 pods of DaemonSet plugin are Ready on gpu-1"
    store.put_initial(daemon_pod("plugin-9", "gpu-1", ready=False))
    assert undo.verify(cluster, args, soon(0.1)) != ""
    store.put_initial(daemon_pod("plugin-9", "gpu-1"))
    assert put_back("pods.replaced", cluster, args) == ""


def test_pods_without_one_controller_are_not_killed(tmp_path: Path) -> None:
    bare = daemon_pod("bare", "gpu-1")
    del bare["metadata"]["ownerReferences"]
    with pytest.raises(ValueError, match="one controller"):
        PodsReplaced().args([bare], [bare], on_node=True)


def test_a_person_is_given_a_line_that_a_shell_takes_as_it_is(cluster: Cluster) -> None:
    found = fetch(cluster, "nodes", "gpu-1")
    assert NodeLabels().human(NodeLabels().args(found, {PRODUCT: None, "x": "y"})) == (
        "node gpu-1",
        "kubectl label node gpu-1 nvidia.com/gpu.product=H100 x- --overwrite",
    )
    assert NodeUnschedulable().human(NodeUnschedulable().args(found, True))[1] == "kubectl uncordon gpu-1"
    hostile = NodeLabels().args({**found, "metadata": {**found["metadata"], "labels": {"x": "$(reboot)"}}}, {"x": "y"})
    assert "'x=$(reboot)'" in NodeLabels().human(hostile)[1]


def test_texts_of_a_cluster_do_not_move_a_terminals_cursor(cluster: Cluster) -> None:
    value = "a\x1b[2Jb\nc'd\\e"
    found = fetch(cluster, "nodes", "gpu-1")
    args = NodeLabels().args({**found, "metadata": {**found["metadata"], "labels": {"x": value}}}, {"x": None})
    line = NodeLabels().human(args)[1]
    assert line.isprintable()
    bash = subprocess.run(["bash", "-c", line.replace("kubectl", "printf '%s|'", 1)], capture_output=True, check=True, text=True)
    assert bash.stdout == f"label|node|gpu-1|x={value}|--overwrite|"


OURS = {"spec": {"unschedulable": True}}


def try_cordon(cluster: Cluster, meanwhile: Json) -> None:
    """Cordon from a version of the node that is not the newest one: somebody has written ``meanwhile``."""
    node = fetch(cluster, "nodes", "gpu-1")
    args = NodeUnschedulable().args(node, True)
    cluster.patch("nodes", "gpu-1", meanwhile)
    change("nodes", node, OURS, lambda newer: NodeUnschedulable().args(newer, True) == args)


def test_a_status_that_was_written_meanwhile_does_not_matter(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _), acting(tmp_path, cluster, ledger(tmp_path)).as_current():
        try_cordon(cluster, {"metadata": {"annotations": {"heartbeat": "1"}}})
        assert fetch(cluster, "nodes", "gpu-1")["spec"]["unschedulable"] is True


def test_a_cordon_of_somebody_else_is_not_taken_for_the_experiments(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _), acting(tmp_path, cluster, ledger(tmp_path)).as_current():
        with pytest.raises(ActivityFailed, match="somebody else has just changed the value"):
            try_cordon(cluster, OURS)


def test_a_node_that_somebody_has_begun_to_use_is_left_alone(tmp_path: Path) -> None:
    def using(name: str, namespace: str, phase: str = "Running") -> Json:
        found = daemon_pod(name, "gpu-1")
        found["metadata"]["namespace"], found["status"]["phase"] = namespace, phase
        found["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
        return found

    known = plan()
    free = [using("mine", f"{known.namespace}-canaries"), using("over", "team", "Succeeded")]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with world(tmp_path / "a", extra=free) as (cluster, _), acting(tmp_path / "a", cluster, ledger(tmp_path / "a")).as_current():
        must_be_alone("gpu-1")
    with world(tmp_path / "b", extra=[*free, using("train", "team")]) as (cluster, _):
        with (
            acting(tmp_path / "b", cluster, ledger(tmp_path / "b")).as_current(),
            pytest.raises(ActivityFailed, match="team/train on gpu-1"),
        ):
            must_be_alone("gpu-1")


DRIVER = "gpu.nvidia.com"
PLUGIN = {"namespace": "gpu-operator", "owner": "plugin", "owner_uid": "uid-plugin", "selector": "app=plugin"}


def published(name: str, *devices: str, node: str = "gpu-1", generation: int = 1, count: int = 1, driver: str = DRIVER) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": count},
            "devices": [{"name": device} for device in devices],
        },
    }


def pods(cluster: Cluster) -> set[str]:
    answer = cluster.request("GET", cluster.path("pods", "gpu-operator"))
    return {item["metadata"]["name"] for item in answer.json()["items"] if not item["metadata"].get("deletionTimestamp")}


def publish(cluster: Cluster, item: Json) -> None:
    answer = cluster.create("resource.k8s.io/resourceslices", item)
    assert answer.ok, answer.message


def test_only_the_newest_generation_of_a_complete_pool_is_offered() -> None:
    whole = [published("a", "gpu-0", count=2), published("b", "gpu-1", count=2)]
    assert offered(whole, DRIVER, "gpu-1") == {"gpu-1/gpu-0", "gpu-1/gpu-1"}
    assert offered(whole[:1], DRIVER, "gpu-1") == set()
    assert offered([*whole, published("c", "gpu-0", generation=2)], DRIVER, "gpu-1") == {"gpu-1/gpu-0"}
    assert offered(whole, DRIVER, "gpu-2") == set()
    assert offered([published("d", "nic-0", driver="dra.net")], DRIVER, "gpu-1") == set()


def test_a_driver_that_has_published_again_is_left_alone(cluster: Cluster) -> None:
    undo, before = SlicesPublished(), published("old", "gpu-0", "gpu-1")
    args = undo.args(DRIVER, "gpu-1", [before], PLUGIN)
    assert args.devices == ("gpu-1/gpu-0", "gpu-1/gpu-1")
    publish(cluster, published("new", "gpu-0", "gpu-1", "gpu-2", generation=4))
    undo.undo(cluster, args, soon())
    assert undo.verify(cluster, args, soon(0)) == ""
    assert pods(cluster) == {"plugin-1", "plugin-2"}


def test_a_driver_that_does_not_publish_is_restarted_on_that_node_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    undo = SlicesPublished()
    args = undo.args(DRIVER, "gpu-1", [published("old", "gpu-0", "gpu-1")], PLUGIN)
    stranger = daemon_pod("stranger", "gpu-1")
    stranger["metadata"]["ownerReferences"][0]["uid"] = "uid-of-another"
    with world(tmp_path, extra=[stranger, published("short", "gpu-0")]) as (cluster, _):
        undo.undo(cluster, args, soon())
        assert pods(cluster) == {"plugin-2", "stranger"}
        assert undo.verify(cluster, args, soon(0.2)) == "gpu.nvidia.com does not offer gpu-1/gpu-1 of gpu-1"
        assert undo.human(args)[1].startswith("kubectl -n gpu-operator delete pods --selector=app=plugin")


def test_what_offers_nothing_is_not_deleted_and_nobody_is_restarted_without_an_owner() -> None:
    with pytest.raises(ValueError, match="its devices"):
        SlicesPublished().args(DRIVER, "gpu-1", [published("half", "gpu-0", count=2)], PLUGIN)
    with pytest.raises(ValueError, match="owner"):
        PublishedArgs(driver=DRIVER, node="gpu-1", devices=("gpu-1/gpu-0",), **{**PLUGIN, "owner_uid": ""})


def test_an_entry_about_slices_of_a_node_that_is_not_planned_is_refused(tmp_path: Path) -> None:
    wiping = EXPERIMENTS["A14c"]
    terms = Terms.of([wiping], Policy()).planned("A14c", ["gpu-1"])
    book, undo = ledger(tmp_path, experiment="A14c"), SlicesPublished()
    here = undo.args(DRIVER, "gpu-1", [published("a", "gpu-0")], PLUGIN)
    elsewhere = undo.args(DRIVER, "gpu-2", [published("a", "gpu-0", node="gpu-2")], PLUGIN)
    assert terms.outside(book.draft("slices.published", here)) == ""
    assert "node gpu-2, which is not in its plan" in terms.outside(book.draft("slices.published", elsewhere))
    assert "not an undo of experiment" in terms.outside(book.draft("node.labels", NodeLabels().args(node("gpu-1"), {})))


def test_a_rule_is_taken_back_under_the_names_of_its_run_only(tmp_path: Path) -> None:
    tainting = EXPERIMENTS["D8"]
    terms, book = Terms.of([tainting], Policy()), ledger(tmp_path, experiment="D8")
    for name, wrong in ((f"gpu-conformance-chaos-{RUN}", ""), ("gpu-conformance-chaos-other", "which is not its run's")):
        args = AbsentArgs(key="resource.k8s.io/devicetaintrules", name=name, run_id=RUN)
        reported = terms.outside(book.draft("object.absent", args))
        assert reported == "" if not wrong else wrong in reported
