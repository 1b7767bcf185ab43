"""Strategies of hypothesis as ``requests.yaml`` describes them; the head of that file lists the tags."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

Json = dict[str, Any]
Strategy = st.SearchStrategy[Any]
FEW = 3


class _Loader(yaml.SafeLoader):
    """Reads a node as a value, or as a strategy where a part of it is one."""


def some(fields: Mapping[str, Any], most: int = FEW) -> Strategy:
    """A few of the fields: most objects differ from a good one in one thing or two."""
    return st.lists(st.sampled_from(sorted(fields)), max_size=most, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({name: _strategy(fields[name]) for name in chosen})
    )


def _strategy(value: Any) -> Strategy:
    return value if isinstance(value, st.SearchStrategy) else st.just(value)


def _numbered(value: Any, number: int) -> Any:
    """A value with its number in place of ``#``; an integer where nothing but digits is left."""
    if isinstance(value, dict):
        return {_numbered(key, number): _numbered(inner, number) for key, inner in value.items()}
    if isinstance(value, list):
        return [_numbered(inner, number) for inner in value]
    if not isinstance(value, str) or "#" not in value:
        return value
    text = value.replace("#", str(number))
    return int(text) if text.isdigit() else text


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Any:
    found = {str(key): value for key, value in loader.construct_mapping(node, deep=True).items()}
    optional = {key[1:-1]: _strategy(value) for key, value in found.items() if key.startswith("(")}
    drawn = {key: value for key, value in found.items() if isinstance(value, st.SearchStrategy) and not key.startswith("(")}
    plain = {key: value for key, value in found.items() if key not in drawn and not key.startswith("(")}
    if not optional and not drawn:
        return plain
    fields = st.fixed_dictionaries(drawn, optional=optional) if optional else st.fixed_dictionaries(drawn)
    return fields.map(lambda more: {**plain, **more}) if plain else fields


def _text(loader: _Loader, node: yaml.ScalarNode) -> str:
    return re.sub(r"(.)\{(\d+)\}", lambda found: found[1] * int(found[2]), loader.construct_scalar(node))


def _list(content: Any, size: str) -> Strategy:
    least, _, most = size.rpartition("-")
    (item,) = content if isinstance(content, list) else [content]
    return st.lists(_strategy(item), min_size=int(least or 0), max_size=int(most))


def _merge(content: Any, _: str) -> Strategy:
    plain = {key: value for one in content if isinstance(one, dict) for key, value in one.items()}
    drawn = st.tuples(*(one for one in content if isinstance(one, st.SearchStrategy)))
    return drawn.map(lambda found: {**plain, **{key: value for one in found for key, value in one.items()}})


_TAGS: dict[str, Callable[[Any, str], Any]] = {
    "!one": lambda content, _: st.sampled_from(content),
    "!any": lambda content, _: st.one_of(*map(_strategy, content)),
    "!some": lambda content, most: some(content, int(most or FEW)),
    "!fields": lambda content, _: content,
    "!list": _list,
    "!each": lambda content, size: _list(content, size).map(lambda drawn: [_numbered(one, number) for number, one in enumerate(drawn)]),
    "!pairs": lambda content, most: st.dictionaries(*map(_strategy, content), max_size=int(most)),
    "!merge": _merge,
    "!many": lambda content, count: [_numbered(content, number) for number in range(int(count))],
    "!keys": lambda content, count: {key: value for number in range(int(count)) for key, value in _numbered(content, number).items()},
}


def _tagged(tag: str) -> Any:
    def construct(loader: _Loader, size: str, node: yaml.Node) -> Any:
        if isinstance(node, yaml.SequenceNode):
            content: Any = loader.construct_sequence(node, deep=True)
        elif isinstance(node, yaml.ScalarNode):
            content = _text(loader, node)
        else:
            assert isinstance(node, yaml.MappingNode)
            content = loader.construct_mapping(node, deep=True) if tag in ("!some", "!fields") else _mapping(loader, node)
        return _TAGS[tag](content, size)

    return construct


for _tag in _TAGS:
    _Loader.add_multi_constructor(_tag, _tagged(_tag))
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:str", _text)


def described(path: Path) -> dict[str, Any]:
    """The strategies of a file by name."""
    loader = _Loader(path.read_text(encoding="utf-8"))
    root = loader.get_single_node()
    assert isinstance(root, yaml.MappingNode)
    return {str(key.value): loader.construct_object(value, deep=True) for key, value in root.value}
