"""What an experiment will touch, frozen before it starts, and what planning read of the cluster besides.

Nothing is selected at the time of the act.
"""

import fnmatch
import hashlib
from datetime import UTC, datetime
from typing import Any

import msgspec

from chaos.model.records import Origin
from fixtures.model.nodes.work import is_fence_key
from fixtures.model.platform.installed import InstalledComponent
from fixtures.text import typed
from fixtures.verdict.record import TargetKind


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One object. ``kind`` is a resource key as in :mod:`fixtures.cluster.kinds`; ``node`` is the node it is on (a node is on itself).

    ``facts`` is what the activity needs, read at planning: GPU uuid and index, PCI address, labels, replicas.
    """

    kind: str
    name: str
    namespace: str = ""
    uid: str
    node: str = ""
    facts: dict[str, Any] = {}

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace + '/' if self.namespace else ''}{self.name}"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment on one cluster, resolved. ``actions`` and ``undo`` say it in words, for ``chaos plan``.

    ``facts`` is what activities and signals need beside the targets (components found, device resource, canaries), from planning.
    ``namespace`` is the run's, for injector pods, and ``workload`` the experiment's, for what it starts for itself
    (:func:`chaos.model.plan.canary_namespace`).
    ``untouched`` is the healthy GPU node that is left alone, ``eligible`` how many targets could have been chosen (for caps by
    percent), ``node_uids`` the UIDs of its nodes by name, ``seconds`` the durations of this target's tempo, ``expires_at`` (RFC 3339)
    when targets undo by themselves.
    """

    experiment: str
    run_id: str
    cluster_uid: str
    server: str
    target_kind: TargetKind
    namespace: str
    workload: str = ""
    targets: tuple[Target, ...]
    node_uids: dict[str, str] = {}
    untouched: str
    expires_at: str
    facts: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    actions: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    eligible: int

    @property
    def digest(self) -> str:
        """SHA-256 of the plan, in hex."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()

    @property
    def origin(self) -> Origin:
        """Whose entries the ledger of this plan holds."""
        return Origin(run_id=self.run_id, experiment=self.experiment, cluster_uid=self.cluster_uid, expires_at=self.expires_at)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes that are touched, each once."""
        return tuple(dict.fromkeys(target.node for target in self.targets if target.node))

    def expired(self) -> bool:
        """Whether the plan has expired."""
        return datetime.now(UTC) >= datetime.fromisoformat(self.expires_at)


CANARY_LABEL = "gpu-conformance.io/canary"
"""On every pod that an experiment starts for itself; its value is the pod's role."""

GANG_LABEL = "gpu-conformance.io/gang"
"""Which gang a canary belongs to."""


CANARIES = "-canaries"
"""What the name of the namespace for an experiment's own workload ends with."""

OPT_OUT = {"k8saas.nvidia.com/ManagedByNVSentinel": "false"}
"""Label by which a node tells NVSentinel to leave it alone (docs/facts/device-health.md#nvsentinel)."""


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU of a target node, as its telemetry names it."""

    uuid: str
    index: int
    pci: str = ""


class PlanFacts(msgspec.Struct, frozen=True, kw_only=True):
    """``resources``, ``no_devices``: device resources by the policy, ``fences``: keys of taints that fence them (globs).

    ``resource`` is the one that the target nodes offer.

    ``free`` is how many of it are free on each node that a canary may use, ``devices`` the GPUs of each target node. ``image``,
    ``injector_image``, ``user``, ``tolerations``, ``pull_secrets`` and ``priority_class`` are how the policy wants probe pods.
    """

    components: dict[str, InstalledComponent] = {}
    resources: tuple[str, ...] = ("nvidia.com/gpu",)
    fences: tuple[str, ...] = ()
    no_devices: tuple[str, ...] = ()
    resource: str = "nvidia.com/gpu"
    device_class: str = ""  # devices are claimed (dynamic resource allocation), by this DeviceClass
    free: dict[str, int] = {}
    devices: dict[str, tuple[Device, ...]] = {}
    image: str = ""
    injector_image: str = ""
    user: int = 1000
    tolerations: tuple[dict[str, Any], ...] = ()
    pull_secrets: tuple[str, ...] = ()
    priority_class: str = ""

    @classmethod
    def of(cls, plan: Plan) -> "PlanFacts":
        """The facts of a plan. Raises ``msgspec.ValidationError`` when the plan holds others."""
        return typed.convert(plan.facts, cls)

    def is_device(self, resource: str) -> bool:
        """Whether a resource name is a device by the policy."""
        return _any(resource, self.resources) and not _any(resource, self.no_devices)

    def is_fabric(self, resource: str) -> bool:
        """Whether a resource name is none of Kubernetes' own and no device: ``rdma/*`` and the like."""
        return "/" in resource and not self.is_device(resource) and not resource.startswith(("hugepages", "attachable-volumes"))

    def is_fence(self, key: str) -> bool:
        """Whether a taint's key fences devices by the policy."""
        return is_fence_key(key, self.fences, self.is_device)


def canary_namespace(plan: Plan) -> str:
    """The namespace of the experiment's own workload: restricted, unlike the one of the injectors. Older versions named none."""
    return plan.workload or plan.namespace + CANARIES


def _any(name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)
