"""Which test files a change can reach, by the import graph of the project: what ``make quick`` runs.

What the graph does not show counts as reached: everything by a file that is no module (data, manifests, documents), and every change
by a test that starts programs, imports by name or reads files of the project.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import grimp

PACKAGES = ("conformance", "chaos", "fixtures", "reports", "deploy", "tests")
FOR_ALL = "tests/conftest.py"
_TABLES = re.compile(r"(tests/.*/test_\w+)\.yaml")
"""Tables of tests are read by the test file of their name (tests/tables.py)."""

_STARTS_PROGRAMS = re.compile(r"\bsys\.executable|\bimport_module\b|\bmultiprocessing\b|\bentry_points\b")
_LOOKS_ELSEWHERE = re.compile(rf"{_STARTS_PROGRAMS.pattern}|\bsubprocess\b|\b__file__\b|\bgetsource\b")


def reached(root: Path, changed: Iterable[str]) -> list[str] | None:
    """Test files that changed files can reach, as sorted paths from ``root``; None where they may reach all of them."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    paths = {module: path for module in graph.modules if (path := _path(root, module))}
    modules = {path: module for module, path in paths.items()}
    starts = {_TABLES.sub(r"\1.py", path) for path in changed}
    if FOR_ALL in starts or not starts <= modules.keys():
        return None
    tests = {path.relative_to(root).as_posix() for path in (root / "tests").rglob("test_*.py")}
    for module in {modules[path] for path in tests & modules.keys()}:
        for conftest in _conftests(module, graph):
            graph.add_import(importer=module, imported=conftest)
    starts |= {path for path in paths.values() if _is_opaque(root, path)} if starts else set()
    found = {paths[module] for start in starts for module in graph.find_downstream_modules(modules[start]) if module in paths}
    return sorted(tests & (starts | found))


def _path(root: Path, module: str) -> str:
    """The file of a module from ``root``; empty for a folder without one."""
    stem = module.replace(".", "/")
    return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if (root / path).is_file()), "")


def _conftests(module: str, graph: grimp.ImportGraph) -> list[str]:
    """Files whose fixtures pytest hands to a test; that of all tests has none."""
    parts = module.split(".")
    folders = [".".join(parts[:depth]) for depth in range(2, len(parts))]
    return [conftest for folder in folders if (conftest := f"{folder}.conftest") in graph.modules]


def _is_opaque(root: Path, path: str) -> bool:
    """Whether a module reaches what it does not import."""
    if path == FOR_ALL:
        return False
    pattern = _LOOKS_ELSEWHERE if path.startswith("tests/") else _STARTS_PROGRAMS
    return pattern.search((root / path).read_text(encoding="utf-8")) is not None
