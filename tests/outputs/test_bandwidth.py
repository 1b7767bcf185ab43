import pytest

from conformance.outputs import job_logs, nccl_tests
from conformance.outputs.job_logs import Memory
from conformance.outputs.nccl_tests import NcclTestsCode
from tests.outputs.lookalikes import lookalike
from tests.tables import each_row

NEW = lookalike("nccl-tests-new")


def code(text: str, **options: float) -> NcclTestsCode:
    return nccl_tests.judge(nccl_tests.parse(text), **options).code  # type: ignore[arg-type]


def test_the_average_decides_nothing() -> None:
    assert code(NEW, minimum_busbw=150) is NcclTestsCode.OK
    assert code(NEW, minimum_busbw=151) is NcclTestsCode.BELOW_MINIMUM


@each_row
def test_one_thing_wrong(old: str, new: str, expected: NcclTestsCode) -> None:
    assert old in NEW
    assert code(NEW.replace(old, new)) is expected


def test_ranks() -> None:
    assert code(NEW, ranks=16) is NcclTestsCode.RANKS_MISMATCH
    lines = [line for line in NEW.splitlines() if "Rank " not in line or "Rank  0" in line]
    alone = "\n".join(line for text in lines for line in ([text, text] if "Rank  0" in text else [text]))
    assert code(alone) is NcclTestsCode.RANKS_MISMATCH


def test_a_table_without_rows_is_a_missing_measurement() -> None:
    text = "\n".join(line for line in NEW.splitlines() if line.startswith("#"))
    assert code(text) is NcclTestsCode.NO_MEASUREMENT


@each_row
def test_rows_of_all_formats(line: str, expected: tuple[str, int | None, float | None]) -> None:
    row = nccl_tests.parse_row(line)
    assert row is not None
    assert (row.redop, row.root, row.out_of_place.wrong) == expected
    assert row.out_of_place.busbw == 3.0


@pytest.mark.parametrize(
    "line",
    ["", "8 2 float", "a b c d e f g", "8 2 float sum -1 x y z 0", "8 2 float sum -1 nan nan nan 0", "\uff18 2 float sum -1 1 2 3 0"],
)
def test_no_row(line: str) -> None:
    assert nccl_tests.parse_row(line) is None


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
