"""Decodes the suite's block of an experiment file strictly, and reports all its mistakes at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import msgspec

from chaos.model.experiment import EXTENSION, Extension
from fixtures.text import typed


def unknown_name(where: str, key: object, known: Iterable[str]) -> str:
    """A name that is not known, with the nearest one that is."""
    known = sorted(known)
    near = difflib.get_close_matches(str(key), known, n=1)
    return f"{where}: unknown {str(key)!r}" + (f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}")


class ExperimentError(Exception):
    """An experiment file cannot be used; one line per mistake."""


_EXPECTED_TYPES = {field.name: field for field in msgspec.structs.fields(Extension)}


def extension_of(document: dict[str, Any]) -> Extension:
    """The suite's block of a document that was checked before. Raises :class:`ExperimentError` when it is no longer valid."""
    extension, errors = decode_extension(document)
    if extension is None:
        raise ExperimentError("; ".join(errors))
    return extension


def decode_extension(document: dict[str, Any]) -> tuple[Extension | None, list[str]]:
    """Decodes the suite's block field by field, so that all its mistakes are reported at once."""
    blocks = document.get("extensions")
    found = [block for block in blocks if isinstance(block, dict) and block.get("name") == EXTENSION] if isinstance(blocks, list) else []
    if len(found) != 1 or not isinstance(blocks, list) or len(blocks) != 1:
        return None, [f"extensions: expected exactly one block, {{name: {EXTENSION}, ...}}"]
    errors = [unknown_name("extensions", key, _EXPECTED_TYPES) for key in found[0] if key not in _EXPECTED_TYPES]
    values = {}
    for name, field in _EXPECTED_TYPES.items():
        if name not in found[0]:
            if field.required:
                errors.append(f"extensions: {name} is missing")
            continue
        try:
            values[name] = typed.convert(found[0][name], field.type)
        except msgspec.ValidationError as error:
            errors.append(f"extensions.{name}: {error}")
    return (None if errors else Extension(**values)), errors
