"""What others do to the target nodes meanwhile makes a result inconclusive: neither a pass nor the cluster's failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.verdict.interference import WORDS
from chaos.verdict.judge import judge
from fixtures.verdict.record import Verdict
from tests.chaos.catalogue.documents import EXTENSION
from tests.chaos.verdict.folder import Folder, samples


def judged(tmp_path: Path, signal: str, begins: float | None, **more: Any) -> Any:
    folder = Folder(tmp_path / "X1", signals=[*EXTENSION["signals"], signal])

    def change(t: float) -> dict[str, Any]:
        theirs = begins is not None and begins <= t < begins + 1
        return {signal: ["n1: kubectl-cordon"] if theirs else [], **(more if theirs else {})}

    folder.samples = samples(change)
    return judge(folder.write())


@pytest.mark.parametrize("signal", sorted(WORDS))
def test_nobody_else_at_work_passes(tmp_path: Path, signal: str) -> None:
    assert judged(tmp_path, signal, None).verdict is Verdict.PASSED


@pytest.mark.parametrize("signal", sorted(WORDS))
@pytest.mark.parametrize("begins", [1.0, 2.5, 5.5], ids=["before the fault", "during", "after the undo"])
def test_somebody_else_at_work_is_never_passed(tmp_path: Path, signal: str, begins: float) -> None:
    found = judged(tmp_path, signal, begins)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason_codes == ["OthersAtWork"]
    assert WORDS[signal] in found.message
    assert "kubectl-cordon" in found.message


def test_nor_is_it_the_clusters_failure(tmp_path: Path) -> None:
    found = judged(tmp_path, "node.cordoned.by.others", 2.5, **{"node.ready": False})
    assert found.verdict is Verdict.INCONCLUSIVE
    assert any(one.verdict is Verdict.FAILED for one in found.findings)


def test_it_does_not_excuse_what_happened_elsewhere(tmp_path: Path) -> None:
    found = judged(tmp_path, "node.cordoned.by.others", 2.5, **{"nodes.others": ["n7"]})
    assert found.verdict is Verdict.FAILED
    assert found.reason_codes == ["CollateralDamage"]
