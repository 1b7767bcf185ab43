"""Which nodes a probe asks, in batches bounded in pods and time, with one finding for every accelerator node."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.offers import busy, foreign_taints, without_devices
from fixtures.model.placement.free_devices import Place, places_of
from fixtures.probes.workspace import Workspace
from fixtures.text.globs import matches
from fixtures.text.sentences import in_order, listed
from fixtures.verdict.findings import OF_OTHER_NODES, About, Finding, Outcome, undecided
from fixtures.verdict.subjects import Inconclusive, NotApplicable

T = TypeVar("T")

_STATE = "node.spec, node.status, requests of bound pods"
_WORST = (Outcome.BAD, Outcome.MISSED, Outcome.UNDECIDED, Outcome.ADVISED, Outcome.OK, Outcome.ALLOWED, Outcome.NOT_JUDGED)
_SHOWN = 3

PlaceFinding = tuple[Place, Finding]
"""A finding, and the place it is about."""


def choose_places(scope: Scope, places: Iterable[Place], *, free: int = 1, peers: int = 0) -> list[Place]:
    """The places to ask: the freest of every sort, or all that have ``free`` units with ``probes.everyNode`` or of nodes asked for.

    ``places`` come most free first. ``peers``: on how many further nodes of its sort a place of a node asked for is compared.
    Raises :class:`Inconclusive` naming who is full when there is none, and :class:`NotApplicable` if no node asked for has a place.
    """
    every = list(places)
    offered = [place for place in every if scope.is_asked(place.node)]
    if scope.chosen and not offered:
        raise NotApplicable(OF_OTHER_NODES, f"no node that --nodes names offers what it asks for; there are {listed(every) or 'none'}")
    able = [place for place in offered if place.free >= free and not foreign_taints(scope, place.node)]
    if not able:
        tainted = sorted({place.node.name for place in offered if foreign_taints(scope, place.node)})
        away = f"; taints keep probes from {listed(tainted)}" if tainted else ""
        raise Inconclusive("NoFreeDevice", f"the probe needs {free} free on one node; there are {listed(offered)}{away}")
    if scope.chosen:
        return [*able, *_peers(scope, able, every, free, peers)]
    if scope.policy.probes.every_node:
        return able
    best: dict[tuple[str, ...], Place] = {}
    for place in able:
        best.setdefault(place.device_type, place)
    return list(best.values())


def _peers(scope: Scope, chosen: Sequence[Place], places: Iterable[Place], free: int, count: int) -> list[Place]:
    """Places of other nodes, most free first: so many of each sort of the chosen ones."""
    found: dict[tuple[str, ...], list[Place]] = {place.device_type: [] for place in chosen}
    for place in places:
        of_sort = found.get(place.device_type)
        others = of_sort is not None and not scope.is_asked(place.node) and place.free >= free and not foreign_taints(scope, place.node)
        if of_sort is not None and others and len(of_sort) < count:
            of_sort.append(place)
    return [place for of_sort in found.values() for place in of_sort]


def batches(scope: Scope, workspace: Workspace, items: Sequence[T], pods: int) -> Iterator[list[tuple[int, T]]]:
    """The items with their numbers, so many at a time that ``pods`` for each are at most ``probes.atOnce``.

    Between batches what was created is removed, so that its devices are free. After ``probes.everyNodeSeconds`` no new batch begins.
    """
    size = max(scope.policy.probes.at_once // max(pods, 1), 1)
    deadline = time.monotonic() + scope.policy.probes.every_node_seconds
    numbered = list(enumerate(items))
    for start in range(0, len(numbered), size):
        if start and time.monotonic() >= deadline:
            return
        if start:
            workspace.clear()
        yield numbered[start : start + size]


def not_reached(scope: Scope, node: Node) -> Finding:
    """A node to which the time for probes did not come."""
    seconds = scope.policy.probes.every_node_seconds
    message = f"not probed within {seconds:g} s (policy probes.everyNodeSeconds)"
    return undecided(subject(node), message=message, source="time", cause="NoTimeLeft")


def in_batches(
    scope: Scope, workspace: Workspace, places: Sequence[Place], pods: int, ask: Callable[[list[tuple[int, Place]]], Iterable[PlaceFinding]]
) -> Iterator[PlaceFinding]:
    """What ``ask`` finds of the places, which it gets in :func:`batches`. Every place that was not come to is undecided."""
    come = 0
    for batch in batches(scope, workspace, places, pods):
        come += len(batch)
        yield from ask(batch)
    yield from ((place, not_reached(scope, place.node)) for place in places[come:])


def per_node(
    scope: Scope,
    asked: Iterable[PlaceFinding],
    unfit: Callable[[Place], str] = lambda _: "",
    obstacle: Callable[[Node], str] = lambda _: "",
    offered: Callable[[Scope, Node], Sequence[Place]] = places_of,
) -> Iterator[Finding]:
    """One finding for every accelerator node: what the probes found on it, or why none ran there.

    ``unfit`` says why the question is none for a place, ``obstacle`` what else keeps this probe from a node; or nothing.
    ``offered`` gives the places of a node as the probe tells them apart.
    """
    return one_per_node(asked, scope.accelerator_nodes, lambda node, reached: _not_asked(scope, node, reached, unfit, obstacle, offered))


def one_per_node(
    asked: Iterable[PlaceFinding], nodes: Iterable[Node], rest: Callable[[Node, Mapping[tuple[str, ...], str]], Finding]
) -> Iterator[Finding]:
    """One finding for each of the nodes. ``rest`` gives it for those not asked, from ``{sort: a node that was asked}``."""
    found: dict[str, list[PlaceFinding]] = {}
    try:
        for place, finding in asked:
            found.setdefault(place.node.name, []).append((place, asked_through(place, finding)))
    except (ApiTrouble, Inconclusive):
        yield from (_merged(items[0][0].node, [finding for _, finding in items]) for items in found.values())
        raise
    reached = {place.device_type: place.node.name for items in found.values() for place, _ in items}
    for node in nodes:
        findings = [finding for _, finding in found.get(node.name, ())]
        yield _merged(node, findings) if findings else rest(node, reached)


def asked_through(place: Place, finding: Finding) -> Finding:
    """The finding, whose source says in which way the probe asked for devices."""
    return msgspec.structs.replace(finding, source=f"{finding.source}; asked by {place.way}" if finding.source else f"asked by {place.way}")


def _merged(node: Node, findings: Sequence[Finding]) -> Finding:
    """What was found on one node; of several findings the worst, in the words of those that are as bad."""
    worst = min((finding.outcome for finding in findings), key=_WORST.index)
    same = [finding for finding in findings if finding.outcome is worst]
    more = f" (and {len(same) - _SHOWN} more)" if len(same) > _SHOWN else ""
    return Finding(
        subject(node),
        worst,
        "; ".join(dict.fromkeys(finding.observed for finding in same[:_SHOWN] if finding.observed)) + more,
        "; ".join(dict.fromkeys(finding.expected for finding in same[:_SHOWN] if finding.expected)),
        "; ".join(dict.fromkeys(finding.source for finding in same if finding.source)),
        "; ".join(dict.fromkeys(_words(node, finding) for finding in same[:_SHOWN] if finding.message)) + (more if same[0].message else ""),
        same[0].cause,
    )


def _words(node: Node, finding: Finding) -> str:
    return finding.message if finding.subject.name == node.name else f"{finding.subject}: {finding.message}"


def _not_asked(
    scope: Scope,
    node: Node,
    reached: Mapping[tuple[str, ...], str],
    unfit: Callable[[Place], str],
    obstacle: Callable[[Node], str],
    offered: Callable[[Scope, Node], Sequence[Place]],
) -> Finding:
    """Why no probe ran on a node that offers devices; one that offers none, or none that is in question, is left out."""
    about = About(subject(node), _STATE)
    if reason := without_devices(scope, node):
        return about.not_judged(reason)
    places = offered(scope, node)
    fit = [place for place in places if not unfit(place)]
    if not fit:
        reasons = dict.fromkeys(unfit(place) for place in places)
        return about.not_judged("; ".join(reasons) or "no DeviceClass is known to select its devices")
    held = busy(scope, node)
    kept = kept_away(scope, node) or obstacle(node) or (f"busy ({held})" if held else "")
    spoken = {reached[place.device_type] for place in fit if place.device_type in reached}
    chosen = any(place.free for place in fit) and not (scope.policy.probes.every_node or scope.chosen)
    return left_out(scope, node, kept or ("" if chosen and spoken else "too few of its devices are free"), spoken)


def kept_away(scope: Scope, node: Node) -> str:
    """What keeps every probe from a node (cordoned, NotReady, a taint), or empty."""
    taints = ", ".join(foreign_taints(scope, node))
    return scope.why_not_judged(node) or (f"has the taint {taints}, which probes do not tolerate" if taints else "")


def left_out(scope: Scope, node: Node, reason: str, spoken: Iterable[str]) -> Finding:
    """A node that was not asked, for a reason or because others were chosen. ``spoken``: nodes that speak for it.

    Left out where others speak for it or the policy allows it, and undecided else.
    """
    about = About(subject(node), _STATE)
    if others := listed(in_order(spoken), _SHOWN):
        return about.not_judged(f"{reason or 'not chosen'}; {others} of the same product was probed")
    if matches(node.name, scope.policy.accelerators.allow_not_judged):
        return about.not_judged(f"{reason}; the policy allows it (accelerators.allowNotJudged)")
    return about.undecided(f"{reason or 'not chosen'}: no node of its product could be probed", cause="NoNodeForProbes")
