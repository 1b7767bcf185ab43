"""Reader of the API server's refusal of an object that is not valid, as kubectl prints it (docs/facts/admission.md#extended-resources)."""

from __future__ import annotations

import re

import msgspec

from conformance.outputs.log_text import log_lines
from conformance.outputs.unreadable import Unreadable

_HEAD = re.compile(
    r"(?:The (?P<kind>[A-Z]\w{1,62}) \"(?P<name>[^\"]{1,253})\" is invalid:|\"?(?P<other>[\w.-]{1,253})\"? is invalid:)\s{0,4}(?P<rest>.*)"
)
_CAUSE = re.compile(
    r"(?:[*-]\s{1,4})?(?P<field>[a-zA-Z][\w.\[\]/\"-]{1,300}): "
    r"(?P<what>Invalid value|Required value|Forbidden|Unsupported value|Duplicate value|Too long|Too many|Not found|Internal error)"
    r"(?:: (?P<detail>.{1,600}))?"
)


class Cause(msgspec.Struct, frozen=True):
    """One field that the API server refuses, in its words."""

    field: str
    what: str
    detail: str


class ApiRefusal(msgspec.Struct, frozen=True):
    """One refused object."""

    kind: str
    name: str
    causes: tuple[Cause, ...]


def parse(text: str) -> ApiRefusal:
    """The first refusal of the text.

    Raises:
        Unreadable: empty, binary or oversized text, or no refusal in it.
    """
    kind, name = "", ""
    causes: list[Cause] = []
    seen = False
    for line in log_lines(text):
        if head := _HEAD.search(line):
            if seen:
                break
            seen, kind, name = True, head["kind"] or "", head["name"] or head["other"] or ""
            line = head["rest"]
        if seen:
            causes += [Cause(m["field"], m["what"], (m["detail"] or "").strip()) for m in _CAUSE.finditer(line)]
    if not seen:
        raise Unreadable("no refusal of an invalid object found")
    return ApiRefusal(kind, name, tuple(causes))
