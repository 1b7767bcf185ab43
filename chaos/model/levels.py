"""Levels of experiments, from no real machine (0) to destructive (4)."""

from __future__ import annotations

from enum import IntEnum

from fixtures.verdict.record import TargetKind


class Level(IntEnum):
    """Each level allows those below it. Without a word from the operator of the cluster, :data:`DEFAULT_MAX_LEVEL` is the ceiling."""

    SIMULATED = 0
    AGENTS = 1
    TELEMETRY = 2
    NODE = 3
    DESTRUCTIVE = 4

    @property
    def words(self) -> str:
        """What the level means, for people."""
        return _WORDS[self]


DEFAULT_MAX_LEVEL = Level.AGENTS
OPT_IN_LEVEL = Level.TELEMETRY
"""From here on, every touched node of a live cluster must carry :data:`OPT_IN_LABEL`."""
TYPED_LEVEL = Level.DESTRUCTIVE
"""From here on, somebody types the cluster's name, and the node is cordoned and idle."""
OPT_IN_LABEL = ("gpu-conformance.io/chaos", "allowed")


def needs_cordoned(level: int, kind: TargetKind, *, cordons: bool) -> bool:
    """Whether the experiment acts on nodes that an administrator has cordoned and emptied, and on no other.

    ``cordons``: its method does that itself, which on a live cluster is nobody's to do but an administrator's.
    """
    return level >= TYPED_LEVEL and not (cordons and kind is not TargetKind.LIVE)


_WORDS = {
    Level.SIMULATED: "no real machine is touched",
    Level.AGENTS: "touches agents, API objects and its own pods, no host and no device",
    Level.TELEMETRY: "changes what detectors see, no device",
    Level.NODE: "disrupts one opted-in node, reversibly",
    Level.DESTRUCTIVE: "destructive, or not provably reversible",
}
