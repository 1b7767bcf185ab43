"""The registry of undos by the names that ledger entries use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from chaos.ledger.undos import Undo
from chaos.ledger.undos.agents import AgentRestarted, SlicesPublished
from chaos.ledger.undos.host import HOST_ACTIONS
from chaos.ledger.undos.nodes import NodeAnnotations, NodeLabels, NodeTaints, NodeUnschedulable
from chaos.ledger.undos.objects import NodeExists, ObjectAbsent, ObjectPresent
from chaos.ledger.undos.remediation import NodeCleared
from chaos.ledger.undos.workloads import PodsReplaced, WorkloadEnv, WorkloadReplicas
from chaos.model.records import Entry, LedgerError
from fixtures.text import typed

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
    SlicesPublished(),
)

REGISTRY: Mapping[str, Undo] = {undo.name: undo for undo in _UNDOS}


def arguments(entry: Entry) -> tuple[Undo, Any]:
    """The undo that an entry names, and its arguments decoded. Raises :class:`LedgerError` for what the registry does not know."""
    undo = REGISTRY.get(entry.undo)
    if undo is None:
        raise LedgerError(f"entry {entry.seq}: no undo is called {entry.undo!r}; known: {', '.join(sorted(REGISTRY))}")
    try:
        return undo, typed.convert(entry.args, undo.Args)
    except msgspec.ValidationError as error:
        raise LedgerError(f"entry {entry.seq}: {entry.undo}: {error}") from error
