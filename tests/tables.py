"""Long tables of plain data, for tests: they stand in YAML beside the file of the tests, ``test_refused.yaml`` for ``test_refused.py``."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec
import pytest
import yaml

Test = TypeVar("Test", bound=Callable[..., None])


def each_row(test: Test) -> Test:
    """Runs a test once for each row that the file has under its name: ``{"argument, other": rows}``.

    A row is a list of the arguments' values, or the value of a single argument. Rows with ids are a mapping. Values become what the
    test's annotations say, so that enums, tuples and floats are written as text, lists and numbers. ``!a_pod {node: gpu-0}`` is what a
    function of the test's module makes of arguments (a list has those without names), ``!OWN ''`` what the module calls so.
    """
    hints = get_type_hints(test)
    marked = test
    for head, table in tables_of(Path(test.__code__.co_filename).with_suffix(".yaml"))[test.__name__].items():
        names = head.split(", ")
        ids = list(table) if isinstance(table, dict) else None
        found = [
            tuple(_converted(one, hints[name], test.__globals__) for name, one in zip(names, row if len(names) > 1 else [row], strict=True))
            for row in (table.values() if isinstance(table, dict) else table)
        ]
        marked = pytest.mark.parametrize(names, found, ids=ids)(marked)
    return marked


class _Made(msgspec.Struct):
    """What a name of the test's module makes of arguments."""

    name: str
    arguments: dict[str, Any] | list[Any] | None


class _Loader(yaml.CSafeLoader):
    """Reads ``!name`` of a module's own names."""


def _construct(loader: yaml.CSafeLoader, name: str, node: yaml.Node) -> _Made:
    if isinstance(node, yaml.MappingNode):
        return _Made(name, {str(key): value for key, value in loader.construct_mapping(node, deep=True).items()})
    return _Made(name, loader.construct_sequence(node, deep=True) if isinstance(node, yaml.SequenceNode) else None)


_Loader.add_multi_constructor("!", _construct)


def _converted(value: Any, hint: Any, names: dict[str, Any]) -> Any:
    made = _made(value, names)
    return made if hint is object or made != value else msgspec.convert(value, hint)


def _made(value: Any, names: dict[str, Any]) -> Any:
    """A value with what its names make in their places."""
    if isinstance(value, _Made):
        arguments = _made(value.arguments, names)
        if arguments is None:
            return names[value.name]
        return names[value.name](**arguments) if isinstance(arguments, dict) else names[value.name](*arguments)
    if isinstance(value, list):
        return [_made(one, names) for one in value]
    return {key: _made(one, names) for key, one in value.items()} if isinstance(value, dict) else value


@cache
def tables_of(file: Path) -> dict[str, dict[str, Any]]:
    """The tables of a file by the names of their tests."""
    found: dict[str, dict[str, Any]] = yaml.load(file.read_text(encoding="utf-8"), Loader=_Loader)
    return found


def table(module: str) -> dict[str, Any]:
    """What the YAML file beside a module, given by its path, holds: tables and objects that it reads as ``TABLE["name"]``."""
    return tables_of(Path(module).with_suffix(".yaml"))


def filled(value: Any, words: dict[str, str]) -> Any:
    """A value of a table with these words in their places, in keys too."""
    if isinstance(value, dict):
        return {filled(key, words): filled(child, words) for key, child in value.items()}
    if isinstance(value, list):
        return [filled(child, words) for child in value]
    if isinstance(value, str):
        for place, word in words.items():
            value = value.replace(place, word)
    return value
