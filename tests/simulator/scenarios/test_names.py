"""What a user may write after ``--simulate``, and the one line that a wrong name gives."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.simulator.builder import build
from fixtures.simulator.config import scenario as module
from fixtures.simulator.config.scenario import (
    Scenario,
    ScenarioError,
    load_scenario,
    parse_simulate,
)
from tests.tables import each_row


@pytest.fixture
def defects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "DEFECTS", tmp_path)
    text = "description: d\nscenario: mig-mixed\ntrips: [FENCE-01]\n"
    for name in ("untainted-node", "root-cuda-pod"):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\n{text}")
    return tmp_path


def test_pods_of_any_scenario_may_take_long_to_start() -> None:
    scenario, _ = parse_simulate("healthy:podStart=30")
    assert scenario.tempo.pod_start == 30.0
    assert scenario.policy["probes"]["startSeconds"] > 30
    assert load_scenario("healthy").tempo.pod_start == 0.0


@pytest.mark.usefixtures("defects")
@each_row
def test_wrong_names_give_one_line(spec: str, words: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        parse_simulate(spec)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_in_one_line(spec: str) -> None:
    message = "read"
    try:
        parse_simulate(spec)
    except ScenarioError as error:
        message = str(error)
    assert len(message.splitlines()) == 1


def test_a_malformed_file_is_one_line_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCENARIOS", tmp_path)
    (tmp_path / "odd.yaml").write_text("name: odd\ndescription: d\npools: [{name: a, gpu: 8}]\n")
    with pytest.raises(ScenarioError, match=r"scenario 'odd' is malformed: .*`gpu`.*\$\.pools"):
        load_scenario("odd")
    (tmp_path / "odd.yaml").write_text("name: [\n")
    with pytest.raises(ScenarioError, match="scenario 'odd' is malformed") as raised:
        load_scenario("odd")
    assert "\n" not in str(raised.value)


@each_row
def test_a_scenario_that_does_not_work_out_says_why(changes: dict[str, Any], words: str) -> None:
    pools = [{"name": "h100", "product": "H100", "gpus": 8}, {"name": "cpu"}]
    made = msgspec.convert({"name": "s", "description": "d", "pools": pools, **changes}, Scenario)
    with pytest.raises(ScenarioError, match=words):
        build(made)
