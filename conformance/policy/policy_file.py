"""Reads a policy file over the defaults: schema checked, unknown keys named with the nearest known one."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from conformance.policy.model import Chaos, Policy
from fixtures.kubernetes.models import Json
from fixtures.text import typed, yaml_text
from fixtures.text.yaml_text import NotYaml

EXTENDS = "+"
"""With this before each of its entries, a list extends the one below it."""


class PolicyError(Exception):
    """The policy cannot be used. One line with the path of the offending value."""


def policy_schema() -> Json:
    """JSON Schema (2020-12) of a policy file, made from the structs."""
    schema = msgspec.json.schema(Policy)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "gpu-conformance policy", **schema}


def read_policy_file(path: Path) -> Json:
    """The document of a policy file, schema checked. Raises :class:`PolicyError`."""
    try:
        document = yaml_text.read(path)
    except NotYaml as error:
        raise PolicyError(f"policy {path}: {error}") from None
    document = {} if document is None else document
    check(document, f"policy {path}")
    return dict(document)


def check(document: object, where: str) -> None:
    """Check a document against the schema. Raises :class:`PolicyError` for the first thing that is wrong."""
    if not isinstance(document, Mapping):
        raise PolicyError(f"{where}: expected a mapping of sections, found {type(document).__name__}")
    if not all(isinstance(key, str) for key in _keys(document)):
        raise PolicyError(f"{where}: every key must be text")
    try:
        typed.convert(document, Policy)  # the structs are the schema
    except msgspec.ValidationError:
        _complain(document, where)


def _complain(document: object, where: str) -> None:
    """Say what is wrong as the schema says it. Raises :class:`PolicyError`."""
    from jsonschema import Draft202012Validator  # imported late: most runs have nothing to complain about
    from jsonschema.exceptions import best_match

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
    """The policy that results from laying documents over the defaults, later ones on top.

    A list replaces the one below it, or extends it where each of its entries begins with ``+``. Raises :class:`PolicyError`.
    """
    merged: Json = msgspec.to_builtins(Policy())
    for document in documents:
        merged = _merge(merged, document, "")
    try:
        policy = typed.convert(merged, Policy)
    except msgspec.ValidationError as error:
        raise PolicyError(f"policy: {error}") from error
    if policy.probes.mirror or policy.probes.copy_pull_secret or policy.probes.suite_image:
        return typed.convert(_with_images(msgspec.to_builtins(policy)), Policy)
    return policy


COPIED_SECRET = "gpu-conformance-pull"
"""Name of the copy of ``probes.copyPullSecret`` in namespaces of a run."""


def _with_images(document: Json) -> Json:
    """The policy with the mirror before its images, one image of the suite, and the copied pull Secret among its Secrets; nothing twice."""
    found: Json = {**document, **{name: dict(document[name]) for name in ("probes", "network", "chaos")}}
    probes, network, chaos = found["probes"], found["network"], found["chaos"]
    if probes["copyPullSecret"]:
        probes["pullSecrets"] = list(dict.fromkeys([*probes["pullSecrets"], COPIED_SECRET]))
    if probes["suiteImage"] and chaos["injectorImage"] == Chaos().injector_image:
        chaos["injectorImage"] = probes["suiteImage"]
    if mirror := str(probes["mirror"]).rstrip("/"):
        own = ("image", "cpuImage", "suiteImage", "sampleImage")
        for section, names in ((probes, own), (network, ("image",)), (chaos, ("injectorImage", "canaryImage"))):
            section |= {name: _mirrored(mirror, section[name]) for name in names}
        for section in (probes, network):
            section["images"] = {glob: _mirrored(mirror, image) for glob, image in section["images"].items()}
    return found


def _mirrored(mirror: str, image: str) -> str:
    return image if not image or image.startswith(f"{mirror}/") else f"{mirror}/{image}"


def digest(policy: Policy) -> str:
    """SHA-256 of the effective policy, to tell whether two runs were judged alike."""
    return "sha256:" + hashlib.sha256(msgspec.json.encode(policy, order="deterministic")).hexdigest()


def _merge(below: Mapping[str, Any], above: Mapping[str, Any], path: str) -> Json:
    merged = dict(below)
    for key, value in above.items():
        old, place = merged.get(key), f"{path}{key}"
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge(old, value, f"{place}.")
        else:
            merged[key] = _extended(old, value, place) if isinstance(value, list | tuple) else value
    return merged


def _extended(old: Any, value: Sequence[Any], place: str) -> list[Any]:
    """A list laid over another one. Entries with ``+`` beside entries without say two things at once."""
    more = [entry[1:] for entry in value if isinstance(entry, str) and entry.startswith(EXTENDS)]
    if not more:
        return list(value)
    if len(more) < len(value):
        raise PolicyError(f"policy: {place}: either every entry begins with {EXTENDS} and extends the list, or none does")
    if not isinstance(old, list | tuple):
        raise PolicyError(f"policy: {place}: there is no list below that {EXTENDS}{more[0]} could extend")
    return list(dict.fromkeys([*old, *more]))


def _keys(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return [*value, *(key for item in value.values() for key in _keys(item))]
    if isinstance(value, list):
        return [key for item in value for key in _keys(item)]
    return []
