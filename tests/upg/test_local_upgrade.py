"""The gate around a real upgrade of the control plane: etcd's data and the simulated GPU nodes stay, the programs are replaced."""

from pathlib import Path

import pytest

from fixtures.localcluster.install.release import DEFAULT_MINOR, BinariesMissing, find, minors
from fixtures.simulator.config.scenario import load_defect
from tests.upg.local_upgrade import REGRESSIONS, Step, there_and_back, upgrade


@pytest.mark.test_all
@pytest.mark.xdist_group("upgrade")
def test_a_healthy_upgrade_may_stay_and_a_regression_may_not(tmp_path: Path) -> None:
    try:
        newest = find(DEFAULT_MINOR)
    except BinariesMissing as error:
        pytest.skip(f"Kubernetes {DEFAULT_MINOR} is not built: {error}")
    try:
        older = find(minors()[minors().index(DEFAULT_MINOR) + 1])
    except BinariesMissing:
        older = newest  # a restart then: the same steps, without another version
    planted = (REGRESSIONS[0], REGRESSIONS[-1])
    taken = upgrade([older, newest], planted, tmp_path, run_options="--only INV,FENCE-01,REQ-07,OBS-06")
    assert [step.version for step in taken] == [older.version, *[newest.version] * 3]
    assert [step.regression for step in taken] == ["", "", *planted]
    assert "GATE OPEN: nothing is worse than before" in taken[1].output
    assert [step.text for step in taken if not step.holds] == []


def a_step(regression: str, code: int, *named: str) -> Step:
    output = "\n".join(["", f"new failure ({len(named)})", *(f"  {one} MUST Node x (passed -> failed): y" for one in named), "", "GATE"])
    due = load_defect(regression).trips if regression else ()
    return Step(phase="after", version="v1.37.2", regression=regression, due=tuple(due), code=code, output=output, seconds=1.0)


@pytest.mark.parametrize(
    ("step", "holds"),
    [
        (a_step("", 0), True),
        (a_step("", 1, "INV-01"), False),
        (a_step("req-quota-not-enforced", 1, "REQ-07"), True),
        (a_step("req-quota-not-enforced", 0), False),
        (a_step("req-quota-not-enforced", 1), False),
        (a_step("req-quota-not-enforced", 1, "REQ-07", "INV-01"), False),
    ],
    ids=["healthy", "healthy stopped", "named", "let through", "stopped for no reason", "stopped for another reason too"],
)
def test_a_regression_has_to_be_stopped_by_its_own_name(step: Step, holds: bool) -> None:
    assert step.holds is holds


def test_the_chain_goes_up_by_each_minor_and_down_again() -> None:
    chain = there_and_back()
    assert chain == chain[::-1]
    assert chain[: len(minors())] == minors()[::-1]
