"""Chaos experiments as tests: ``pytest chaos --chaos``. Without ``--chaos`` none of them can be selected, and none is imported."""

from pathlib import Path

import pytest

from chaos.surface import options

SUITE_FILE = options.CHAOS / "test_experiments.py"
LOADED = pytest.StashKey[bool]()
"""Whether the experiments were chosen and loaded."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options."""
    options.add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check the options; with ``--chaos`` load the experiments and the hooks that run them."""
    if config.option.help:
        return
    chaos_options = options.read_options(config)
    if chaos_options is None:
        return
    from chaos.surface import chaos_run  # imported late: a run without --chaos needs nothing of the engine

    chaos_run.prepare(config, chaos_options)
    config.pluginmanager.register(chaos_run, "gpu-conformance-chaos")
    config.stash[LOADED] = True


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without ``--chaos`` the experiments are not even collected."""
    return True if collection_path == SUITE_FILE and LOADED not in config.stash else None
