"""The scenario and the defect that the simulator's README shows do what it says."""

import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
import yaml

from fixtures.simulator.builder import build
from fixtures.simulator.config.defects import apply, behaviour_of, rights_of
from fixtures.simulator.config.scenario import FOLDER, Defect, Scenario, load_scenario

README = FOLDER / "README.md"
NOW = datetime(2026, 1, 9, tzinfo=UTC)


@pytest.fixture(scope="module")
def examples() -> list[object]:
    return [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", README.read_text(encoding="utf-8"), re.S)]


def test_the_scenario_is_built(examples: list[object]) -> None:
    objects = build(msgspec.convert(examples[0], Scenario), now=NOW)
    assert sum(item["kind"] == "Node" for item in objects) == 9, "six of the pools, and the control plane's"


def test_the_defect_applies(examples: list[object]) -> None:
    defect = msgspec.convert(examples[1], Defect)
    scenario = load_scenario(defect.scenario)
    changed = apply(build(scenario, now=NOW), defect, now=NOW)
    nodes = {item["metadata"]["name"]: item["status"]["allocatable"] for item in changed if item["kind"] == "Node"}
    assert (nodes["h100-0"]["nvidia.com/gpu"], nodes["h100-1"]["nvidia.com/gpu"]) == ("8", "0")
    assert behaviour_of(scenario, [defect]).exporter_hides_xid
    assert not rights_of([defect]).allowed("gpu-conformance", "list", "", "pods", "", "", "")


def test_the_rooms_are_those_that_are_there() -> None:
    text = README.read_text(encoding="utf-8")
    rooms = {name for row in re.findall(r"^\| (`[^|]+) \|", text, re.M) for name in re.findall(r"`([a-z]+)/`", row)}
    there = {path.name for path in FOLDER.iterdir() if path.is_dir() and not path.name.startswith("_")}
    assert rooms == there


def test_the_folders_of_tests_are_those_that_are_there() -> None:
    (named,) = re.findall(r"^Tests are in `tests/simulator/`: (.*)\.$", README.read_text(encoding="utf-8"), re.M)
    there = {path.name for path in Path(__file__).parents[1].iterdir() if path.is_dir() and not path.name.startswith("_")}
    assert set(re.findall(r"`([a-z]+)`", named)) == there
