"""The result of a two-node run as plain data: its pods, their nodes, their logs. NET-05 to NET-07 judge it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from conformance.net.bisecting import Found
from conformance.outputs import nccl_log, nccl_tests
from conformance.outputs.nccl_log import NcclLog
from conformance.outputs.nccl_tests import NcclTests
from fixtures.verdict.subjects import Subject

NOT_RUNNABLE = frozenset({126, 127})
"""Exit codes of a shell that could not start the command (POSIX): the image lacks it."""


class RankPod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod of the run. ``state`` is one line on where it is; ``exit_code`` is None while it has not ended."""

    name: str
    node: str
    state: str
    exit_code: int | None = None
    log: str = ""


class Located(msgspec.Struct, frozen=True, kw_only=True):
    """What further runs found of a run that went wrong. ``nodes`` were compared, ``found`` is by their names.

    ``adapter`` is slow by itself, between ``ends``; empty where none is or none was asked.
    """

    nodes: tuple[str, ...]
    found: Found
    adapter: str = ""
    ends: tuple[str, ...] = ()


class FabricRun(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A run over the fabric. ``pods`` are in order of node rank; ``finished`` is False when the deadline came first.

    ``product`` and ``machine`` (a cloud's type) are those of its nodes, empty where they are not known.
    """

    namespace: str
    pods: tuple[RankPod, ...]
    per_node: int
    device: str
    fabric: str
    seconds: float
    finished: bool = True
    product: str = ""
    machine: str = ""
    located: Located | None = None

    @property
    def ranks(self) -> int:
        """Ranks that were asked for."""
        return len(self.pods) * self.per_node

    @property
    def text(self) -> str:
        """All logs, node rank 0 first."""
        return "\n".join(pod.log for pod in self.pods)

    @cached_property
    def log(self) -> NcclLog:
        """What NCCL printed. Raises ``Unreadable`` where it printed nothing."""
        return nccl_log.parse(self.text)

    @cached_property
    def table(self) -> NcclTests:
        """What the all-reduce printed. Raises ``Unreadable`` where it printed nothing."""
        return nccl_tests.parse(self.text)

    @property
    def subject(self) -> Subject:
        """The subject of findings about the run as a whole."""
        return Subject("NCCL run", " + ".join(pod.name for pod in self.pods), self.namespace)

    def part(self, kind: str, name: str) -> Subject:
        """The subject of a finding about a part of the run."""
        return Subject(kind, name, self.namespace)

    def placement(self, log: NcclLog) -> Mapping[int, str]:
        """Node of each rank: by the host that its lines name (a pod of the run), else by order, as torchrun numbers ranks."""
        node_of = {pod.name: pod.node for pod in self.pods}
        placed = {pod * self.per_node + local: self.pods[pod].node for pod in range(len(self.pods)) for local in range(self.per_node)}
        for rank, host in log.placement.items():
            if host in node_of:
                placed[rank] = node_of[host]
        return placed

    def unable(self) -> RankPod | None:
        """A pod whose image could not even start the command, or None."""
        return next((pod for pod in self.pods if pod.exit_code in NOT_RUNNABLE), None)

    def outcome(self) -> str:
        """One sentence on how the run ended."""
        states = "; ".join(f"{pod.name} on {pod.node}: {pod.state}" for pod in self.pods)
        return states if self.finished else f"not finished within {self.seconds:g} s: {states}"
