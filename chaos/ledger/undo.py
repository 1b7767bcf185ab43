"""What can be undone: the registry that a ledger's entries name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from chaos.ledger.agents import AgentRestarted
from chaos.ledger.environment import WorkloadEnv
from chaos.ledger.host import HOST_ACTIONS
from chaos.ledger.node_object import NodeExists
from chaos.ledger.nodes import NodeAnnotations, NodeLabels, NodeUnschedulable
from chaos.ledger.objects import ObjectAbsent, ObjectPresent
from chaos.ledger.protocol import Undo
from chaos.ledger.record import Entry
from chaos.ledger.remediation import NodeCleared
from chaos.ledger.taints import NodeTaints
from chaos.ledger.workloads import PodsReplaced, WorkloadReplicas
from chaos.trouble import LedgerError

_UNDOS: tuple[Undo, ...] = (
    NodeLabels(),
    NodeAnnotations(),
    NodeUnschedulable(),
    NodeTaints(),
    NodeExists(),
    ObjectAbsent(),
    ObjectPresent(),
    WorkloadReplicas(),
    PodsReplaced(),
    *(action() for action in HOST_ACTIONS),
    AgentRestarted(),
    NodeCleared(),
    WorkloadEnv(),
)

REGISTRY: Mapping[str, Undo] = {undo.name: undo for undo in _UNDOS}


def arguments(entry: Entry) -> tuple[Undo, Any]:
    """The undo that an entry names, and its arguments decoded. Raises :class:`LedgerError` for what the registry does not know."""
    undo = REGISTRY.get(entry.undo)
    if undo is None:
        raise LedgerError(f"entry {entry.seq}: no undo is called {entry.undo!r}; known: {', '.join(sorted(REGISTRY))}")
    try:
        return undo, msgspec.convert(entry.args, undo.Args)
    except msgspec.ValidationError as error:
        raise LedgerError(f"entry {entry.seq}: {entry.undo}: {error}") from error
