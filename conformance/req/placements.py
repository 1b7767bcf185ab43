"""Who put refused pods on their node: a scheduler, or whoever made the pods.

A scheduler's binding leaves no entry in ``metadata.managedFields``. Whoever makes a pod with ``spec.nodeName`` leaves one, and so
does a controller whose template has it.

Facts: docs/facts/scheduling-messages.md#who-put-a-pod-on-its-node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum

import msgspec

from conformance.req.creation_failures import Fault
from conformance.req.refusals import Refusal
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.demand.pod_events import quoted
from fixtures.model.nodes.field_writes import owns
from fixtures.snapshot.managed_fields import MOST_ASKED
from fixtures.snapshot.state import Snapshot

MOST_SAMPLES = 8
"""Of how many pods of one node and reason the record is read at most."""

_NODE_NAME = ("f:spec", "f:nodeName")
_CONTAINERS = ("f:spec", "f:containers")


class By(StrEnum):
    """Who put a pod on its node.

    ``UNTOLD``: it has no record that says so. ``EMPTIED``: the same, where other pods have theirs. ``UNREAD``: nobody could read it.
    """

    SCHEDULER = "scheduler"
    AUTHOR = "author"
    UNTOLD = "untold"
    EMPTIED = "emptied"
    UNREAD = "unread"


class Placement(msgspec.Struct, frozen=True):
    """Who put a pod on its node, and the ``manager`` that wrote ``spec.nodeName`` if it was no scheduler."""

    by: By
    manager: str = ""


def placement(fields: object) -> Placement:
    """What the managedFields of a bound pod tell. A record that does not name who wrote the containers is not whole."""
    entries = mappings(fields)
    if authors := [entry for entry in entries if owns(entry, _NODE_NAME)]:
        return Placement(By.AUTHOR, text_of(authors[0].get("manager")))
    return Placement(By.SCHEDULER if any(owns(entry, _CONTAINERS) for entry in entries) else By.UNTOLD)


class Records:
    """managedFields of refused pods: of a saved snapshot, else each pod is read from the cluster, :data:`MOST_ASKED` at most."""

    def __init__(self, snapshot: Snapshot, cluster: Callable[[], Cluster]) -> None:
        self._snapshot = snapshot
        self._cluster = cluster
        self._asked = 0

    def of(self, pod: Pod) -> Placement:
        """Who put a pod on its node."""
        saved, key = self._snapshot.failed_pod_fields, f"{pod.namespace}/{pod.name}"
        if key in saved or self._snapshot.offline:
            found = placement(saved.get(key))
            return _beside_others(found) if key in saved or any(saved.values()) else found
        if self._asked >= MOST_ASKED:
            return Placement(By.UNREAD)
        self._asked += 1
        try:
            answer = self._cluster().get("pods", pod.name, pod.namespace)
            meta = mapping(answer.json().get("metadata")) if answer.ok else {}
        except ApiTrouble:
            return Placement(By.UNREAD)
        same = meta.get("uid") == pod.metadata.uid
        return _beside_others(placement(meta.get("managedFields"))) if same else Placement(By.UNREAD)


def _beside_others(found: Placement) -> Placement:
    """A placement where pods have records, as every API server keeps them: one that is missing was taken away."""
    return Placement(By.EMPTIED) if found.by is By.UNTOLD else found


def attributed(refusals: Sequence[Refusal], records: Records) -> tuple[list[Refusal], list[Refusal]]:
    """Refusals of one node and reason that count against the node, and those of which nobody can say who sent the pods there.

    One that is surely the node's, or one pod that a scheduler sent there, convicts the node, and the others count with it. In a saved
    snapshot without any records a pod of a controller does: whoever saved it left out what would tell more.
    """
    if any(one.fault is not Fault.UNPROVEN for one in refusals):
        return [*refusals], []
    authors: dict[tuple[str, str], str] = {}
    untold = False
    proven = unread = False
    asked = 0
    for one, pod in _samples(refusals):
        if _maker(one) in authors:
            continue
        if asked == MOST_SAMPLES:
            break
        asked += 1
        found = records.of(pod)
        proven = proven or found.by is By.SCHEDULER
        unread = unread or found.by is By.UNREAD
        if found.by is By.AUTHOR:
            authors[_maker(one)] = found.manager
        elif found.by is By.UNTOLD and not one.alone:
            untold = True
        if proven:
            break
    others = [one for one in refusals if _maker(one) not in authors]
    if proven:
        return others, []
    if untold:
        return [one for one in others if not one.alone], []
    return [], [_doubted(one, authors.get(_maker(one)), unread) for one in refusals]


def _samples(refusals: Sequence[Refusal]) -> Iterator[tuple[Refusal, Pod]]:
    """The newest refusal of each namespace, then of each maker of pods, and then the others: the newest pod may be gone by now."""
    newest = sorted(refusals, key=lambda one: one.at or 0.0, reverse=True)
    spaces = {one.namespace: one for one in reversed(newest)}
    makers = {_maker(one): one for one in reversed(newest)}
    chosen = {one.who: one for one in (*spaces.values(), *makers.values(), *newest)}
    yield from ((one, one.pod) for one in chosen.values() if one.pod is not None)


def _maker(one: Refusal) -> tuple[str, str]:
    """The namespace of a pod and the UID of its controller; its own name where it has none."""
    owner = one.pod.controller if one.pod else None
    return one.namespace, owner.uid if owner else one.who


def _doubted(one: Refusal, author: str | None, unread: bool) -> Refusal:
    if author is not None:
        why = f"its managedFields say that {quoted(author, 60) or 'somebody'} wrote spec.nodeName"
    elif unread:
        why = "its managedFields could not be read, and nothing else says that a scheduler sent it there"
    else:
        why = "it has no managedFields that say so, and nothing else says that a scheduler sent it there"
    return msgspec.structs.replace(one, fault=Fault.DOUBTED, why=why)
