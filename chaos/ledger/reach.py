"""Where an experiment may touch anything, as its plan, the policy and the cluster show it: an entry cannot say so of itself.

Whoever edits a report writes its ledgers and its plan. So an entry that no run's proof lists is held against what such a person cannot
write. An entry that the proof lists was held against the plan when it was armed, and is undone even where the cluster no longer shows
whose namespace it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from chaos.cluster import namespaces
from chaos.model.ledger_lines import Entry, digest
from chaos.model.plan import Plan
from chaos.model.plan_facts import CANARIES, PlanFacts
from conformance.policy.model import Policy, Tenants
from conformance.scope.platform_namespaces import PlatformNamespaces

_UNLISTED = "no proof in the cluster lists the entry"


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Which namespaces are an experiment's to touch. What is empty shows nothing.

    ``tenants`` and ``components`` (namespaces of ``chaos.components``) are the policy's. The cluster shows ``openshift`` and
    ``homes`` (namespaces in which operators run). ``vouched`` are digests of the entries that the proofs of their runs list.

    With ``within``, the namespaces of a plan's targets and components, there are no others.
    """

    tenants: Tenants = Tenants()
    components: frozenset[str] = frozenset()
    openshift: bool = False
    homes: frozenset[str] = frozenset()
    vouched: frozenset[str] = frozenset()
    within: frozenset[str] | None = None

    @classmethod
    def of(cls, policy: Policy) -> Reach:
        """What the policy alone shows."""
        named = (workload.partition("/") for workload in policy.chaos.components.values())
        return cls(tenants=policy.tenants, components=frozenset(namespace for namespace, slash, _ in named if slash))

    def of_plan(self, plan: Plan) -> Reach:
        """What a plan names, and nothing else: its namespaces were found out when it was made."""
        found = PlanFacts.of(plan).components.values()
        named = {target.namespace for target in plan.targets} | {one.namespace for component in found for one in component.workloads}
        return msgspec.structs.replace(self, within=frozenset(named - {""}))

    def admits(self, namespace: str) -> bool:
        """Whether components may be in a namespace: as the search for targets has it, and where the policy says they are."""
        if self.within is not None:
            return namespace in self.within
        platform = PlatformNamespaces(self.tenants, openshift=self.openshift)
        return bool(platform.why(namespace)) or namespace in self.homes or namespace in self.components

    def wrong(self, entry: Entry, args: Any) -> Iterator[str]:
        """What an entry names that nothing shows to be its experiment's to touch."""
        if digest(entry) in self.vouched:
            return
        namespace, own = str(getattr(args, "namespace", "") or ""), namespaces.of_run(entry.run_id)
        if namespace not in ("", own, own + CANARIES) and not self.admits(namespace):
            yield f"namespace {namespace}, {self._unknown}"

    @property
    def _unknown(self) -> str:
        if self.within is not None:
            return "which is not in its plan"
        known = "if agents of the platform are there, name it in the policy (tenants.moreInfrastructure, chaos.components)"
        return f"which is neither the platform's nor an operator's, and {_UNLISTED}; {known}"
