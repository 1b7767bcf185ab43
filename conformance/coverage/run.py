"""How much of the catalogue a run judged, what it had to judge and did not (exit code 10), and what to note about it.

Whoever creates a namespace that is the platform's by a default name alone is exempt from rules for tenants, so a run names those that
it has believed.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import msgspec

from conformance.catalogue import Catalogue
from conformance.coverage import missing_kinds, unjudged_devices, unmatched_patterns
from conformance.requirement import Requirement
from fixtures.model.cluster import Scope
from fixtures.model.nodes.chosen import is_returning
from fixtures.policy.model import Gate
from fixtures.text.sentences import listed
from fixtures.verdict.coverage import MAX_NAMED, Asked, Floor, Most, measure, missed
from fixtures.verdict.record import Access, Cause, Coverage, Result, Verdict
from fixtures.verdict.subjects import Inconclusive, NotApplicable

FORBIDDEN = "Forbidden"
"""Reason code of a requirement that the API server refused something."""


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
    found = measure(asked, results, left_out, scope.chosen if scope is not None else ())
    if scope is not None and scope.chosen:  # the policy says how much of the whole cluster is judged at least
        judging = {one.area for one in catalogue.by_id.values() if one.of_nodes}
        areas = tuple(area for area in floor.areas if area in judging)
        floor = msgspec.structs.replace(floor, areas=areas, minimum=floor.minimum if floor.source.startswith("--") else 0)
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
            *platform_by_name_alone(scope, judged),
            *_as_read(still_held(scope)),
        ]
    return found


def _as_read(sentences: Iterable[str]) -> Iterator[str]:
    """The sentences; the last one is about a kind that could not be read, if one of them needs it."""
    try:
        yield from sentences
    except (Inconclusive, NotApplicable) as error:
        yield error.message


def shortfalls(coverage: Coverage, results: Iterable[Result], floor: Floor) -> Iterator[str]:
    """Every shortfall that results and policy show, a sentence each."""
    found = list(results)
    yield from _cut_short(coverage)
    yield from _left_out(coverage, floor)
    yield from _missing_rights(found)
    yield from missed(found, floor)


def _cut_short(coverage: Coverage) -> Iterator[str]:
    ids = [one.id for one in coverage.not_judged if one.cause is Cause.CUT_SHORT]
    if ids:
        yield f"the run ended before it had judged {listed(ids, MAX_NAMED)}"


def _left_out(coverage: Coverage, floor: Floor) -> Iterator[str]:
    for one in coverage.not_judged:
        if one.id in floor.required and one.cause in (Cause.SELECTION, Cause.ACCESS, Cause.SNAPSHOT):
            why = f"it was {one.because}" if one.cause is Cause.SELECTION else one.because
            yield f"{one.id} has to be judged (required of the policy), and {why}"


def _missing_rights(results: Iterable[Result]) -> Iterator[str]:
    """A refusal is said at any level of the requirement: who runs the suite can get the right."""
    for result in results:
        if result.verdict is Verdict.INCONCLUSIVE and result.reason_code == FORBIDDEN:
            yield f"{result.id} was refused: {result.message}"


def floor_of(
    gate: Gate,
    *,
    required: tuple[str, ...] = (),
    min_judged: int | None = None,
    max_inconclusive: int | None = None,
    max_not_applicable: int | None = None,
) -> Floor:
    """The floor of a run, or of the later run of a gate. An option that was not given is None; what nobody names is not bounded."""
    most = []
    for verdict, flag, option, key, in_policy in (
        (Verdict.INCONCLUSIVE, "--max-inconclusive", max_inconclusive, "gate.maxInconclusive", gate.max_inconclusive),
        (Verdict.NOT_APPLICABLE, "--max-not-applicable", max_not_applicable, "gate.maxNotApplicable", gate.max_not_applicable),
    ):
        if option is not None:
            most.append(Most(verdict=verdict, count=option, source=flag))
        elif in_policy is not None:
            most.append(Most(verdict=verdict, count=in_policy, source=key))
    minimum, source = gate.minimum_judged, "gate.minimumJudged"
    if min_judged is not None:
        minimum, source = min_judged, "--min-judged"
    return Floor(
        minimum=minimum,
        areas=gate.areas,
        source=source,
        most=tuple(most),
        required=required,
        not_in_snapshot=gate.max_not_in_snapshot,
    )


def still_held(scope: Scope) -> Iterator[str]:
    """A sentence about the nodes that the run is about and that are not back in service yet."""
    if held := [node.name for node in scope.snapshot.nodes if is_returning(scope, node)]:
        yield f"{listed(held)} cannot be used yet, and was judged as it will be without what return.tolerate of the policy names"


def platform_by_name_alone(scope: Scope, judged: Iterable[Requirement]) -> Iterator[str]:
    """A sentence that names those that run pods with devices or on accelerator nodes, or all of them where pods or nodes were not read.

    None where no requirement that was judged tells tenants from the platform.
    """
    if any(one.tells_tenants for one in judged) and (found := sorted(_skipped(scope))):
        only = "only the default list tenants.infrastructure says it is the platform's. Confirm it in the policy."
        yield f"Tenant rules were skipped in {listed(found)}: {only}"


def _skipped(scope: Scope) -> set[str]:
    nodes, pods, platform = scope.snapshot.listing("nodes"), scope.snapshot.listing("pods"), scope.platform
    if not (nodes.known and pods.known):
        names = [item.name for item in scope.snapshot.listing("namespaces").items]
        return {name for name in names if platform.of(name).unread or (platform.of(name).free and not scope.is_tenant(name))}
    accelerators = {node.name for node in scope.accelerator_nodes}
    running = [pod for pod in pods.items if not pod.finished and platform.of(pod.namespace).unread]
    return {pod.namespace for pod in running if pod.spec.node_name in accelerators or scope.device_demand_of(pod).devices}
