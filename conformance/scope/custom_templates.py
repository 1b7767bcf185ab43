"""Pod templates in custom resources of kinds that the suite does not know by name, found by their shape.

Why, and which bounds hold: docs/decisions/custom-kinds-by-shape.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from conformance.scope.template import TOO_LARGE, Template, bounded, lacks_image, meta_of, unreadable
from fixtures.cluster.kinds import kubectl_name
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.demand.pod_shapes import CHART_VALUES, Shape, is_object, shape_of
from fixtures.model.demand.spec_walk import walk
from fixtures.snapshot.custom_kinds import NO_CONTENT, TOO_MANY
from fixtures.snapshot.state import Listing, Object
from fixtures.text.sentences import listed
from fixtures.verdict.findings import Subject

_FORBIDDEN = "Forbidden"

_MERGED = frozenset(f"serving.kserve.io/{plural}" for plural in ("llminferenceservices", "llminferenceserviceconfigs", "servingruntimes"))
"""Kinds whose pod specs are merged with others, whatever they have themselves (docs/facts/vendors-and-clouds.md#kserve)."""


def of_custom_kinds(listings: Sequence[Listing[Object]], *, offline: bool) -> Iterator[Template]:
    """Templates in kinds that the suite does not know by name. Kinds that the account may not list are left out, in one finding."""
    for listing in listings:
        if listing.trouble and listing.trouble not in (_FORBIDDEN, TOO_MANY):
            trouble = f"{listing.key} could not be listed: {listing.message or listing.trouble}"
            yield unreadable(Subject("resource", listing.key), "", listing.key, trouble)
        for item in listing.objects:
            meta = mapping(item.get("metadata"))
            subject = Subject(listing.kind, text_of(meta.get("name")), text_of(meta.get("namespace")))
            yield from bounded(templates_by_shape(listing.key, subject, item))
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
    for spot in walk("", {field: value for field, value in obj.items() if field not in NO_CONTENT}):
        if spot.beyond:
            yield unreadable(subject, spot.path, key, TOO_LARGE)
        elif spot.path not in ("", "spec") and is_object(spot.value):
            spot.done = spot.value
        else:
            own = spot.value if spot.path else {field: value for field, value in spot.value.items() if field != "spec"}
            shape = shape_of(own)
            if shape is not None:
                yield _shaped(key, subject, spot.path, shape, spot.parent)
            spot.done = CHART_VALUES | (shape.used if shape is not None else frozenset())


def _shaped(key: str, subject: Subject, path: str, shape: Shape, parent: Json) -> Template:
    if shape.trouble:
        return unreadable(subject, path, key, f"{path} {shape.trouble}")
    meta = meta_of(parent)
    return Template(
        subject=subject,
        path=path,
        spec=shape.spec,
        namespace=subject.namespace,
        annotations=meta.annotation,
        labels=meta.label,
        key=key,
        partial=shape.partial or key in _MERGED or lacks_image(shape.spec),
        certain=shape.certain,
    )
