from collections.abc import Iterator

import pytest

from tests.chaos.engine.stage import Stage, stage


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One healthy embedded cluster for the tests of a module."""
    with stage(tmp_path_factory.mktemp("cluster")) as made:
        yield made
