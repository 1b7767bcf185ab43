"""How much of the catalogue a run judged, what it had to judge and did not, and what to note about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from conformance.catalogue import Catalogue
from conformance.coverage import default_namespaces, missing_kinds, unjudged_devices, unmatched_patterns
from conformance.coverage.shortfalls import shortfalls
from fixtures.model.cluster import Scope
from fixtures.verdict.coverage import Asked, measure
from fixtures.verdict.floor import Floor
from fixtures.verdict.record import Access, Coverage, Result
from fixtures.verdict.subjects import Inconclusive, NotApplicable


def coverage_of_run(
    catalogue: Catalogue,
    results: list[Result],
    left_out: Mapping[str, str],
    *,
    access: Access,
    floor: Floor,
    scope: Scope | None,
) -> Coverage:
    """The coverage of a run. ``left_out``: ids and the option that left them out; ``scope`` is None where no cluster was read."""
    asked = [
        Asked(id=one.id, title=one.title, area=one.area, level=one.level, area_title=area.title)
        for area in catalogue.areas
        for one in area.requirements
    ]
    found = measure(asked, results, left_out)
    found.shortfalls = list(shortfalls(found, results, floor))
    if results and scope is not None:
        sentences = [
            _as_read(unmatched_patterns.shortfalls(scope)),
            _as_read(unjudged_devices.snapshot_gaps(scope, found, catalogue)),
            missing_kinds.too_many_unjudged(found, results, catalogue.by_id, scope, floor.not_in_snapshot),
            missing_kinds.one_namespace(scope.snapshot),
            missing_kinds.unsaved_namespaces(scope.snapshot),
            missing_kinds.unread_hints(catalogue.by_id, results, scope.snapshot),
        ]
        if unjudged_devices.is_whole(found):
            sentences.append(_as_read(unjudged_devices.accelerators(scope, results)))
            sentences.append(_as_read(unjudged_devices.probes(scope, found, catalogue, access, results)))
        found.shortfalls = list(dict.fromkeys([*found.shortfalls, *chain.from_iterable(sentences)]))
        judged = [catalogue.by_id[one.id] for one in results if one.id in catalogue.by_id]
        found.notes = [
            *missing_kinds.notes(catalogue.by_id.values(), scope.snapshot),
            *missing_kinds.doubted_time(scope.snapshot),
            *_as_read(unmatched_patterns.notes(scope)),
            *unjudged_devices.unknown_resources(scope),
            *default_namespaces.notes(scope, judged),
        ]
    return found


def _as_read(sentences: Iterable[str]) -> Iterator[str]:
    """The sentences; the last one is about a kind that could not be read, if one of them needs it."""
    try:
        yield from sentences
    except (Inconclusive, NotApplicable) as error:
        yield error.message
