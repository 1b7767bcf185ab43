"""The scope of a run: the nodes, pods and namespaces that requirements judge, by snapshot and policy.

Sources of "this node has an accelerator" are independent and kept apart (INV-01): labels of agents,
capacity keys, ResourceSlices and the policy's own list.
"""

from __future__ import annotations

import contextlib
import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec.structs import replace

from conformance.policy.marks import Shown
from conformance.policy.model import Policy
from conformance.scope import platform_namespaces as platform
from conformance.scope.components import PlatformWorkloads
from conformance.scope.platform_namespaces import Operator, PlatformNamespaces
from fixtures.cluster.kinds import KINDS, WORKLOAD_KEYS
from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import (
    ConfigMap,
    Container,
    DaemonSet,
    Json,
    Namespace,
    Node,
    Pod,
    PodSpec,
    ResourceQuota,
    Taint,
    Toleration,
)
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.demand.pod_amounts import Amount, of_pod, units, written
from fixtures.model.demand.pod_events import PodEvents
from fixtures.model.demand.spec_walk import walk
from fixtures.model.dra.claims import Claims, DeviceDemand
from fixtures.model.dra.drivers import DriverKind
from fixtures.model.dra.inventory import DriverInventory, Slices
from fixtures.model.dra.kinds import SLICES, TAINT_RULES
from fixtures.model.nodes.marks import ServedMachines, marks_of, may_be_of_cpu
from fixtures.model.nodes.work import is_fence_key, stopped
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.snapshot.state import Snapshot
from fixtures.text import typed
from fixtures.text.sentences import natural
from fixtures.verdict.findings import Subject

T = TypeVar("T")
Obj = TypeVar("Obj", Node, Pod)


@lru_cache(maxsize=256)
def _pattern(globs: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(glob) for glob in globs) if globs else r"(?!)")


@lru_cache(maxsize=8192)  # namespaces, resources and keys of labels: a few names, asked for every pod and node
def _matches(name: str, globs: tuple[str, ...]) -> bool:
    return _pattern(globs).match(name) is not None


def matches(name: str, globs: Iterable[str]) -> bool:
    """Whether a name matches any of the shell patterns."""
    return _matches(name, tuple(globs))


def whole(value: str | int | float | None) -> int:
    """A device quantity as a whole number; what is no whole number counts as 0 (REQ-01/02 judge that)."""
    if value is None:
        return 0
    try:
        return quantity.as_int(value)
    except quantity.QuantityError:
        return 0


def requested_amounts(container: Container, wanted: Callable[[str], bool]) -> dict[str, tuple[Amount | None, Amount | None]]:
    """``{resource: (request, limit)}`` of the resources that ``wanted`` chooses, as written; None where it is not."""
    requests, limits = container.resources.requests or {}, container.resources.limits or {}
    chosen = [name for name in {*requests, *limits} if wanted(name)]
    return {name: (requests.get(name), limits.get(name)) for name in sorted(chosen)}


def held_by(spec: PodSpec, wanted: Callable[[str], bool]) -> dict[str, int]:
    """What the scheduler counts for a pod: containers and sidecars together, or the peak while an init container runs."""
    return of_pod(spec, lambda container: {name: units(amount) for name, amount in _written(container).items() if wanted(name)})


def _written(container: Container) -> dict[str, Amount]:
    return written(container.resources.requests, container.resources.limits)


def host_access(spec: PodSpec) -> str:
    """What of its node a pod reaches, in a word: baseline forbids each. Empty for a pod that stays in its containers."""
    for field, given in (("hostNetwork", spec.host_network), ("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc)):
        if given:
            return field
    if any(isinstance(volume.get("hostPath"), dict) for volume in spec.volumes or ()):
        return "hostPath volumes"
    privileged = any((container.security_context or {}).get("privileged") is True for container in spec.every_container())
    return "a privileged container" if privileged else ""


class Scope:
    """Questions about a snapshot that several requirements ask. Computed once, on first use."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self._devices: dict[str, bool] = {}
        self._answers: dict[Callable[[Scope], Any], Any] = {}
        self._of_objects: dict[Callable[[Scope, Any], Any], dict[int, tuple[Any, Any]]] = {}  # by identity of objects, kept for that

    def cached(self, question: Callable[[Scope], T]) -> T:
        """The answer to a question about this scope, a function, which is asked the first time only."""
        if question not in self._answers:
            self._answers[question] = question(self)
        return cast(T, self._answers[question])

    def cached_for(self, obj: Obj, question: Callable[[Scope, Obj], T]) -> T:
        """The answer to a question about a node or a pod of the snapshot, a function, which is asked the first time only."""
        known = self._of_objects.setdefault(question, {})
        if id(obj) not in known:
            known[id(obj)] = (obj, question(self, obj))
        return cast(T, known[id(obj)][1])

    # -- resources -------------------------------------------------------------------------------------

    def is_device(self, resource: str) -> bool:
        """Whether a resource name is a device by the policy."""
        known = self._devices.get(resource)
        if known is None:
            policy = self.policy.accelerators
            known = self._devices[resource] = matches(resource, policy.resources) and not matches(resource, policy.no_devices)
        return known

    def names_device(self, resource: str) -> bool:
        """Whether a resource name is a device's: by the policy, or by the DeviceClass that serves it."""
        return self.is_device(resource) or self.claims.by_resource(resource).devices

    def is_accelerator_driver(self, driver: str) -> bool:
        """Whether a DRA driver's devices are accelerators by the policy."""
        return matches(driver, self.policy.accelerators.drivers)

    def is_rdma(self, resource: str) -> bool:
        """Whether a resource name is an RDMA resource by the policy."""
        return matches(resource, self.policy.network.resources)

    def devices_of(self, spec: PodSpec) -> dict[str, int]:
        """Devices a pod holds, as the scheduler counts them (:func:`held_by`)."""
        return held_by(spec, self.is_device)

    def device_demand(self, spec: PodSpec, namespace: str, made: Iterable[Json] | None = None) -> DeviceDemand:
        """Whether a pod asks for a device, by resource or by claim. A request of 0 asks for none, whatever it looks like.

        ``made`` are the ``resourceClaimStatuses`` of a live pod: which claims were made of its templates.
        """
        asked_for: set[str] = set()
        for container in spec.every_container():
            for name, value in _written(container).items():
                if ("/" in name or self.is_device(name)) and units(value):
                    asked_for.add(name)
        if any(map(self.is_device, asked_for)):
            return DeviceDemand(True)
        answers = [self.claims.by_resource(name) for name in sorted(asked_for)]
        if spec.resource_claims:
            answers.append(self.claims.demand(spec.resource_claims, namespace, made or ()))
        return DeviceDemand(any(one.devices for one in answers), next((one.unknown for one in answers if one.unknown), ""))

    def device_demand_of(self, pod: Pod) -> DeviceDemand:
        """Whether a live pod of the snapshot asks for a device."""
        return self.cached_for(pod, _device_demand)

    def held_demand_of(self, pod: Pod) -> DeviceDemand:
        """Whether a live pod asks for a device that it holds. Admin access holds none (docs/facts/dra.md#admin-access)."""
        return self.cached_for(pod, _held_demand)

    def extended_amounts(self, pod: Pod) -> Mapping[str, int]:
        """Extended resources that a live pod of the snapshot holds, devices and RDMA alike, as the scheduler counts them."""
        return self.cached_for(pod, _extended_amounts)

    # -- dynamic resource allocation -------------------------------------------------------------------

    @cached_property
    def slices(self) -> Slices:
        """All ResourceSlices, with DeviceTaintRules."""
        return Slices(self.snapshot.listing(SLICES).objects, self.snapshot.listing(TAINT_RULES).objects, self.is_accelerator_driver)

    def kind_of(self, driver: str) -> DriverKind:
        """What a DRA driver serves."""
        return self.slices.kind_of(driver)

    @cached_property
    def claims(self) -> Claims:
        """Claims, followed to the drivers behind them."""
        return Claims(self.snapshot, self.slices)

    @cached_property
    def dra_drivers(self) -> dict[str, list[DriverInventory]]:
        """What DRA drivers of accelerators publish, by node, nothing included. Empty where ResourceSlices were not read."""
        return self.slices.by_node()

    @cached_property
    def dra_inventory(self) -> dict[str, list[DriverInventory]]:
        """The same without drivers that publish no device."""
        return {name: found for name, every in self.dra_drivers.items() if (found := [item for item in every if item.devices])}

    # -- nodes -----------------------------------------------------------------------------------------

    @cached_property
    def sources(self) -> dict[str, dict[str, bool]]:
        """Per node: each source that could name it, and whether it does (``{node: {source: yes}}``).

        A node that :attr:`marks` alone name is there too, with no source that does.
        """
        labels = [text.partition("=") for text in self.policy.accelerators.node_labels]
        expected = set(self.policy.accelerators.expected_nodes)
        table: dict[str, dict[str, bool]] = {}
        for node in self.snapshot.nodes:
            row = {f"label {key}": node.metadata.label.get(key) == value for key, _, value in labels}
            row["capacity"] = any(self.is_device(name) and whole(value) > 0 for name, value in node.status.capacity.items())
            if self.dra_drivers:
                row["ResourceSlice"] = node.name in self.dra_inventory
                if node.name in self.dra_drivers and not row["ResourceSlice"]:
                    row["DRA driver"] = True  # it publishes for the node, and nothing
            if expected:
                row["policy"] = node.name in expected
            if any(row.values()) or node.name in self.marks:
                table[node.name] = row
        for name in expected - table.keys():
            table[name] = {"policy": True}
        return table

    @cached_property
    def marks(self) -> dict[str, tuple[str, ...]]:
        """Marks of nodes whose capacity offers no device (:mod:`fixtures.model.nodes.marks`): no source of their own, but they stay."""
        return {name: texts for name, texts in self._marks.items() if not self._only_graphics(name, texts)}

    @cached_property
    def unclear_graphics(self) -> dict[str, tuple[str, ...]]:
        """Nodes that count as no accelerator nodes, and their labels for graphics: those of a card, or of the CPU."""
        return {name: texts for name, texts in self._marks.items() if name not in self.sources and self._only_graphics(name, texts)}

    def _only_graphics(self, name: str, marks: tuple[str, ...]) -> bool:
        if not all(may_be_of_cpu(mark, ()) for mark in marks):
            return False
        served = self._served_machines.makers(self.snapshot.node_by_name[name])
        return all(may_be_of_cpu(mark, served) for mark in marks)

    @cached_property
    def _marks(self) -> dict[str, tuple[str, ...]]:
        globs = self.policy.accelerators.marks
        bare = [node for node in self.snapshot.nodes if not any(self.device_capacity(node).values())]
        found = {node.name: marks_of(node, self.is_device, lambda text: matches(text, globs)) for node in bare}
        return {name: texts for name, texts in found.items() if texts}

    @cached_property
    def _served_machines(self) -> ServedMachines:
        drivers = {name: [item.driver for item in found] for name, found in self.dra_drivers.items()}
        return ServedMachines(self.snapshot.nodes, drivers)

    @cached_property
    def accelerator_nodes(self) -> list[Node]:
        """Nodes that any source or mark calls an accelerator node, in order of name."""
        return [node for node in sorted(self.snapshot.nodes, key=lambda n: natural(n.name)) if node.name in self.sources]

    @cached_property
    def usable_nodes(self) -> list[Node]:
        """Accelerator nodes that are Ready and not cordoned."""
        return [node for node in self.accelerator_nodes if self.why_not_judged(node) == ""]

    def why_not_judged(self, node: Node) -> str:
        """Why an accelerator node cannot be judged by probes (virtual, cordoned, NotReady, being deleted), or empty."""
        return self.virtual(node) or str(stopped(node) or "")

    def virtual(self, node: Node) -> str:
        """By which label a node is no machine, in words, or empty: its pods run in another cluster or service.

        Facts: docs/facts/nodes.md#virtual-nodes.
        """
        return self.cached_for(node, _virtual)

    def device_capacity(self, node: Node) -> Mapping[str, int]:
        """Device resources with their capacity, zero entries included."""
        return self.cached_for(node, _device_capacity)

    def device_allocatable(self, node: Node) -> Mapping[str, int]:
        """Device resources with their allocatable, zero entries included."""
        return self.cached_for(node, _device_allocatable)

    @cached_property
    def capacity_names(self) -> frozenset[str]:
        """Resources of which some node has capacity, whatever they are."""
        return frozenset(name for node in self.snapshot.nodes for name, value in node.status.capacity.items() if whole(value))

    @cached_property
    def allocatable_names(self) -> frozenset[str]:
        """Resources of which some node can allocate units, whatever they are."""
        return frozenset(name for node in self.snapshot.nodes for name, value in node.status.allocatable.items() if whole(value))

    def vm_devices(self, node: Node) -> str:
        """Resources by which a node offers its devices to virtual machines (``nvidia.com/GA102GL_A10 2``), or empty."""
        globs, capacity = self.policy.accelerators.vm_resources, node.status.capacity
        return ", ".join(f"{name} {value}" for name, value in sorted(capacity.items()) if matches(name, globs) and whole(value) > 0)

    @cached_property
    def held(self) -> dict[str, dict[str, int]]:
        """Extended resources held by bound pods: ``{node: {resource: units}}``, devices and RDMA alike."""
        table: dict[str, dict[str, int]] = {}
        for node_name, pods in self.snapshot.pods_by_node.items():
            row: dict[str, int] = {}
            for pod in pods:
                for name, count in self.extended_amounts(pod).items():
                    row[name] = row.get(name, 0) + count
            table[node_name] = row
        return table

    def free(self, node: Node, resource: str) -> int:
        """Units of a resource on a node that no bound pod holds, at the time of the snapshot."""
        return whole(node.status.allocatable.get(resource)) - self.held.get(node.name, {}).get(resource, 0)

    def fence_taints(self, node: Node) -> list[Taint]:
        """Taints of a node whose key is an allowed fence key, whatever their effect."""
        return [taint for taint in node.spec.taints if self.is_fence_key(taint.key)]

    def is_fence_key(self, key: str) -> bool:
        """Whether a taint's key fences accelerators: the policy's, or a device resource's name, which an admission plugin tolerates.

        Facts: docs/facts/admission.md#tolerations-of-extended-resources.
        """
        return is_fence_key(key, self.policy.fence.taint_keys, self.names_device)

    @cached_property
    def unfenced_box(self) -> str:
        """Why the cluster needs no fence, as a sentence; empty where it needs one."""
        if self.policy.fence.single_node or len(self.snapshot.nodes) != 1:
            return ""
        return "the cluster is this one node, where everything has to run (policy fence.singleNode)"

    def tolerations_for(self, node: Node) -> list[Toleration]:
        """Tolerations of exactly the fence taints of a node, for probe pods."""
        return [Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect) for taint in self.fence_taints(node)]

    # -- namespaces and pods ---------------------------------------------------------------------------

    def is_tenant(self, namespace: str) -> bool:
        """Whether a namespace is a tenant's."""
        return matches(namespace, self.policy.tenants.namespaces) and not self.is_infrastructure(namespace)

    def is_infrastructure(self, namespace: str) -> bool:
        """Whether no rule for tenants holds in a namespace: it is the platform's, or has a free default name and harmless pods alone."""
        return bool(self.platform.why(namespace)) or (self.platform.is_free(namespace) and namespace not in self._used_as_tenants)

    @cached_property
    def platform(self) -> PlatformNamespaces:
        """The platform's namespaces, and what proves them."""
        runs = platform.namespaces_of_runs(self.snapshot.listing(PRIORITY_CLASSES).objects, self.snapshot.listing("namespaces").items)
        served = bool(self.snapshot.listing(platform.CLUSTER_VERSIONS).items) or platform.CLUSTER_VERSIONS in self.snapshot.versions
        nodes = any(platform.OPENSHIFT_NODE in node.metadata.label for node in self.snapshot.listing("nodes").items)
        return PlatformNamespaces(
            self.policy.tenants,
            {**platform.proven_by_operators(self._operators), **runs},
            openshift=served or nodes,
            shown=Shown.by(self.snapshot),
            operators=self._operators,
            daemonsets=((item.namespace, item.name) for item in self.snapshot.listing("apps/daemonsets").items),
            since={
                item.name: item.metadata.creation_timestamp or ""
                for item in self.snapshot.listing("namespaces").items
                if item.name in self._namespaces_in_use
            },
        )

    @cached_property
    def _namespaces_in_use(self) -> frozenset[str]:
        return frozenset(pod.namespace for pod in self.snapshot.listing("pods").items if not pod.finished)

    @cached_property
    def _used_as_tenants(self) -> frozenset[str]:
        """Namespaces of free default names with pods or templates that ask for devices, reach their host or are on accelerator nodes."""
        accelerators = {node.name for node in self.accelerator_nodes} if self.snapshot.served("nodes") else set()
        pods = (pod for pod in self.snapshot.listing("pods").items if not pod.finished and self.platform.is_free(pod.namespace))
        wide = {
            pod.namespace
            for pod in pods
            if pod.spec.node_name in accelerators or self.device_demand_of(pod).devices or host_access(pod.spec)
        }
        planned = {space for space, spec in self._free_templates() if host_access(spec) or self.device_demand(spec, space).devices}
        return frozenset(wide | planned)

    def _free_templates(self) -> Iterator[tuple[str, PodSpec]]:
        """Namespace and pod spec of what workloads in namespaces of free default names are made of."""
        for daemonset in self.snapshot.listing("apps/daemonsets").items:
            if self.platform.is_free(daemonset.namespace):
                yield daemonset.namespace, daemonset.spec.template.spec
        for item in (item for key in WORKLOAD_KEYS for item in self.snapshot.listing(key).objects):
            namespace = text_of(mapping(item.get("metadata")).get("namespace"))
            for spot in walk("spec", item.get("spec")) if self.platform.is_free(namespace) else ():
                if isinstance(spot.value.get("containers"), list):
                    with contextlib.suppress(msgspec.ValidationError):  # no pod can be made of it
                        yield namespace, typed.convert(spot.value, PodSpec, strict=False)

    @cached_property
    def platform_workloads(self) -> PlatformWorkloads:
        """What tells the platform's workloads from those that look like them."""
        return PlatformWorkloads(self.platform, self._operators)

    @cached_property
    def _operators(self) -> list[Operator]:
        return platform.operators_of((KINDS[key].kind, item) for key in platform.OPERATORS for item in self.snapshot.listing(key).objects)

    @cached_property
    def pod_events(self) -> PodEvents:
        """Warnings about pods; none where events were not read."""
        return PodEvents(self.snapshot)

    @cached_property
    def device_pods(self) -> list[Pod]:
        """Pods that ask for a device and are not finished, infrastructure ones included, and those that only watch devices of others."""
        return [pod for pod in self.snapshot.pods if not pod.finished and self.device_demand_of(pod).devices]

    @cached_property
    def holding_pods(self) -> list[Pod]:
        """Device pods without those that surely only watch devices of others: what keeps devices from others, or will."""
        return [pod for pod in self.device_pods if (held := self.held_demand_of(pod)).devices or held.unknown]

    @cached_property
    def tenant_device_pods(self) -> list[Pod]:
        """Pods in tenant namespaces that surely hold devices, or will."""
        return [pod for pod in self.holding_pods if self.is_tenant(pod.namespace) and self.held_demand_of(pod).devices]


def _virtual(scope: Scope, node: Node) -> str:
    globs = scope.policy.accelerators.virtual_nodes
    found = next((text for text in map("=".join, sorted(node.metadata.label.items())) if matches(text, globs)), "")
    return f"virtual node ({found})" if found else ""


def _device_demand(scope: Scope, pod: Pod) -> DeviceDemand:
    return scope.device_demand(pod.spec, pod.namespace, pod.status.resource_claim_statuses)


def _held_demand(scope: Scope, pod: Pod) -> DeviceDemand:
    entries, made = pod.spec.resource_claims or (), pod.status.resource_claim_statuses or ()
    held = [entry for entry in entries if not scope.claims.admin_access(entry, pod.namespace, made).only]
    if len(held) == len(entries):
        return scope.device_demand_of(pod)
    return scope.device_demand(replace(pod.spec, resource_claims=held), pod.namespace, made)


def _extended_amounts(scope: Scope, pod: Pod) -> dict[str, int]:
    return held_by(pod.spec, lambda name: "/" in name or scope.is_device(name))


def _device_capacity(scope: Scope, node: Node) -> dict[str, int]:
    return {name: whole(value) for name, value in node.status.capacity.items() if scope.is_device(name)}


def _device_allocatable(scope: Scope, node: Node) -> dict[str, int]:
    return {name: whole(value) for name, value in node.status.allocatable.items() if scope.is_device(name)}


def subject(obj: Node | Pod | Namespace | ConfigMap | DaemonSet | ResourceQuota, kind: str = "") -> Subject:
    """The subject of a finding for an object: ``Node gpu-0``, ``Pod team-a/train-0``."""
    meta = obj.metadata
    return Subject(kind or type(obj).__name__, meta.name, meta.namespace)
