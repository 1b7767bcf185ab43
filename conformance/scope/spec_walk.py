"""The way through everything in one workload, with bounds: a tenant writes names and lists as long as he likes.

No path is made for what was not reached yet. A name of a megabyte above twenty thousand entries would be kept twenty thousand times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from fixtures.kubernetes.models import Json

MAX_DEPTH = 24
"""Levels below ``spec`` that are searched. The deepest known template (a JobSet's) lies at 6."""

MAX_VISITED = 20_000
"""Objects and lists of one workload that are searched."""

MAX_NAME = 80
"""Characters of one field's name in a path. Names of labels, tasks and replicas have 63 at most."""

MAX_PATH = 300
"""Characters of a whole path."""


class Spot(msgspec.Struct, kw_only=True):
    """One object that the way comes to. ``parent`` is the object whose ``spec`` it is, else empty.

    Whoever looks at it writes into ``done`` which of its fields need not be searched. ``beyond``: the way ends here, at a bound.
    """

    steps: tuple[str, ...]
    value: Json
    parent: Json
    done: Collection[str] = ()
    beyond: bool = False

    @property
    def path(self) -> str:
        """Where it lies: ``spec.replicatedJobs[workers].template``. Two places have two paths, however long their names are."""
        return _cut("".join(self.steps).removeprefix("."), MAX_PATH)


def walk(field: str, value: Any) -> Iterator[Spot]:
    """Every object below a field, the outer ones first, in the order in which they are written. Without a name it is a whole object."""
    levels: list[Iterator[tuple[str, Any, Json]]] = [iter([(field, value, {})])]
    steps: list[str] = []
    visited = 0
    while levels:
        del steps[len(levels) - 1 :]
        child = next(levels[-1], None)
        if child is None:
            levels.pop()
            continue
        step, value, parent = child
        steps.append(step)
        visited += 1
        if len(levels) > MAX_DEPTH + 1 or visited > MAX_VISITED:
            yield Spot(steps=tuple(steps), value={}, parent={}, beyond=True)
            return
        if isinstance(value, dict):
            spot = Spot(steps=tuple(steps), value=value, parent=parent if step == ".spec" else {})
            yield spot
            levels.append(_fields(value, spot.done))
        elif isinstance(value, list):
            levels.append(_entries(value))


def _fields(value: Json, done: Collection[str]) -> Iterator[tuple[str, Any, Json]]:
    for name, child in value.items():
        if isinstance(child, (dict, list)) and name not in done:
            yield f".{_cut(str(name), MAX_NAME)}", child, value


def _entries(value: list[Any]) -> Iterator[tuple[str, Any, Json]]:
    for index, child in enumerate(value):
        if isinstance(child, (dict, list)):
            yield f"[{_name_of(child, index)}]", child, {}


def _name_of(item: Any, index: int) -> str:
    """What tells an entry of a list apart: its name where it has one (``replicatedJobs[workers]``)."""
    if isinstance(item, dict):
        for field in ("name", "groupName"):
            name = item.get(field)
            if isinstance(name, str) and 0 < len(name) <= 63:
                return name
    return str(index)


def _cut(text: str, limit: int) -> str:
    """A text of at most so many characters. What a longer one ends in tells it from others that begin alike."""
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{text[: limit - 17]}…{digest}"
