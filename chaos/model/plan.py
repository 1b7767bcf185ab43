"""What an experiment will touch, frozen before it starts: nothing is selected at the time of the act."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

import msgspec

from chaos.model.ledger_lines import Origin
from fixtures.verdict.record import TargetKind


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One object. ``kind`` is a resource key as in :mod:`fixtures.cluster.kinds`; ``node`` is the node it is on (a node is on itself).

    ``facts`` is what the activity needs, read at planning: GPU uuid and index, PCI address, labels, replicas.
    """

    kind: str
    name: str
    namespace: str = ""
    uid: str
    node: str = ""
    facts: dict[str, Any] = {}

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace + '/' if self.namespace else ''}{self.name}"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment on one cluster, resolved. ``actions`` and ``undo`` say it in words, for ``chaos plan``.

    ``facts`` is what activities and signals need beside the targets (components found, device resource, canaries), from planning.
    ``namespace`` is the run's, for injector pods, and ``workload`` the experiment's, for what it starts for itself
    (:func:`chaos.model.plan_facts.canary_namespace`).
    ``untouched`` is the healthy GPU node that is left alone, ``eligible`` how many targets could have been chosen (for caps by
    percent), ``seconds`` the durations of this target's tempo, ``expires_at`` (RFC 3339) when targets undo by themselves.
    """

    experiment: str
    run_id: str
    cluster_uid: str
    server: str
    target_kind: TargetKind
    namespace: str
    workload: str = ""
    targets: tuple[Target, ...]
    untouched: str
    expires_at: str
    facts: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    actions: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    eligible: int

    @property
    def digest(self) -> str:
        """SHA-256 of the plan, in hex."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()

    @property
    def origin(self) -> Origin:
        """Whose entries the ledger of this plan holds."""
        return Origin(run_id=self.run_id, experiment=self.experiment, cluster_uid=self.cluster_uid, expires_at=self.expires_at)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes that are touched, each once."""
        return tuple(dict.fromkeys(target.node for target in self.targets if target.node))

    def expired(self, moment: datetime | None = None) -> bool:
        """Whether the plan has expired."""
        return (moment or datetime.now(UTC)) >= datetime.fromisoformat(self.expires_at)
