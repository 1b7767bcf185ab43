from __future__ import annotations

import math

import pytest

from fixtures.probes import allreduce

GIB = 1 << 30


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
