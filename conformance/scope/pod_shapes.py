"""Parts of pods in custom resources of any kind, by their shape: a pod spec, a container alone, what belongs to a pod alone. Pure.

Why by shape: docs/decisions/custom-kinds-by-shape.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fixtures.kubernetes.models import Json, PodSpec
from fixtures.kubernetes.untyped import mapping
from fixtures.text import typed

_POD_FIELDS: dict[str, type] = {
    "tolerations": list,
    "volumes": list,
    "hostIPC": bool,
    "hostPID": bool,
    "hostNetwork": bool,
    "runtimeClassName": str,
    "nodeSelector": dict,
    "affinity": dict,
    "resourceClaims": list,
}
_CONTAINER_FIELDS: dict[str, type] = {
    "name": str,
    "image": str,
    "env": list,
    "envFrom": list,
    "volumeMounts": list,
    "securityContext": dict,
}
_BESIDE_AN_IMAGE = frozenset(("resources", "env", "envFrom", "volumeMounts", "securityContext", "command", "args"))
_TELLING = frozenset(("image", "command", "args", "env", "envFrom", "tolerations", "nodeSelector", "runtimeClassName", "volumeMounts"))


CHART_VALUES = frozenset(("values", "valuesObject"))
"""Fields of resources that install charts: what the chart makes of them is in the cluster, and judged there."""


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What was recognised at one place. ``trouble`` says in a clause why it could not be read.

    ``partial``: not a whole pod spec, for a controller completes it. ``certain``: something beside amounts says that it is a part of a
    pod. ``used`` are the fields that need not be searched any further.
    """

    spec: PodSpec
    partial: bool = False
    certain: bool = True
    used: frozenset[str] = frozenset()
    trouble: str = ""


def shape_of(value: Json) -> Shape | None:
    """The part of a pod that a mapping of a custom resource is, or None."""
    if _holds_containers(value):
        return _read(value, partial=False, used=frozenset(("containers", "initContainers", "ephemeralContainers", *_POD_FIELDS)))
    amounts = {field: part for field, part in value.items() if _is_amounts(part)}
    container = bool(amounts) or (isinstance(value.get("image"), str) and bool(_BESIDE_AN_IMAGE & value.keys())) or _sets_variables(value)
    if not container and not _tells_of_a_pod(value):
        return None
    pod: Json = _typed(value, _POD_FIELDS)
    if container:
        own = _typed(value, _CONTAINER_FIELDS)
        plain = {"resources": value["resources"]} if isinstance(value.get("resources"), dict) else {}
        blocks = [{**own, "name": own.get("name") or field, "resources": part} for field, part in amounts.items()]
        pod["containers"] = blocks or [{**own, **plain}]
    used = frozenset((*amounts, *_POD_FIELDS, *(_CONTAINER_FIELDS if container else ()), *(("resources",) if container else ())))
    return _read(pod, partial=True, used=used, certain=not amounts or bool(_TELLING & value.keys()))


def is_object(value: Json) -> bool:
    """Whether a mapping is a whole object with a name, which somebody else creates and which is judged where it is then. A pod is none."""
    named = isinstance(mapping(value.get("metadata")).get("name"), str)
    return named and isinstance(value.get("apiVersion"), str) and isinstance(kind := value.get("kind"), str) and kind != "Pod"


def _sets_variables(value: Json) -> bool:
    """Whether ``env`` or ``envFrom`` is a container's: entries with a name and a value, or with a reference."""
    entries = (item for item in _list(value, "env") if isinstance(item, dict))
    sources = (item for item in _list(value, "envFrom") if isinstance(item, dict))
    return any(isinstance(item.get("name"), str) and ("value" in item or "valueFrom" in item) for item in entries) or any(
        {"configMapRef", "secretRef"} & item.keys() for item in sources
    )


def _read(value: Json, *, partial: bool, used: frozenset[str], certain: bool = True) -> Shape:
    try:
        return Shape(spec=typed.convert(value, PodSpec, strict=False), partial=partial, certain=certain, used=used)
    except msgspec.ValidationError as error:
        return Shape(
            spec=PodSpec(), partial=partial, certain=certain, used=used, trouble=f"looks like a pod's and is none: {str(error)[:200]}"
        )


def _holds_containers(value: Json) -> bool:
    """Whether ``containers`` is a list of containers. Other programs have lists of that name, too."""
    found = value.get("containers")
    return isinstance(found, list) and bool(found) and all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in found)


def _is_amounts(value: Any) -> bool:
    """Whether a mapping is a container's ``resources`` with an extended resource in it, whatever its field is called."""
    return any("/" in str(name) for field in ("limits", "requests") for name in mapping(mapping(value).get(field)))


def _tells_of_a_pod(value: Json) -> bool:
    """Whether a mapping has what only a pod has: tolerations, a volume of the host, a namespace of the host, a runtime class."""
    tolerations = [item for item in _list(value, "tolerations") if isinstance(item, dict)]
    hosts = any(isinstance(mapping(item).get("hostPath"), dict) for item in _list(value, "volumes"))
    runtime = value.get("runtimeClassName")
    flags = any(value.get(field) is True for field in ("hostIPC", "hostPID", "hostNetwork"))
    return bool(tolerations) or hosts or flags or (isinstance(runtime, str) and bool(runtime))


def _list(value: Json, field: str) -> list[Any]:
    found = value.get(field)
    return found if isinstance(found, list) else []


def _typed(value: Json, fields: dict[str, type]) -> Json:
    """The fields that have the type a pod gives them, without entries of lists that are no objects."""
    found = {}
    for field, kind in fields.items():
        if isinstance(part := value.get(field), kind):
            found[field] = list(_objects(part)) if isinstance(part, list) else part
    return found


def _objects(items: list[Any]) -> Iterator[Json]:
    return (item for item in items if isinstance(item, dict))
