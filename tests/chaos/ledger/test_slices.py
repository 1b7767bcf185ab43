"""Deleted ResourceSlices: what counts as published again, and who is restarted when nobody publishes."""

from pathlib import Path

import pytest

from chaos.ledger.bounds import Terms
from chaos.ledger.undos import slices as module
from chaos.ledger.undos.objects import AbsentArgs
from chaos.ledger.undos.slices import PublishedArgs, SlicesPublished, offered
from chaos.ledger.undos.taints import NodeTaints
from conformance.policy.model import Policy
from fixtures.cluster.client import Cluster
from tests.chaos.ledger.simulated_cluster import RUN, Json, daemon_pod, ledger, node, soon, world
from tests.chaos.shipped import EXPERIMENTS

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
    assert "not an undo of experiment" in terms.outside(book.draft("node.taints", NodeTaints().args(node("gpu-1"))))


def test_a_rule_is_taken_back_under_the_names_of_its_run_only(tmp_path: Path) -> None:
    tainting = EXPERIMENTS["D8"]
    terms, book = Terms.of([tainting], Policy()), ledger(tmp_path, experiment="D8")
    for name, wrong in ((f"gpu-conformance-chaos-{RUN}", ""), ("gpu-conformance-chaos-other", "which is not its run's")):
        args = AbsentArgs(key="resource.k8s.io/devicetaintrules", name=name, run_id=RUN)
        said = terms.outside(book.draft("object.absent", args))
        assert said == "" if not wrong else wrong in said
