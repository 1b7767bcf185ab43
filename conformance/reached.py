"""Which nodes a probe asks, in turns that are bounded in pods and time, and one finding for every accelerator node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from conformance.places import Place, named, places_of
from conformance.reach import busy, foreign_taints, without_devices
from conformance.scope import Scope, matches, subject
from fixtures.evidence import Finding, Inconclusive, Outcome, not_judged, undecided
from fixtures.models import Node
from fixtures.probes.workspace import Workspace
from fixtures.trouble import ApiTrouble

_STATE = "node.spec, node.status, requests of bound pods"
_WORST = (Outcome.BAD, Outcome.MISSED, Outcome.UNDECIDED, Outcome.OK, Outcome.ALLOWED, Outcome.NOT_JUDGED)
_SHOWN = 3

Asked = tuple[Place, Finding]
"""A finding, and the place it is about."""


def choose(scope: Scope, places: Iterable[Place], *, free: int = 1) -> list[Place]:
    """The places to ask: the freest of every sort, or with ``probes.everyNode`` all that have ``free`` units.

    ``places`` come most free first. Raises :class:`Inconclusive` naming who is full when there is none.
    """
    offered = list(places)
    able = [place for place in offered if place.free >= free and not foreign_taints(scope, place.node)]
    if not able:
        tainted = sorted({place.node.name for place in offered if foreign_taints(scope, place.node)})
        away = f"; taints keep probes from {', '.join(tainted[:5])}" if tainted else ""
        raise Inconclusive("NoFreeDevice", f"the probe needs {free} free on one node; there are {named(offered)}{away}")
    if scope.policy.probes.every_node:
        return able
    best: dict[tuple[str, ...], Place] = {}
    for place in able:
        best.setdefault(place.sort, place)
    return list(best.values())


def in_turns(
    scope: Scope, workspace: Workspace, places: Sequence[Place], pods: int, ask: Callable[[list[tuple[int, Place]]], Iterable[Asked]]
) -> Iterator[Asked]:
    """Ask the places in turns of at most ``probes.atOnce`` pods, ``pods`` for each place; ``ask`` gets them with their numbers.

    Between turns what was created is removed, so that its devices are free. After ``probes.everyNodeSeconds`` no new turn
    begins, and every place that is left is undecided.
    """
    size = max(scope.policy.probes.at_once // max(pods, 1), 1)
    deadline = time.monotonic() + scope.policy.probes.every_node_seconds
    numbered = list(enumerate(places))
    for start in range(0, len(numbered), size):
        turn = numbered[start : start + size]
        if start and time.monotonic() >= deadline:
            text = f"it was not asked within {scope.policy.probes.every_node_seconds:g} s (policy probes.everyNodeSeconds)"
            yield from ((place, undecided(subject(place.node), text, "time")) for _, place in numbered[start:])
            return
        if start:
            workspace.clear()
        yield from ask(turn)


def per_node(scope: Scope, asked: Iterable[Asked], unfit: Callable[[Place], str] = lambda _: "") -> Iterator[Finding]:
    """One finding for every accelerator node: what the probes found on it, or why none ran there.

    ``unfit`` says why the question is none for a place, or nothing.
    """
    found: dict[str, list[Asked]] = {}
    try:
        for place, finding in asked:
            found.setdefault(place.node.name, []).append((place, finding))
    except (ApiTrouble, Inconclusive):
        yield from (_merged(items[0][0].node, [finding for _, finding in items]) for items in found.values())
        raise
    reached = {place.sort: place.node.name for items in found.values() for place, _ in items}
    for node in scope.accelerator_nodes:
        if node.name in found:
            yield _merged(node, [finding for _, finding in found[node.name]])
        else:
            yield _not_asked(scope, node, reached, unfit)


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
        "; ".join(dict.fromkeys(_said(node, finding) for finding in same[:_SHOWN] if finding.message)) + (more if same[0].message else ""),
    )


def _said(node: Node, finding: Finding) -> str:
    return finding.message if finding.subject.name == node.name else f"{finding.subject}: {finding.message}"


def _not_asked(scope: Scope, node: Node, reached: Mapping[tuple[str, ...], str], unfit: Callable[[Place], str]) -> Finding:
    """Why no probe ran on a node. It is left out where another node spoke for its devices or none could, and undecided else."""
    place = subject(node)
    if reason := without_devices(scope, node):
        return not_judged(place, reason, _STATE)
    all_places = places_of(scope, node)
    fit = [item for item in all_places if not unfit(item)]
    if not fit:
        reasons = dict.fromkeys(unfit(item) for item in all_places)
        return not_judged(place, "; ".join(reasons) or "it offers its devices by claim alone", _STATE)
    held = busy(scope, node)
    taints = ", ".join(foreign_taints(scope, node))
    state = scope.why_not_judged(node) or (f"tainted away by {taints}" if taints else "") or (f"busy ({held})" if held else "")
    others = ", ".join(sorted({reached[item.sort] for item in fit if item.sort in reached}))
    if all(item.sort in reached for item in fit):
        full = any(item.free for item in fit) and not state and not scope.policy.probes.every_node
        reason = "not chosen" if full else state or "too few of its devices are free"
        return not_judged(place, f"{reason}; {others} of the same product was asked", _STATE)
    reason = state or "too few of its devices are free"
    if matches(node.name, scope.policy.accelerators.allow_not_judged):
        return not_judged(place, f"{reason}; the policy allows it (accelerators.allowNotJudged)", _STATE)
    return undecided(place, f"{reason}: no node of its product could be asked", _STATE)
