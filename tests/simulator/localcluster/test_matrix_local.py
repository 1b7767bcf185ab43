"""Scenarios and defects on real Kubernetes: some by default, all with ``GPU_CONFORMANCE_LOCAL_MATRIX=all``."""

import os
from pathlib import Path

import pytest

from conformance.catalogue import load_catalogue
from conformance.matrix.detection import Finished
from fixtures.localcluster.install.release import Binaries
from fixtures.simulator.config.scenario import defect_names, load_defect
from fixtures.verdict.record import Access, Level, Report, Result, Verdict, encode
from tests.reports.sample_report import report
from tests.simulator.localcluster.known import CANNOT_EXIST, KNOWN
from tests.simulator.localcluster.matrix import line, plan
from tests.simulator.localcluster.packing import MAX_DEFECTS, Pack, packed, single
from tests.simulator.localcluster.rows import Row, all_names, fill, hides_nothing, judge, record, refusal

pytestmark = pytest.mark.test_all

SOME = (
    Pack(
        scenario="healthy",
        defects=(
            "adv-wrong-count-label",
            "fence-two-keys-in-one-pool",
            "iso-device-given-twice",
            "ops-image-latest",
            "psa-root-cuda-pod",
            "req-pending-unknown-name",
        ),
    ),
    Pack(scenario="rdma-training", defects=("gang-scheduler-not-ready", "network-attachment-dangling", "psa-ipc-lock-of-unnamed-tenant")),
)
ALL = os.environ.get("GPU_CONFORMANCE_LOCAL_MATRIX") == "all"
PACKS = packed([name for name in all_names() if name not in CANNOT_EXIST]) if ALL else SOME


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.spec)
def test_real_kubernetes_decides_as_the_embedded_cluster(binaries: Binaries, pack: Pack, tmp_path: Path) -> None:
    rows = judge(pack, binaries.minor, tmp_path)
    assert [line(row) for row in rows if row.unknown] == []
    assert {row.compared for row in rows} == {len(load_catalogue().by_id)}
    assert sorted(name for row in rows for name in row.names) == sorted(pack.names)


def test_what_cannot_exist_is_what_the_node_side_refuses() -> None:
    refused = {name: reason for name in defect_names() if (reason := refusal(single(name).spec))}
    assert set(refused) == set(CANNOT_EXIST)
    reasons = ("is a fault of", "takes rights", "its controller is real here", "once named")
    assert {name: text for name, text in refused.items() if not any(reason in text for reason in reasons)} == {}
    assert all(set(load_defect(name).trips) & set(one.shown_by.replace(",", " ").split()) for name, one in CANNOT_EXIST.items())


def a_result(id_: str, verdict: Verdict) -> Result:
    return Result(id=id_, title="", area="", level=Level.MUST, access=Access.READ, verdict=verdict, message="so it is")


def compared(*names: str, embedded: dict[str, Verdict], real: dict[str, Verdict]) -> Row:
    row = Row(simulate="", names=names)
    fill(row, [a_result(*one) for one in embedded.items()], [a_result(*one) for one in real.items()])
    return row


def test_verdicts_are_compared_one_by_one() -> None:
    row = compared(
        "healthy",
        embedded={"INV-01": Verdict.PASSED, "GANG-02": Verdict.NOT_APPLICABLE, "REQ-01": Verdict.PASSED, "OPS-01": Verdict.PASSED},
        real={"INV-01": Verdict.PASSED, "GANG-02": Verdict.PASSED, "REQ-01": Verdict.FAILED},
    )
    assert (row.compared, row.equal, row.unknown) == (4, 1, True)
    found = {one.id: (one.embedded, one.real, one.known) for one in row.differing}
    assert found == {
        "GANG-02": ("not_applicable", "passed", KNOWN[0].why),
        "REQ-01": ("passed", "failed", ""),
        "OPS-01": ("passed", "absent", ""),
    }
    assert "REQ-01 passed here, failed there (UNKNOWN): so it is" in line(row)


def test_a_known_difference_is_known_for_its_rows_only() -> None:
    verdicts = {"embedded": {"GANG-01": Verdict.FAILED}, "real": {"GANG-01": Verdict.NOT_APPLICABLE}}
    assert not compared("gang-scheduler-missing", **verdicts).unknown
    assert not compared("ops-image-latest", "gang-scheduler-missing", **verdicts).unknown
    assert compared("gang-scheduler-not-ready", **verdicts).unknown
    assert compared("gang-scheduler-missing", embedded=verdicts["real"], real=verdicts["embedded"]).unknown


def test_every_scenario_and_defect_is_in_one_run() -> None:
    names = all_names()
    for apart in (True, False):
        planned = plan(names, apart=apart)
        assert sorted(name for pack in planned for name in pack.names) == sorted(names)
    assert len(planned) < len(names), "some share a run"
    assert all(len(pack.defects) <= MAX_DEFECTS for pack in planned)


def test_a_run_in_which_one_defect_hides_another_is_not_taken() -> None:
    pack = Pack(scenario="healthy", defects=("ops-image-latest", "psa-root-cuda-pod"))
    red = dict.fromkeys(pack.trips, Verdict.FAILED)
    assert hides_nothing(pack, [a_result(*one) for one in {**red, "INV-01": Verdict.PASSED}.items()])
    assert not hides_nothing(pack, [a_result(*one) for one in list(red.items())[1:]])
    assert not hides_nothing(pack, [a_result(*one) for one in {**red, "INV-01": Verdict.WARNED}.items()])


@pytest.mark.parametrize(("code", "complete"), [(0, True), (1, True), (10, True), (11, True), (2, False), (3, False), (10, False)])
def test_a_run_that_ended_early_is_not_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, complete: bool) -> None:
    def run(command: list[str], **_: object) -> Finished:
        judged = [] if code == 10 and not complete else [a_result("INV-01", Verdict.PASSED)]
        (tmp_path / "report").mkdir()
        (tmp_path / "report" / "report.json").write_bytes(encode(report(judged, exit_code=code)))
        return Finished(code=code, output="1 error in 0.29s\n")

    monkeypatch.setattr("tests.simulator.localcluster.rows.run_pytest", run)
    reported = record(tmp_path / "report", "--simulate", "healthy")
    if complete:
        assert isinstance(reported, Report)
    else:
        assert reported == f"--simulate healthy: no complete record (exit {code}): 1 error in 0.29s", "both sides would be called the same"
