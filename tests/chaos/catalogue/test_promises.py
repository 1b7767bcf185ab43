"""What an experiment's title and steps promise is expected of the cluster: a verdict that nothing can turn red proves nothing."""

import re
from pathlib import Path

import pytest

from chaos.model.conditions import parse_condition, signals_of
from chaos.model.experiment import Experiment
from chaos.verdict.allocation_snapshots import SIGNAL
from tests.chaos.shipped import EXPERIMENTS
from tests.tables import each_row, tables_of

CONNECTING = re.compile(r"(?i)\b(?:and|but|or)\b|[,\s]")


def expected(experiment: Experiment) -> set[str]:
    """Names that a promise may rest on."""
    extension = experiment.extension
    found = {one.name for one in extension.expect} | {"steady"}
    found |= {"collateral"} if extension.collateral else set()
    found |= {"allocations"} if SIGNAL in extension.signals else set()
    return found | ({"refusal"} if "reset_in_use" in experiment.functions else set())


@each_row
def test_every_clause_of_a_title_is_expected(id_: str, clauses: dict[str, list[str]]) -> None:
    experiment = EXPERIMENTS[id_]
    first = min(experiment.title.index(clause) for clause in clauses)
    rest = experiment.title[first:]
    for clause, names in clauses.items():
        assert clause in rest, f"{id_}: its title does not say {clause!r}"
        assert set(names) <= expected(experiment), f"{id_}: {clause!r} rests on {sorted(set(names) - expected(experiment))}"
        rest = rest.replace(clause, "")
    left = CONNECTING.sub("", rest)
    assert not left, f"{id_}: nothing is expected of {rest!r}"


def test_every_experiment_has_its_row() -> None:
    table = tables_of(Path(__file__).with_suffix(".yaml"))["test_every_clause_of_a_title_is_expected"]["id_, clauses"]
    assert {row[0] for row in table} == set(EXPERIMENTS)
    assert all(names for row in table for names in row[1].values())


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS.keys())
def test_what_a_step_waits_for_is_judged(experiment: Experiment) -> None:
    for name, arguments in experiment.calls:
        if name == "wait_for":
            waited = set(signals_of(parse_condition(arguments["condition"])))
            assert waited & set(experiment.extension.judged_signals), f"{experiment.id}: {waited} is waited for, and not judged"


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS.keys())
def test_what_stays_so_is_expected_to(experiment: Experiment) -> None:
    """A step that says so, or that nothing happens, stands on an expectation that lasts."""
    steps = {str(step["name"]) for step in experiment.document["method"] if step["provider"]["func"] == "hold"}
    if not steps & {"it stays so", "nothing happens", "it stays out while it is lost", "the taints last", "the taint lasts"}:
        return
    if experiment.id == "D7":
        return  # what it advertises is bounded by the steady state and counts
    lasting = [one for one in experiment.extension.expect if one.until == "undo" or one.mode != "eventually"]
    met = [one for one in experiment.extension.expect if one.mode == "eventually" and "stays" in " ".join(steps)]
    assert lasting, experiment.id
    assert not met or any(one.until == "undo" for one in met) or experiment.id == "D5", experiment.id
