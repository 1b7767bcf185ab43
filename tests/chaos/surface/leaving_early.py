"""A plugin for ``-p``: after experiment X1 somebody's hook ends pytest, or skips what follows, as if all were well."""

import os

import pytest

HOW = os.environ.get("GPU_CONFORMANCE_TEST_LEAVING", "")


def pytest_runtest_logfinish(nodeid: str) -> None:
    if HOW == "exit" and "[X1]" in nodeid:
        pytest.exit("enough", returncode=0)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if HOW == "skip" and "[X1]" not in item.nodeid:
        pytest.skip("not today")
