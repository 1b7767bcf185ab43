"""Accelerators of the cluster that no requirement judged, and kinds that every cluster has and a snapshot lacks.

An accelerator is known here by the device resource that a node offers, or by the driver that publishes it for claims. It was judged
when a requirement about devices has a yes or a no of a node that offers it. One that the policy does not list was never judged.
"""

from collections.abc import Iterable, Iterator

from conformance.catalogue import Catalogue
from fixtures.model.cluster import Scope
from fixtures.model.demand.amounts import is_unlisted_accelerator, whole
from fixtures.model.devices.names import beside_devices, of_amount, of_gpus
from fixtures.model.devices.offers import other_devices
from fixtures.model.dra.slices import SLICES, DriverKind
from fixtures.text.globs import matches
from fixtures.text.sentences import in_order, listed, natural
from fixtures.verdict.record import Access, Cause, Coverage, Level, Result, Verdict

_OTHER_NAMES = (
    # schedulers that share devices and put names and amounts of their own on the nodes of another plugin
    "koordinator.sh/*",
    "volcano.sh/*",
    "tencent.com/vcuda*",
    "*.tencent.com/qgpu*",
    "aliyun.com/gpu*",
    "run.ai/*",
    "k8s.amazonaws.com/vgpu",
    # plugins that pass any file of the host, named by the owner
    "smarter-devices/*",
    "squat.ai/*",
    "devic.es/*",
    # cards for networks, storage and video beside GPUs
    "xilinx.com/fpga*",
    "fpga.intel.com/*",
)

DEVICE_AREAS = ("ADV", "MIG", "SHARE", "ISO", "DRA")
"""Areas that judge the devices that nodes offer."""

COMMON = ("nodes", "pods", "namespaces", "apps/daemonsets", "configmaps")
"""Kinds of which every cluster with accelerators has objects: a snapshot without one was not taken whole."""


def is_whole(coverage: Coverage) -> bool:
    """Whether the run was about the whole cluster: no option left a MUST out."""
    return not any(one.cause in (Cause.SELECTION, Cause.NODES) and one.level is Level.MUST for one in coverage.not_judged)


def accelerators(scope: Scope, results: Iterable[Result]) -> Iterator[str]:
    """Sentences about accelerators that no requirement judged, or one that the cluster has none."""
    nodes = scope.snapshot.listing("nodes")
    if not nodes.known:
        return
    unlisted = _by_unlisted_resource(scope)
    if not scope.accelerator_nodes and not unlisted:
        expected = scope.policy.accelerators.expected_count == 0
        why = "as the policy expects (accelerators.expectedCount: 0)" if expected else "by any source"
        yield f"no node has an accelerator, {why}: what was judged says nothing about accelerators"
        return
    bare = [node.name for node in scope.accelerator_nodes if not any(scope.device_capacity(node).values())]
    if bare and scope.snapshot.lacks(SLICES):
        offer = "offer" if len(bare) > 1 else "offers"
        unread = f"the snapshot holds no {SLICES}: whether devices are offered by claim was not read"
        yield f"{listed(in_order(bare))} {offer} no device as a resource, and {unread}"
    devices = _judged(results, DEVICE_AREAS)
    for offer, names in (*sorted(_by_resource(scope).items()), *sorted(_by_driver(scope).items())):
        if devices is not None and not devices.intersection(names.values()):
            yield f"no requirement judged {offer}, which {listed(in_order(names))} offers"
    for offer, names in sorted(unlisted.items()):
        # no requirement reads an unlisted resource: a judged node says nothing of it, unless it is another name of judged devices
        if not may_name_others(scope, offer) or (devices is not None and not devices.intersection(names.values())):
            lacks = "(accelerators.resources of the policy lacks it)"
            yield f"no requirement judged {offer}, which {listed(in_order(names))} offers {lacks}"
    for resource, places in sorted(_lost(scope).items()):
        yield f"no requirement judged {resource}, which is 0 on {listed(places)} (accelerators.resources of the policy lacks it)"
    for driver, pool in scope.slices.of_no_node():
        yield f"no requirement judged the devices of {driver} in pool {pool}, which are no single node's"


def may_name_others(scope: Scope, resource: str) -> bool:
    """Whether an unlisted resource may be another name or an amount of the devices beside it, or no accelerator.

    Amounts are those of GPUs, or of a vendor of whom the policy lists a device: cores of an NPU say nothing of the GPUs beside it.
    Facts: docs/facts/scheduler-amounts.md#amounts.
    """
    if matches(resource, _OTHER_NAMES) or beside_devices(resource):
        return True
    vendors = {glob.partition("/")[0] for glob in scope.policy.accelerators.resources}
    return of_amount(resource) and (of_gpus(resource) or resource.partition("/")[0] in vendors)


def unknown_resources(scope: Scope) -> Iterator[str]:
    """Notes about extended resources and DRA drivers that the policy does not know: accelerators may be among them."""
    nodes = scope.snapshot.listing("nodes")
    if not nodes.known:
        return
    policy = scope.policy.accelerators
    known = (*policy.no_devices, *policy.vm_resources)
    offered = {name for node in scope.snapshot.nodes for name, amount in node.status.capacity.items() if "/" in name and whole(amount) > 0}
    strange = sorted(name for name in offered if not (scope.is_device(name) or scope.is_rdma(name) or matches(name, known)))
    if strange:
        yield f"nodes offer {listed(strange)}, which the policy calls neither a device nor a network (accelerators.resources)"
    drivers = sorted({entry.driver for entry in scope.slices.every if entry.devices and scope.kind_of(entry.driver) is DriverKind.UNKNOWN})
    if drivers:
        yield f"nothing tells whether the devices of {listed(drivers)} in ResourceSlices are accelerators (accelerators.drivers)"


Offers = dict[str, dict[str, str]]
"""Nodes of each offer, with the subject of which a requirement must have a yes or a no."""


def _by_resource(scope: Scope) -> Offers:
    """Device resources with the accelerator nodes that offer at least one."""
    found: Offers = {}
    for node in scope.accelerator_nodes:
        for resource, count in scope.device_capacity(node).items():
            if count > 0:
                found.setdefault(resource, {})[node.name] = node.name
    return found


def _by_driver(scope: Scope) -> Offers:
    """Devices that only claims reach, by driver, with the accelerator nodes that offer them. Beside a plugin's they count by themselves."""
    found: Offers = {}
    for node in scope.accelerator_nodes:
        plugin = [name for name, count in scope.device_capacity(node).items() if count]
        for item in scope.dra_inventory.get(node.name, ()):
            if all(other_devices(item.driver, resource) for resource in plugin):
                judged = f"{node.name} {item.driver}" if plugin else node.name
                found.setdefault(f"the devices of {item.driver}", {})[node.name] = judged
    return found


def _by_unlisted_resource(scope: Scope) -> Offers:
    """Resources of accelerators that the policy does not name, with the nodes that offer at least one."""
    found: Offers = {}
    for node in scope.snapshot.nodes:
        for name, amount in node.status.capacity.items():
            if whole(amount) > 0 and is_unlisted_accelerator(scope, name):
                found.setdefault(name, {})[node.name] = node.name
    return found


def _lost(scope: Scope) -> dict[str, list[str]]:
    """Resources of accelerators that the policy does not name and that fell to 0, with the nodes that offer no accelerator at all.

    The kubelet keeps the resource of a plugin that went.
    """
    found: dict[str, list[str]] = {}
    for node in sorted(scope.snapshot.nodes, key=lambda node: natural(node.name)):
        amounts = {name: whole(amount) for name, amount in node.status.capacity.items()}
        unlisted = [name for name in sorted(amounts) if is_unlisted_accelerator(scope, name)]
        offers = any(scope.device_capacity(node).values()) or node.name in scope.dra_inventory or any(amounts[name] for name in unlisted)
        for name in () if offers else (name for name in unlisted if not may_name_others(scope, name)):
            found.setdefault(name, []).append(node.name)
    return found


def _judged(results: Iterable[Result], areas: Iterable[str]) -> set[str] | None:
    """Nodes, and parts of nodes, of which a requirement of ``areas`` says yes or no; None where a result does not keep all its subjects."""
    wanted, found = tuple(areas), set()
    for result in results:
        if result.area not in wanted:
            continue
        if result.subjects_omitted:
            return None
        for subject in result.subjects:
            if subject.kind == "Node" and subject.verdict in (Verdict.PASSED, Verdict.FAILED, Verdict.WARNED, Verdict.WAIVED):
                found |= {subject.name, subject.name.partition(" ")[0]}
    return found


def probes(scope: Scope, coverage: Coverage, catalogue: Catalogue, ceiling: Access, results: Iterable[Result] = ()) -> Iterator[str]:
    """A sentence when pods that hold a device judged nothing although the run could create them and the cluster has accelerators."""
    if ceiling.rank < Access.WORKLOAD.rank or scope.snapshot.offline or not scope.accelerator_nodes:
        return
    missing = {one.id: one for one in coverage.not_judged}
    asked = [one for one in catalogue.by_id.values() if one.access is Access.WORKLOAD and one.level is Level.MUST and one.area in _PROBED]
    if not asked or any(one.id not in missing or missing[one.id].cause is Cause.UNSUPPORTED for one in asked):
        return
    if any(result.judged for result in results if result.id in {one.id for one in asked}):
        return  # some nodes were judged; what was undecided about the others is each requirement's own
    reasons = dict.fromkeys(missing[one.id].because for one in asked)
    yield f"no pod that holds a device could be judged: {'; '.join(list(reasons)[:3])}"


_PROBED = ("ISO", "PSA")
"""Areas whose probes need any device, not a certain kind of device or network."""


def snapshot_gaps(scope: Scope, coverage: Coverage, catalogue: Catalogue) -> Iterator[str]:
    """A sentence when a saved snapshot lacks kinds that every cluster has, and requirements that were asked for need them."""
    if not scope.snapshot.offline:
        return
    lacking = [key for key in COMMON if not scope.snapshot.listing(key).collected]
    asked = [catalogue.by_id[one.id] for one in coverage.not_judged if one.cause is Cause.NOT_IN_SNAPSHOT]
    needing = [one.id for one in asked if one.level is Level.MUST and {*one.reads, *one.optional_reads} & set(lacking)]
    if needing:
        yield f"the snapshot holds no {', '.join(lacking)}, which every cluster has: {listed(needing)} could not be judged"
