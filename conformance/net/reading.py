"""Reads parts of objects from dictionaries with the expected type, whatever the cluster put there."""

from __future__ import annotations

from typing import Any

from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping


def text(value: Any, limit: int = 300) -> str:
    """A string, bounded; ``""`` for anything else."""
    return value.strip()[:limit] if isinstance(value, str) else ""


def name_of(obj: Json) -> tuple[str, str]:
    """Name and namespace of an object."""
    metadata = mapping(obj, "metadata")
    return text(metadata.get("name")), text(metadata.get("namespace"))
