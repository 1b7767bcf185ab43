from __future__ import annotations

import math

import pytest

from conformance.outputs import nccl_tests
from fixtures.probes import allreduce

RANKS = 16
GIB = 1 << 30


def table(halves: dict[int, list[tuple[float, int]]], ranks: int = RANKS) -> str:
    """What rank 0 prints for sizes with (seconds, wrong values) of both halves."""
    lines = allreduce.header(min(halves), max(halves), 5, 20, "torch=2.9 nccl=2.28")
    lines += [
        allreduce.rank_line(rank, 100 + rank, f"net-fabric-{rank // 8}", rank % 8, "0000:0f:00", "NVIDIA H100 80GB HBM3")
        for rank in range(ranks)
    ]
    lines += allreduce.columns()
    lines += [allreduce.format_row(size, ranks, pair) for size, pair in halves.items()]
    wrong = sum(count for pair in halves.values() for _, count in pair)
    lines += allreduce.footer(wrong, [1.0, 3.0])
    return "\n".join(lines)


def test_wrong_values_are_read_back() -> None:
    run = nccl_tests.parse(table({8: [(2.5e-5, 0), (2.4e-5, 0)], GIB: [(0.005, 3), (0.005, 1)]}))
    assert nccl_tests.judge(run).code is nccl_tests.NcclTestsCode.WRONG_VALUES
    assert run.out_of_bounds == 4
    assert run.out_of_bounds_failed


def test_sizes_double_up_to_the_limit() -> None:
    assert allreduce.sizes(8, 64) == [8, 16, 32, 64]
    assert allreduce.sizes(8, 8 * GIB)[-1] == 8 * GIB
    assert allreduce.sizes(13, 30) == [12, 24]
    assert allreduce.sizes(8, 4) == []
    assert allreduce.sizes(0, 8) == [4, 8]


@pytest.mark.parametrize(
    ("value", "text"), [(10887.4, "10887.4"), (25.913, "25.91"), (1234567.8, "1234568"), (98765432.1, "9.9e+07"), (0.0, "0.00")]
)
def test_times_fit_their_column(value: float, text: str) -> None:
    assert allreduce.format_time(value) == text


def test_bandwidths_fit_their_column() -> None:
    assert allreduce.format_bandwidth(184.921) == "184.92"
    assert allreduce.format_bandwidth(12345.678) == "12346"
    assert len(allreduce.format_bandwidth(1234567.0)) <= 6


def test_slow_sizes_run_fewer_times() -> None:
    assert allreduce.iterations_within(0.001, 4, 20) == 20
    assert allreduce.iterations_within(1.0, 4, 20) == 4
    assert allreduce.iterations_within(60.0, 4, 20) == 2
    assert allreduce.iterations_within(60.0, 4, 1) == 1
    assert allreduce.iterations_within(0.0, 4, 20) == 20
    assert allreduce.iterations_within(math.inf, 4, 20) == 20


def test_settings_are_whole_numbers() -> None:
    assert allreduce.number({}, "ALLREDUCE_ITERS", 20) == 20
    assert allreduce.number({"ALLREDUCE_ITERS": "5"}, "ALLREDUCE_ITERS", 20) == 5
    for text in ("", "-1", "8G", "\u0661", "9" * 16):
        with pytest.raises(SystemExit, match="ALLREDUCE_ITERS"):
            allreduce.number({"ALLREDUCE_ITERS": text}, "ALLREDUCE_ITERS", 20)
