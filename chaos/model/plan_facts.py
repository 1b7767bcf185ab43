"""What planning read of a cluster besides the targets: kept in ``Plan.facts``, read by activities, canaries and signals."""

from __future__ import annotations

import fnmatch
from typing import Any

import msgspec

from chaos.model.plan import Plan
from fixtures.model.nodes.work import is_fence_key
from fixtures.text import typed

CANARY_LABEL = "gpu-conformance.io/canary"
"""On every pod that an experiment starts for itself; its value is the pod's role."""

GANG_LABEL = "gpu-conformance.io/gang"
"""Which gang a canary belongs to."""


CANARIES = "-canaries"
"""What the name of the namespace for an experiment's own workload ends with."""

OPT_OUT = {"k8saas.nvidia.com/ManagedByNVSentinel": "false"}
"""Label by which a node tells NVSentinel to leave it alone (docs/facts/device-health.md#nvsentinel)."""


class InstalledComponent(msgspec.Struct, frozen=True, kw_only=True):
    """One installed component: the workload that runs it. ``selector`` is a label selector of its pods.

    ``others`` run it on other nodes: clouds have a DaemonSet for each kind of node.
    """

    component: str
    key: str
    namespace: str
    name: str
    uid: str
    selector: str
    images: tuple[str, ...] = ()
    others: tuple[InstalledComponent, ...] = ()

    @property
    def workloads(self) -> tuple[InstalledComponent, ...]:
        """It and the others."""
        return (self, *self.others)

    def __str__(self) -> str:
        return f"{self.component} ({self.key.rpartition('/')[2]} {self.namespace}/{self.name})"


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
    product: dict[str, str] = {}
    image: str = ""
    injector_image: str = ""
    user: int = 1000
    tolerations: tuple[dict[str, Any], ...] = ()
    pull_secrets: tuple[str, ...] = ()
    priority_class: str = ""
    select: dict[str, Any] = {}

    @classmethod
    def of(cls, plan: Plan) -> PlanFacts:
        """The facts of a plan. Raises ``msgspec.ValidationError`` when the plan holds others."""
        return typed.convert(plan.facts, cls)

    def is_device(self, resource: str) -> bool:
        """Whether a resource name is a device by the policy."""
        return _any(resource, self.resources) and not _any(resource, self.no_devices)

    def is_fence(self, key: str) -> bool:
        """Whether a taint's key fences devices by the policy."""
        return is_fence_key(key, self.fences, self.is_device)


def canary_namespace(plan: Plan) -> str:
    """The namespace of the experiment's own workload: restricted, unlike the one of the injectors. Older versions named none."""
    return plan.workload or plan.namespace + CANARIES


def _any(name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)
