"""The gates' input: what the plan asks for, and what is known of the cluster just before the act."""

from __future__ import annotations

import msgspec

from chaos.model.levels import Level
from chaos.model.plan import Plan
from chaos.safety.remediators import Remediator
from chaos.safety.settings import Settings

SPREAD_SCOPES = ("node", "gpu", "pod")
"""Scopes of which a cluster has many: a cap by percent means something. A controller is one of one."""


class RequestedFault(msgspec.Struct, frozen=True, kw_only=True):
    """What the experiment asks for. ``count`` is its own radius; ``expects`` names remediation that it reckons with;

    ``takes_capacity`` says that GPUs may be missing meanwhile; ``cordons`` that its method cordons and empties the node itself;
    ``idle`` that nobody's pods may hold devices of its nodes; ``resets`` that its method resets a GPU alone.
    """

    level: Level
    scope: str
    count: int
    takes_capacity: bool = True
    expects: tuple[str, ...] = ()
    cordons: bool = False
    idle: bool = False
    resets: bool = False


class NodeState(msgspec.Struct, frozen=True, kw_only=True):
    """One node now. ``obstacle``: what speaks against its work besides ``spec.unschedulable``, empty when nothing does;

    ``cordoned``: that is set. ``busy``: device pods that are not the suite's;
    ``reset_obstacle``: why a GPU of it cannot be reset without others, empty when it can.
    """

    uid: str
    gpu: bool = False
    obstacle: str = "it was not checked"
    cordoned: bool = False
    control_plane: bool = False
    opted_in: bool = False
    busy: tuple[str, ...] = ()
    reset_obstacle: str = "it was not checked"


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known just before the act; None is what could not be found out, and is refused.

    ``ours``: the cluster was started by this run. ``uids``: of each target by its words. ``steady``: what is wrong with the steady
    state, empty when nothing is. ``denied``: rights that are missing. ``budgets``: disruption budgets that allow no disruption of a
    target. ``open_entries``: of earlier runs. ``forged``: what looks like a ledger and nothing vouches for: told, and no obstacle.
    ``halted``: by whom, empty when not.
    """

    cluster_uid: str
    cluster_names: tuple[str, ...] = ()
    ours: bool = False
    uids: dict[str, str] | None = None
    nodes: dict[str, NodeState] | None = None
    steady: str | None = None
    denied: tuple[str, ...] | None = None
    remediators: tuple[Remediator, ...] | None = None
    budgets: tuple[str, ...] | None = None
    open_entries: int | None = None
    forged: tuple[str, ...] = ()
    halted: str | None = None


class ClosedGate(msgspec.Struct, frozen=True):
    """One gate that is closed, and what it expected."""

    gate: str
    message: str

    def __str__(self) -> str:
        return f"{self.gate}: {self.message}"


class GateInput(msgspec.Struct, frozen=True, kw_only=True):
    """All that the gates look at."""

    plan: Plan
    request: RequestedFault
    settings: Settings
    state: ClusterState
