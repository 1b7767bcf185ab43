"""Takes the taints that the policy names (``return.release``) off nodes that passed, and puts back what a killed process took off."""

import time
from collections.abc import Callable, Collection
from functools import partial

import msgspec

from conformance.delivery import node_labels
from conformance.delivery.node_labels import Change, NotPublished, Statement
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.model.nodes import releases
from fixtures.model.nodes.releases import Note
from fixtures.text.sentences import counted, listed

ATTEMPTS = 8
"""A node's heartbeats change its version between a read and a write."""


def release(cluster: Cluster, node: str, uid: str, keys: Collection[str], run_id: str, begun: float) -> tuple[str, str]:
    """Take the taints of these keys off the very node that was judged: what was taken off, and what went wrong. Both may be empty.

    Each step is decided on what the cluster shows, so a step whose answer was lost is not done twice.
    """
    mine: Note | None = None

    def step(found: Json) -> Json | None:
        nonlocal mine
        if mine is not None and releases.note_of(found, releases.RELEASED) == mine:
            return None
        if mine is not None and releases.note_of(found) == mine and not releases.held_by(found, keys):
            return releases.ended(found, mine)
        if not (taints := releases.held_by(found, keys)):
            return None
        if releases.changed_since(found, begun):  # also by this run's own write, after which somebody set it again
            raise _Refused("its taints were written after the run began: run again")
        mine = Note(run=run_id, at=round(time.time(), 3), taints=taints)
        return releases.without(found, mine)

    trouble = _settled(cluster, node, uid, step)
    return ("" if mine is None else mine.words), trouble


class _Refused(Exception):
    """Why a taint must stay."""


class LeftOnNodes(msgspec.Struct, frozen=True, kw_only=True):
    """What runs left on nodes: taints that a killed process took off, labels and conditions that are to go, and what is spared.

    ``unread``: why something may be left that is not known; empty where all could be read.
    """

    notes: list[tuple[str, str, Note]]  # node, its UID, what to put back
    labels: list[Change]
    conditions: list[Statement]
    spared: list[str]
    unread: str = ""

    @property
    def plan(self) -> list[str]:
        """A line for each taint, and one for all verdicts: a fleet has many."""
        lines = [f"put taint {note.words} back on node {node}: run {note.run} took it off and did not end" for node, _, note in self.notes]
        nodes = sorted({*(one.node for one in self.labels), *(one.node for one in self.conditions)})
        return [*lines, *([f"remove the published verdict of {counted(len(nodes), 'node')}: {listed(nodes)}"] if nodes else [])]

    def undo(self, cluster: Cluster) -> list[str]:
        """Put back and remove. A sentence for each that stays."""
        failed = []
        for node, uid, note in self.notes:
            if problem := _settled(cluster, node, uid, partial(_back, note)):
                failed.append(f"node {node}: taint {note.words} is not put back: {problem}")
        return [*failed, *node_labels.state(cluster, self.conditions), *node_labels.apply(cluster, self.labels)]


def left_on_nodes(cluster: Cluster, run_id: str = "", *, everything: bool = False) -> LeftOnNodes:
    """What is left on nodes. ``everything``: verdicts that still hold too. Of one run only its taints are looked for.

    An account that may not list nodes has left nothing there that it could undo. One node that cannot be read keeps nothing else from
    being undone. Raises ``ApiTrouble``.
    """
    now, notes, spared = time.time(), [], []
    try:
        nodes = node_labels.read_nodes(cluster)
    except (NotPublished, ApiTrouble) as error:
        if isinstance(error, ApiTrouble) and error.code != "Forbidden":
            raise
        words = f"what is left on nodes is not known: {error}"
        unread = words if isinstance(error, NotPublished) else ""
        return LeftOnNodes(notes=[], labels=[], conditions=[], spared=[words], unread=unread)
    for node in nodes:
        name, note = node["metadata"]["name"], releases.note_of(node)
        if note is None or run_id not in ("", note.run):
            continue
        if abs(now - note.at) <= releases.ALIVE_SECONDS:
            spared.append(f"spared, because its process may be alive: taint {note.words} of node {name}, run {note.run}")
        else:
            notes.append((name, node["metadata"]["uid"], note))
    labels = [] if run_id else node_labels.expired(nodes, now, everything=everything)
    conditions: list[Statement] = []
    unread = ""
    try:
        conditions = [] if run_id else node_labels.withdrawn(nodes, now, everything=everything)
    except NotPublished as error:
        spared.append(unread := f"which conditions of nodes are over is not known: {error}")
    going = {one.node for one in labels}
    if not run_id and (holding := sorted({one.node for one in node_labels.expired(nodes, now, everything=True)} - going)):
        spared.append(
            f"the verdict of {counted(len(holding), 'node')} still holds, and stays: pods may ask for it; cleanup --published removes it"
        )
    return LeftOnNodes(notes=notes, labels=labels, conditions=conditions, spared=spared, unread=unread)


def _back(note: Note, found: Json) -> Json | None:
    return releases.put_back(found, note) if releases.note_of(found) == note else None


def _settled(cluster: Cluster, node: str, uid: str, step: Callable[[Json], Json | None]) -> str:
    """Read the node and take the next step, until there is none or the node is another. Returns what went wrong."""
    said = "its taints change all the time"
    for _ in range(ATTEMPTS):
        try:
            answer = cluster.get("nodes", node)
            if answer.status == 404 or (answer.ok and answer.json()["metadata"]["uid"] != uid):
                return ""
            if not answer.ok:
                return f"{answer.status} {answer.reason}: {answer.message[:200]}"
            if (patch := step(answer.json())) is None:
                return ""
            answer = cluster.patch("nodes", node, patch)
        except (ApiTrouble, _Refused) as error:
            return error.message if isinstance(error, ApiTrouble) else str(error)
        if not answer.ok and answer.status != 409:
            return f"{answer.status} {answer.reason}: {answer.message[:200]}"
    return said
