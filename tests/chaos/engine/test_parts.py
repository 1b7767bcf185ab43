"""Small parts of the engine: bounds of what is kept, when conformance is judged anew, and how a child is ended."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from chaos.act.context import MAX_OUTPUT, bounded_output, wrap
from chaos.catalogue import known_names
from chaos.engine import child
from chaos.engine.processes import (
    Access,
    ConformanceCheck,
    Handover,
    Stop,
    end_process,
    supervise,
    take_handover,
    withdraw_handover,
    write_handover,
)
from chaos.ledger.bounds import Terms
from chaos.model.records import Ending
from chaos.verdict.artefacts import Conformance, Requirement
from fixtures.policy.model import Policy
from fixtures.verdict.record import Verdict
from tests.chaos.catalogue.documents import activity, document

ROOT = Path(__file__).resolve().parents[3]


class Counting(ConformanceCheck):
    """Conformance without a cluster: counts its readings."""

    def __init__(self, stop: Stop, trouble: str = "") -> None:
        super().__init__(Access(), Policy(), stop)
        self.read: list[tuple[str, ...]] = []
        self._trouble = trouble

    def _read(self, areas: Sequence[str], own: Iterable[str]) -> Conformance:
        self.read.append(tuple(areas))
        requirements = {f"{area.upper()}-01": Requirement(verdict=Verdict.PASSED) for area in areas}
        return Conformance(at=str(len(self.read)), requirements=requirements, trouble=self._trouble)


@pytest.fixture
def stop() -> Iterator[Stop]:
    made = Stop()
    yield made
    made.close()


def test_after_one_experiment_is_before_the_next_if_nothing_happened_between(stop: Stop) -> None:
    conforming = Counting(stop)
    conforming.judge(["inv", "adv"])
    kept = conforming.judge(["adv"])
    assert conforming.read == [("adv", "inv")]
    assert list(kept.requirements) == ["ADV-01"]
    conforming.judge(["gang"])
    conforming.forget()
    conforming.judge(["gang"])
    assert conforming.read == [("adv", "inv"), ("gang",), ("gang",)]


def test_what_could_not_be_judged_is_asked_again(stop: Stop) -> None:
    conforming = Counting(stop, "exit code 3")
    conforming.judge(["adv"])
    conforming.judge(["adv"])
    assert len(conforming.read) == 2


def test_every_area_of_the_catalogue_may_be_named() -> None:
    assert set(known_names().areas or ()) == {path.parent.name for path in (ROOT / "conformance").glob("*/catalogue.yaml")}


@pytest.mark.parametrize("output", [object(), {1, 2, object()}, "x" * (MAX_OUTPUT + 1), ["x"] * MAX_OUTPUT])
def test_an_output_that_is_no_json_or_too_long_is_a_short_text(output: object) -> None:
    assert len(bounded_output(output)) < 100


def test_an_output_that_fits_is_kept() -> None:
    assert bounded_output({"a": [1, None]}) == {"a": [1, None]}


@pytest.mark.test_all
def test_a_journal_stays_within_its_bound(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"activity": {"name": str(index)}, "output": "x" * 60_000, "status": "succeeded"} for index in range(200)
    ]
    child._keep(tmp_path / "journal.json", {"status": "completed", "run": records, "rollbacks": []})
    kept = json.loads((tmp_path / "journal.json").read_text())
    assert (tmp_path / "journal.json").stat().st_size < child.MAX_JOURNAL
    assert [record["status"] for record in kept["run"]] == ["succeeded"] * 200


def test_every_activity_is_wrapped_and_the_document_left_as_it_was() -> None:
    given = document()
    given["steady-state-hypothesis"] = {"title": "t", "probes": [activity("nothing", "probe") | {"tolerance": None}]}
    before = json.dumps(given)
    wrapped = wrap(given)
    found = [*wrapped["method"], *wrapped["rollbacks"], *wrapped["steady-state-hypothesis"]["probes"]]
    assert {one["provider"]["module"] for one in found} == {"chaos.act.context"}
    assert [one["provider"]["arguments"]["phase"] for one in found] == ["method", "method", "rollbacks", "method"]
    assert json.dumps(given) == before


def test_orders_are_given_once(tmp_path: Path) -> None:
    orders = Handover(access=Access(kubeconfig="/k", context="c"), parent=7, terms=Terms(bounds={}, image="i"))
    write_handover(tmp_path, orders)
    take_handover(tmp_path)
    assert list(tmp_path.iterdir()) == []
    write_handover(tmp_path, orders)
    for _ in range(2):
        withdraw_handover(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        take_handover(tmp_path)


READY = "import sys; print('ready', flush=True); "
ORDERLY = "import signal, sys, threading; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7)); " + READY + "threading.Event().wait(60)"


def a_child(code: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_a_child_beyond_its_deadline_is_asked_first(stop: Stop) -> None:
    ending = supervise(a_child(ORDERLY), stop, seconds=0.1, grace=30)
    assert (ending.code, [sent.signal for sent in ending.sent], ending.deadline_passed) == (7, ["SIGUSR1"], True)


def test_a_request_to_stop_ends_the_wait_and_keeps_its_first_reason(stop: Stop) -> None:
    process = a_child(ORDERLY)

    def ask_twice() -> None:
        stop.request("halted by somebody")
        stop.request("SIGINT", interrupted=True)

    asking = threading.Timer(0.1, ask_twice)
    asking.start()
    ending = supervise(process, stop, seconds=60, grace=30)
    asking.join(30)
    assert (ending.code, ending.stopped, ending.deadline_passed) == (7, "halted by somebody", False)
    assert stop.interrupted


def test_grandchildren_go_with_the_group(stop: Stop) -> None:
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    grandchild = int(process.stdout.readline())
    supervise(process, stop, seconds=30, grace=1)
    descriptor = None
    try:
        descriptor = os.pidfd_open(grandchild)
    except ProcessLookupError:
        return
    import select

    assert select.select([descriptor], [], [], 10)[0], "the grandchild is still there"
    os.close(descriptor)


def test_ending_what_has_ended_changes_nothing(stop: Stop) -> None:
    process = a_child(READY)
    process.wait(30)
    ending = Ending()
    end_process(process, ending)
    assert ending.undisturbed
