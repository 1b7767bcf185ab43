from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.ledger.file import Ledger
from fixtures.cluster.client import Cluster
from fixtures.simulator.server.store import Store
from tests.chaos import leak_scan
from tests.chaos.engine.stage import Stage, stage
from tests.chaos.leak_scan import Fingerprint
from tests.chaos.ledger.simulated_cluster import ledger, world
from tests.troubles import Trouble


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One healthy embedded cluster for the tests of a module."""
    with stage(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def trouble() -> Trouble:
    """What befalls requests to the small cluster: nothing, until a test says what and how often."""
    return Trouble(times=0)


@pytest.fixture
def served(tmp_path: Path, trouble: Trouble) -> Iterator[tuple[Cluster, Store]]:
    with world(tmp_path, trouble) as pair:
        yield pair


@pytest.fixture
def cluster(served: tuple[Cluster, Store]) -> Cluster:
    """A small cluster in a store; its kubeconfig is in the test's folder."""
    return served[0]


@pytest.fixture
def store(served: tuple[Cluster, Store]) -> Store:
    return served[1]


@pytest.fixture
def book(tmp_path: Path, cluster: Cluster) -> Ledger:
    """The ledger of experiment A1 on that cluster, with its copy there."""
    return ledger(tmp_path, cluster)


@pytest.fixture
def unchanged(cluster: Cluster) -> Iterator[Fingerprint]:
    """What the leak scan shows is as before when the test has ended."""
    before = leak_scan.scan(cluster)
    yield before
    assert before.differences(leak_scan.scan(cluster)) == []
