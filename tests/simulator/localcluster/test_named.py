"""The local control plane, reached by a plain kubeconfig: its real API server says nothing of a simulation, its nodes do."""

from pathlib import Path

import pytest

from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.verdict.record import TargetKind
from reports.cncf.statuses import CncfError, release_of
from tests.endtoend.runs import run_suite

pytestmark = pytest.mark.test_all


@pytest.mark.xdist_group("healthy")
def test_a_control_plane_with_simulated_nodes_is_no_live_cluster(healthy: LocalCluster, tmp_path: Path) -> None:
    done = run_suite(tmp_path, "--kubeconfig", str(healthy.kubeconfig), "--read-only", "--only", "FENCE-01")
    target = done.record.target
    assert (target.kind, target.simulated_nodes) == (TargetKind.SIMULATED_NODES, target.nodes)
    assert "[cluster of simulated nodes]" in done.output.splitlines()[-1]
    assert "*** SIMULATED NODES: " in done.output
    for name in ("report.html", "report.md"):
        assert "SIMULATED NODES" in (tmp_path / "report" / name).read_text()
    with pytest.raises(CncfError, match="cluster of simulated nodes"):
        release_of(done.record)
