"""ADV-01, 02, 03 and 05: nodes advertise their devices, all healthy, in the right number, and through one route."""

from collections.abc import Iterator, Mapping

from fixtures.kubernetes.models import Node, Pod
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.counts import GPU_COUNT, PhysicalCount, Term, physical_counts, terms_of
from fixtures.model.devices.names import shared_pools
from fixtures.model.devices.node_labels import expectations, view_of
from fixtures.model.devices.offers import same_devices, unlisted_offers, why_none_offered
from fixtures.model.devices.scheduler_amounts import split_of
from fixtures.model.devices.shares import DeviceHealth, health_by_kubelet
from fixtures.model.dra.inventory import DriverInventory, InventoryDevice, TaintRule
from fixtures.model.dra.slices import CLASSES, IN_USE, SHAPE_FOR_MACHINES, SLICES, TAINT_RULES
from fixtures.model.nodes.work import limit_of
from fixtures.model.platform.kubelet_plugins import faults_of_devices, why_none_allocatable
from fixtures.text.sentences import in_order, listed, so_far
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, bad, not_judged, ok
from fixtures.verdict.subjects import NotApplicable, Subject


def _driver_part(node: Node, driver: str) -> Subject:
    return Subject("Node", f"{node.name} {driver}")


def check_published(scope: Scope, node: Node, item: DriverInventory, *, plugin: bool) -> Finding:
    """ADV-01: the pools hold a device, and a DeviceClass gives access to it. ``plugin``: the node has a device plugin too."""
    subject, expected = _driver_part(node, item.driver), "devices, selected by a DeviceClass"
    observed = f"{len(item.devices)} devices published"
    about = About(subject, SLICES, expected)
    if item.incomplete:
        return about.not_judged(f"{listed(item.incomplete)}: DRA-02 judges pools")
    if not item.devices:
        message = f"its DRA driver {item.driver} publishes no device for it, so no pod that claims one can run here"
        return about.bad(message, cause="DevicesNotOffered", observed=observed)
    if why := scope.claims.unread(CLASSES):
        return about.undecided(f"{observed}; whether a DeviceClass gives access to them is not known: {why}", source=CLASSES)
    chosen: list[str] = []
    reached: set[str] = set()
    for name, known in sorted(scope.claims.classes.items()):
        devices = {device.physical for device in item.devices if known.selector.chooses(item.driver, device.body) is not False}
        chosen += [name] if devices else []
        reached |= devices
    if not chosen and plugin:
        return about.not_judged("no DeviceClass selects its devices; pods get devices from the node's device plugin", source=CLASSES)
    lost = {
        device.physical: device.id[2]
        for device in item.devices
        if device.physical not in reached and device.body.type != SHAPE_FOR_MACHINES
    }
    if lost or not chosen:
        what = (
            f"no DeviceClass chooses {listed(in_order(lost.values()))}" if chosen else f"no DeviceClass selects a device of {item.driver}"
        )
        message = f"{what}, so no claim can get {'them' if len(lost) > 1 else 'one'}"
        return about.bad(
            message,
            cause="NoClassForDevices",
            observed=f"{observed}, {len(lost)} selected by no DeviceClass",
            source=f"{SLICES}, {CLASSES}",
        )
    return about.ok(f"{observed}, chosen by {listed(chosen)}", source=f"{SLICES}, {CLASSES}")


def check_untainted(scope: Scope, node: Node, item: DriverInventory) -> Finding:
    """ADV-02: no device is kept from claims by a taint.

    Somebody takes some devices out of service by a DeviceTaintRule, as nodes by a cordon: for so long as the policy lets nodes be held,
    that is a change under way. A rule that names neither pool nor device takes them all, and is no repair. What the driver itself says
    of a device is a fault from its first second.
    """
    subject, total = _driver_part(node, item.driver), len(item.devices)
    if not total or item.incomplete:
        return not_judged(subject, message="its pools are incomplete or empty (ADV-01)", source=SLICES)
    in_use = [device for device in item.devices if _is_in_use(device)]
    tainted = [f"{device.id[2]} {device.taint}" for device in item.devices if device.taint and device not in in_use]
    shapes = f", {len(in_use)} of them shapes that nobody can have beside those in use" if in_use else ""
    observed, expected = f"{total - len(tainted)} allocatable{shapes}", f"{total} (published)"
    about = About(subject, SLICES, expected, observed)
    if tainted and (names := _taken_out(scope, item, limit_of(scope))):
        age = max(scope.snapshot.taken_at - (rule.since or 0.0) for rule in names)
        rules = listed(in_order({f"DeviceTaintRule {rule.name}" for rule in names}))
        message = f"{len(tainted)} of {total} devices of {item.driver} are out of service by {rules} {so_far(age, limit_of(scope))}"
        return about.undecided(message, cause="HeldByItsOwner", source=TAINT_RULES)
    if tainted:
        message = (
            f"{len(tainted)} of {total} devices of {item.driver} are tainted or unhealthy ({listed(tainted)}): no claim should get them"
        )
        return about.bad(message, cause="DeviceUnhealthy")
    return about.ok()


def _taken_out(scope: Scope, item: DriverInventory, limit: float) -> list[TaintRule]:
    """The rules that taint devices, where nothing else does and each is young and names some; otherwise none."""
    if any(device.body.tainted for device in item.devices if not _is_in_use(device)):
        return []
    rules = [rule for rule in scope.slices.rules if any(rule.covers(device.id) for device in item.devices if not _is_in_use(device))]
    young = [rule for rule in rules if rule.names_some and rule.since is not None and scope.snapshot.taken_at - rule.since <= limit]
    return young if len(young) == len(rules) else []


def _is_in_use(device: InventoryDevice) -> bool:
    return device.taint.partition(":")[0].partition("=")[0] in IN_USE


CAPACITY = "node.status.capacity"
_CHANGING = ("pending", "rebooting")


def amounts(resources: Mapping[str, int]) -> str:
    """``nvidia.com/gpu 8, nvidia.com/mig-1g.5gb 16``, or ``nothing``."""
    return ", ".join(f"{name} {count}" for name, count in sorted(resources.items())) or "nothing"


def part(node: Node, resource: str) -> Subject:
    """One resource of one node."""
    return Subject("Node", f"{node.name} {resource}")


# -- ADV-01 ------------------------------------------------------------------------------------------


def check_advertised(scope: Scope) -> Iterator[Finding]:
    """Per accelerator node: the device resources that its labels predict, or any at all, are greater than zero, or claims find devices."""
    for node in scope.accelerator_nodes:
        publishers = scope.dra_drivers.get(node.name, [])
        plugin = any(scope.device_capacity(node).values())
        yield from (check_published(scope, node, item, plugin=plugin) for item in publishers)
        if plugin or not publishers:
            yield _advertised(scope, node)


def _advertised(scope: Scope, node: Node) -> Finding:
    view = view_of(scope, node)
    offered = {name: count for name, count in scope.device_capacity(node).items() if count > 0}
    predicted = [] if split_of(node) else [name for name, count in expectations(view).items() if count > 0]
    missing = [name for name in predicted if not offered.get(name)]
    expected = " and ".join(f"{name} > 0" for name in predicted) or "a device resource > 0"
    about = About(subject(node), CAPACITY, expected)
    if (missing or not offered) and (reason := why_none_offered(scope, node, scope.dra_inventory.get(node.name, []))):
        return about.not_judged(reason, source="node labels, ResourceSlices")
    state = view.mig_config_state
    if (missing or not offered) and state in _CHANGING:
        return about.undecided(
            f"the MIG manager is changing the node (state {state}), and the plugin is paused meanwhile", cause=CHANGE_UNDER_WAY
        )
    if not offered and (other := unlisted_offers(scope, node)):
        return about.undecided(f"{other}: whether pods get its devices by them is not known")
    if not offered:
        zero = amounts(scope.device_capacity(node))
        message = f"it has accelerators and advertises none: {_why_none(scope, node)}, so {_consequence(scope, node)}"
        return about.bad(message, cause="DevicesNotOffered", observed=zero)
    if missing:
        message = f"its labels promise {', '.join(missing)} and capacity has none of it, so pods that ask for it stay Pending"
        return about.bad(message, cause="PromisedResourceMissing", observed=amounts(offered))
    return about.ok(amounts(offered))


def _why_none(scope: Scope, node: Node) -> str:
    """Why a node offers no device, as a clause: what is missing, for plugin and DRA driver alike."""
    if view_of(scope, node).gpu.product.mig_invalid:
        return "its devices are cut unevenly and the plugin refuses them"
    known = scope.device_capacity(node)  # the kubelet keeps the resource of a plugin that it knew
    plugin = (
        "the device plugin has not registered with the kubelet, or has no device"
        if known
        else "no device plugin has registered with the kubelet"
    )
    slices = scope.snapshot.listing(SLICES)
    if not slices.served:
        return plugin
    read = slices.known
    return f"{plugin}, and {'no DRA driver publishes one for it' if read else 'ResourceSlices were not read'}"


def _consequence(scope: Scope, node: Node) -> str:
    if pools := shared_pools(scope, node):
        return f"pods here get devices of {listed(pools)} at most, which several nodes can reach and which count for no node"
    return "no pod that asks for a device can run here"


# -- ADV-02 ------------------------------------------------------------------------------------------


def check_allocatable(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node and device resource: all of capacity is allocatable."""
    for node in scope.accelerator_nodes:
        capacity, allocatable = scope.device_capacity(node), scope.device_allocatable(node)
        judged = False
        for resource in sorted({*capacity, *allocatable}):
            have, can = capacity.get(resource, 0), allocatable.get(resource, 0)
            if have == can == 0:
                continue
            judged = True
            observed, expected, source = f"{can} allocatable", f"{have} (capacity)", "node.status.allocatable"
            about = About(part(node, resource), source, expected, observed)
            if can == have:
                yield about.ok()
            elif can < have:
                why = why_none_allocatable(scope, node, resource)
                message = (
                    f"{have - can} of {have} {resource} are unhealthy: they stay in capacity and no pod gets them"
                    if can
                    else f"none of {have} {resource} is allocatable: {why}"
                ) + faults_of_devices(scope, node)
                yield about.bad(message, cause="DeviceUnhealthy" if can else "DevicesNotRegistered")
            else:
                message = f"{can} {resource} are allocatable and the node has {have}: pods are bound to devices that are not there"
                yield about.bad(message, cause="AllocatableAboveCapacity")
        publishers = scope.dra_drivers.get(node.name, [])
        yield from (check_untainted(scope, node, item) for item in publishers)
        if not judged and not publishers:
            yield not_judged(subject(node), message="it advertises no device resource", source=CAPACITY)


# -- ADV-03 ------------------------------------------------------------------------------------------


def check_arithmetic(scope: Scope) -> Iterator[Finding]:
    """Per accelerator node and resource: capacity == physical devices × units per device, and the sources of "physical" agree."""
    for node in scope.accelerator_nodes:
        yield from _arithmetic(scope, node, scope.dra_inventory.get(node.name, []))


def _arithmetic(scope: Scope, node: Node, through_dra: list[DriverInventory]) -> Iterator[Finding]:
    view, capacity = view_of(scope, node), scope.device_capacity(node)
    sources = physical_counts(node, view, scope.policy, through_dra)
    offered = {name: count for name, count in capacity.items() if count > 0}
    if through_dra and offered and _split(node, scope, through_dra, offered):
        yield _split_arithmetic(scope, node, through_dra, offered)
        return
    about = About(subject(node), CAPACITY)
    if through_dra and not offered:
        yield about.not_judged("no device plugin offers a device here: DRA-03 counts what its driver publishes", source=SLICES)
        return
    if not offered and (reason := why_none_offered(scope, node, through_dra)):
        yield about.not_judged(reason, source="node labels, ResourceSlices")
        return
    if view.vgpu:
        yield about.not_judged("a vGPU guest: its devices are virtual and not counted by label", source="node labels")
        return
    split = split_of(node)
    if split is not None and split.doubt:
        yield about.not_judged(f"{split.doubt}: how much of them its devices give is not known")
        return
    terms = terms_of(node, view, capacity, sources)
    if terms and (other := unlisted_offers(scope, node)):
        yield about.undecided(f"{other}: how much of them its devices give is not known")
        return
    disagreement = _disagreement(node, sources)
    if disagreement is not None:
        yield disagreement
    if not terms and disagreement is None:
        message = "no label, ResourceSlice or policy counts its devices, so there is nothing to compare capacity with"
        yield about.not_judged(message, source="node labels, policy advertisement.devicesPerNode")
    for term in terms:
        yield _judge_term(node, term)


def _split_arithmetic(scope: Scope, node: Node, through_dra: list[DriverInventory], offered: dict[str, int]) -> Finding:
    """A node whose plugin offers some devices and whose DRA driver the others: together they are all there are."""
    first = physical_counts(node, view_of(scope, node), scope.policy, [])[0]
    plugin, dra = sum(offered.values()), sum(item.whole for item in through_dra)
    observed = f"{plugin} by the plugin + {dra} through DRA"
    if plugin + dra == first.devices:
        return ok(part(node, "devices"), observed=observed, expected=str(first.devices), source=first.source)
    message = f"plugin and DRA together offer {plugin + dra} of {first.devices} devices: no pod can use the others"
    return bad(
        part(node, "devices"), cause="DeviceMissing", observed=observed, expected=str(first.devices), source=first.source, message=message
    )


def _disagreement(node: Node, sources: list[PhysicalCount]) -> Finding | None:
    counts = {item.devices for item in sources}
    if len(counts) < 2:
        return None
    observed = ", ".join(f"{item.devices} by {item.source}" for item in sources)
    message = f"its sources count different numbers of devices ({observed}): devices are lost, or a source is wrong"
    return bad(
        part(node, "devices"),
        cause="DeviceCountsDisagree",
        observed=observed,
        expected="the same number of physical devices from every source",
        source=GPU_COUNT,
        message=message,
    )


def _judge_term(node: Node, term: Term) -> Finding:
    expected = f"{term.expected} = {term.formula}" if term.expected is not None else term.formula
    about = About(part(node, term.resource), term.source, expected, term.shown)
    if term.agrees:
        return about.ok()
    cause = "CapacityUnlikeDevices"
    if term.problem:
        message = f"it advertises {term.observed} {term.resource}, expected {term.formula}: {term.problem}"
    elif term.expected and term.observed < term.expected:
        cause = "DeviceMissing"
        message = (
            f"it advertises {term.observed} {term.resource} and {term.source} gives {term.expected}: devices are missing, or that is wrong"
        )
    else:
        message = f"it advertises {term.observed} {term.resource} and {term.source} gives {term.expected}: one of the two is wrong"
    return about.bad(message, cause=cause)


# -- ADV-05 ------------------------------------------------------------------------------------------


def check_one_route(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node: its devices are offered by the plugin or through DRA, or split between them."""
    scope.snapshot.items(SLICES)  # a list that was refused or not saved must not look like no DRA
    source = f"{CAPACITY}, ResourceSlices"
    for node in scope.accelerator_nodes:
        offered = {name: count for name, count in scope.device_capacity(node).items() if count > 0}
        drivers = scope.dra_inventory.get(node.name, [])
        shown = ", ".join(f"{item.driver} {len(item.devices)} devices" for item in drivers)
        observed = "; ".join(
            text for text in (f"plugin: {amounts(offered)}" if offered else "", f"DRA: {shown}" if drivers else "") if text
        )
        twice = [(item, name) for item in drivers for name in offered if same_devices(item, name)]
        about = About(subject(node), source, "each device through the device plugin or through DRA, never both", observed)
        if not observed:
            yield about.not_judged("neither a device plugin nor DRA offers a device")
        elif not twice or _split(node, scope, drivers, offered):
            yield about.ok()
        else:
            driver, resource = twice[0]
            message = (
                f"{driver.driver} publishes devices that the plugin also offers as {resource}: "
                "neither knows of the other, so two pods may get one device"
            )
            yield about.bad(message, cause="OfferedTwice")


def _split(node: Node, scope: Scope, drivers: list[DriverInventory], offered: dict[str, int]) -> bool:
    """Whether plugin and DRA together offer no more whole devices than the node's own label or the policy counts."""
    owned = [item.devices for item in physical_counts(node, view_of(scope, node), scope.policy, [])]
    if not owned or view_of(scope, node).gpu.factor > 1 or any(name.startswith("nvidia.com/mig-") for name in offered):
        return False
    return sum(item.whole for item in drivers) + sum(offered.values()) <= owned[0]


# -- ADV-07 --------------------------------------------------------------------------------------------


def check_health_of_held(scope: Scope) -> Iterator[Finding]:
    """One finding per pod that runs with devices whose health its kubelet reports. Raises :class:`NotApplicable` without such a report."""
    reported = False
    for pod in scope.device_pods:
        if health := health_by_kubelet(scope, pod):
            reported = True
            yield _health_of_held(pod, health)
    if not reported:
        raise NotApplicable(
            "NotReported", "no kubelet reports the health of devices under running pods (feature gate ResourceHealthStatus)"
        )


def _health_of_held(pod: Pod, health: list[DeviceHealth]) -> Finding:
    about = About(subject(pod), "status.containerStatuses[*].allocatedResourcesStatus", "no device Unhealthy")
    sick = [one for one in health if one.health == "Unhealthy"]
    if pod.metadata.deletion_timestamp:
        return about.not_judged("it is being deleted")
    if sick:
        message = f"{listed(sick, 3)}, on {pod.node_name}: the pod goes on, and whatever it computes there may hang or be wrong"
        return about.bad(message, cause="DeviceUnhealthyUnderPod", observed=f"{len(sick)} of {len(health)} Unhealthy")
    if any(one.health == "Healthy" for one in health):
        return about.ok(f"{len(health)} devices, none Unhealthy")
    return about.not_judged("its driver reports no health: Unknown")
