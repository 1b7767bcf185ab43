"""The lists that evidence keeps give each result of a requirement that reads them again, and hold no secret."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from conformance.plugin import again
from fixtures.kubernetes.models import Json
from fixtures.simulator.config.defects import policy_of
from fixtures.simulator.config.scenario import defect_names, load_defect, load_scenario, scenario_names
from fixtures.simulator.simulated_cluster import with_defects
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.record import Result, Verdict
from tests.core.judged_defects import RUNNING
from tests.judging import CATALOGUE, READ, judge, representatives
from tests.requirements_offline import NOW, healthy, policy_over, snapshot_of

ASKING = {"INV-03", "DRA-01", "OBS-01", "OBS-03", "OBS-04", "OBS-08", "PLAT-04", "UPG-01", "UPG-05"}
"""They ask the cluster, or compare with an earlier run."""
IDS = [one for one in READ if one != RUNNING]
OF_CONFIG_MAPS = {one for one in IDS if "configmaps" in CATALOGUE.by_id[one].lists}
SCENARIOS = [name for name in scenario_names() if load_scenario(name).fleet is None]
DEFECTS = sorted({one for one in defect_names() if OF_CONFIG_MAPS & set(load_defect(one).trips)} | representatives(set(IDS) - ASKING))


def objects_of(scenario: str, defect: str = "") -> list[Json]:
    return with_defects(healthy(load_scenario(scenario)), [load_defect(defect)] if defect else [], NOW)


def both(objects: Iterable[Json], folder: Path, scenario: str, defect: str = "") -> tuple[dict[str, Result], dict[str, Result], Snapshot]:
    """The results over objects, those over what evidence keeps of them, and what it keeps."""
    made = load_scenario(scenario)
    snapshot = snapshot_of(objects, made.kubernetes_version)
    policy = policy_over(snapshot, policy_of(made, [load_defect(defect)] if defect else []))
    results = judge(snapshot, policy, IDS, may_probe=True)
    (folder / "snapshot.json").write_bytes(again.safe_snapshot(snapshot))
    kept = Snapshot.load(folder / "snapshot.json")
    return results, judge(kept, policy, IDS, may_probe=True), kept


def unlike(one: dict[str, Result], other: dict[str, Result]) -> list[str]:
    return [name for name in one if again.comparable(one[name]) != again.comparable(other[name])]


@pytest.mark.test_all
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_result_of_a_healthy_cluster_is_given_again(scenario: str, tmp_path: Path) -> None:
    results, found, _ = both(objects_of(scenario), tmp_path, scenario)
    assert unlike(results, found) == []


@pytest.mark.parametrize(
    "defect", [pytest.param(one, marks=() if OF_CONFIG_MAPS & set(load_defect(one).trips) else pytest.mark.test_all) for one in DEFECTS]
)
def test_each_result_of_a_broken_cluster_is_given_again(defect: str, tmp_path: Path) -> None:
    made = load_defect(defect)
    results, found, _ = both(objects_of(made.scenario, defect), tmp_path, made.scenario, defect)
    assert unlike(results, found) == []
    red = {name for name, one in results.items() if one.verdict in (Verdict.FAILED, Verdict.WARNED)}
    assert red >= set(made.trips) & set(IDS) - ASKING


def test_values_that_nobody_reads_and_credentials_in_others_are_not_kept(tmp_path: Path) -> None:
    """A credential leaves the verdict as it is, and whoever reads the lists sees that something was taken."""
    objects = objects_of("time-slicing")
    (config,) = [one for one in objects if one["metadata"]["name"] == "device-plugin-config"]
    key = next(iter(config["data"]))
    config["data"] |= {name: f"{text}# password: hunter2\n" for name, text in config["data"].items()} | {"other": "correct horse"}
    objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "team-a", "name": "own"}, "data": {key: "battery"}})
    results, found, kept = both(objects, tmp_path, "time-slicing")
    assert unlike(results, found) == []
    assert results["ADV-06"].verdict is Verdict.PASSED
    assert not any(word in json.dumps(kept.to_json().decode()) for word in ("hunter2", "correct horse", "battery"))
    assert any("[redacted]" in text for one in kept.configmaps for text in (one.data or {}).values())
