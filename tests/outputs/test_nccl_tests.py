"""Runs of nccl-tests and perftest: tables of all releases, torn or cut, and what is wrong with them."""

import json

import pytest

from conformance.cli.inspect import inspect
from conformance.outputs import job_logs, nccl_tests, nccl_tests_rows
from conformance.outputs.job_logs import Memory
from conformance.outputs.nccl_tests import NcclTestsCode
from tests.outputs.lookalikes import lookalike
from tests.tables import each_row

NEW = lookalike("nccl-tests-new")


def code_of(text: str, **options: float) -> NcclTestsCode:
    return nccl_tests.judge(nccl_tests.parse(text), **options).code  # type: ignore[arg-type]


def test_the_average_decides_nothing() -> None:
    assert code_of(NEW, minimum_busbw=150) is NcclTestsCode.OK
    assert code_of(NEW, minimum_busbw=151) is NcclTestsCode.BELOW_MINIMUM


@each_row
def test_one_thing_wrong(old: str, new: str, expected: NcclTestsCode) -> None:
    assert old in NEW
    assert code_of(NEW.replace(old, new)) is expected


def test_ranks() -> None:
    assert code_of(NEW, ranks=16) is NcclTestsCode.RANKS_MISMATCH
    lines = [line for line in NEW.splitlines() if "Rank " not in line or "Rank  0" in line]
    alone = "\n".join(line for text in lines for line in ([text, text] if "Rank  0" in text else [text]))
    assert code_of(alone) is NcclTestsCode.RANKS_MISMATCH


def test_a_table_without_rows_is_a_missing_measurement() -> None:
    text = "\n".join(line for line in NEW.splitlines() if line.startswith("#"))
    assert code_of(text) is NcclTestsCode.NO_MEASUREMENT


@each_row
def test_rows_of_all_formats(line: str, expected: tuple[str, int | None, float | None]) -> None:
    row = nccl_tests_rows.parse_row(line)
    assert row is not None
    assert (row.redop, row.root, row.out_of_place.wrong) == expected
    assert row.out_of_place.busbw == 3.0


@each_row
def test_no_row(line: str) -> None:
    assert nccl_tests_rows.parse_row(line) is None


def test_gpu_memory_by_its_lines() -> None:
    output = job_logs.parse_perftest(lookalike("ib-write-bw-cuda"))
    assert (output.memory, output.dmabuf, output.devices, output.whole) == (Memory.CUDA, True, ("mlx5_2",), True)
    verdict = job_logs.judge_perftest(output, minimum_gbits=380)
    assert (verdict.code, verdict.good) == ("GDR_MEASURED", True)
    assert job_logs.judge_perftest(output, minimum_gbits=395).code == "BELOW_MINIMUM"


def test_host_memory_needs_a_whole_output() -> None:
    text = lookalike("ib-write-bw-cuda")
    host = text[text.index("-----") : text.index("deallocating")]
    assert job_logs.parse_perftest(host).memory is Memory.HOST
    assert job_logs.parse_perftest(host.rstrip().rstrip("-")).memory is Memory.UNKNOWN
    assert job_logs.parse_perftest("$ ib_write_bw --use_cuda=0 -d mlx5_2\n" + host).memory is Memory.UNKNOWN


def test_failures_and_units() -> None:
    failed = job_logs.judge_perftest(job_logs.parse_perftest("RDMA_Write BW Test\nCouldn't allocate MR\n"))
    assert (failed.code, failed.good) == ("FAILED", False)
    mebi = job_logs.parse_perftest(" #bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n 8 5 1000.0 1000.0 0.1\n")
    assert mebi.rows[0].average == pytest.approx(8.388608)


TABLE = lookalike("nccl-tests-new")
LARGEST = next(line for line in TABLE.splitlines() if line.split()[:1] == ["4194304"])


def code(text: str) -> tuple[str, str]:
    result = inspect("nccl-tests", text)
    return result.verdict.value, result.reason_code


def rows(text: str) -> int:
    return len(nccl_tests.parse(text).rows)


def test_rows_with_the_time_behind() -> None:
    stamped = "\n".join(f"{line}  2026-03-01 10:11:12" if line[:1] == " " else line for line in TABLE.splitlines())
    assert code(stamped) == ("good", "OK")
    assert rows(stamped) == rows(TABLE) > 0
    assert inspect("nccl-tests", stamped).facts == inspect("nccl-tests", TABLE).facts
    each = "8 2 float sum -1 1 2 3 0 .1 .2 .3 .4 1 2 3 0 .1 .2 .3 .4 2026-03-01 10:11:12"
    row = nccl_tests_rows.parse_row(each)
    assert row is not None
    assert row.in_place is not None


@each_row
def test_prefixes_of_launchers(prefix: str) -> None:
    text = "\n".join(prefix + line for line in TABLE.splitlines())
    assert code(text) == ("good", "OK")
    assert inspect("nccl-tests", text).facts == inspect("nccl-tests", TABLE).facts


@pytest.mark.parametrize(
    "noise", ["h-1:8:9 [0] NCCL INFO Connected all rings", "\nh-1:8:9 [0] NCCL INFO Connected all rings\nh-1:8:9 [1] NCCL INFO x"]
)
def test_a_row_that_lines_of_nccl_tear_apart(noise: str) -> None:
    fields = LARGEST.split()
    torn = f"  {'  '.join(fields[:5])}{noise}\n  {'  '.join(fields[5:])}"
    text = TABLE.replace(LARGEST, torn)
    assert inspect("nccl-tests", text).facts == inspect("nccl-tests", TABLE).facts
    half = TABLE.replace(LARGEST, torn.rpartition("\n")[0])
    assert code(half) == ("bad", "NO_MEASUREMENT"), "a row whose figures never came is no row"


def report(**more: object) -> dict[str, object]:
    def half(busbw: float, wrong: float | None = 0.0) -> dict[str, object]:
        return {"time": 100.0, "alg_bw": busbw / 1.5, "bus_bw": busbw, "nwrong": wrong}

    sizes = [{"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1"} for size in (1024, 4096)]
    results = [row | {"out_of_place": half(90.0 * number), "in_place": half(91.0)} for number, row in enumerate(sizes, 1)]
    base: dict[str, object] = {
        "version": 1,
        "args": ["/opt/nccl-tests/build/all_reduce_perf", "-J", "out"],
        "env": ["A=b"],
        "config": {
            "minimum_bytes": 1024,
            "maximum_bytes": 4096,
            "validation": 1,
            "devices": [
                {"rank": rank, "hostname": "n", "device": rank, "device_hex": "0000:1b:00", "device_info": "X"} for rank in range(4)
            ],
        },
        "results": results,
        "out_of_bounds": {"count": 0, "okay": True},
        "average_bus_bandwidth": {"bandwidth": 135.0, "okay": "unchecked"},
        "errors": [],
    }
    return base | more


def test_the_json_report() -> None:
    facts = inspect("nccl-tests", json.dumps(report())).facts
    assert (facts["busbw"], facts["largestBytes"], facts["ranks"], facts["collective"], facts["wrong"]) == (180.0, 4096, 4, "all_reduce", 0)
    assert code(json.dumps(report(), indent=2)) == ("good", "OK")


@each_row
def test_one_thing_wrong_in_the_json_report(more: dict[str, object], expected: tuple[str, str]) -> None:
    assert code(json.dumps(report(**more))) == expected


@each_row
def test_a_run_that_says_that_it_failed(line: str) -> None:
    assert code(f"{TABLE}\n{line}\n") == ("bad", "FAILED")
