"""SHARE-01 and 02: how shared devices are advertised, and which tenants use them."""

from collections.abc import Iterator

from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.pod_state import why_not_running
from fixtures.model.demand.reserved_devices import GROUP, fraction_of, reserves, sharers, shares, unreserved
from fixtures.model.devices.counts import TIMES
from fixtures.model.devices.node_labels import sharing_inconsistencies, view_of
from fixtures.model.devices.scheduler_amounts import split_of
from fixtures.model.placement.shared_devices import SHARED_SUFFIX, Shared, held_share, mps_daemons, shared_resources
from fixtures.model.platform.agents import is_ready
from fixtures.text.globs import matches
from fixtures.verdict.findings import About, Finding, not_judged
from fixtures.verdict.subjects import NotApplicable, Subject

_STATUS = "node.status.allocatable"


def _part(item: Shared) -> Subject:
    return Subject("Node", f"{item.node.name} {item.resource}")


# -- SHARE-01 ----------------------------------------------------------------------------------------


def check_replicas(scope: Scope) -> Iterator[Finding]:
    """One finding per node and shared resource: allocatable == devices × replicas, and every label agrees with that."""
    shared = [item for node in scope.accelerator_nodes for item in shared_resources(scope, node)]
    if not shared:
        raise NotApplicable("NoSharing", "no node shares its devices")
    for item in shared:
        yield _replicas(scope, item)


def _replicas(scope: Scope, item: Shared) -> Finding:
    source = f"{_STATUS}, {item.source}"
    allocatable = scope.device_allocatable(item.node).get(item.resource, 0)
    if item.units is None:
        message = "no label counts its devices and their replicas (GPU Feature Discovery), so there is nothing to compare units with"
        return not_judged(_part(item), message=message, source=source)
    formula = f"{item.devices} {TIMES} {item.factor}"
    expected = f"{item.units} = {formula}, labels that agree"
    product = f", product {item.labels.product.text or 'not labelled'}" if item.labels else ""
    observed = f"{allocatable} allocatable, replicas {item.factor}, strategy {item.strategy or 'not labelled'}{product}"
    about = About(_part(item), source, expected, observed)
    if allocatable != item.units:
        message = f"it offers {allocatable} {item.resource} and {formula} is {item.units}: the labels describe another sharing"
        return about.bad(message, cause="SharingCountsDisagree")
    if contradiction := _contradiction(scope, item):
        message = f"{contradiction}: jobs that select by label get shared devices when they want exclusive ones, or the reverse"
        return about.bad(message, cause="SharingLabelsDisagree")
    return about.ok()


def _contradiction(scope: Scope, item: Shared) -> str:
    """How name, suffix and labels of a shared resource disagree; empty when they agree."""
    entry = item.labels
    if entry is None:
        return ""
    faults = [
        f"{fault.what.removeprefix('label ')} is {fault.observed!r}, expected {fault.expected} ({fault.source})"
        for fault in sharing_inconsistencies(view_of(scope, item.node))
        if fault.what.startswith(f"label {entry.resource}.")
    ]
    if faults:
        return faults[0]
    capacity = scope.device_capacity(item.node)
    renamed = item.resource.endswith(SHARED_SUFFIX)
    if entry.product.shared and renamed:
        return f"units are renamed to {item.resource} and the product still ends in -SHARED"
    if entry.factor > 1 and not renamed and entry.product.text and not entry.product.shared:
        return f"replicas is {entry.replicas}, units keep their name, and the product does not end in -SHARED"
    plain, other = entry.resource, f"{entry.resource}{SHARED_SUFFIX}"
    if capacity.get(plain) and capacity.get(other):
        return f"both {plain} and {other} are offered"
    return ""


# -- SHARE-02 ----------------------------------------------------------------------------------------


def check_isolated(scope: Scope) -> Iterator[Finding]:
    """One finding per shared resource of a node (replicas within the policy) and per device pod of an isolated tenant."""
    shared = {node.name: [*shared_resources(scope, node), *_split(node), *_reserved(scope, node)] for node in scope.accelerator_nodes}
    for items in shared.values():
        for item in items:
            yield _limit(scope, item)
    isolated = scope.policy.tenants.isolated
    parts = [pod for pod in scope.snapshot.pods if fraction_of(pod) and not pod.finished] if isolated else []
    known = {(pod.namespace, pod.name): pod for pod in (*scope.device_pods, *parts)} if isolated else {}
    for pod in known.values():
        if not matches(pod.namespace, isolated) or not pod.node_name:
            continue
        held = scope.devices_of(pod.spec)
        on_shared = [item for item in shared.get(pod.node_name, ()) if held.get(item.resource)]
        observed = f"{', '.join(f'{name} {count}' for name, count in sorted(held.items())) or 'claims'} on {pod.node_name}"
        expected, source = "no device that others can share (policy tenants.isolated)", "pod spec, node labels"
        about = About(subject(pod), source, expected, observed)
        if on_shared:
            item = on_shared[0]
            where = f"{item.resource} on {item.node.name}, where {item.factor or 'several'} pods get each device"
            message = f"the policy isolates {pod.namespace}, and the pod holds {where}: they share memory and faults with strangers"
            yield about.bad(message, cause="IsolatedTenantShares")
        elif part := shares(scope, pod):
            message = f"the policy isolates {pod.namespace}, and the pod {part}, with strangers: nothing keeps their memory apart"
            yield about.bad(message, cause="IsolatedTenantShares", observed=fraction_of(pod), source="annotations and labels of pods")
        elif why := unreserved(scope, pod):
            yield about.undecided(f"it asks for a part of a device ({fraction_of(pod)}), and {why}")
        elif share := held_share(scope, pod):
            message = f"the policy isolates {pod.namespace}, and a claim of the pod has a share of {share}, and strangers may have others"
            yield about.bad(message, cause="IsolatedTenantShares", source="ResourceClaim.status.allocation")
        else:
            yield about.ok()


def _split(node: Node) -> Iterator[Shared]:
    """What HAMi or Volcano split: their schedulers give parts of one device to several pods."""
    split = split_of(node)
    if split is not None and split.factor > 1:
        source, devices = f"annotation {split.key}", len(split.units)
        yield Shared(node=node, resource=split.resource, devices=devices, factor=split.factor, strategy="split", labels=None, source=source)


def _reserved(scope: Scope, node: Node) -> Iterator[Shared]:
    """Devices that KAI or Run:ai give parts of, as one: ``factor`` is the pods of the device that has the most."""
    pods = [len(sharers(scope, pod)) for pod in scope.snapshot.pods_by_node.get(node.name, ()) if reserves(scope, pod)]
    if pods:
        yield Shared(
            node=node, resource="gpu-fraction", devices=len(pods), factor=max(pods), strategy="", labels=None, source=f"label {GROUP}"
        )


def _limit(scope: Scope, item: Shared) -> Finding:
    limit = scope.policy.advertisement.max_replicas
    expected, source = f"at most {limit} (policy advertisement.maxReplicas)", item.source
    units = scope.device_capacity(item.node).get(item.resource, 0)
    factor = item.factor if item.factor is not None or not item.devices else units // item.devices
    about = About(_part(item), source, expected, f"{factor} replicas")
    if factor is None:
        return about.undecided("it is shared and nothing tells how often each device is given out")
    if factor > limit:
        message = f"each device is given to {factor} pods and the policy allows {limit}: each gets too little memory and time"
        return about.bad(message, cause="TooManyShares")
    return about.ok()


# -- SHARE-05 ----------------------------------------------------------------------------------------


def check_mps(scope: Scope) -> Iterator[Finding]:
    """One finding per node that shares devices by MPS: its control daemon is Ready there. Raises :class:`NotApplicable` without one."""
    shared = {item.node.name: item for node in scope.accelerator_nodes for item in shared_resources(scope, node) if item.strategy == "mps"}
    if not shared:
        raise NotApplicable("NoMps", "no node shares its devices by MPS")
    for item in shared.values():
        yield _mps(scope, item)


def _mps(scope: Scope, item: Shared) -> Finding:
    about = About(subject(item.node), f"{item.source}, pods on the node", "a Ready pod with the control daemon of MPS")
    daemons = mps_daemons(scope, item.node)
    if item.labels is None:
        return about.not_judged("its cloud starts MPS, and no pod shows it")
    if scope.why_not_judged(item.node):
        return about.not_judged(scope.why_not_judged(item.node))
    if not daemons:
        message = f"it offers {item.resource} by MPS and no pod there runs the control daemon: CUDA fails in each pod that gets a share"
        return about.bad(message, cause="MpsDaemonMissing", observed="no pod")
    if not any(map(is_ready, daemons)):
        message = f"{daemons[0].name} is not Ready: CUDA fails in each pod that gets a share, or waits for ever"
        return about.bad(message, cause="MpsDaemonMissing", observed=why_not_running(daemons[0]))
    return about.ok(daemons[0].name)
