"""The policy of a run in words for its record: what the owner and presets changed, and the whole of it, as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from conformance.policy.model import Policy
from conformance.policy.policy_file import EXTENDS
from fixtures.kubernetes.models import Json
from fixtures.verdict.record import AppliedPolicy

MAX_LINES = 600
MAX_LINE = 400
HIDDEN = "(set, not shown)"


def policy_text(policy: Policy) -> AppliedPolicy:
    """Both texts. ``changed``, laid over the defaults, gives the same policy again; it is empty where nothing was changed."""
    whole: Json = _shown(policy)
    return AppliedPolicy(changed=_yaml(_changed(_shown(Policy()), whole)), whole=_yaml(whole))


def _shown(policy: Policy) -> Json:
    """The policy as plain values; variables of the suite's pods may be credentials, so that only their names are shown."""
    document: Json = msgspec.json.decode(msgspec.json.encode(policy))
    document["network"]["env"] = dict.fromkeys(document["network"]["env"], HIDDEN)
    return document


def _changed(default: Mapping[str, Any], actual: Mapping[str, Any]) -> Json:
    found: Json = {}
    for key, value in actual.items():
        below = default.get(key)
        if value == below:
            continue
        if isinstance(value, dict) and isinstance(below, dict):
            found[key] = _changed(below, value)
        elif isinstance(value, list) and isinstance(below, list):
            found[key] = _written(below, value)
        else:
            found[key] = value
    return found


def _written(below: list[Any], value: list[Any]) -> list[Any]:
    """A list as its owner would write it: only what it adds, where it begins with the list below it."""
    if not below or value[: len(below)] != below or not all(isinstance(entry, str) for entry in value):
        return value
    return [f"{EXTENDS}{entry}" for entry in value[len(below) :]]


def _yaml(document: Json) -> str:
    if not document:
        return ""
    lines = yaml.safe_dump(document, sort_keys=False, width=110, allow_unicode=True).splitlines()
    shown = [line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…" for line in lines[:MAX_LINES]]
    more = len(lines) - len(shown)
    return "\n".join([*shown, *([f"# {more} more lines"] if more else [])]) + "\n"
