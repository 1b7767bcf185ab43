"""The gate around a real upgrade of the control plane: etcd's data and the simulated GPU nodes stay, the programs are replaced."""

from pathlib import Path

import pytest

from fixtures.localcluster.install.release import DEFAULT_MINOR, Binaries, BinariesMissing, find, minors
from tests.upg.local_upgrade import upgrade

pytestmark = pytest.mark.test_all

OLDER = minors()[minors().index(DEFAULT_MINOR) + 1]


def built(minor: str) -> Binaries:
    try:
        return find(minor)
    except BinariesMissing as error:
        pytest.skip(f"Kubernetes {minor} is not built: {error}")


@pytest.mark.xdist_group("upgrade")
def test_a_healthy_upgrade_may_stay_and_one_that_lost_an_admission_plugin_may_not(tmp_path: Path) -> None:
    older, newer = built(OLDER), built(DEFAULT_MINOR)
    done = upgrade(older, newer, tmp_path, run_options="--only INV,FENCE,REQ --access dry-run")
    assert (done.version_before, done.version_after) == (older.version, newer.version)
    assert done.before.code == 0, done.before.output
    assert done.healthy.code == 0, done.healthy.output
    assert "GATE OPEN: nothing is worse than before" in done.healthy.output
    assert done.regression.code == 1, done.regression.output
    assert "GATE: new failure: REQ-07 MUST" in done.regression.output
    assert done.holds
