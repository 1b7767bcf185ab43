"""Defects change exactly what they say, and are never silent."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fixtures.simulator.api.objects import Json
from fixtures.simulator.builder import build, hardware_of
from fixtures.simulator.config import scenario as module
from fixtures.simulator.config.defects import Rights, apply, behaviour_of, parse_denied, rights_of
from fixtures.simulator.config.scenario import (
    Change,
    Defect,
    DeviceValues,
    ObjectRef,
    ScenarioError,
    bug_names,
    load_defect,
    load_scenario,
    parse_simulate,
)
from fixtures.simulator.simulated_cluster import initial_objects, with_defects
from tests.tables import each_row

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@cache
def objects() -> tuple[Json, ...]:
    return tuple(build(load_scenario("healthy"), now=NOW))


def defect(*changes: Change, **more: Any) -> Defect:
    return Defect(name="d", description="", scenario="healthy", trips=["FENCE-01"], changes=list(changes), **more)


def change(kind: str, name: str, namespace: str = "", **more: Any) -> Change:
    return Change(target=ObjectRef(kind=kind, name=name, namespace=namespace), **more)


def applied(*changes: Change, **more: Any) -> list[Json]:
    return apply(objects(), defect(*changes, **more), now=NOW)


def find(items: list[Json] | tuple[Json, ...], kind: str, name: str) -> Json:
    (found,) = [item for item in items if item["kind"] == kind and item["metadata"]["name"] == name]
    return found


def different(items: list[Json]) -> set[tuple[str, str]]:
    before = {item["metadata"]["uid"]: item for item in objects()}
    after = {item["metadata"].get("uid"): item for item in items}
    changed = {item["metadata"]["name"]: item["kind"] for uid, item in {**before, **after}.items() if before.get(uid) != after.get(uid)}
    return {(kind, name) for name, kind in changed.items()}


def test_merge_patch_changes_only_its_target_and_not_the_original() -> None:
    untouched = msgspec.json.encode(objects())
    built = applied(change("Node", "h100-1", merge={"spec": {"taints": None}}))
    assert "taints" not in find(built, "Node", "h100-1")["spec"]
    assert different(built) == {("Node", "h100-1")}
    assert msgspec.json.encode(objects()) == untouched


@each_row
def test_a_defect_that_would_do_nothing_is_refused(given: Defect, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        apply(objects(), given, now=NOW)


@each_row
def test_values_of_devices_that_nobody_has_are_refused(entry: Json, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        hardware_of(load_scenario("healthy"), [defect(devices=[msgspec.convert(entry, DeviceValues)])])


def test_values_of_devices_reach_the_machines_that_are_named() -> None:
    entries: list[Json] = [{"node": "h100-1", "device": 1, "set": {"lost": 1}}, {"node": "h100-*", "kernel": ["NVRM: x"]}]
    found = hardware_of(load_scenario("healthy"), [defect(devices=msgspec.convert(entries, list[DeviceValues]))])
    assert {name: (machine.values, machine.kernel) for name, machine in found.items() if machine.gpus} == {
        f"h100-{number}": ({"1.lost": 1} if number == 1 else {}, ("NVRM: x",)) for number in range(3)
    }


def test_behaviour_is_merged_and_checked() -> None:
    scenario = load_scenario("healthy")
    merged = behaviour_of(scenario, [defect(behaviour={"enforcesQuota": False}), defect(behaviour={"ncclWrongValues": 3})])
    assert (merged.enforces_quota, merged.nccl_wrong_values, merged.enforces_pod_security) == (False, 3, True)
    with pytest.raises(ScenarioError, match="unknown behaviour 'enforceQuota'; did you mean 'enforcesQuota'"):
        behaviour_of(scenario, [defect(behaviour={"enforceQuota": False})])
    with pytest.raises(ScenarioError, match="Expected `bool`"):
        behaviour_of(scenario, [defect(behaviour={"enforcesQuota": "no"})])


def test_rights_deny_the_suite_s_user_alone() -> None:
    rights = rights_of([defect(denied=["list pods", "create resource.k8s.io/resourceclaims", "create pods/exec", "* apps/deployments"])])

    def may(user: str, verb: str, group: str, resource: str, subresource: str = "") -> bool:
        return rights.allowed(user, verb, group, resource, subresource, "default", "")

    assert not may("gpu-conformance", "list", "", "pods")
    assert may("gpu-conformance", "get", "", "pods")
    assert may("admin", "list", "", "pods")
    assert may("system:admin", "list", "", "pods")
    assert not may("gpu-conformance", "create", "resource.k8s.io", "resourceclaims")
    assert not may("gpu-conformance", "create", "", "pods", "exec")
    assert may("gpu-conformance", "create", "", "pods")
    assert not may("gpu-conformance", "patch", "apps", "deployments")
    assert may("gpu-conformance", "patch", "apps", "daemonsets")
    assert Rights([]).allowed("gpu-conformance", "list", "", "pods", "", "", "")


@pytest.mark.parametrize("entry", ["pods", "list", "fetch pods", "list a.b/c/d/e", "list /pods", ""])
def test_rights_that_cannot_be_read_are_refused(entry: str) -> None:
    with pytest.raises(ScenarioError, match="is not 'VERB"):
        parse_denied(entry, "d")


# -- every defect file names what is there: its scenario, its targets, its switches and its rights ---


@cache
def healthy_objects(scenario: str) -> list[Json]:
    """Only compared: a test that changed them would change the others' too."""
    return initial_objects(load_scenario(scenario), [], NOW)


@pytest.mark.parametrize("name", bug_names())
def test_a_seeded_bug_is_a_switch_of_its_scenario(name: str) -> None:
    bug = load_defect(name)
    assert bug.name == name
    assert bug.description.endswith(".")
    assert bug.experiments
    assert not bug.trips
    scenario, (found,) = parse_simulate(f"{bug.scenario},{name}")
    assert found == bug
    assert healthy_objects(bug.scenario) == with_defects(healthy_objects(bug.scenario), [bug], NOW), (
        "a cluster with the bug is a healthy one at rest"
    )
    assert behaviour_of(scenario, [bug]) != behaviour_of(scenario, [])


def test_a_defect_is_for_requirements_or_for_experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEFECTS", tmp_path)
    base = "name: bug-x\ndescription: d.\nscenario: resilience\nbehaviour: {logMonitorBlind: true}\n"
    for wrong in ("trips: []\n", "trips: [ADV-01]\nexperiments: [D13]\n"):
        (tmp_path / "bug-x.yaml").write_text(base + wrong)
        with pytest.raises(ScenarioError, match="one of the two"):
            load_defect("bug-x")


def test_a_scenario_changes_one_node_of_a_pool() -> None:
    changes = [change("Node", "h100-1", merge={"spec": {"unschedulable": True}})]
    built = build(msgspec.structs.replace(load_scenario("healthy"), changes=changes), now=NOW)
    assert different(built) == {("Node", "h100-1")}
    assert find(built, "Node", "h100-1")["spec"]["unschedulable"]
    with pytest.raises(ScenarioError, match="scenario 'healthy': no Node h100-99 in the scenario"):
        build(msgspec.structs.replace(load_scenario("healthy"), changes=[change("Node", "h100-99", remove=True)]), now=NOW)
