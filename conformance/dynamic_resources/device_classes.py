"""DeviceClasses: which drivers and devices their CEL selectors choose, as far as plain comparisons say it. Pure.

Facts: docs/facts/dra.md#claims.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from conformance.outputs.resource_slice import SliceDevice
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, sequence, text_of

_TEXT = r"""(?:"(?P<{0}d>[^"]*)"|'(?P<{0}s>[^']*)')"""
_DRIVER = re.compile(r"\s*device\.driver\s*==\s*" + _TEXT.format("v") + r"\s*\Z")
_NAMES_DRIVER = re.compile(r"""device\.driver\s*(?:==|in\s*\[)\s*(?P<rest>["'][^\])&|]*)|["'](?P<first>[^"']+)["']\s*==\s*device\.driver""")
_DOMAIN = re.compile(r"""device\.(?:attributes|capacity)\[\s*["'](?P<domain>[^"'/]+)["']\s*\]""")
_ATTRIBUTE = re.compile(
    r"\s*device\.attributes\[" + _TEXT.format("k") + r"\](?:\.(?P<name>\w+)|\[" + _TEXT.format("n") + r"\])\s*(?P<op>==|!=)\s*"
    r"(?:" + _TEXT.format("v") + r"|(?P<plain>true|false|\d{1,18}))\s*\Z"
)
_STANDARD_DOMAIN = "resource.kubernetes.io"
MAX_EXPRESSION = 10_240
"""What the API accepts of one expression (docs/facts/kubernetes-limits.md#sizes); longer text is not looked at."""


class DeviceClass(msgspec.Struct, frozen=True):
    """One DeviceClass. ``expressions`` are its CEL selectors, ``drivers`` those that they or its configuration name.

    ``selectors`` is how many it has, of whatever sort.
    """

    name: str
    expressions: tuple[str, ...]
    drivers: tuple[str, ...]
    extended_resource: str = ""
    selectors: int = 0
    created: str = ""

    def selects(self, driver: str, device: SliceDevice) -> bool | None:
        """Whether the class chooses a device; None when its selectors are more than comparisons."""
        return selects(self.expressions, driver, device)


def device_class(item: Json) -> DeviceClass:
    """Read one object of kind DeviceClass."""
    spec = mapping(item.get("spec"))
    expressions = expressions_of(spec.get("selectors"))
    opaque = [text_of(mapping(mapping(entry).get("opaque")).get("driver")) for entry in sequence(spec.get("config"))]
    return DeviceClass(
        name=text_of(mapping(item.get("metadata")).get("name")),
        expressions=tuple(expressions),
        drivers=tuple(dict.fromkeys(name for name in (*drivers_of(expressions), *opaque) if name)),
        extended_resource=text_of(spec.get("extendedResourceName")),
        selectors=len(sequence(spec.get("selectors"))),
        created=text_of(mapping(item.get("metadata")).get("creationTimestamp")),
    )


def is_plain(known: DeviceClass) -> bool:
    """Whether all its selectors are comparisons that are understood here, so that they compile. One that is no CEL is not understood."""
    terms = [term for text in known.expressions for term in (text.split("&&") if len(text) <= MAX_EXPRESSION else ["?"])]
    return len(known.expressions) == known.selectors and all(_DRIVER.match(term) or _ATTRIBUTE.match(term) for term in terms)


def expressions_of(selectors: object) -> list[str]:
    """The CEL expressions of a list of selectors."""
    found = [text_of(mapping(mapping(item).get("cel")).get("expression")) for item in sequence(selectors)]
    return [text for text in found if text]


def drivers_of(expressions: Iterable[str]) -> list[str]:
    """Drivers that expressions name, else the domains of the attributes they compare, which are the driver's name by custom."""
    named: list[str] = []
    domains: list[str] = []
    for text in expressions:
        if len(text) > MAX_EXPRESSION:
            continue
        for found in _NAMES_DRIVER.finditer(text):
            named += [found["first"]] if found["first"] else re.findall(r"""["']([^"']+)["']""", found["rest"])
        domains += [found["domain"] for found in _DOMAIN.finditer(text) if found["domain"] != _STANDARD_DOMAIN]
    return list(dict.fromkeys(named or domains))


def selects(expressions: Sequence[str], driver: str, device: SliceDevice) -> bool | None:
    """Whether all expressions choose a device; None when one of them cannot be evaluated here and none says no."""
    known = True
    for text in expressions:
        for term in text[:MAX_EXPRESSION].split("&&"):
            answer = _holds(term, driver, device)
            if answer is False:
                return False
            known = known and answer is not None
    return True if known else None


def _holds(term: str, driver: str, device: SliceDevice) -> bool | None:
    if found := _DRIVER.match(term):
        return driver == _either(found, "v")
    found = _ATTRIBUTE.match(term)
    if found is None or "||" in term:
        return None
    domain, name = _either(found, "k"), found["name"] or _either(found, "n")
    value = device.attributes.get(f"{domain}/{name}")
    if value is None and domain == driver:
        value = device.attributes.get(name)
    if value is None:
        return False  # CEL stops with an error, and the device does not match
    wanted = found["plain"] if found["plain"] is not None else _either(found, "v")
    return (value == wanted) is (found["op"] == "==")


def _either(found: re.Match[str], group: str) -> str:
    return found[f"{group}d"] if found[f"{group}d"] is not None else (found[f"{group}s"] or "")
