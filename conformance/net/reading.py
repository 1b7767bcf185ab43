"""Parts of objects that are read as dictionaries: whatever a cluster put there, the answer has the asked shape."""

from __future__ import annotations

from typing import Any

from fixtures.models import Json


def mapping(obj: Any, *path: str) -> Json:
    """The object at a path of keys; ``{}`` when there is none."""
    for key in path:
        obj = obj.get(key) if isinstance(obj, dict) else None
    return obj if isinstance(obj, dict) else {}


def entries(value: Any) -> list[Json]:
    """The objects of a list; ``[]`` when it is none."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: Any, limit: int = 300) -> str:
    """A string, bounded; ``""`` for anything else."""
    return value.strip()[:limit] if isinstance(value, str) else ""


def name_of(obj: Json) -> tuple[str, str]:
    """Name and namespace of an object."""
    metadata = mapping(obj, "metadata")
    return text(metadata.get("name")), text(metadata.get("namespace"))
