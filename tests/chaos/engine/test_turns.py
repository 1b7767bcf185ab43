"""Which turns a run has."""

from pathlib import Path

import msgspec
import pytest

from chaos.engine.turns import Turn, expectations, passed_before, pool, turns
from chaos.model.experiment import Experiment
from chaos.observe.user_conditions import UserCondition, parse_user_condition
from fixtures.kubernetes.models import Json
from fixtures.policy.model import Policy
from fixtures.verdict.record import TargetKind
from tests.chaos.catalogue.documents import document
from tests.chaos.engine.stage import load
from tests.chaos.observe.made_up_cluster import node
from tests.chaos.shipped import EXPERIMENTS
from tests.chaos.verdict.folder import BEGAN, Folder
from tests.tables import each_row

FLEET: list[Json] = [
    node("gpu-10", labels={"pool": "a"}),
    node("gpu-2", labels={"pool": "a"}),
    node("gpu-1", labels={"pool": "b"}),
    node("cpu-1", gpus=0, labels={"pool": "a"}),
    node("head", labels={"pool": "a", "node-role.kubernetes.io/control-plane": ""}),
]


def expected(experiment: Experiment, *steady: str, policy: Policy | None = None) -> frozenset[str]:
    return expectations(experiment, policy or Policy(), (), map(parse_user_condition, steady), ())


def passed(path: Path, *steady: str) -> Folder:
    folder = Folder(path)
    folder.engine.expectations = sorted(expected(load(document()), *steady))
    return folder


@each_row
def test_a_pool_is_of_gpu_nodes_in_order(label: str, most: int | None, names: list[str]) -> None:
    assert pool(FLEET, ("nvidia.com/gpu",), label, most) == {name: f"uid-{name}" for name in names}


def test_an_experiment_that_chooses_no_node_has_one_turn() -> None:
    chosen = [EXPERIMENTS[id_] for id_ in ("A1", "A4", "N1")]
    assert [turn.id for turn in turns(chosen, {"x": "1", "y": "2"})] == ["A4", "A1@x", "N1@x", "A1@y", "N1@y"]
    assert [turn.id for turn in turns(chosen)] == ["A1", "A4", "N1"]


@pytest.mark.parametrize(("failed", "carried"), [(-60.0, ["X1"]), (60.0, [])])
def test_the_last_time_says_whether_a_turn_is_carried_out_again(tmp_path: Path, failed: float, carried: list[str]) -> None:
    passed(tmp_path / "b").write()
    other = passed(tmp_path / ("a" if failed < 0 else "c"))
    other.engine.started, other.engine.residue = BEGAN + failed, ["node a"]
    other.write()
    found = passed_before(tmp_path, [Turn(experiment=load(document()))], "u", TargetKind.SIMULATED, expected)
    assert list(found.results) == carried


@each_row
def test_a_turn_on_another_node_of_the_same_name_is_carried_out_again(
    was: dict[str, str], now: str, carried: list[str], tmp_path: Path
) -> None:
    """A node that was replaced, or that registered anew, has another UID; a run that did not note UIDs says nothing of which it was."""
    earlier = passed(tmp_path / "r")
    earlier.plan = msgspec.structs.replace(earlier.plan, node_uids=was)
    earlier.engine.plan_digest, earlier.engine.turn = earlier.plan.digest, "X1@n1"
    earlier.write()
    turn = Turn(experiment=load(document()), node="n1", node_uid=now)
    found = passed_before(tmp_path, [turn], "u", TargetKind.SIMULATED, expected)
    assert list(found.results) == carried
    assert len(found.notes) == 2 - len(carried)


def test_a_run_that_goes_on_with_one_that_went_on_keeps_what_the_first_has_passed(tmp_path: Path) -> None:
    passed(tmp_path / "first" / "chaos" / "X1").write()
    (tmp_path / "secret").write_text("s")
    (tmp_path / "first" / "chaos" / "X1" / "notes").symlink_to(tmp_path / "secret")
    turn = Turn(experiment=load(document()))
    for earlier, later in (("first", "second"), ("second", "third")):
        found = passed_before(tmp_path / earlier, [turn], "u", TargetKind.SIMULATED, expected)
        assert list(found.results) == ["X1"]
        found.keep(tmp_path / later)
    assert (tmp_path / "third" / "carried" / "X1" / "engine.json").is_file()
    assert (tmp_path / "third" / "carried" / "X1" / "notes").is_symlink()


@each_row
def test_what_did_not_go_by_all_that_is_expected_now_is_carried_out_again(
    then: list[str], now: list[str], changed: Json, slow: float, carried: bool, tmp_path: Path
) -> None:
    passed(tmp_path / "r", *then).write()
    policy = Policy()
    policy = msgspec.structs.replace(policy, probes=msgspec.structs.replace(policy.probes, slow_start_seconds=slow))
    turn = Turn(experiment=load(document(**changed)))
    found = passed_before(tmp_path, [turn], "u", TargetKind.SIMULATED, lambda one: expected(one, *now, policy=policy))
    assert bool(found.results) is carried
    assert (
        any("X1: run r did not go by all that is expected of it now; it is carried out again" in note for note in found.notes)
        is not carried
    )


def test_a_run_of_an_earlier_version_is_carried_out_again(tmp_path: Path) -> None:
    Folder(tmp_path / "r").write()
    found = passed_before(tmp_path, [Turn(experiment=load(document()))], "u", TargetKind.SIMULATED, expected)
    assert (found.results, len(found.notes)) == ({}, 2)


def test_every_setting_of_a_condition_counts() -> None:
    one = UserCondition(kind="command", argv=("alerts", "--quiet"))
    both = [expectations(load(document()), Policy(), (), (each,), ()) for each in (one, msgspec.structs.replace(one, argv=("alerts",)))]
    assert not both[0] <= both[1]
