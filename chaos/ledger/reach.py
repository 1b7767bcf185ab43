"""Where an experiment may touch anything, as its plan, the policy and the cluster show it: an entry cannot say so of itself.

Whoever edits a report writes its ledgers and its plan. So an entry that no run's proof lists is held against what such a person cannot
write. An entry that the proof lists was held against the plan when it was armed, and is undone even where the cluster no longer shows
whose namespace it is.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from chaos.cluster import namespaces
from chaos.ledger.undos.nodes import ClearedArgs
from chaos.ledger.undos.objects import NodeExistsArgs, PresentArgs
from chaos.model.plan import Plan, PlanFacts
from chaos.model.records import Entry, digest
from fixtures.model.objects import faces_outside, owners_of
from fixtures.model.platform.namespaces import Platform
from fixtures.policy.model import Policy, Tenants

_UNLISTED = "no proof in the cluster lists the entry"


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Which namespaces and objects are an experiment's to touch. What is empty shows nothing.

    ``tenants`` and ``components`` (namespaces of ``chaos.components``) are the policy's. The cluster shows ``standing`` and
    ``operators`` (by the UID of each ClusterPolicy, the namespaces in which its operator runs). ``vouched`` are digests of the entries
    that the proofs of their runs list.

    ``planned`` are UIDs of a plan's targets. With ``within``, the namespaces of a plan's targets and components, there are no others.
    """

    tenants: Tenants = Tenants()
    components: frozenset[str] = frozenset()
    standing: Platform | None = None
    operators: Mapping[str, frozenset[str]] = {}
    vouched: frozenset[str] = frozenset()
    planned: frozenset[str] = frozenset()
    within: frozenset[str] | None = None

    @classmethod
    def of(cls, policy: Policy) -> "Reach":
        """What the policy alone shows."""
        named = (workload.partition("/") for workload in policy.chaos.components.values())
        return cls(tenants=policy.tenants, components=frozenset(namespace for namespace, slash, _ in named if slash))

    def of_plan(self, plan: Plan) -> "Reach":
        """What a plan names, and nothing else: its namespaces were found out when it was made."""
        found = PlanFacts.of(plan).components.values()
        named = {target.namespace for target in plan.targets} | {one.namespace for component in found for one in component.workloads}
        return msgspec.structs.replace(self, planned=frozenset(target.uid for target in plan.targets), within=frozenset(named - {""}))

    def admits(self, namespace: str) -> bool:
        """Whether components may be in a namespace: as the search for targets has it, and where the policy says they are."""
        if self.within is not None:
            return namespace in self.within
        standing = self.standing or Platform(self.tenants)
        return standing.of(namespace).components or namespace in self.components

    def wrong(self, entry: Entry, args: Any) -> Iterator[str]:
        """What an entry names that nothing shows to be its experiment's to touch."""
        if digest(entry) in self.vouched:
            return
        namespace = str(getattr(args, "namespace", "") or "")
        if namespace and not namespaces.is_name_of_run(namespace, entry.run_id) and not self.admits(namespace):
            yield f"namespace {namespace}, {self._unknown}"
        elif isinstance(args, PresentArgs) and args.uid not in self.planned:
            yield from self._wrong_operand(args)
        elif isinstance(args, NodeExistsArgs) and args.uid not in self.planned:
            if self.within is not None:
                yield f"the existence of node {args.name}, which is no target of its plan"
            else:
                yield f"labels and taints of node {args.name}: {_UNLISTED}, and nothing else shows what the node had; see the ledger"
        elif isinstance(args, ClearedArgs) and self.within is None and (kept := _kept(args)):
            yield f"{', '.join(kept)} of node {args.name}: {_UNLISTED}, and nothing else shows that the node had it; see the ledger"[:300]

    @property
    def _unknown(self) -> str:
        if self.within is not None:
            return "which is not in its plan"
        known = "if agents of the platform are there, name it in the policy (tenants.moreInfrastructure, chaos.components)"
        return f"which is neither the platform's nor an operator's, and {_UNLISTED}; {known}"

    def _wrong_operand(self, args: PresentArgs) -> Iterator[str]:
        """Experiments delete objects that a ClusterPolicy owns, where its operator runs, and no others."""
        what = f"{args.key} {args.namespace}/{args.name}"
        controllers = [str(ref.get("uid")) for ref in owners_of(args.saved) if ref.get("controller") is True]
        if self.within is not None:
            yield f"{what}, which is no target of its plan"
        elif not any(args.namespace in self.operators.get(uid, ()) for uid in controllers):
            yield f"{what}, which no ClusterPolicy of this cluster owns, and {_UNLISTED}"
        elif args.key == "services" and faces_outside(args.saved):
            yield f"{what}, which can be reached from outside of the cluster, and {_UNLISTED}"


def _kept(args: ClearedArgs) -> list[str]:
    """State labels and annotations that were there before the fault: they would be set again."""
    return sorted({key for key, value in args.labels.items() if value is not None} | args.notes.keys())
