"""Pod templates in custom resources of kinds that the suite does not know by name, found by their shape.

Why, and which bounds hold: docs/decisions/custom-kinds-by-shape.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from conformance.scope.pod_shapes import CHART_VALUES, Shape, is_object, shape_of
from conformance.scope.template import MAX_DEPTH, MAX_VISITED, Template, annotations_of, name_of, unreadable
from fixtures.cluster.kinds import kubectl_name
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.snapshot.custom_kinds import TOO_MANY
from fixtures.snapshot.state import Listing, Object
from fixtures.text.sentences import listed
from fixtures.verdict.findings import Subject

MAX_PATH = 300
"""Characters of a path in an object of a kind that nobody knows: whoever wrote it chose the names in it."""

_FORBIDDEN = "Forbidden"


def of_custom_kinds(listings: Sequence[Listing[Object]], *, offline: bool) -> Iterator[Template]:
    """Templates in kinds that the suite does not know by name. Kinds that the account may not list are left out, in one finding."""
    for listing in listings:
        if listing.trouble and listing.trouble not in (_FORBIDDEN, TOO_MANY):
            trouble = f"{listing.key} could not be listed: {listing.message or listing.trouble}"
            yield unreadable(Subject("resource", listing.key), "", listing.key, trouble)
        for item in listing.objects:
            meta = mapping(item.get("metadata"))
            yield from templates_by_shape(
                listing.key, Subject(listing.kind, text_of(meta.get("name")), text_of(meta.get("namespace"))), item
            )
    refused = [kubectl_name(listing.key) for listing in listings if listing.trouble == _FORBIDDEN]
    beyond = [kubectl_name(listing.key) for listing in listings if listing.trouble == TOO_MANY]
    unsaved = [kubectl_name(listing.key) for listing in listings if offline and not listing.collected and not listing.trouble]
    for names, why in (
        (refused, "the account may not list them (README, Rights, says how to let it)"),
        (beyond, "no more kinds than that are looked through"),
        (unsaved, "the snapshot does not hold them"),
    ):
        if names:
            some = f"{len(names)} custom kinds" if len(names) > 1 else names[0]
            trouble = f"{listed(names, 8)} may hold pod templates, and {why}"
            yield msgspec.structs.replace(unreadable(Subject("resource", some), "", "custom kinds", trouble), left_out=True)


def templates_by_shape(key: str, subject: Subject, obj: Json) -> Iterator[Template]:
    """Templates and parts of pods inside one object of a kind that the suite does not know by name."""
    visited = 0
    pending: list[tuple[str, Any, Json, int]] = [("spec", obj.get("spec"), obj, 0)]
    while pending:
        path, value, parent, depth = pending.pop()
        visited += 1
        if depth > MAX_DEPTH or visited > MAX_VISITED:
            yield unreadable(subject, path[:MAX_PATH], key, "the object is too large or too deep to be searched for pod templates")
            return
        if isinstance(value, dict):
            if depth and is_object(value):
                continue
            shape = shape_of(value)
            if shape is not None:
                yield _shaped(key, subject, path[:MAX_PATH], shape, parent if path.endswith(".spec") else {})
            used = shape.used if shape is not None else frozenset()
            pending += [
                (f"{path}.{name}", child, value, depth + 1)
                for name, child in reversed(value.items())
                if isinstance(child, (dict, list)) and name not in used and name not in CHART_VALUES
            ]
        elif isinstance(value, list):
            pending += [
                (f"{path}[{name_of(child, index)}]", child, {}, depth + 1)
                for index, child in reversed(list(enumerate(value)))
                if isinstance(child, (dict, list))
            ]


def _shaped(key: str, subject: Subject, path: str, shape: Shape, parent: Json) -> Template:
    if shape.trouble:
        return unreadable(subject, path, key, f"{path} {shape.trouble}")
    return Template(
        subject=subject,
        path=path,
        spec=shape.spec,
        namespace=subject.namespace,
        annotations=annotations_of(parent),
        key=key,
        partial=shape.partial,
        certain=shape.certain,
    )
