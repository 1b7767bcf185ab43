"""A few runs, experiments and commands through the fault proxy; ``make faults`` sends hundreds."""

from pathlib import Path

import pytest

from fixtures.verdict.record import Report
from tests.hostile.faults.campaign import suffered, usual
from tests.hostile.faults.commands import told
from tests.hostile.faults.experiments import endured
from tests.hostile.faults.plans import ordeal

pytestmark = pytest.mark.test_all

SCENARIO = "healthy"
SEEDS = [seed for seed in range(1, 120) if ordeal(seed).simulate == SCENARIO][:8]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return usual(SCENARIO, tmp_path_factory.mktemp("usual"))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fault_may_cost_a_verdict_and_never_turns_one(expected: Report, tmp_path: Path, seed: int) -> None:
    assert suffered(ordeal(seed), expected, tmp_path).wrong == []


@pytest.mark.parametrize("seed", [5, 7, 16, 24, 31])
def test_what_an_experiment_leaves_is_told_and_recovered(tmp_path: Path, seed: int) -> None:
    assert endured(seed, tmp_path).wrong == []


@pytest.mark.parametrize("seed", range(1, 11))
def test_what_a_command_says_is_what_the_cluster_shows(tmp_path: Path, seed: int) -> None:
    assert told(seed, tmp_path).wrong == []
