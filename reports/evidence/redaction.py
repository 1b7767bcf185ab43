"""Removes from an API object whatever could be a secret, before it is written as evidence.

Evidence is given to auditors, so this leaves out more than a report does: nobody can tell a password from a word. Values of
environment variables, commands, data of ConfigMaps and annotations of unknown owners are left out unseen. Of a ConfigMap only those
values are kept that the run itself read, as text without what looks like a credential (:func:`safe_value`).
"""

import re
import string
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from reports.safe_text import LONGEST, REMEMBERED, WORDS, clip, redact, visible

MAX_TEXT = 1_000
"""Characters of one value in an object."""

MAX_VALUE = 1 << 20
"""Characters of a value of a ConfigMap: all of it, since Kubernetes allows a ConfigMap as many bytes."""

_LEFT_OUT = "[left out"

_ENV_KEPT = re.compile(r"(NVIDIA|CUDA|NCCL|MIG|AMD|ROCR|HIP|HABANA|UCX|OMPI)_[A-Z0-9_]*", re.ASCII)
"""Variables that say which devices a container sees, and how it talks to others."""

_OWNERS_KEPT = re.compile(r"(?:[a-z0-9.-]+\.)?(?:nvidia\.com|amd\.com|intel\.com|cncf\.io|k8s\.io|kubernetes\.io|volcano\.sh|run\.ai)/.+")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_SENSITIVE_WORD = rf"(?:{WORDS}|pass|auth)"
_SENSITIVE_KEY = re.compile(rf"(?:^|[-_./a-z0-9]){_SENSITIVE_WORD}s?$|^{_SENSITIVE_WORD}", re.IGNORECASE)
_REFERENCE = re.compile(r"(?:ref|refs|name|names|selector|policy|automount\w*|expirationseconds|path)$", re.IGNORECASE)
"""Fields that only say where a secret is."""

_VALUE = r"(?:[\"'][^\"'\n]{1,4096}[\"']?|[^\s,;\"'&]{1,4096})"
_SCHEME = r"(?:(?:token|basic|bearer|negotiate)\s{1,20})?"
_ASSIGNED = re.compile(rf"(?i)((?:{WORDS}|(?<![a-z])(?:pass|auth))[\"']?\s{{0,20}}[=:]\s{{0,20}}{_SCHEME}){_VALUE}")
_OPTION = re.compile(rf"(?<![^\s\"'])(-{{1,2}}[A-Za-z0-9_.-]{{1,60}}\s{{1,20}}){_VALUE}")
_END_OF_KEY = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY-----")
_BASE64 = string.ascii_letters + string.digits + "+/=" + string.whitespace
_BASIC = re.compile(r"(?i)\b(basic\s+)[A-Za-z0-9+/=_-]{8,}")


def safe_text(text: str, limit: int = MAX_TEXT) -> str:
    """``text`` clipped, controls spelled out, and without what looks like a credential or is assigned to a name of one."""
    return _safe_again(text, limit) if len(text) <= MAX_TEXT else _safe_text(text, limit)


def _safe_text(text: str, limit: int) -> str:
    size = len(text)
    text = _BASIC.sub(r"\1[redacted]", redact(text[: limit + LONGEST]))
    text = _without_ends_of_keys(text)
    text = _OPTION.sub(_without_value, _ASSIGNED.sub(r"\1[redacted]", text))
    cut = f"… ({size - limit:,} more characters)" if size > limit else ""
    return visible(text[:limit], limit) + cut


_safe_again = lru_cache(REMEMBERED)(_safe_text)
"""Names and values of a cluster's objects are the same thousands of times."""


def _without_value(option: re.Match[str]) -> str:
    return f"{option[1]}[redacted]" if _sensitive(option[1].strip()) else option[0]


def _without_ends_of_keys(text: str) -> str:
    """``text`` without private keys whose beginning was cut off with the text before them."""
    *before, rest = _END_OF_KEY.split(text)
    return "".join(f"{part.rstrip(_BASE64)}[redacted private key]" for part in before) + rest


def safe_value(text: str) -> str:
    """A value of a ConfigMap that the suite reads. A text without credentials and controls stays as it is."""
    return safe_text(text, MAX_VALUE)


def safe_answer(value: Any) -> Any:
    """What a cluster said to a question, decoded from JSON, with each text as :func:`safe_text` has it, whatever its length."""
    if isinstance(value, str):
        return safe_text(value, len(value))
    if isinstance(value, dict):
        return {safe_answer(name): safe_answer(item) for name, item in value.items()}
    return [safe_answer(item) for item in value] if isinstance(value, list | tuple) else value


def is_whole(text: str) -> bool:
    """Whether nothing was taken from a value, as far as the value shows it."""
    return not text.startswith(_LEFT_OUT) and "[redacted" not in text


def safe_object(value: object) -> object:
    """An API object, decoded from JSON, without what could be a secret. The shape stays, so that a reader sees that something was there."""
    return _safe(value, "")


def _safe(value: object, key: str) -> object:
    if isinstance(value, str):
        return _hidden(value) if _sensitive(key) or key in _COMMANDS else safe_text(value)
    if isinstance(value, dict):
        rule = _RULES.get(key)
        items = ((str(name), item) for name, item in value.items() if name != "managedFields")
        if "value" in value and _sensitive(str(value.get("name", ""))):
            items = ((name, _hidden(item) if name == "value" else item) for name, item in items)
        return {safe_text(name, 300): rule(name, item) if rule else _safe(item, name) for name, item in items}
    if isinstance(value, list):
        if key in _COMMANDS:
            return [_hidden(item) for item in value]
        if key == "env":
            return [_variable(item) for item in value]
        return [_safe(item, key) for item in value]
    return value


@lru_cache(REMEMBERED)
def _sensitive(key: str) -> bool:
    return bool(_SENSITIVE_KEY.search(key)) and not _REFERENCE.search(key)


def _hidden(value: object) -> str:
    size = len(value.encode(errors="replace")) if isinstance(value, str) else 0
    return f"{_LEFT_OUT}: {size} bytes]" if size else f"{_LEFT_OUT}]"


def _datum(_name: str, value: object) -> object:
    return _hidden(value)


def _annotation(name: str, value: object) -> object:
    known = name != _LAST_APPLIED and _OWNERS_KEPT.fullmatch(name) and not _sensitive(name)
    return safe_text(value, 300) if known and isinstance(value, str) else _hidden(value)


def _variable(item: object) -> object:
    if not isinstance(item, dict):
        return _hidden(item)
    name = str(item.get("name", ""))
    kept = {safe_text(str(key), 300): _safe(value, str(key)) for key, value in item.items() if key != "value"}
    if "value" in item:
        value = item["value"]
        kept["value"] = (
            clip(safe_text(value), 300) if isinstance(value, str) and _ENV_KEPT.fullmatch(name) and not _sensitive(name) else _hidden(value)
        )
    return kept


_COMMANDS = frozenset({"command", "args", "script", "entrypoint"})
_RULES: dict[str, Callable[[str, object], object]] = {
    "data": _datum,
    "binaryData": _datum,
    "stringData": _datum,
    "env": _datum,
    "annotations": _annotation,
}
