"""What two API servers answered to the same request, and in what the answers differ."""

import re
from typing import Any

import msgspec

from fixtures.cluster.client import Answer

Json = dict[str, Any]

ABSENT = "<absent>"
_SERVER_SET = ("uid", "creationTimestamp", "managedFields", "resourceVersion")
_GENERATED = re.compile(r"^(.*)[bcdfghjklmnpqrstvwxz2456789]{5}$")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an answer that are compared."""

    status: int
    reason: str
    causes: list[tuple[str, str]]
    violations: str
    warnings: list[str]
    message: str
    object: Json


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One request that was answered differently. ``aspect`` is the first of ASPECTS that differs."""

    kind: str
    aspect: str
    namespace: str
    body: Json
    real: View
    simulated: View
    known: str = ""


ASPECTS = ("status", "reason", "causes", "violations", "warnings", "message", "object")
BINDING = ("status", "reason", "causes", "violations", "warnings")
"""What has to agree on every request; the rest is shown, and agrees where a requirement reads it."""


def view(answer: Answer) -> View:
    """What is compared of an answer."""
    document = answer.json()
    message = "" if answer.ok else answer.message
    causes = sorted((str(cause.get("reason")), str(cause.get("field"))) for cause in answer.causes)
    violations = message.partition("violates PodSecurity")[2]
    return View(
        status=answer.status,
        reason="" if answer.ok else answer.reason,
        causes=causes,
        violations=violations,
        warnings=sorted(answer.warnings),
        message=message,
        object=settled(document) if answer.ok else {},
    )


def settled(document: Json) -> Json:
    """An object without what every server makes up anew."""
    meta = {name: value for name, value in (document.get("metadata") or {}).items() if name not in _SERVER_SET}
    if meta.get("generateName") and (match := _GENERATED.match(str(meta.get("name")))):
        meta["name"] = match.group(1)
    return {**document, "metadata": meta}


def difference(real: View, simulated: View) -> str:
    """The first aspect that differs; empty when none does."""
    return next((name for name in ASPECTS if getattr(real, name) != getattr(simulated, name)), "")


def apart(real: Any, simulated: Any, path: str = "") -> list[str]:
    """Where two JSON values differ: ``path: real | simulated``."""
    if isinstance(real, dict) and isinstance(simulated, dict):
        pairs = [(f"{path}.{name}", real.get(name, ABSENT), simulated.get(name, ABSENT)) for name in sorted({*real, *simulated})]
    elif isinstance(real, list) and isinstance(simulated, list) and len(real) == len(simulated):
        pairs = [(f"{path}[{number}]", one, other) for number, (one, other) in enumerate(zip(real, simulated, strict=True))]
    else:
        return [] if real == simulated else [f"{path}: {real!r} | {simulated!r}"]
    return [line for field, one, other in pairs for line in apart(one, other, field)]
