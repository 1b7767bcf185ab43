"""Real control planes that several files share: one without nodes, and one with those of `healthy`, for all that look at it as it is."""

from collections.abc import Iterator

import pytest

from fixtures.localcluster.control_plane.control_plane import ControlPlane
from fixtures.localcluster.control_plane.processes import Running, identity_of
from fixtures.localcluster.install.release import Binaries, BinariesMissing, find
from fixtures.localcluster.local_cluster import LocalCluster


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    try:
        return find()
    except BinariesMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="package")
def plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane without nodes. Whoever uses it shares the group ``accounts``, and leaves no node."""
    with ControlPlane.start(binaries=binaries, running=Running(tmp_path_factory.mktemp("running"))) as plane:
        yield plane


@pytest.fixture(scope="package")
def healthy(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Whoever uses it shares the group ``healthy``. When it is stopped, nothing is left of it."""
    folder = tmp_path_factory.mktemp("local")
    cluster = LocalCluster.start(None, "healthy", folder, binaries.paths["kube-apiserver"].parent)
    process = cluster._process
    try:
        yield cluster
    finally:
        cluster.stop()
    cluster.stop()
    assert process.returncode == 0
    assert identity_of(process.pid) is None
    assert list(folder.iterdir()) == []
