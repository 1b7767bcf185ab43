"""A plugin for ``-p``: the worker that is to judge FENCE-03 dies, as one does that the kernel kills for its memory."""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    mark = item.get_closest_marker("requirement")
    if mark is not None and mark.args[0] == "FENCE-03" and hasattr(item.config, "workerinput"):
        os._exit(9)
