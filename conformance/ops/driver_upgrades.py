"""OPS-06: no driver upgrade failed, is stuck, or has left a node cordoned or its agents paused.

Facts: docs/facts/gpu-operator.md#driver-upgrades, docs/facts/vendors-and-clouds.md#amd.
"""

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache

from conformance.common_findings import overdue
from fixtures.kubernetes.models import Node, Pod
from fixtures.kubernetes.times import moment
from fixtures.model.cluster import Scope, subject
from fixtures.model.facts import UNKNOWN, Since, reported
from fixtures.model.nodes.chosen import is_returning
from fixtures.model.nodes.holds import Hold, is_cordoned, label, last_write
from fixtures.model.nodes.work import age_words, held_nodes, is_young, limit_of
from fixtures.model.platform.agents import DEPLOY, DRIVER_PAUSE, paused_agents
from fixtures.snapshot.managed_fields import FieldsByNode
from fixtures.text.globs import matches
from fixtures.text.sentences import duration, listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

_STATE = re.compile(r"nvidia\.com/[a-z0-9]{1,20}-driver-upgrade-state|operator\.amd\.com/gpu-driver-upgrade-state")
_DONE = re.compile(r"(?i)(?:upgrade|install)-(?:done|complete)")
_FAILED = re.compile(r"(?i)\S*(?:failed|timed-out)")
_WAITING = re.compile(r"(?i)upgrade-(?:required|not-started)")
_STEP = re.compile(r"(?i)[a-z]{2,20}(?:-[a-z]{2,20}){0,4}-(?:required|not-started|started|in-progress)")
_VALIDATION = "validation-required"
_BY_UPGRADE = re.compile(r"(?i)gpu-operator|driver-manager|network-operator|driver-upgrade|amd-gpu")
_LEFT = re.compile(r"nvidia\.com/[a-z0-9]{1,20}-driver-upgrade(?:\.node-initial-state\.unschedulable|\.driver-wait-for-safe-load)")
_GENERATION = "pod-template-generation"
_SOURCE = "node labels and annotations, node.spec, metadata.managedFields"
_EXPECTED = "the driver's upgrade is done, the node in service and no agent paused"


def maybe_upgrading(scope: Scope) -> list[Node]:
    """Accelerator nodes whose managedFields tell ages that are needed: those with a state that is not done, and cordoned ones."""
    return [node for node in scope.accelerator_nodes if is_cordoned(node) or any(not _DONE.fullmatch(value) for _, value in states(node))]


def states(node: Node) -> list[tuple[str, str]]:
    """Labels of a node (key, value) by which an operator says how far an upgrade of a driver is."""
    return sorted((key, value) for key, value in node.metadata.label.items() if value and _is_state(key))


@lru_cache(maxsize=4096)  # nodes of a fleet have the same keys
def _is_state(key: str) -> bool:
    return _STATE.fullmatch(key) is not None


def check_upgrades(scope: Scope, fields: FieldsByNode) -> Iterator[Finding]:
    """One finding per node and driver whose upgrades an operator manages, and one per node with paused agents.

    Raises :class:`NotApplicable` where no node has a state: hosts bring the drivers.
    """
    held = held_nodes(scope, fields)
    upgrades = [(node, key, value) for node in scope.accelerator_nodes for key, value in states(node)]
    steps = [(node, key) for node, key, value in upgrades if _STEP.fullmatch(value) and not _WAITING.fullmatch(value)]
    ages = _Ages(scope, fields)
    moving = any(is_young(scope, ages.since(node, key)) for node, key in steps)
    for node, key, value in upgrades:
        yield _judge(scope, node, key, value, ages, held.get(node.name, []), moving)
    paused = [
        (node, names)
        for node in scope.accelerator_nodes
        if (names := paused_agents(node.metadata.label, DRIVER_PAUSE)) and all(_DONE.fullmatch(value) for _, value in states(node))
    ]
    for node, names in paused:
        words = listed(names)
        message = f"{words} are {DRIVER_PAUSE} although no upgrade is under way: they stay away until somebody resets the labels"
        about = About(Subject("Node", f"{node.name} paused agents"), f"labels {DEPLOY}*", _EXPECTED)
        yield about.bad(message, cause="AgentsLeftPaused", observed=f"{DRIVER_PAUSE}: {words}")
    if not upgrades and not paused:
        raise NotApplicable("NoUpgradeStates", "no node has the state of a driver upgrade: no operator manages the drivers")


def _judge(scope: Scope, node: Node, key: str, value: str, ages: "_Ages", held: list[Hold], moving: bool) -> Finding:
    place = subject(node) if key == "nvidia.com/gpu-driver-upgrade-state" else Subject("Node", f"{node.name} {key}")
    state = f"{reported(key, 80)}={reported(value, 80)}"
    about = About(place, _SOURCE)
    if node.metadata.label.get(f"{key.removesuffix('-state')}.skip") == "true" and not _FAILED.fullmatch(value):
        return about.not_judged(f"{state}: its owner leaves it out of upgrades (label ….skip)")
    if _DONE.fullmatch(value):
        return _done(scope, node, place, state, held)
    if _FAILED.fullmatch(value):
        message = f"{state}: the operator tries no further and the node keeps the driver that it has, or none"
        return about.bad(message, cause="DriverUpgradeFailed", observed=state, expected=_EXPECTED)
    if value == _VALIDATION and is_returning(scope, node):
        return about.not_judged(f"{state}: the upgrade waits for a validation, and this run is to give it")
    since = ages.since(node, key)
    words = f"{state} {age_words(scope, since)}"
    if not _STEP.fullmatch(value):
        return about.undecided(f"{words}: it is no state that an operator is known to write")
    unknown, doing = f"{words}: whether the upgrade is stuck is not known", f"{words}: the upgrade is under way"
    age = overdue(about, since.latest, scope.snapshot.taken_at, limit_of(scope), doing, cause="AgeUnknown", unknown=unknown, aged=True)
    if not isinstance(age, float):
        return age
    if _WAITING.fullmatch(value) and moving:
        return about.undecided(f"{words}: other nodes are being upgraded and it waits for its turn", cause=CHANGE_UNDER_WAY)
    message = f"{words}: the upgrade is stuck, and the node runs the old driver or none"
    return about.bad(message, cause="DriverUpgradeStuck", observed=words, expected=f"{_EXPECTED} within {duration(limit_of(scope))}")


def _done(scope: Scope, node: Node, place: Subject, state: str, held: list[Hold]) -> Finding:
    """A finished upgrade. A cordon that somebody else set is no matter of the upgrade."""
    cordon = next((hold for hold in held if hold.of_cordon), None)
    left = next((key for key in sorted(node.metadata.annotation) if _LEFT.fullmatch(key)), "")  # the end of an upgrade takes it away
    about = About(place, _SOURCE, _EXPECTED)
    if (
        cordon is None
        or matches(node.name, scope.policy.accelerators.allow_not_judged)
        or (cordon.owner and not _BY_UPGRADE.search(cordon.owner) and not left)
    ):
        observed = state + (f"; {cordon}" if cordon else "")
        return about.ok(observed)
    words = f"{state}, and the node has a {cordon} {age_words(scope, cordon.since)}" + (f" ({left} is left)" if left else "")
    since, now, unknown = cordon.since.latest, scope.snapshot.taken_at, f"{words}: whether the upgrade left it is not known"
    age = overdue(about, since, now, limit_of(scope), words, cause="AgeUnknown", unknown=unknown, aged=True)
    if not isinstance(age, float):
        return age
    if not (cordon.owner or left):
        return about.undecided(unknown, cause="OwnerUnknown")
    message = f"{words}: the upgrade is finished and the node was not put back into service"
    return about.bad(message, cause="UpgradeLeftCordon", observed=words)


class _Ages:
    """When the state of an upgrade began at the latest."""

    def __init__(self, scope: Scope, fields: FieldsByNode) -> None:
        self._scope = scope
        self._fields = fields

    def since(self, node: Node, key: str) -> Since:
        """By the operator's own notes, by the last write of the label, or by the generations of the driver's pods."""
        prefix = key.removesuffix("-state")
        for note in (f"{prefix}-wait-for-pod-completion-start-time", f"{prefix}-validation-start-time"):
            if (at := moment(node.metadata.annotation.get(note))) is not None:
                return Since(latest=at, source=f"annotation {note}")
        if write := last_write(self._fields.get(node.name), label(key)):
            return Since(latest=write.at, source=f"metadata.managedFields of label {key}")
        return self._outdated_since(node)

    def _outdated_since(self, node: Node) -> Since:
        """Since when a newer driver pod than the node's own is somewhere: the node has waited at least as long."""
        for own in self._scope.snapshot.pods_by_node.get(node.name, ()):
            owner = own.controller
            if owner is None or owner.kind != "DaemonSet" or "driver" not in owner.name or not self._may_be_agent(own):
                continue
            known = self._first_of_generation.get(owner.uid, {})
            if newer := [at for generation, at in known.items() if generation > _generation(own)]:
                return Since(latest=min(newer), source="the driver pods of other nodes, which are newer")
        return UNKNOWN

    @cached_property
    def _first_of_generation(self) -> dict[str, dict[int, float]]:
        """``{UID of a DaemonSet: {generation: creation of its oldest pod}}``."""
        found: dict[str, dict[int, float]] = {}
        for pod in self._scope.snapshot.pods:
            owner, at = pod.controller, moment(pod.metadata.creation_timestamp)
            if owner is not None and owner.kind == "DaemonSet" and at is not None and self._may_be_agent(pod):
                known, generation = found.setdefault(owner.uid, {}), _generation(pod)
                known[generation] = min(at, known.get(generation, at))
        return found

    def _may_be_agent(self, pod: Pod) -> bool:
        """Whether a pod is where agents are: anybody may give his own pods the UID of a driver's DaemonSet as their owner."""
        return self._scope.platform.of(pod.namespace).components


def _generation(pod: Pod) -> int:
    text = pod.metadata.label.get(_GENERATION, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0
