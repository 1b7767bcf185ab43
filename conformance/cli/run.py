"""``gpu-conformance run [pytest options]``: the suite where there is no checkout (``uvx``, ``pipx``, the container image)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

SUITE = Path(__file__).resolve().parents[1]
OPTIONS = (
    "--import-mode=importlib",
    "--strict-markers",
    *("-p", "no:cacheprovider"),
    *("-p", "no:allure_pytest"),
    *("-p", "conformance.plugin.session"),
    *("-p", "conformance.plugin.hooks"),
    *("-p", "chaos.surface.plugin"),
    f"--rootdir={SUITE.parent}",
    *("-c", "/dev/null"),
)


def main(argv: Sequence[str]) -> int:
    """Run pytest on the installed suite with the arguments after ``run``; its exit code."""
    return int(pytest.main([*OPTIONS, str(SUITE), *argv[1:]]))
