"""DeviceClasses, and the drivers that CEL selectors name. Pure.

Facts: docs/facts/dra.md#claims.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

import msgspec

from conformance.dynamic_resources.selectors import MAX_EXPRESSION, Selector, selector_of
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, sequence, text_of

_NAMES_DRIVER = re.compile(r"""device\.driver\s*(?:==|in\s*\[)\s*(?P<rest>["'][^\])&|]*)|["'](?P<first>[^"']+)["']\s*==\s*device\.driver""")
_DOMAIN = re.compile(r"""device\.(?:attributes|capacity)\[\s*["'](?P<domain>[^"'/]+)["']\s*\]""")
_STANDARD_DOMAIN = "resource.kubernetes.io"


class DeviceClass(msgspec.Struct, frozen=True, dict=True):
    """One DeviceClass. ``expressions`` are its CEL selectors, ``drivers`` those that they or its configuration name.

    ``selectors`` is how many it has, of whatever sort.
    """

    name: str
    expressions: tuple[str, ...]
    drivers: tuple[str, ...]
    extended_resource: str = ""
    selectors: int = 0
    created: str = ""

    @cached_property
    def selector(self) -> Selector:
        """What its CEL selectors choose."""
        return selector_of(self.expressions)


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
    return len(known.expressions) == known.selectors and known.selector.understood


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
