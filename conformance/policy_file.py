"""Reads a policy file over the defaults: schema checked, unknown keys named with the nearest known one."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from conformance.policy import Policy
from fixtures import yaml_text
from fixtures.models import Json
from fixtures.yaml_text import NotYaml


class PolicyError(Exception):
    """The policy cannot be used. One line with the path of the offending value."""


def policy_schema() -> Json:
    """JSON Schema (2020-12) of a policy file, made from the structs."""
    schema = msgspec.json.schema(Policy)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "gpu-conformance policy", **schema}


def read_policy_file(path: Path) -> Json:
    """The document of a policy file, schema checked. Raises :class:`PolicyError`."""
    try:
        document = yaml_text.load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PolicyError(f"policy {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise PolicyError(f"policy {path}: not text") from None
    except NotYaml as error:
        raise PolicyError(f"policy {path}: not YAML: {error}") from None
    document = {} if document is None else document
    check(document, f"policy {path}")
    return dict(document)


def check(document: object, where: str) -> None:
    """Check a document against the schema. Raises :class:`PolicyError` for the first thing that is wrong."""
    from jsonschema import Draft202012Validator  # imported late: most runs have no policy file
    from jsonschema.exceptions import best_match

    if not isinstance(document, Mapping):
        raise PolicyError(f"{where}: expected a mapping of sections, found {type(document).__name__}")
    if not all(isinstance(key, str) for key in _keys(document)):
        raise PolicyError(f"{where}: every key must be text")
    error = best_match(Draft202012Validator(policy_schema()).iter_errors(document))
    if error is None:
        return
    place = ".".join(str(part) for part in error.absolute_path)
    if error.validator == "additionalProperties" and isinstance(error.instance, Mapping):
        known = list((error.schema.get("properties") or {}) if isinstance(error.schema, Mapping) else {})
        unknown = next(str(key) for key in error.instance if key not in known)
        near = difflib.get_close_matches(unknown, known, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
        raise PolicyError(f"{where}: unknown key {place + '.' if place else ''}{unknown}{hint}")
    raise PolicyError(f"{where}: {place or 'document'}: {' '.join(error.message.split())[:200]}")


def build_policy(*documents: Mapping[str, Any]) -> Policy:
    """The policy that results from laying documents over the defaults, later ones on top; lists are replaced whole."""
    merged: Json = {}
    for document in documents:
        merged = _merge(merged, document)
    try:
        return msgspec.convert(merged, Policy)
    except msgspec.ValidationError as error:
        raise PolicyError(f"policy: {error}") from error


def digest(policy: Policy) -> str:
    """SHA-256 of the effective policy, to tell whether two runs were judged alike."""
    return "sha256:" + hashlib.sha256(msgspec.json.encode(policy, order="deterministic")).hexdigest()


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> Json:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def _keys(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return [*value, *(key for item in value.values() for key in _keys(item))]
    if isinstance(value, list):
        return [key for item in value for key in _keys(item)]
    return []
