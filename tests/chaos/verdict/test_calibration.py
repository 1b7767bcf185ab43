"""What a node without CPU time to spare does is nobody's failure, and what a fault does on another one is."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.model.experiment import SLOW_START, stretched
from chaos.model.records import PREPARATION
from fixtures.verdict.record import Verdict
from tests.chaos.verdict.folder import Folder, record
from tests.chaos.verdict.test_verdict import judged, put, seen, within
from tests.tables import each_row


class Row(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """``stalled``: the signal in samples at these times, elsewhere 0.2. ``late``: when one more pod runs, ``within`` its bound."""

    start: float = 0.05
    pause: float = 0.2
    stalled: dict[float, float] = {}
    late: float = 2.1
    lost: bool = False
    harmed: bool = False
    broken: bool = False
    unread: bool = False
    not_done: bool = False
    within: float = 0.6
    finding: str = ""
    verdict: Verdict = Verdict.PASSED
    reason: str = ""


EXPECT = [
    {"name": "they are not touched", "always": {"signal": "canaries.uids", "contains": "baseline"}},
    {"name": "they never stall", "always": {"signal": "canaries.stalled", "at_most": 1.0}, "until": "undo"},
    {"name": "another one runs", "eventually": {"signal": "canaries.running", "above": "baseline"}, "within": "started"},
]
SIGNALS = ["node.labels", "node.ready", "nodes.others", "canaries.uids", "canaries.stalled", "canaries.running"]


@each_row
def test_a_node_that_was_slow_before_is_not_blamed(row: Row, tmp_path: Path) -> None:
    def values(t: float) -> dict[str, Any]:
        return {
            "canaries.start": row.start,
            "canaries.pause": row.pause,
            "canaries.stalled": None if row.unread and 2.1 < t < 3.9 else row.stalled.get(t, 0.2),
            "canaries.running": 2 if t < row.late else 3,
            "canaries.uids": {} if row.lost and t > 2.5 else {"worker-0": "u 0 Running"},
            "nodes.others": ["other NotReady"] if row.harmed and t > 2.5 else [],
            "node.ready": not (row.broken and t > 2.1),
        }

    seconds = {"started": {"live": row.within, "simulated": row.within}}
    spoils = [seen(values), within(started=row.within, **{SLOW_START: 0.6})]
    spoils += [put("journal.run.1", record("hold 1.0", "failed"))] * row.not_done
    found = judged(tmp_path, *spoils, expect=EXPECT, signals=SIGNALS, seconds=seconds, **STEADY)
    assert (found.verdict, found.reason_codes) == (row.verdict, [row.reason] if row.reason else []), found.message
    if row.finding:
        name = row.finding if row.finding in ("recovery", "hold 1.0") or ":" in row.finding else f"expect: {row.finding}"
        (one,) = [one for one in found.findings if one.name == name]
        assert (one.verdict, one.reason_code) == (row.verdict, row.reason), one.message
    if row.reason == "SlowRuntime":
        assert "before the fault a" in found.message


STEADY = {"steady": {"signal": "node.ready", "is": True}, "detect": None, "contained": None}


@pytest.mark.parametrize(("start", "bound"), [(5.0, 120.0), (45.0, 180.0), (600.0, 240.0), ("garbled", 120.0)])
def test_what_pods_may_take_follows_what_one_took_and_is_bounded(start: object, bound: float) -> None:
    seconds = {"recovery": 120.0, "seen": 10.0, SLOW_START: 60.0}
    assert stretched(seconds, {"recovery", "absent"}, start) == {**seconds, "recovery": bound}


@pytest.mark.parametrize(("start", "verdict", "reasons"), [(0.7, Verdict.INCONCLUSIVE, ["SlowRuntime"]), (0.1, Verdict.ERROR, None)])
def test_workers_that_did_not_start_in_time_are_the_slow_nodes(
    tmp_path: Path, start: float, verdict: Verdict, reasons: list[str] | None
) -> None:
    def not_started(folder: Folder) -> None:
        why = "2 workers did not start within 180 s: worker-0 Pending on n1"
        folder.engine.abort = f"start_workers: ActivityFailed: {why}"
        folder.journal["run"] = [{**record("label", "failed"), "exception": [why]}, record("hold 1.0", "failed")]
        folder.ledger = [{**line, **({"detail": {PREPARATION: True}} if line["state"] == "applied" else {})} for line in folder.ledger]

    waited = seen(lambda t: {"canaries.start": start if t < 4 else 0.0})  # in the end they are taken away
    found = judged(tmp_path, waited, within(**{SLOW_START: 0.6}), not_started)
    assert found.verdict is verdict, found.message
    assert reasons is None or found.reason_codes == reasons, found.message
