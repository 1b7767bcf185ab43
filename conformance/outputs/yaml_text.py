"""Kubernetes objects out of captured text: JSON, YAML (one or several documents, Lists), with shell prompts and cut ends around them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from conformance.outputs.unreadable import MAX_CHARACTERS, EmptyList, Unreadable, readable_text
from fixtures.kubernetes.models import Json
from fixtures.text import json_text, yaml_text
from fixtures.text.json_text import NotJson
from fixtures.text.yaml_text import NotYaml

_BETWEEN = re.compile(r"\}[ \t]*\n[ \t]*\{")
_LEADING = re.compile(r"\A(?:[ \t]*(?:[#$][^\n]*)?\n)*[ \t]*")


def load_objects(text: str) -> list[Json]:
    """The objects (mappings with ``kind`` or anything else that is a mapping) of a JSON or YAML text, Lists unpacked.

    Lines before the first that looks like a document (``$ kubectl …``, notes) are skipped; a lone ``...`` line that stands for omitted
    text, which YAML would take for the end of the document, is dropped.

    Raises:
        Unreadable: empty, binary or oversized text, or neither JSON nor YAML with a mapping in it.
    """
    text = readable_text(text)
    stripped = _LEADING.sub("", text, count=1)
    documents: list[Any]
    if stripped[:1] in "{[":
        try:
            documents = [json_text.decode(stripped)]
        except NotJson as error:
            documents = _stream(stripped)
            if not documents:
                raise Unreadable(f"malformed JSON: {_first_line(error)}") from error
    else:
        documents = _load_yaml(text)
    objects = [item for document in documents for item in _unpack(document)]
    if not objects:
        lists = any(isinstance(document, Mapping) and document.get("items") == [] for document in documents)
        raise EmptyList("the list is empty") if lists else Unreadable("neither a JSON nor a YAML object found")
    return objects


def none_of(kind: str, objects: Iterable[Json]) -> str:
    """Why a text has no object of a kind: ``kubectl describe`` prints something that looks like YAML."""
    described = any("API Version" in item and item.get("Kind") == kind for item in objects)
    return f"kubectl describe leaves out what is read here: kubectl get {kind.lower()}s -o yaml" if described else f"no {kind} found"


def _stream(text: str) -> list[Any]:
    """Documents one behind another, as jq prints them; none where any is malformed."""
    try:
        documents = json_text.decode(f"[{_BETWEEN.sub('},{', text)}]") if _BETWEEN.search(text) else []
    except NotJson:
        return []
    return list(documents)


def looks_like_json(text: str) -> bool:
    """Whether the first character after comment and prompt lines opens a JSON object or list."""
    return _LEADING.sub("", text, count=1)[:1] in ("{", "[")


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _load_yaml(text: str) -> list[Any]:
    lines = text.split("\n")
    start = next((number for number, line in enumerate(lines) if _opens(line)), None)
    if start is None:
        none = next((line.strip() for line in lines if line.startswith("No resources found")), "")
        raise Unreadable(f"kubectl says: {none[:120]}" if none else "neither a JSON nor a YAML object found")
    fenced = any(line.lstrip().startswith("```") for line in lines[:start])
    end = next((number for number in range(start, len(lines)) if fenced and lines[number].lstrip().startswith("```")), len(lines))
    kept = [line for line in lines[start:end] if line.strip() != "..." and not line.startswith(("$ ", "```"))]
    try:
        return yaml_text.load_all("\n".join(kept), most=MAX_CHARACTERS)
    except NotYaml as error:
        raise Unreadable(f"malformed YAML: {_first_line(error)}") from error


def _opens(line: str) -> bool:
    word = line.removeprefix("- ").partition(":")[0]
    return (
        bool(word) and ":" in line and word.replace("_", "").replace("-", "").isalnum() and word[:1].isalpha() and not line.startswith("#")
    )


def _unpack(document: Any) -> Iterator[Json]:
    if isinstance(document, Mapping):
        items = document.get("items")
        if isinstance(items, list):
            # the API server says kind and version once, for the list
            kind = str(document.get("kind") or "").removesuffix("List")
            said = {"apiVersion": document.get("apiVersion"), "kind": kind} if kind else {}
            yield from ({**said, **item} for item in items if isinstance(item, dict))
        elif isinstance(document, dict):
            yield document
    elif isinstance(document, list):
        yield from (item for item in document if isinstance(item, dict))
