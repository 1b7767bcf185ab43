"""How far probes reach: one node of every product, or with --every-node every free one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.verdict.record import Verdict
from tests.endtoend.runs import run_for_record

pytestmark = pytest.mark.test_all


def test_every_free_node_is_asked_in_turns(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("probes: {atOnce: 2}\n", encoding="utf-8")
    done = run_for_record(tmp_path, "--simulate", "mixed-skus", "--only", "ISO-01,ISO-03", "--every-node", "--policy", str(policy))
    for id_ in ("ISO-01", "ISO-03"):
        result = done.result(id_)
        assert (result.verdict, result.judged, result.total) == (Verdict.PASSED, 6, 6), done.output
        assert {subject.kind for subject in result.subjects} == {"Node"}


def test_by_default_one_node_of_every_product_is_asked(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, "--simulate", "mixed-skus", "--only", "ISO-01")
    result = done.result("ISO-01")
    assert (result.verdict, result.judged, result.total) == (Verdict.PASSED, 3, 6), done.output
    left = {subject.name: subject.message for subject in result.subjects if subject.verdict is Verdict.NOT_APPLICABLE}
    assert len(left) == 3
    assert all("of the same product was probed" in message for message in left.values())
