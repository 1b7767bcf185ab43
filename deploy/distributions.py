"""The Python distributions that the suite needs at run time, from what is installed and from the lock."""

import re
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

SUITE = "gpu-conformance"
EXTRAS = frozenset({"injector"})
"""Of the suite, in its image: it also runs the host programs of experiments."""

LOCK = Path(__file__).parents[1] / "requirements.lock"
_PINNED = re.compile(r"([A-Za-z0-9._-]+)==\S+")


def closure(root: str = SUITE, find: Callable[[str], Distribution] = distribution) -> dict[str, Distribution]:
    """What ``root`` needs where this runs, with the extras of the image, by canonical name, without ``root`` itself.

    Raises ``PackageNotFoundError``.
    """
    found: dict[str, Distribution] = {}
    waiting: list[tuple[str, frozenset[str]]] = [(root, EXTRAS)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = waiting.pop()
        key = canonicalize_name(name)
        if (key, extras) in seen:
            continue
        seen.add((key, extras))
        found[key] = find(name)
        for text in found[key].requires or []:
            need = Requirement(text)
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                waiting.append((need.name, frozenset(need.extras)))
    found.pop(canonicalize_name(root))
    return dict(sorted(found.items()))


def locked(names: set[str], lock: str) -> str:
    """The lines of the lock that are about these distributions, with their hashes. Raises ValueError if one is missing."""
    kept = [block for name, block in _blocks(lock) if name in names]
    missing = names - locked_names(lock)
    if missing:
        raise ValueError(f"not in the lock: {', '.join(sorted(missing))}")
    return "".join(kept)


def locked_names(lock: str) -> set[str]:
    """Canonical names of all that the lock has."""
    return {name for name, _ in _blocks(lock)}


def _blocks(lock: str) -> Iterator[tuple[str, str]]:
    """Each distribution of a lock with its lines."""
    name = ""
    lines: list[str] = []
    for line in lock.splitlines(keepends=True):
        if match := _PINNED.match(line):
            if name:
                yield name, "".join(lines)
            name, lines = canonicalize_name(match[1]), []
        if not line.lstrip().startswith("#"):
            lines.append(line)
    if name:
        yield name, "".join(lines)


def main() -> int:
    """Print the lock of what a run needs, without the development tools."""
    sys.stdout.write(locked(set(closure()), LOCK.read_text(encoding="utf-8")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
