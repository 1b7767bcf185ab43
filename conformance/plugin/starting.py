"""How the console script starts pytest, where there is no checkout with settings of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

SUITE = Path(__file__).resolve().parents[1]
OPTIONS = (
    "--import-mode=importlib",
    "--strict-markers",
    *("-p", "no:cacheprovider"),
    *("-p", "no:allure_pytest"),
    *("-p", "no:doctest"),
    *("-p", "no:unittest"),
    *("-p", "conformance.plugin.session"),
    *("-p", "conformance.plugin.hooks"),
    *("-p", "chaos.surface.plugin"),
    f"--rootdir={SUITE.parent}",
    *("-c", "/dev/null"),
)
"""What the settings of a checkout would say. The tests and the user's words follow."""


def as_typed(arguments: Sequence[str]) -> list[str]:
    """The command that somebody typed, of the arguments that pytest was given."""
    if tuple(arguments[: len(OPTIONS)]) != OPTIONS:
        return ["pytest", *arguments]
    folder, *rest = arguments[len(OPTIONS) :] or [""]
    words = rest[1:] if rest[:1] == ["--chaos"] else rest
    return ["gpu-conformance", "run", *rest] if folder == str(SUITE) else ["gpu-conformance", "chaos", "run", *words]
