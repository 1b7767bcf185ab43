"""A short module whose only importer stands beside it is a part of that importer: a reader should not have to walk through it."""

from collections.abc import Iterator
from pathlib import Path

import grimp

from tests.development.check import ROOT

PRODUCTION = ("conformance", "chaos", "fixtures", "reports", "deploy")
SHORT, LONG = 90, 400
"""Lines of a module that is to be merged, and of one that takes in nothing more."""

KEPT = frozenset(Path(__file__).with_name("small_modules.txt").read_text().split())
"""Short modules that were there when this rule came. None is added: merge the module, or give it a second importer."""


def short_modules(root: Path) -> Iterator[str]:
    """Modules that belong into the one that imports them. The tests of requirements take in nothing: they name checks and no more."""
    graph = grimp.build_graph(*PRODUCTION, cache_dir=None)
    lines = {module: len(path.read_text().splitlines()) for module in graph.modules if (path := _file(root, module)).is_file()}
    for module in sorted(lines):
        folder, _, name = module.rpartition(".")
        importers = graph.find_modules_that_directly_import(module)
        if lines[module] >= SHORT or name.startswith("test_") or len(importers) != 1:
            continue
        (importer,) = importers
        beside, _, other = importer.rpartition(".")
        if beside == folder and not other.startswith("test_") and lines.get(importer, LONG) + lines[module] < LONG:
            yield module


def _file(root: Path, module: str) -> Path:
    return root / f"{module.replace('.', '/')}.py"


def test_a_short_module_has_a_second_importer_or_is_merged() -> None:
    found = set(short_modules(ROOT))
    assert found - KEPT == set(), "merge each into its only importer, which stands beside it"
    assert KEPT - found == set(), "remove them from the list: it only shrinks"
