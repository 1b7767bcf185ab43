"""Gates: whether an experiment may begin.

Pure functions over what the plan asks for, what the cluster's owner allows, and what is known of the cluster just before the act; what is
not known is refused.

Each refusal says what was expected. All refusals are reported, not only the first.
"""

import difflib
import fnmatch
from collections.abc import Callable, Iterator, Sequence

import msgspec

from chaos.model.experiment import DEFAULT_MAX_LEVEL, OPT_IN_LABEL, OPT_IN_LEVEL, TYPED_LEVEL, Level, needs_cordoned
from chaos.model.plan import Plan
from chaos.observe.user_conditions import ConditionTextError, UserCondition, parse_user_condition
from fixtures.model.platform.installed import NAMES
from fixtures.model.platform.remediators import REMEDIATORS, Remediator
from fixtures.policy.allowlist import not_allowed
from fixtures.policy.model import Chaos, Policy
from fixtures.verdict.record import TargetKind


class SettingsError(Exception):
    """A setting that cannot be: one line, said before anything is touched."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """``allowed`` are UIDs of clusters, ``confirmed`` the cluster's name as somebody typed it for this run.

    ``named_nodes`` are nodes that somebody named for this run, and thereby meant. ``stop_if``, ``steady_if`` and ``detect_if`` are
    conditions of the policy and of this run.
    """

    policy: Chaos = Chaos()
    allowed: tuple[str, ...] = ()
    max_level: Level = Level.AGENTS
    confirmed: str = ""
    named_nodes: tuple[str, ...] = ()
    stop_if: tuple[UserCondition, ...] = ()
    steady_if: tuple[UserCondition, ...] = ()
    detect_if: tuple[UserCondition, ...] = ()


def settings_of(
    policy: Policy,
    *,
    clusters: tuple[str, ...] = (),
    max_level: int | None = None,
    confirm: str = "",
    nodes: tuple[str, ...] = (),
    stop_if: tuple[str, ...] = (),
    steady_if: tuple[str, ...] = (),
    detect_if: tuple[str, ...] = (),
) -> Settings:
    """Lay the options over the policy. Raises :class:`SettingsError`.

    Options add clusters, and lower the ceiling freely; a policy that names a ceiling is not exceeded by an option.
    """
    chaos = policy.chaos
    ceiling = next(level for level in (max_level, chaos.max_level, DEFAULT_MAX_LEVEL) if level is not None)
    if ceiling not in set(Level):
        raise SettingsError(
            f"--chaos-max-level {ceiling}: expected one of {', '.join(f'{level.value} ({level.words})' for level in Level)}"
        )
    for name, workload in chaos.components.items():
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(NAMES))}"
            raise SettingsError(f"policy chaos.components: unknown component {name!r}; {hint}")
        if len([part for part in workload.split("/") if part]) != 2:
            raise SettingsError(f"policy chaos.components.{name}: expected 'namespace/name' of its workload, not {workload!r}")
    if chaos.max_level is not None and ceiling > chaos.max_level:
        raise SettingsError(f"--chaos-max-level {ceiling}: the policy allows level {chaos.max_level} at most (chaos.maxLevel)")
    return Settings(
        policy=chaos,
        allowed=(*chaos.clusters, *clusters),
        max_level=Level(ceiling),
        confirmed=confirm,
        named_nodes=nodes,
        stop_if=(*_conditions("policy chaos.stopIf", chaos.stop_if), *_conditions("--stop-if", stop_if)),
        steady_if=(*_conditions("policy chaos.steadyIf", chaos.steady_if), *_conditions("--steady-if", steady_if)),
        detect_if=(*_conditions("policy chaos.detectIf", chaos.detect_if), *_conditions("--detect-if", detect_if)),
    )


def _conditions(where: str, texts: Sequence[str]) -> Iterator[UserCondition]:
    for text in texts:
        try:
            yield parse_user_condition(text)
        except ConditionTextError as error:
            raise SettingsError(f"{where}: {error}") from None


SPREAD_SCOPES = ("node", "gpu", "pod")
"""Scopes of which a cluster has many: a cap by percent means something. A controller is one of one."""


class RequestedFault(msgspec.Struct, frozen=True, kw_only=True):
    """What the experiment asks for.

    ``count`` is its own radius; ``expects`` names remediation that it reckons with;
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
    """One node now.

    ``obstacle``: what speaks against its work besides ``spec.unschedulable``, empty when nothing does;
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
    state, empty when nothing is. ``denied``: rights that are missing. ``budgets``: disruption budgets that allow fewer disruptions
    than pods of theirs are ended. ``open_entries``: of earlier runs. ``forged``: what looks like a ledger and nothing vouches for:
    told, and no obstacle. ``halted``: by whom, empty when not.
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


def _is_ours(given: GateInput) -> bool:
    """Whether this run has started the cluster: a server that a kubeconfig names may call itself simulated, and that lifts nothing."""
    return given.state.ours and given.plan.target_kind is not TargetKind.LIVE


def _allowed(given: GateInput) -> str:
    plan, state = given.plan, given.state
    if not plan.cluster_uid or plan.cluster_uid != state.cluster_uid:
        return f"the plan is for cluster {plan.cluster_uid or '(unknown)'}, and this is {state.cluster_uid or '(unknown)'}"
    if _is_ours(given):
        return ""
    return not_allowed(state.cluster_uid, ", ".join(filter(None, state.cluster_names)), given.settings.allowed)


def _halted(given: GateInput) -> str:
    if given.settings.policy.halt:
        return "the policy halts all experiments (chaos.halt)"
    if given.state.halted is None:
        return "whether the cluster is halted could not be read"
    return f"halted by {given.state.halted}; end the halt with `gpu-conformance chaos halt --off`" if given.state.halted else ""


def _recovered(given: GateInput) -> str:
    left = given.state.open_entries
    if left is None:
        return "earlier runs' ledgers could not be read"
    return f"{left} changes of an earlier run are not known to be undone; run `gpu-conformance chaos recover` first" if left else ""


def _level(given: GateInput) -> str:
    level, most = given.request.level, given.settings.max_level
    if level <= most:
        return ""
    return f"level {level.value} ({level.words}) is above the allowed {most.value}; expected --chaos-max-level {level.value}"


def _same_targets(given: GateInput) -> str:
    targets, uids = given.plan.targets, given.state.uids
    if not targets:
        return "the plan has no targets; expected at least one"
    if uids is None:
        return "the targets could not be read again"
    for target in targets:
        current = uids.get(str(target), "")
        if not target.uid or current != target.uid:
            return f"{target} was replaced since it was planned: expected uid {target.uid or '(none)'}, found {current or 'none'}"
    return ""


def _radius(given: GateInput) -> str:
    count, settings = len(given.plan.targets), given.settings.policy
    most = min(given.request.count, settings.max_targets)
    if count > most:
        caps = f"the experiment's radius {given.request.count}, chaos.maxTargets {settings.max_targets}"
        return f"{count} targets; expected {most} at most ({caps})"
    if given.request.scope not in SPREAD_SCOPES:
        return ""
    if given.plan.eligible < count:
        return f"{count} targets of {given.plan.eligible} eligible ones; expected a plan that counts them"
    percent = 100 * count / given.plan.eligible
    if percent > settings.max_percent:
        return f"{count} of {given.plan.eligible} are {percent:.0f} %; expected {settings.max_percent:g} % at most (chaos.maxPercent)"
    return ""


def _protected(given: GateInput) -> str:
    globs = given.settings.policy.protected_namespaces
    for target in given.plan.targets:
        if target.namespace and any(fnmatch.fnmatchcase(target.namespace, glob) for glob in globs):
            return f"{target} is in a protected namespace; expected none of {', '.join(globs)} (chaos.protectedNamespaces)"
    return ""


def _untouched(given: GateInput) -> str:
    name = given.plan.untouched
    if not name:
        return "no GPU node is left untouched; expected one" if given.request.takes_capacity else ""
    if name in given.plan.nodes:
        return f"node {name} is both a target and the one that is left untouched"
    if given.state.nodes is None:
        return "nodes could not be read"
    node = given.state.nodes.get(name)
    why = "it is gone" if node is None else "it has no GPU" if not node.gpu else "it is cordoned" if node.cordoned else node.obstacle
    if why:
        return f"node {name}, which is to be left untouched, is not a healthy, schedulable GPU node ({why}); expected another one"
    return ""


def _target_nodes(given: GateInput) -> str:
    """Nodes of targets: no control plane unless named, nobody at work on them, opted in where the level asks for it."""
    if given.state.nodes is None:
        return "nodes could not be read"
    key, value = OPT_IN_LABEL
    for name in given.plan.nodes:
        node = given.state.nodes.get(name)
        if node is None:
            return f"node {name} is gone"
        if node.control_plane and name not in given.settings.named_nodes:
            return f"node {name} belongs to the control plane; expected it to be named (--chaos-target {name})"
        if given.request.level >= OPT_IN_LEVEL and not _is_ours(given) and not node.opted_in:
            return f"node {name} has not opted in; expected its label {key}={value} for level {given.request.level.value}"
        if given.request.level < TYPED_LEVEL and node.cordoned:
            return f"node {name} is cordoned: somebody is at work on it; expected a schedulable one"
        if node.obstacle:
            return f"node {name}: {node.obstacle}; expected a node without a fault, a quarantine or a repair"
        if given.request.idle and given.request.level < TYPED_LEVEL and node.busy:  # planned as idle, and not any more
            return f"node {name} has pods with devices ({', '.join(node.busy[:3])}); expected none but the experiment's own"
    return ""


def _destructive(given: GateInput) -> str:
    """Level 4: the cluster's name typed for this run, and a node that somebody has cordoned and emptied."""
    if given.request.level < TYPED_LEVEL:
        return ""
    names = {name for name in (given.state.cluster_uid, *given.state.cluster_names) if name}
    if given.settings.confirmed not in names:
        return f"level 4 needs the cluster's name, typed; expected --chaos-confirm with one of {', '.join(sorted(names)) or '(none)'}"
    if not needs_cordoned(given.request.level, given.plan.target_kind, cordons=given.request.cordons):
        return ""
    if given.state.nodes is None:
        return "nodes could not be read"
    for name in given.plan.nodes:
        node = given.state.nodes.get(name)
        if node is None or not node.cordoned:
            return f"node {name} is in service; expected it cordoned for level 4"
        if node.busy:
            return f"node {name} has pods with devices ({', '.join(node.busy[:3])}); expected it idle for level 4"
    return ""


def _alone(given: GateInput) -> str:
    """A reset of one GPU: what NVLink joins to it would be reset with it, so nothing else will do than to know that there is none."""
    if not given.request.resets:
        return ""
    if given.state.nodes is None:
        return "nodes could not be read"
    for name in given.plan.nodes:
        node = given.state.nodes.get(name)
        why = node.reset_obstacle if node else "it is gone"
        if why:
            return f"no GPU of node {name} may be reset alone: {why}; expected GPUs that the vendor resets one by one"
    return ""


def _steady(given: GateInput) -> str:
    if given.state.steady is None:
        return "the steady state was not judged"
    return f"the steady state is not green: {given.state.steady}" if given.state.steady else ""


def _rights(given: GateInput) -> str:
    if given.state.denied is None:
        return "the API server did not say which rights the account has"
    if not given.state.denied:
        return ""
    return f"missing rights: {'; '.join(given.state.denied)}; expected those of deploy/clusterrole-chaos.yaml, to act and to undo alike"


def _remediation(given: GateInput) -> str:
    if given.state.remediators is None:
        return "it could not be found out whether a program repairs nodes by itself"
    known = {*given.settings.policy.remediation, *given.request.expects}
    if unknown := known - set(REMEDIATORS):
        return f"remediation {', '.join(sorted(unknown))} is not known; expected some of {', '.join(REMEDIATORS)}"
    met = [one for one in given.state.remediators if one.name not in known]
    if not met:
        return ""
    found = "; ".join(f"{one.words} (seen: {one.found_by})" for one in met)
    return f"{found}; expected {', '.join(one.name for one in met)} in the policy's chaos.remediation, or the nodes opted out"


def _budgets(given: GateInput) -> str:
    if given.state.budgets is None:
        return "PodDisruptionBudgets could not be read"
    spent = ", ".join(given.state.budgets)
    return f"PodDisruptionBudgets {spent} allow fewer disruptions than pods of theirs are ended; expected as many" if spent else ""


EARLIER = "earlier run"

GATES: tuple[tuple[str, Callable[[GateInput], str]], ...] = (
    ("allow-list", _allowed),
    ("halt", _halted),
    (EARLIER, _recovered),
    ("level", _level),
    ("expiry", lambda given: f"the plan expired at {given.plan.expires_at}; expected a new one" if given.plan.expired() else ""),
    ("targets", _same_targets),
    ("radius", _radius),
    ("protected namespaces", _protected),
    ("untouched node", _untouched),
    ("target nodes", _target_nodes),
    ("destructive", _destructive),
    ("reset alone", _alone),
    ("rights", _rights),
    ("remediation", _remediation),
    ("disruption budgets", _budgets),
    ("steady state", _steady),
)
"""Every gate, in the order in which refusals are reported."""


def closed_gates(given: GateInput) -> list[ClosedGate]:
    """The gates that are closed; none means go. A gate that cannot be judged because of an error of its own is closed."""
    refusals = []
    for name, gate in GATES:
        try:
            message = gate(given)
        except Exception as error:  # fail closed: no mistake in a gate may open it
            message = f"could not be judged ({type(error).__name__}: {error})"
        if message:
            refusals.append(ClosedGate(name, message))
    return refusals
