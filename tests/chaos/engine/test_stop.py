"""An experiment that ends by itself because others are hurt: what ends it, what does not, and what is said of it.

As reported of others: a condition that was met and did not end the experiment (https://github.com/litmuschaos/litmus/issues/4991), one
that nobody could read any more (https://github.com/litmuschaos/litmus/issues/4243), and no condition at all, so that a person has to kill
the runner (https://github.com/chaostoolkit/chaostoolkit/issues/196).
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from chaos.engine.campaign import Campaign
from chaos.engine.guard import HARM, Guard
from chaos.safety.gates import settings_of
from chaos.safety.lease import AbortFlag
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.verdict.chaos_record import ChaosResult
from fixtures.verdict.record import Verdict
from tests.chaos.catalogue.documents import LABEL, activity, document
from tests.chaos.engine.stage import NoConformance, Stage, load

pytestmark = pytest.mark.test_all

LONG = 100.0


def carried_out(
    on: Stage, folder: Path, meanwhile: Callable[[str], object] = lambda node: None, held: float = LONG, **conditions: tuple[str, ...]
) -> tuple[ChaosResult, ChaosResult]:
    """An experiment whose fault is held for ``held`` seconds, and the next one of the run. ``meanwhile``: once the fault is there."""
    policy = msgspec.structs.replace(on.policy, chaos=msgspec.structs.replace(on.policy.chaos, stop_unread_seconds=1.0))
    setup = msgspec.structs.replace(on.where(folder), policy=policy, settings=settings_of(policy, **conditions))  # type: ignore[arg-type]

    def act() -> None:
        with Observation(on.cluster, "nodes", labels=LABEL) as observation:
            for found in observation.until(time.monotonic() + 120):
                if found:
                    meanwhile(next(iter(found.values()))["metadata"]["name"])
                    return

    with Campaign(setup) as campaign:
        campaign._conforming = NoConformance()  # type: ignore[assignment]
        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        seconds = {"deadline": {"live": 60, "simulated": 2 * LONG}}
        first = campaign.carry_out(load(document(activity("label"), activity("hold", seconds=held), seconds=seconds)))
        second = campaign.carry_out(load(document(id="X2")))
        assert campaign.residue == []
    assert on.labelled() == []
    return first, second


def test_whoever_watches_and_fails_ends_the_experiment(tmp_path: Path) -> None:
    """Nobody would look any more, and the fault would go on."""

    def fail(*_: object) -> None:
        raise RuntimeError("dictionary changed size during iteration")

    sampler: Any = SimpleNamespace(samples=[], now=0.0, failure="", wait=fail, wake=lambda: None)
    with Guard(sampler, HARM, 30.0, AbortFlag(tmp_path)) as guard:
        guard._thread.join(30)
        assert "RuntimeError: dictionary changed size" in guard.stop.reason
    assert guard.cause is not None
    assert guard.cause.unread


def test_a_condition_that_begins_to_hold_ends_the_experiment_and_the_run(on: Stage, tmp_path: Path) -> None:
    mark = tmp_path / "hurt"
    first, second = carried_out(on, tmp_path / "r", lambda _: mark.touch(), stop_if=(f"command test -e {mark}",))
    assert (first.verdict, first.reason_codes) == (Verdict.FAILED, ["Stopped"]), first.message
    assert "command test: exit code 0" in first.message.replace('"', "")
    assert "from the fault" in first.message
    assert first.duration_seconds < LONG
    assert "recovered" in {mark.name for mark in first.marks}  # it was watched until all was as before
    assert (second.verdict, second.reason_codes) == (Verdict.ERROR, ["Interrupted"])
    assert "X1 was stopped: command test" in second.message


@pytest.mark.parametrize(("text", "says"), [("command true", "would have to stop at once"), ("command sh -c 'exit 2'", "is not known")])
def test_nothing_is_begun_while_a_condition_holds_or_cannot_be_read(on: Stage, tmp_path: Path, text: str, says: str) -> None:
    first, _ = carried_out(on, tmp_path, stop_if=(text,))
    assert (first.verdict, first.reason_codes) == (Verdict.ERROR, ["GateFailed"])
    assert says in first.message
    assert not (tmp_path / "chaos" / "X1" / "ledger.jsonl").exists()


def test_a_condition_that_nobody_can_read_any_more_ends_it_and_decides_nothing(on: Stage, tmp_path: Path) -> None:
    mark = tmp_path / "unread"
    first, _ = carried_out(on, tmp_path / "r", lambda _: mark.touch(), stop_if=(f"command sh -c 'test -e {mark} && exit 3; exit 1'",))
    assert (first.verdict, first.reason_codes) == (Verdict.INCONCLUSIVE, ["StopUnread"]), first.message
    assert "exit code 3; expected 0 or 1" in first.message
    assert first.duration_seconds < LONG


def another(cluster: Cluster, but: str) -> str:
    names = [str(node["metadata"]["name"]) for node in cluster.each("nodes") if node["status"]["capacity"].get("nvidia.com/gpu")]
    return next(name for name in names if name != but)


def cordon(on: Stage, by: str) -> Callable[[str], object]:
    """Cordon a node that is no target."""

    def write(target: str) -> None:
        path, body = on.cluster.path("nodes", "", another(on.cluster, target)), {"spec": {"unschedulable": True}}
        assert on.cluster.request("PATCH", path, query={"fieldManager": by}, body=body, content_type="application/merge-patch+json").ok

    return write


@pytest.fixture
def uncordoned(on: Stage) -> object:
    yield
    for node in on.cluster.each("nodes"):
        on.cluster.patch("nodes", str(node["metadata"]["name"]), {"spec": {"unschedulable": None}})


@pytest.mark.usefixtures("uncordoned")
def test_a_second_node_that_leaves_service_ends_the_experiment(on: Stage, tmp_path: Path) -> None:
    first, _ = carried_out(on, tmp_path, cordon(on, "gpu-operator"))
    assert first.verdict is Verdict.FAILED
    assert "Stopped" in first.reason_codes
    assert "another node than the targets left service" in first.message
    assert "spec.unschedulable was absent and is true" in first.message
    assert first.duration_seconds < LONG


@pytest.mark.usefixtures("uncordoned")
def test_a_node_that_a_person_cordons_meanwhile_is_theirs(on: Stage, tmp_path: Path) -> None:
    first, second = carried_out(on, tmp_path, cordon(on, "kubectl-cordon"), held=4.0)
    assert first.verdict is Verdict.PASSED, first.message
    assert second.reason_codes != ["Interrupted"]


def test_what_the_user_calls_steady_has_to_hold_before_and_to_come_back(on: Stage, tmp_path: Path) -> None:
    lost = tmp_path / "lost"
    first, _ = carried_out(on, tmp_path / "a", steady_if=("command false",))
    assert first.reason_codes == ["GateFailed"]
    assert "--steady-if command false does not hold" in first.message
    first, _ = carried_out(on, tmp_path / "c", detect_if=("command no-such-program",))
    assert "the steady state is not green: command no-such-program: it could not be started" in first.message
    first, _ = carried_out(on, tmp_path / "b", lambda _: lost.touch(), held=3.0, steady_if=(f"not command test -e {lost}",))
    assert (first.verdict, first.reason_codes) == (Verdict.FAILED, ["SteadyStateLost"]), first.message
