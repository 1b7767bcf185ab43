"""The bounds of an experiment's ledger: registered undos, on objects that the experiment's document lets it touch.

An entry that something vouches for is still held against this, when it is armed and before it is carried out: whatever wrote it, it
cannot reach further than the experiment could. Whose namespaces and objects those are, plan, policy and cluster show; an entry cannot say
so of itself.

Whoever edits a report writes its ledgers and its plan. So an entry that no run's proof lists is held against what such a person cannot
write. An entry that the proof lists was held against the plan when it was armed, and is undone even where the cluster no longer shows
whose namespace it is.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from chaos.cluster import namespaces
from chaos.ledger.undos import Undo, workloads
from chaos.ledger.undos.agents import AgentRestarted, PublishedArgs, RestartedArgs, SlicesPublished
from chaos.ledger.undos.host import HOST_ACTIONS, DeviceArgs, KubeletArgs, Means, MockArgs, NetworkArgs, RebootArgs, RuntimeArgs
from chaos.ledger.undos.nodes import (
    AGENT_LABEL,
    ClearedArgs,
    NodeArgs,
    NodeCleared,
    NodeLabels,
    NodeUnschedulable,
    UnschedulableArgs,
    ValueArgs,
)
from chaos.ledger.undos.objects import OPERAND_KINDS, AbsentArgs, NodeExists, NodeExistsArgs, ObjectAbsent, ObjectPresent, PresentArgs
from chaos.model.experiment import Experiment
from chaos.model.pairs import pairs_of
from chaos.model.plan import OPT_OUT, Plan, PlanFacts
from chaos.model.records import Entry, LedgerError, digest
from fixtures.cluster import kinds
from fixtures.model.nodes.holds import STATE_LABEL, STATES, is_note
from fixtures.model.objects import faces_outside, owners_of
from fixtures.model.platform.namespaces import Platform
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.policy.model import Policy, Tenants
from fixtures.text import typed

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


_UNDOS: tuple[Undo, ...] = (
    NodeLabels(),
    NodeUnschedulable(),
    NodeExists(),
    ObjectAbsent(),
    ObjectPresent(),
    workloads.WorkloadReplicas(),
    workloads.PodsReplaced(),
    *(action() for action in HOST_ACTIONS),
    AgentRestarted(),
    NodeCleared(),
    workloads.WorkloadEnv(),
    SlicesPublished(),
    workloads.BreakerClosed(),
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


_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_NAMED = ("name", "namespace", "node", "owner", "owner_name", "container")
"""Arguments that are names of objects, and become part of a path."""

_PREPARES: Mapping[str, frozenset[str]] = {
    "opt_out": frozenset({"node.labels", "node.cleared"}),
    "configure_plugin": frozenset({"workload.env", "agent.restarted"}),
    "reset_gpu": frozenset({"host.persistence"}),
}
"""Undos that functions of the activities arm beside those that an experiment declares."""

_STARTS = ("start_workers", "start_probe", "start_latecomer", "start_sharers", "start_victim", "start_contender")
"""Functions that create pods, each with the claim that it uses where devices are claimed."""

WORKLOAD_KINDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys((*_STARTS, "submit_gangs"), ("pods",)),
    "start_deployment": ("apps/deployments", "batch/jobs"),
    "create_budget": ("policy/poddisruptionbudgets",),
    "submit_job": ("batch.volcano.sh/jobs", "batch/jobs"),
    "start_ranks": ("batch/jobs",),
}
"""What each function of the activities creates in the experiment's namespace."""

_GROUPS = ("scheduling.k8s.io/podgroups", "scheduling.volcano.sh/podgroups")
_QUEUES = ("kueue.x-k8s.io/clusterqueues", "kueue.x-k8s.io/localqueues", "kueue.x-k8s.io/resourceflavors")
_CREATES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_STARTS, ("resource.k8s.io/resourceclaims",)),
    **dict.fromkeys(("start_reader", "inject_dcgm", "kill_member", "disturb_rank"), ("pods",)),
    "taint_device": ("resource.k8s.io/devicetaintrules",),
    "submit_gangs": (*_GROUPS, *_QUEUES),
}
"""Kinds that functions create, or kill, beside those of :data:`WORKLOAD_KINDS`."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment's. ``words`` are labels and variables that its method names, ``sets`` the values that it gives them (None removes
    one; not known where it does not say so), ``created`` the kinds that it creates.

    ``operands`` are the kinds of operands that it deletes, ``replicas`` the numbers to which it scales (the argument of that name).
    ``nodes`` are those of its plan; None where the plan is not known.
    """

    undo: frozenset[str]
    words: frozenset[str] = frozenset()
    sets: Mapping[str, frozenset[str | None]] = {}
    created: frozenset[str] = frozenset()
    operands: frozenset[str] = frozenset()
    replicas: frozenset[int] = frozenset()
    nodes: frozenset[str] | None = None

    @classmethod
    def of(cls, experiment: Experiment) -> "Bounds":
        """What the document lets it touch."""
        functions = experiment.functions
        created = {key for function in functions for key in (*WORKLOAD_KINDS.get(function, ()), *_CREATES.get(function, ()))}
        if functions & (WORKLOAD_KINDS.keys() | {"start_reader"}):
            created |= {"namespaces", PRIORITY_CLASSES}
        target = experiment.extension.target
        operands = (target["kind"],) if target.get("kind") else OPERAND_KINDS
        prepared = {undo for function in functions for undo in _PREPARES.get(function, ())}
        return cls(
            undo=frozenset({*experiment.extension.undo, *prepared, *({"object.absent"} if created else ())}),
            words=frozenset(_words(experiment)) | (frozenset(OPT_OUT) if "opt_out" in functions else frozenset()),
            sets=_sets(experiment) | ({key: frozenset({value}) for key, value in OPT_OUT.items()} if "opt_out" in functions else {}),
            created=frozenset(created),
            operands=frozenset(operands if target.get("select") == "operand" else ()),
            replicas=frozenset(given["replicas"] for _, given in experiment.calls if isinstance(given.get("replicas"), int)),
        )

    def never(self, key: str, value: str | None) -> bool:
        """Whether the method gives a label or a variable other values than this one: then nothing of the experiment is to be put back."""
        return key in self.sets and value not in self.sets[key]

    def on(self, nodes: Iterable[str]) -> "Bounds":
        """The same, of a plan on these nodes."""
        return msgspec.structs.replace(self, nodes=frozenset(nodes))


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """On which terms entries are carried out: bounds by experiment, and what the policy says of namespaces and of host programs.

    ``reboot_command`` is the policy's. ``administrators`` is the UID of the shared namespace where an administrator has made it.
    ``reach`` tells whose namespaces and objects are the experiments' to touch.
    """

    bounds: Mapping[str, Bounds]
    protected: tuple[str, ...] = ()
    image: str
    pull_secrets: tuple[str, ...] = ()
    reboot_command: tuple[str, ...] = ()
    administrators: str = ""
    reach: Reach = Reach()

    @classmethod
    def of(cls, experiments: Iterable[Experiment], policy: Policy) -> "Terms":
        """The terms of some experiments, and of the pairs that they allow among them, under a policy."""
        known = list(experiments)
        return cls(
            bounds={experiment.id: Bounds.of(experiment) for experiment in (*known, *pairs_of(known, among=True))},
            protected=policy.chaos.protected_namespaces,
            image=policy.chaos.injector_image,
            pull_secrets=tuple(policy.probes.pull_secrets),
            reboot_command=policy.chaos.reboot_command,
            administrators=policy.chaos.namespace_uid,
            reach=Reach.of(policy),
        )

    def planned(self, experiment: str, nodes: Iterable[str]) -> "Terms":
        """The same, with the nodes of an experiment's plan."""
        found = self.bounds.get(experiment)
        return self if found is None else msgspec.structs.replace(self, bounds={**self.bounds, experiment: found.on(nodes)})

    def of_plan(self, plan: Plan) -> "Terms":
        """Those of a run that has made this plan: nothing beside its nodes, its targets and the components that it found."""
        return msgspec.structs.replace(self.planned(plan.experiment, plan.nodes), reach=self.reach.of_plan(plan))

    def means(self, run_id: str) -> Means:
        """With what host programs of a run are run."""
        return Means(run_id=run_id, image=self.image, pull_secrets=self.pull_secrets)

    def outside(self, entry: Entry) -> str:
        """Why an entry is not carried out; empty when its experiment may touch all that it names."""
        bounds = self.bounds.get(entry.experiment)
        if bounds is None:
            return f"no experiment {entry.experiment!r} is known here; expected it in --chaos-folder"
        try:
            undo, args = arguments(entry)
        except LedgerError as error:
            return str(error)
        if undo.name not in bounds.undo:
            return f"{undo.name} is not an undo of experiment {entry.experiment}; it has {', '.join(sorted(bounds.undo)) or 'none'}"
        if type(args) not in CHECKS:
            return f"{undo.name}: nothing bounds what it may touch"
        wrong = [*self._wrong(entry, args), *self.reach.wrong(entry, args)]
        return f"{entry.experiment} may not touch {wrong[0]}" if wrong else ""

    def _wrong(self, entry: Entry, args: Any) -> Iterator[str]:
        """What an entry names that its experiment may not touch."""
        bounds = self.bounds[entry.experiment]
        for key in _NAMED:
            value = str(getattr(args, key, "") or "")
            if value and not _NAME.fullmatch(value):
                yield f"{key} {value[:80]!r}, which is not a name of an object"
        namespace = str(getattr(args, "namespace", "") or "")
        if any(fnmatch.fnmatchcase(namespace, glob) for glob in self.protected):
            yield f"namespace {namespace}, which is protected (chaos.protectedNamespaces)"
        node = args.name if isinstance(args, NodeArgs) else args.node if isinstance(args, RestartedArgs | PublishedArgs) else ""
        if node and bounds.nodes is not None and node not in bounds.nodes:
            yield f"node {node}, which is not in its plan"
        yield from CHECKS[type(args)](entry, args, bounds)


def _values(_entry: Entry, args: ValueArgs, bounds: Bounds) -> Iterator[str]:
    yield from (f"{key} of a node" for key in sorted({*args.prior, *args.ours} - bounds.words))
    never = [(key, value) for key, value in sorted(args.ours.items()) if bounds.never(key, value)]
    yield from (f"{key} of a node: it never makes it {value!r}"[:300] for key, value in never)


def _cordon(_entry: Entry, args: UnschedulableArgs, _bounds: Bounds) -> Iterator[str]:
    if not args.ours:
        yield "a node in service: it only cordons"


def _cleared(_entry: Entry, args: ClearedArgs, _bounds: Bounds) -> Iterator[str]:
    """Only what remediation writes on a node is put back, whatever else the entry names."""
    if set(args.labels) != {STATE_LABEL}:
        yield f"labels {', '.join(sorted(args.labels)) or '(none)'} of a node: expected {STATE_LABEL}"[:300]
    states = [(key, value) for key, value in sorted(args.labels.items()) if value is not None and value not in STATES]
    yield from (f"{key} of a node: {value!r} is no state of remediation"[:300] for key, value in states)
    yield from (f"annotation {key} of a node: remediation keeps none of this name"[:300] for key in sorted(args.notes) if not is_note(key))
    yield from (f"label {key} of a node: it runs no agent"[:300] for key in args.agents if not AGENT_LABEL.fullmatch(key))


def _replicas_of(_entry: Entry, args: workloads.ReplicasArgs, bounds: Bounds) -> Iterator[str]:
    if args.ours not in bounds.replicas:
        yield f"the replicas of {args.namespace}/{args.name}: it never scales to {args.ours}"


def _variable(_entry: Entry, args: workloads.EnvArgs, bounds: Bounds) -> Iterator[str]:
    if args.variable not in bounds.words:
        yield f"the variable {args.variable}"
    elif bounds.never(args.variable, args.ours):
        yield f"the variable {args.variable}: it never makes it {args.ours[:80]!r}"


def _present(_entry: Entry, args: PresentArgs, bounds: Bounds) -> Iterator[str]:
    if args.key not in bounds.operands:
        yield f"{args.key}: it deletes none"
    meta = args.saved.get("metadata")
    if not isinstance(meta, dict) or (meta.get("name"), meta.get("namespace") or "") != (args.name, args.namespace):
        yield f"another object than {args.key} {args.namespace}/{args.name}"


def _restarted(_entry: Entry, args: RestartedArgs | PublishedArgs, _bounds: Bounds) -> Iterator[str]:
    if not args.selector or not args.owner_uid:
        yield f"all pods of {args.namespace}"


def _units(entry: Entry, args: KubeletArgs | NetworkArgs | RebootArgs | RuntimeArgs, _bounds: Bounds) -> Iterator[str]:
    own = f"gpu-conformance-{entry.run_id}-{entry.experiment.lower()}-"
    units = filter(None, (getattr(args, name, "") for name in ("ending", "pending", "returning")))
    yield from (f"unit {unit}, which is not its run's" for unit in units if not unit.startswith(own))


def _absent(entry: Entry, args: AbsentArgs, bounds: Bounds) -> Iterator[str]:
    """Only what the experiment creates goes, in the namespaces of its run, or with the name of one of them."""
    where = args.namespace if kinds.KINDS[args.key].namespaced else args.name
    if not namespaces.is_name_of_run(where, entry.run_id):
        yield f"{args.key} {args.namespace}/{args.name}, which is not its run's"
    if args.run_id != entry.run_id:
        yield f"objects of run {args.run_id}"
    if args.key not in bounds.created:
        yield f"{args.key}: it creates none"


def _place_alone(_entry: Entry, _args: Any, _bounds: Bounds) -> Iterator[str]:
    """Nothing beside the names, the node and the namespace, which are checked for all arguments."""
    yield from ()


CHECKS: Mapping[type[Any], Callable[[Entry, Any, Bounds], Iterator[str]]] = {
    ValueArgs: _values,
    UnschedulableArgs: _cordon,
    ClearedArgs: _cleared,
    workloads.ReplicasArgs: _replicas_of,
    workloads.EnvArgs: _variable,
    AbsentArgs: _absent,
    PresentArgs: _present,
    RestartedArgs: _restarted,
    PublishedArgs: _restarted,
    KubeletArgs: _units,
    NetworkArgs: _units,
    RebootArgs: _units,
    RuntimeArgs: _units,
    NodeArgs: _place_alone,
    NodeExistsArgs: _place_alone,  # what the node gets back is for chaos.ledger.bounds
    workloads.BreakerArgs: _place_alone,  # of one name, and closed only
    workloads.ReplacedArgs: _place_alone,  # nothing is undone
    MockArgs: _place_alone,  # overrides are taken away, none is set
    DeviceArgs: _place_alone,  # of a form that is a UUID
}
"""The bound of each undo's arguments. An undo whose arguments have none here is never carried out."""


def _sets(experiment: Experiment) -> dict[str, frozenset[str | None]]:
    """Values that the method gives to labels and variables, by key. Where one is filled in later, nothing is known of that key."""
    found: dict[str, set[str | None]] = {}
    for function, given in experiment.calls:
        pairs: list[tuple[str, str | None]]
        if function == "remove_labels":
            pairs = [(str(key), None) for key in given.get("keys") or ()]
        elif function == "set_labels":
            pairs = [(str(key), str(value)) for key, value in (given.get("values") or {}).items()]
        elif function == "configure_plugin":
            pairs = [(str(given.get("variable")), str(given.get("value")))]
        else:
            continue
        for key, value in pairs:
            found.setdefault(key, set()).add(value)
    return {key: frozenset(values) for key, values in found.items() if not any("${" in (value or "") for value in values)}


def _words(experiment: Experiment) -> Iterator[str]:
    """Labels and variables that the method's arguments name: ``keys``, keys of ``values``, ``variable``."""
    for _, given in experiment.calls:
        for key in ("keys", "values"):
            if isinstance(given.get(key), (list, dict)):
                yield from (word for word in given[key] if isinstance(word, str))
        if isinstance(given.get("variable"), str):
            yield given["variable"]
