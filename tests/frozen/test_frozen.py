import os
import subprocess
import sys

import pytest

from tests.frozen.__main__ import Line, differences, line_of
from tests.frozen.worlds import Row, worlds

GOOD: Row = ("Node a", "ok", "", "taints: gpu")
BAD: Row = ("Node a", "bad", "NodeWithoutTaint", "taints: none")
OTHER: Row = ("Node b", "ok", "", "taints: gpu")


def line(*rows: Row, world: str = "defect x", requirement: str = "FENCE-01") -> Line:
    return line_of(world, requirement, list(rows))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([line(GOOD, OTHER)], [line(OTHER, GOOD)], []),
        ([line(GOOD, OTHER)], [line(BAD, OTHER)], ["defect x: FENCE-01: Node a: ok taints: gpu → bad NodeWithoutTaint taints: none"]),
        ([line(GOOD, OTHER)], [line(GOOD)], ["defect x: FENCE-01: Node b: ok taints: gpu → nothing"]),
        ([line(GOOD)], [line(GOOD, GOOD)], ["defect x: FENCE-01: Node a: 1 findings → 2 findings"]),
        ([line(GOOD)], [line(GOOD), line(BAD, requirement="X")], ["defect x: X: Node a: nothing → bad NodeWithoutTaint taints: none"]),
        ([line(GOOD)], [line(GOOD, world="defect y")], ["defect x is gone", "defect y is new"]),
    ],
)
def test_differences_are_shown_in_words(before: list[Line], after: list[Line], words: list[str]) -> None:
    assert list(differences(before, after)) == words


@pytest.mark.test_all
def test_a_world_gives_the_same_rows_in_every_process() -> None:
    name = "scenario showcase"
    assert name in worlds()
    code = (
        "from tests.frozen.worlds import digest, worlds;"
        f"print(digest([sorted(rows) for found in worlds()[{name!r}]().values() for rows in found.values()]))"
    )
    run = [sys.executable, "-c", code]
    printed = {subprocess.check_output(run, env={**os.environ, "PYTHONHASHSEED": seed}, text=True) for seed in ("1", "2")}
    assert len(printed) == 1
