"""A fault that had to come in the middle of somebody's work and did not is no experiment: never passed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.verdict.judge import judge
from fixtures.verdict.record import Verdict
from tests.chaos.verdict.folder import Folder


@pytest.mark.parametrize(
    ("detail", "verdict", "says"),
    [
        ({"interrupted": True, "before": True, "after": True}, Verdict.PASSED, ""),
        ({"interrupted": False, "before": True, "after": False}, Verdict.INCONCLUSIVE, "under way just before, and not under way once"),
        ({"interrupted": False, "before": False, "after": False}, Verdict.INCONCLUSIVE, "it was not under way just before"),
        ({"interrupted": False, "before": True, "after": None}, Verdict.INCONCLUSIVE, "and not known once it was through"),
        ({"interrupted": "perhaps"}, Verdict.INCONCLUSIVE, "not known just before"),
    ],
)
def test_the_verdict_is_by_what_was_seen_before_and_after(tmp_path: Path, detail: dict[str, Any], verdict: Verdict, says: str) -> None:
    folder = Folder(tmp_path / "X1")
    folder.ledger[1]["detail"] = detail
    folder.write()
    found = judge(tmp_path / "X1")
    assert (found.verdict, found.reason_codes) == (verdict, ["FaultNotLanded"] if says else [])
    assert says in found.message
