"""Writes ``types.json``: the fields of the built-in kinds, taken from the models of the official Python client.

``python -m tests.simulator.api.typetable`` after the client was updated.
"""

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fixtures.simulator.api.resources import Registry, Resource

TYPES = Path(__file__).resolve().parents[3] / "fixtures/simulator/kinds/types.json"
EXTRA = ("V1Binding", "V1Eviction", "V1ObjectMeta")
_PRIMITIVES = {"str": "str", "int": "int", "bool": "bool", "float": "float", "object": "any", "datetime": "time", "bytes": "str"}
# maps of quantities, which the client calls maps of strings
_QUANTITIES = frozenset(
    {"limits", "requests", "capacity", "allocatable", "hard", "used", "allocatedResources", "overhead", "podFixed", "default",
     "defaultRequest", "max", "min", "maxLimitRequestRatio", "consumedCapacity"}
)  # fmt: skip
_QUANTITY_FIELDS: Mapping[str, Sequence[str]] = {
    "V1CapacityRequestPolicy": ("default",),
    "V1CapacityRequestPolicyRange": ("max", "min", "step"),
    "V1Counter": ("value",),
    "V1DeviceCapacity": ("value",),
    "V1EmptyDirVolumeSource": ("sizeLimit",),
    "V1ResourceFieldSelector": ("divisor",),
    "V2MetricTarget": ("averageValue", "value"),
    "V2MetricValueStatus": ("averageValue", "value"),
}
# numbers or texts (ports, percentages), which the client calls objects
_INT_OR_STRING = frozenset({"port", "targetPort", "maxSurge", "maxUnavailable", "minAvailable"})


def generated() -> dict[str, dict[str, str]]:
    """Model → field → type (``str``, ``int``, ``quantity``, ``any``, …, ``[item``, ``{value`` or another model), for all built-in kinds."""
    models = importlib.import_module("kubernetes.client.models")
    found: dict[str, dict[str, str]] = {}
    waiting = [*EXTRA, *(model_of(resource, models) for resource in Registry(native_gangs=True))]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        model = getattr(models, name)
        fields = {model.attribute_map[attribute]: _type(kind) for attribute, kind in model.openapi_types.items()}
        found[name] = {field: _sharpened(name, field, kind) for field, kind in fields.items()}
        waiting.extend(kind.lstrip("[{") for kind in found[name].values() if kind.lstrip("[{")[:1].isupper())
    return dict(sorted(found.items()))


def model_of(resource: Resource, models: Any) -> str:
    """The client's model of a kind: ``V1Pod``, or ``CoreV1Event`` where two groups share a name."""
    version = resource.version[:1].upper() + resource.version[1:]
    group = (resource.group or "core").partition(".")[0].capitalize()
    for name in (f"{version}{resource.kind}", f"{group}{version}{resource.kind}"):
        if hasattr(models, name):
            return name
    raise LookupError(f"the client has no model of {resource.kind} in {resource.api_version}")


def _type(kind: str) -> str:
    for pattern, mark in ((r"[Ll]ist\[(.*)\]", "["), (r"[Dd]ict[\[(]\s*str,\s*(.*)[\])]", "{")):
        inner = re.fullmatch(pattern, kind)
        if inner:
            return mark + _type(inner[1])
    return _PRIMITIVES.get(kind, kind)


def _sharpened(model: str, field: str, kind: str) -> str:
    if kind == "{str" and field in _QUANTITIES:
        return "{quantity"
    if field in _QUANTITY_FIELDS.get(model, ()):
        return "quantity"
    return "intstr" if kind == "any" and field in _INT_OR_STRING else kind


def text() -> bytes:
    """The file: one line per model."""
    lines: Iterator[bytes] = (msgspec.json.encode(name) + b":" + msgspec.json.encode(fields) for name, fields in generated().items())
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


if __name__ == "__main__":
    TYPES.write_bytes(text())
