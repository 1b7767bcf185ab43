"""CEL selectors of devices, as far as plain comparisons say what they choose. Read once, and asked of each device. Pure.

A tenant's claim may have a megabyte of comparisons. What a device costs depends on the device's own attributes, and not on how many
comparisons there are.

Facts: docs/facts/dra.md#claims.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from conformance.outputs.resource_slice import SliceDevice

MAX_EXPRESSION = 10_240
"""What the API accepts of one expression (docs/facts/kubernetes-limits.md#sizes); longer text is not looked at."""

_TEXT = r"""(?:"(?P<{0}d>[^"]*)"|'(?P<{0}s>[^']*)')"""
_DRIVER = re.compile(r"\s*device\.driver\s*==\s*" + _TEXT.format("v") + r"\s*\Z")
_ATTRIBUTE = re.compile(
    r"\s*device\.attributes\[" + _TEXT.format("k") + r"\](?:\.(?P<name>\w+)|\[" + _TEXT.format("n") + r"\])\s*(?P<op>==|!=)\s*"
    r"(?:" + _TEXT.format("v") + r"|(?P<plain>true|false|\d{1,18}))\s*\Z"
)
_TOKEN = re.compile(r""""[^"]*"|'[^']*'|&&|\|\||//|\.\?|[?()\[\]{}"']""")
_NOT_SPLIT = ("\\", '"""', "'''")
"""Escapes and long texts of CEL, in which a quote need not end a text."""

Attribute = tuple[str, str]
"""Domain and name of an attribute."""


class Selector(msgspec.Struct, frozen=True):
    """What expressions ask of a device, all together: ``equal`` and ``unequal`` are the values that its attributes must have or not have.

    ``understood``: there is nothing in them but comparisons.
    """

    drivers: frozenset[str] = frozenset()
    equal: tuple[tuple[Attribute, frozenset[str]], ...] = ()
    unequal: tuple[tuple[Attribute, frozenset[str]], ...] = ()
    understood: bool = True

    def chooses(self, driver: str, device: SliceDevice) -> bool | None:
        """Whether a device is chosen; None when what is not understood decides. CEL stops at an attribute that is not there."""
        if self.drivers and self.drivers != {driver}:
            return False
        for attribute, values in self.equal:
            value = _value(device, driver, attribute)
            if value is None or values != {value}:
                return False
        for attribute, values in self.unequal:
            value = _value(device, driver, attribute)
            if value is None or value in values:
                return False
        return True if self.understood else None


def selector_of(expressions: Iterable[str]) -> Selector:
    """Read expressions of which all must hold."""
    drivers: set[str] = set()
    tables: dict[str, dict[Attribute, set[str]]] = {"==": {}, "!=": {}}
    understood = True
    for text in expressions:
        for term in _terms(text):
            if found := _DRIVER.match(term):
                drivers.add(_either(found, "v"))
            elif found := _ATTRIBUTE.match(term):
                attribute = _either(found, "k"), found["name"] or _either(found, "n")
                value = found["plain"] if found["plain"] is not None else _either(found, "v")
                tables[found["op"]].setdefault(attribute, set()).add(value)
            else:
                understood = False
    equal, unequal = (tuple((key, frozenset(values)) for key, values in tables[op].items()) for op in ("==", "!="))
    return Selector(frozenset(drivers), equal, unequal, understood)


def _terms(text: str) -> Iterator[str]:
    """Parts of an expression of which all must hold; the whole of it where it is more than parts joined by ``&&``."""
    ends = _conjunctions(text) if len(text) <= MAX_EXPRESSION else None
    if ends is None:
        yield "?"
        return
    start = 0
    for end in (*ends, len(text)):
        yield text[start:end]
        start = end + len("&&")


def _conjunctions(text: str) -> list[int] | None:
    """Where ``&&`` stands outside brackets and quotes; None where an alternative, a comment or an odd quote may change what it joins."""
    if any(part in text for part in _NOT_SPLIT):
        return None
    depth, found = 0, []
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "(" | "[" | "{":
                depth += 1
            case ")" | "]" | "}":
                depth -= 1
            case "&&" if depth == 0:
                found.append(token.start())
            case "//" | '"' | "'":
                return None
            case "||" | "?" if depth == 0:
                return None
        if depth < 0:
            return None
    return found


def _value(device: SliceDevice, driver: str, attribute: Attribute) -> str | None:
    """An attribute of a device. A driver publishes its own without a domain."""
    domain, name = attribute
    value = device.attributes.get(f"{domain}/{name}")
    return device.attributes.get(name) if value is None and domain == driver else value


def _either(found: re.Match[str], group: str) -> str:
    return found[f"{group}d"] if found[f"{group}d"] is not None else (found[f"{group}s"] or "")
