"""The gates' input: what the plan asks for, what the cluster's owner allows, and what is known of the cluster just before the act.

Remediators are programs that repair nodes by themselves. If they react to a fault, the experiment tests them and not its target.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Sequence

import msgspec

from chaos.cluster.requests import field
from chaos.model.experiment import DEFAULT_MAX_LEVEL, Level
from chaos.model.plan import Plan
from chaos.observe.components import NAMES
from fixtures.kubernetes.models import Json
from fixtures.policy.model import Chaos, Policy


class RemediatorSigns(msgspec.Struct, frozen=True, kw_only=True):
    """How one is recognised: names of its workloads (globs), labels of nodes that it manages, labels by which a node opts out."""

    name: str
    words: str
    workloads: tuple[str, ...]
    node_labels: tuple[str, ...] = ()
    opt_out: tuple[tuple[str, str], ...] = ()


KNOWN_REMEDIATORS = (
    RemediatorSigns(
        name="nvsentinel",
        words="NVSentinel quarantines, drains and repairs nodes",
        workloads=("fault-quarantine*", "node-drainer*", "fault-remediation*", "*nvsentinel*"),
        node_labels=("dgxc.nvidia.com/nvsentinel-state",),
        opt_out=(("k8saas.nvidia.com/ManagedByNVSentinel", "false"), ("nvsentinel.dgxc.nvidia.com/managed", "false")),
    ),
    RemediatorSigns(
        name="eks-node-monitoring",
        words="EKS auto repair replaces or reboots nodes whose AcceleratedHardwareReady is false",
        workloads=("eks-node-monitoring-agent*",),
    ),
    RemediatorSigns(
        name="karpenter",
        words="Karpenter replaces nodes",
        workloads=("karpenter*",),
        node_labels=("karpenter.sh/nodepool", "karpenter.sh/provisioner-name"),
    ),
    RemediatorSigns(
        name="cluster-autoscaler",
        words="Cluster Autoscaler removes nodes that look unneeded or unregistered",
        workloads=("cluster-autoscaler*", "*-cluster-autoscaler"),
    ),
    RemediatorSigns(name="draino", words="draino drains nodes by their conditions", workloads=("draino*",)),
    RemediatorSigns(
        name="medik8s",
        words="medik8s remediates unhealthy nodes",
        workloads=("node-healthcheck*", "self-node-remediation*", "fence-agents-remediation*"),
    ),
)
"""Known ones, by the names that they are deployed with (docs/facts/device-health.md#remediators)."""

REMEDIATORS = tuple(sign.name for sign in KNOWN_REMEDIATORS)


class Remediator(msgspec.Struct, frozen=True, kw_only=True):
    """One that was found, and by what."""

    name: str
    found_by: str
    words: str


def find_remediators(workloads: Iterable[Json], nodes: Sequence[Json], targets: Sequence[str]) -> tuple[Remediator, ...]:
    """Those that could react to what happens to the nodes named in ``targets``, unless all of these have opted out.

    ``workloads`` are the cluster's Deployments and DaemonSets, ``nodes`` all its nodes. A copy in anybody's namespace counts too: it is
    safer to ask once too often.
    """
    running = [obj for obj in workloads if not _switched_off(obj)]
    deployed = [(str(field(obj, "metadata", "namespace")), str(field(obj, "metadata", "name"))) for obj in running]
    found = []
    for sign in KNOWN_REMEDIATORS:
        seen = next((f"{ns}/{name}" for ns, name in deployed if any(fnmatch.fnmatchcase(name, glob) for glob in sign.workloads)), "")
        if not seen:
            label = next((key for node in nodes for key in sign.node_labels if key in _labels(node)), "")
            seen = f"node label {label}" if label else ""
        if seen and not _opted_out(sign, [node for node in nodes if field(node, "metadata", "name") in targets]):
            found.append(Remediator(name=sign.name, found_by=seen, words=sign.words))
    return tuple(found)


def _switched_off(workload: Json) -> bool:
    """Whether a workload runs nothing and is not meant to: scaled to none, or wanted on no node by what its controller saw last."""
    if field(workload, "spec", "replicas") == 0:
        return not field(workload, "status", "replicas")
    seen = field(workload, "status", "observedGeneration") == field(workload, "metadata", "generation")
    scheduled = [field(workload, "status", f"{which}NumberScheduled") for which in ("desired", "current")]
    return seen and scheduled == [0, 0]


def _opted_out(sign: RemediatorSigns, nodes: Sequence[Json]) -> bool:
    return bool(nodes) and bool(sign.opt_out) and all(any(_labels(node).get(key) == value for key, value in sign.opt_out) for node in nodes)


def _labels(node: Json) -> dict[str, str]:
    return field(node, "metadata", "labels") or {}


class SettingsError(Exception):
    """A setting that cannot be: one line, said before anything is touched."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """``allowed`` are UIDs of clusters, ``confirmed`` the cluster's name as somebody typed it for this run.

    ``named_nodes`` are nodes that somebody named for this run, and thereby meant.
    """

    policy: Chaos = Chaos()
    allowed: tuple[str, ...] = ()
    max_level: Level = Level.AGENTS
    injector_image: str
    canary_image: str
    confirmed: str = ""
    named_nodes: tuple[str, ...] = ()


def settings_of(
    policy: Policy,
    *,
    clusters: tuple[str, ...] = (),
    max_level: int | None = None,
    confirm: str = "",
    nodes: tuple[str, ...] = (),
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
        injector_image=chaos.injector_image,
        canary_image=chaos.canary_image or policy.probes.image,
        confirmed=confirm,
        named_nodes=nodes,
    )


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
