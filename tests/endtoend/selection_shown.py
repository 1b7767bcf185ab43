"""A plugin for ``-p``: writes what a run left out, and what its requirements need, where the test that started it can read it."""

import json
from pathlib import Path

import pytest

from conformance.plugin.session import STATE


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    state = config.stash.get(STATE, None)
    if state is not None and not state.worker:
        shown = {"left_out": state.left_out, "reads": sorted(state.needs.reads), "writes": sorted(state.needs.writes)}
        Path("selection.json").write_text(json.dumps(shown), encoding="utf-8")
