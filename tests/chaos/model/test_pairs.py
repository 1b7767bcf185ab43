"""Two experiments as one: what is said once, what adds up, and which two do not fit together."""

import copy
from typing import Any

import pytest

from chaos.catalogue import SelectionError, select_experiments
from chaos.ledger.bounds import Terms
from chaos.model.experiment import Experiment, ExperimentError, Level, extension_of
from chaos.model.pairs import at_once, pairs_of
from fixtures.policy.model import Policy
from fixtures.verdict.record import TargetKind
from tests.chaos.shipped import EXPERIMENTS
from tests.tables import each_row

PAIRS = {pair.id: pair for pair in pairs_of(EXPERIMENTS.values())}


def test_the_second_fault_is_made_while_the_first_one_lasts_and_one_rollback_undoes_both() -> None:
    pair = PAIRS["A2-N1"]
    names = [name for name, _ in pair.calls]
    assert names[:3] == ["start_workers", "start_reader", "watch_before"]
    assert names.index("set_labels") < names.index("restart_kubelet")
    assert [one["provider"]["func"] for one in pair.document["rollbacks"]] == ["undo_everything"]
    assert pair.extension.undo == ("node.labels", "host.kubelet")


def test_what_both_expect_is_expected_and_what_cannot_hold_is_not() -> None:
    expected = {one.name: one for one in PAIRS["A2-N1"].extension.expect}
    assert {"the capacity is taken back after the grace", "the running workers go on", "the running workers go on (N1)"} < expected.keys()
    assert "a new pod gets another device" not in expected


def test_the_second_ones_bounds_begin_when_the_first_one_has_waited_and_deadlines_add_up() -> None:
    seconds = PAIRS["A2-N1"].extension.durations(TargetKind.LIVE)
    single = EXPERIMENTS["N1"].extension.durations(TargetKind.LIVE)
    assert seconds["recovery after A2"] == single["recovery"] + EXPERIMENTS["A2"].extension.durations(TargetKind.LIVE)["outage"]
    assert seconds["deadline"] == 3600
    assert seconds["gap"] == single["gap"]


def test_a_pair_is_of_the_higher_level_and_of_the_lower_fidelity() -> None:
    pair = PAIRS["D9-A6"].extension
    assert (pair.level, pair.fidelity_on(TargetKind.LIVE)) == (2, "telemetry")
    assert (pair.radius.count, pair.target["also"]) == (2, {"select": "daemon-pod", "component": "exporter"})


def test_whoever_recovers_knows_what_pairs_may_touch() -> None:
    bounds = Terms.of(EXPERIMENTS.values(), Policy()).bounds["A2-N1"]
    assert bounds.undo == {"node.labels", "host.kubelet", "object.absent"}


@each_row
def test_a_pair_is_chosen_by_both_ids_in_any_order(text: str, chosen: list[str]) -> None:
    assert [one.id for one in select_experiments(list(EXPERIMENTS.values()), [text], Level.NODE)] == chosen


@each_row
def test_a_pair_that_nobody_allows_is_refused(text: str, says: str) -> None:
    with pytest.raises(SelectionError, match=says):
        select_experiments(list(EXPERIMENTS.values()), [text], Level.AGENTS)


def test_no_pair_is_chosen_unless_it_is_asked_for() -> None:
    assert not [one.id for one in select_experiments(list(EXPERIMENTS.values()), [], Level.DESTRUCTIVE) if "-" in one.id]


@each_row
def test_what_does_not_fit_together_is_refused(first: str, second: str, says: str) -> None:
    with pytest.raises(ExperimentError, match=says):
        at_once(EXPERIMENTS[first], EXPERIMENTS[second])


@each_row
def test_a_wrong_entry_of_combines_is_refused(combines: dict[str, Any], says: str) -> None:
    document = copy.deepcopy(EXPERIMENTS["A2"].document)
    document["extensions"][0]["combines"] = combines
    with pytest.raises(ExperimentError, match=says):
        pairs_of([Experiment(path="A2.yaml", document=document, extension=extension_of(document)), EXPERIMENTS["N1"]])
