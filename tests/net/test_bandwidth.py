import math

import pytest

from conformance.net.figures import KEYS, Figure
from conformance.net.judging import judge_bandwidth, unless_without_figure
from conformance.net.two_nodes import FabricRun
from fixtures.probes import allreduce
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.net.logs import a_run

GIB = 1 << 30
LARGEST = 8 * GIB


def table(busbw: float = 380.0, *, ranks: int = 16, wrong: int = 0, most: int = LARGEST, rows: bool = True, foot: bool = True) -> str:
    factor = 2 * (ranks - 1) / ranks
    lines = allreduce.header(8, LARGEST, 5, 20, "torch=2.9 nccl=2.28")
    lines += [allreduce.rank_line(rank, 1, f"net-fabric-{rank // 8}", rank % 8, "0000:0f:00", "NVIDIA H100") for rank in range(ranks)]
    lines += allreduce.columns()
    for size in (8, most) if rows else ():
        seconds = size / (busbw / factor * 1e9) if size == most else 3e-5
        lines.append(allreduce.format_row(size, ranks, [(seconds, wrong if size == most else 0), (seconds, 0)]))
    lines += allreduce.footer(wrong, [busbw / 4]) if foot else []
    return "\n".join(lines)


def run_with(text: str, second: str = "", **more: object) -> FabricRun:
    return a_run(text, second, per_node=8, **more)  # type: ignore[arg-type]


NONE = Figure(None, KEYS)


def judged(run: FabricRun, minimum: float | None = 100) -> dict[str, Finding]:
    figure = NONE if minimum is None else Figure(minimum, "the policy")
    return {finding.subject.name: finding for finding in judge_bandwidth(run, figure)}


def test_without_a_figure_a_run_can_fail_and_never_passes() -> None:
    found = judged(run_with(table()), None)
    assert {name: finding.outcome for name, finding in found.items()} == dict.fromkeys(
        ("bus bandwidth", "ranks", "values"), Outcome.NOT_JUDGED
    )
    assert "380" in found["bus bandwidth"].message
    assert "network.minBusBandwidth" in found["bus bandwidth"].message
    with pytest.raises(NotApplicable, match=r"minBusBandwidth.*380") as raised:
        list(unless_without_figure(judge_bandwidth(run_with(table()), NONE)))
    assert raised.value.code == "NoFigure"
    assert "3" in judged(run_with(table(wrong=3)), None)["values"].observed
    assert {one.outcome for one in unless_without_figure(judge_bandwidth(run_with(table(wrong=3)), NONE))} == {
        Outcome.BAD,
        Outcome.NOT_JUDGED,
    }


def test_the_figure_is_compared_with_the_largest_size_and_not_with_the_average() -> None:
    assert judged(run_with(table(380)), 340)["bus bandwidth"].outcome is Outcome.OK
    low = judged(run_with(table(190)), 340)["bus bandwidth"]
    assert low.outcome is Outcome.BAD
    assert "340" in low.message


def test_a_run_that_stopped_before_the_largest_size_fails() -> None:
    found = judged(run_with(table(most=GIB, foot=False), finished=False, exit_code=None, state="Running"))
    assert found["bus bandwidth"].outcome is Outcome.BAD
    assert "not finished" in found["bus bandwidth"].message
    assert found["values"].outcome is Outcome.UNDECIDED


def unchecked(line: str) -> str:
    """A row as ``-c 0`` prints it."""
    fields = line.split()
    if len(fields) != 13 or not fields[0].isdigit():
        return line
    return "  ".join([*fields[:8], "N/A", *fields[9:12], "N/A"])


WITHOUT_A_LIST = "\n".join(line for line in table().splitlines() if " Rank " not in line)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([table(rows=False)], {"bus bandwidth": Outcome.BAD}),
        ([table(wrong=3)], {"bus bandwidth": Outcome.OK, "values": Outcome.BAD}),
        (["\n".join(map(unchecked, table().splitlines()))], {"bus bandwidth": Outcome.OK, "values": Outcome.UNDECIDED}),
        ([table(ranks=8)], {"bus bandwidth": Outcome.BAD, "ranks": Outcome.BAD}),  # the bandwidth's factor is that of 8 ranks
        ([table(ranks=8), table(ranks=8)], {"ranks": Outcome.BAD}),
        ([WITHOUT_A_LIST], {"ranks": Outcome.UNDECIDED}),
        ([table().replace(" 380.00 ", "  99.00 ")], {"bus bandwidth": Outcome.BAD}),
    ],
    ids=["no rows", "wrong values", "not checked", "fewer ranks", "two runs", "no list of ranks", "figures contradict"],
)
def test_one_thing_wrong(texts: list[str], expected: dict[str, Outcome]) -> None:
    found = judged(run_with(*texts))
    assert {name: found[name].outcome for name in expected} == expected


def test_an_image_without_the_command_is_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        judged(run_with("sh: torchrun: not found", exit_code=127, state="Failed"))


# -- allreduce


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
