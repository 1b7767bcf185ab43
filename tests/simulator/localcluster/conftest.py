"""A real control plane with the nodes of `healthy`, for all tests that look at it as it is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures.localcluster.control_plane.processes import identity_of
from fixtures.localcluster.install.search import Binaries, BinariesMissing, find
from fixtures.localcluster.local_cluster import LocalCluster


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    try:
        return find()
    except BinariesMissing as error:
        pytest.skip(str(error))


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
