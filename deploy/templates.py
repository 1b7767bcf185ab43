"""One tree of objects, two outputs: plain objects for given values, and the text of a Helm template that asks for them.

A tree is made of dicts, lists and scalars, and of the nodes below. So what the chart installs and what kustomize builds cannot diverge.
Every value goes into a template as JSON, which YAML reads as it is: no indentation and no quoting can go wrong.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import yaml

Json = dict[str, Any]


class Value(msgspec.Struct, frozen=True):
    """What stands at a path of the values: ``.Values.results.claim``. With ``as_text``, its JSON as a string."""

    path: str
    as_text: bool = False


class Format(msgspec.Struct, frozen=True):
    """A text with one ``%s`` or ``%v`` for each path."""

    text: str
    paths: tuple[str, ...]


class When(msgspec.Struct, frozen=True):
    """An entry of a list or a whole document that is there if the value is set, or equals ``text``."""

    path: str
    item: Any
    text: str | None = None


class Each(msgspec.Struct, frozen=True):
    """Entries of a list: all those that stand at the path."""

    path: str


_ABSENT = object()


def resolved(tree: Any, values: Mapping[str, Any]) -> Any:
    """The tree as plain objects. ``values`` has what a chart calls ``.Values`` and ``.Release``."""
    found = _resolve(tree, values)
    return None if found is _ABSENT else found


def _resolve(tree: Any, values: Mapping[str, Any]) -> Any:
    match tree:
        case Value(path, as_text):
            found = look(values, path)
            return json.dumps(found, sort_keys=True, separators=(",", ":")) if as_text else found
        case Format(text, paths):
            return text.replace("%v", "%s") % tuple(look(values, path) for path in paths)
        case When(path, item, text):
            found = look(values, path)
            return _resolve(item, values) if (found == text if text is not None else found) else _ABSENT
        case dict():
            return {key: _resolve(item, values) for key, item in tree.items()}
        case list():
            found = [entry for item in tree for entry in (look(values, item.path) if isinstance(item, Each) else [_resolve(item, values)])]
            return [entry for entry in found if entry is not _ABSENT]
    return tree


def look(values: Mapping[str, Any], path: str) -> Any:
    """What stands at ``.Values.a.b``. Raises KeyError."""
    found: Any = values
    for name in path.strip(".").split("."):
        found = found[name]
    return found


def template(*documents: Any) -> str:
    """The text of a template with these documents; one may be a :class:`When`."""
    lines: list[str] = []
    for document in documents:
        inner = document.item if isinstance(document, When) else document
        lines += (
            [_condition(document), "---", *_lines(inner, ""), "{{- end }}"] if isinstance(document, When) else ["---", *_lines(inner, "")]
        )
    return "\n".join(lines) + "\n"


def _lines(tree: Any, indent: str) -> Iterator[str]:
    if isinstance(tree, dict):
        for key, item in tree.items():
            if _is_block(item):
                yield f"{indent}{_scalar(key)}:"
                yield from _lines(item, indent + "  " if isinstance(item, dict) else indent)
            else:
                yield f"{indent}{_scalar(key)}: {_inline(item)}"
    else:
        for item in tree:
            yield from _entry(item, indent)


def _entry(item: Any, indent: str) -> Iterator[str]:
    match item:
        case When(_, inner, _):
            yield indent + _condition(item)
            yield from _entry(inner, indent)
            yield indent + "{{- end }}"
        case Each(path):
            yield f"{indent}{{{{- range {path} }}}}"
            yield f"{indent}- {{{{ . | toJson }}}}"
            yield indent + "{{- end }}"
        case _ if _is_block(item):
            first, *rest = _lines(item, indent + "  ")
            yield f"{indent}- {first.lstrip()}"
            yield from rest
        case _:
            yield f"{indent}- {_inline(item)}"


def _is_block(item: Any) -> bool:
    return isinstance(item, (dict, list)) and bool(item)


def _condition(node: When) -> str:
    return f"{{{{- if {node.path} }}}}" if node.text is None else f"{{{{- if eq {node.path} {json.dumps(node.text)} }}}}"


def _inline(item: Any) -> str:
    match item:
        case Value(path, as_text):
            return f"{{{{ {path} | toJson{' | toJson' if as_text else ''} }}}}"
        case Format(text, paths):
            return f"{{{{ printf {json.dumps(text)} {' '.join(paths)} | toJson }}}}"
        case dict() | list():
            return json.dumps(item)  # empty
    return _scalar(item)


def _scalar(value: Any) -> str:
    """As YAML writes it; what a template could mistake for an action is JSON."""
    if isinstance(value, str) and "{{" in value:
        raise ValueError(f"{value!r}: no text of the tree may look like an action of a template")
    return yaml.safe_dump(value, width=10_000).removesuffix("\n").removesuffix("...").strip()
