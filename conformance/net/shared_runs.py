"""The runs that NET-05 to NET-07 judge, each with where it went wrong."""

from __future__ import annotations

import msgspec

from conformance.net.fabric_probe import run_fabric
from conformance.net.figures import figure_of
from conformance.net.locating import is_slow, locate
from conformance.net.two_node_run import FabricRun
from conformance.net.two_nodes import Plan, make_plans
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
