"""The runs that NET-05 to NET-07 judge; where one is slow or indirect, further runs find the node and the adapter.

Facts: docs/facts/nccl.md#bandwidths.
"""

import time
from collections.abc import Sequence

import msgspec

from conformance.net.bisecting import Found, Group, halve, search
from conformance.net.fabric_probe import NAME, Job, run_fabric, run_together
from conformance.net.figures import figure_of
from conformance.net.two_nodes import FabricRun, Located, Plan, make_plans
from conformance.outputs import nccl_log, nccl_tests
from conformance.outputs.captured_text import Unreadable
from conformance.outputs.nccl_log import SOCKET_NETWORKS
from fixtures.cluster.trouble import ApiTrouble
from fixtures.model.cluster import Scope
from fixtures.probes.workspace import Workspace
from fixtures.verdict.subjects import Inconclusive, NotApplicable


class SharedRuns:
    """One run on every kind of machine for all requirements that judge them, started by the first that asks."""

    def __init__(self) -> None:
        self._results: list[FabricRun | NotApplicable | Inconclusive] = []

    def get(self, scope: Scope, workspace: Workspace) -> list[FabricRun | NotApplicable | Inconclusive]:
        """The runs, the one with the most ranks first, and why there is none of some kinds. Raises the reason when there is none at all."""
        if not self._results:
            self._results = self._run(scope, workspace)
        reasons = [result for result in self._results if not isinstance(result, FabricRun)]
        if len(reasons) == len(self._results):
            raise type(reasons[0])(reasons[0].code, reasons[0].message)
        return self._results

    def _run(self, scope: Scope, workspace: Workspace) -> list[FabricRun | NotApplicable | Inconclusive]:
        try:
            plans, held = make_plans(scope)
        except (NotApplicable, Inconclusive) as reason:
            return [reason]
        results: list[FabricRun | NotApplicable | Inconclusive] = []
        for plan in plans:
            if results:
                workspace.clear()  # names and devices are free for the next
            try:
                results.append(_located(scope, workspace, plan, run_fabric(scope, workspace, plan), first=not results))
            except (NotApplicable, Inconclusive) as reason:
                results.append(reason)
        return [*results, *(Inconclusive("NoFreeDevice", f"too little is free for a run: {text}") for text in held)]


def _located(scope: Scope, workspace: Workspace, plan: Plan, run: FabricRun, *, first: bool) -> FabricRun:
    """The run, and where it is slow or indirect, if it is and the policy lets further runs find out."""
    network = scope.policy.network
    minimum = figure_of(run, network, first=first).least_of(run)
    if not network.bisect or not is_slow(run, minimum, network.accepted):
        return run
    return msgspec.structs.replace(run, located=locate(scope, workspace, plan, run, minimum))


_SPREAD = 0.05
"""By how much repeated runs of the same nodes may differ."""


def is_slow(run: FabricRun, minimum: float | None, accepted: Sequence[str]) -> bool | None:
    """Whether a run failed in NCCL, took another path than those accepted, or missed its figure; None where its output does not show it."""
    try:
        verdict = nccl_log.judge(run.log)
    except Unreadable:
        return None
    if verdict.failures:
        return True
    if verdict.code in nccl_log.UNDECIDABLE_CODES:
        return None
    if verdict.code.value not in accepted:
        return True
    if minimum is None:
        return False
    try:
        row = nccl_tests.largest(run.table)
    except Unreadable:
        return None
    return None if row is None or row.out_of_place.busbw <= 0 else row.out_of_place.busbw < minimum


def locate(scope: Scope, workspace: Workspace, plan: Plan, run: FabricRun, minimum: float | None) -> Located:
    """Where a slow run went wrong: first the node, among all of its kind with as much free, then the adapter of that node."""
    return _Locating(scope, workspace, plan, minimum).locate(run)


class _Locating:
    """The runs of one search. After ``probes.everyNodeSeconds`` none begins any more."""

    def __init__(self, scope: Scope, workspace: Workspace, plan: Plan, minimum: float | None) -> None:
        self._scope, self._workspace, self._plan, self._minimum = scope, workspace, plan, minimum
        self._nodes = {node.name: node for node in (*plan.nodes, *plan.others)}
        self._deadline = time.monotonic() + scope.policy.probes.every_node_seconds

    def locate(self, run: FabricRun) -> Located:
        first = tuple(node.name for node in self._plan.nodes)
        found = search(list(self._nodes), first, self._pairs, most=self._scope.policy.probes.at_once)
        ends = self._ends(found, first)
        adapter = self._adapter(run, ends) if ends else ""
        return Located(nodes=tuple(self._nodes), found=found, adapter=adapter, ends=ends if adapter else ())

    def _ends(self, found: Found, first: Group) -> Group:
        """Between which nodes adapters are tried: one that was named and one that is fine, else the first two if no node is to blame."""
        if found.named:
            return (found.named[0], found.fine[0])
        return () if found.fine else first[:2]

    def _pairs(self, groups: list[Group]) -> list[bool | None]:
        return self._run([Job(self._plan_of(group), f"{NAME}-pair-{number}") for number, group in enumerate(groups)], self._minimum)

    def _plan_of(self, group: Group) -> Plan:
        return msgspec.structs.replace(self._plan, nodes=tuple(self._nodes[name] for name in group), others=())

    def _adapter(self, run: FabricRun, ends: Group) -> str:
        """The adapter that is slow by itself; empty unless NCCL names adapters and there is a figure to miss."""
        log = run.log
        if self._minimum is None or any(line.network in SOCKET_NETWORKS for line in log.net_channels):
            return ""
        minimum, adapters = self._minimum, list(dict.fromkeys(one.name for used in nccl_log.adapters_in_use(log).values() for one in used))

        def slow(names: Group) -> bool | None:
            job = Job(self._plan_of(ends), f"{NAME}-rail", {"NCCL_IB_HCA": "=" + ",".join(names)})
            return self._run([job], minimum * len(names) / len(adapters))[0]

        return halve(adapters, slow) if len(adapters) > 1 else ""

    def _run(self, jobs: list[Job], minimum: float | None) -> list[bool | None]:
        if time.monotonic() >= self._deadline:
            return [None] * len(jobs)
        self._workspace.clear()  # devices of the last runs are free then
        accepted = self._scope.policy.network.accepted
        try:
            runs = run_together(self._scope, self._workspace, jobs)
        except (Inconclusive, ApiTrouble):  # the run that was slow stays what it is
            return [None] * len(jobs)
        return [_clearly_slow(run, minimum, accepted) if isinstance(run, FabricRun) else None for run in runs]


def _clearly_slow(run: FabricRun, minimum: float | None, accepted: Sequence[str]) -> bool | None:
    """As :func:`is_slow`; None where a run misses its figure by less than runs differ: then chance would choose the nodes."""
    slow = is_slow(run, minimum, accepted)
    return None if slow and minimum is not None and is_slow(run, minimum * (1 - _SPREAD), accepted) is False else slow
