"""ADV-08: what a node's driver enumerates is what the node gave to a pod that took all that was free. Pure.

Facts: docs/facts/device-health.md#devices-that-a-runtime-cannot-give.
"""

from collections.abc import Callable, Iterator

from conformance.probes.node_documents import SOURCE, NodeDocument, Unread, refused
from fixtures.model.cluster import Scope, subject
from fixtures.model.placement.free_devices import places_of
from fixtures.nodeprobe.document import Driver
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding

_ON_BUS = {"nvidia": ("10de", "nvidia", ("accelerator", "display")), "amd": ("1002", "amdgpu", ("accelerator",))}
"""Vendor, kernel driver and kinds of functions that are devices; graphics of AMD's processors are none."""

_EXPECTED = "the devices that the node advertises, each by its UUID"


def enumerated(scope: Scope) -> Callable[[NodeDocument], Iterator[Finding]]:
    """Judges the driver of a node: its devices are those that the node gave, and no others are on its bus."""
    return lambda one: _check(scope, one)


def _check(scope: Scope, one: NodeDocument) -> Iterator[Finding]:
    node = subject(one.node)
    about = About(node, SOURCE, _EXPECTED)
    for driver in one.drivers:
        if driver.problem or "devices" in driver.unread:
            reason = driver.problem or driver.unread["devices"]
            yield about.undecided(f"what the driver enumerates is not known: {reason}")
            continue
        if cut_up := sorted({device.partitions.compute for device in driver.devices if device.partitions} - {"", "SPX"}):
            yield about.not_judged(f"its devices are partitioned ({listed(cut_up, 3)}), and units are parts of them")
            continue
        seen = _Seen(driver)
        observed = f"{seen.count} devices enumerated in {one.pod}"
        if problem := _missing(one, seen):
            yield about.bad(problem, cause="AdvertisedDeviceNotThere", observed=observed)
        elif one.granted and (others := sorted(seen.others(one.granted))):
            message = f"the driver has {listed(others, 3)}, which the node did not give to the pod: another pod may hold it"
            yield about.bad(message, cause="AnotherDeviceThere", observed=observed)
        elif (on_bus := _on_bus(one, driver)) > (advertised := _whole(scope, one, driver)) > 0:
            observed = f"{on_bus} devices have the driver, {advertised} are advertised"
            message = f"{on_bus - advertised} of the node's devices are on the bus with their driver, and no pod can ask for them"
            yield about.bad(message, cause="DeviceNotAdvertised", observed=observed, source="/sys/bus/pci")
        else:
            yield about.ok(f"{observed}{', equal by UUID' if one.granted else ''}")


def check_unknown(gone: Unread) -> Finding | None:
    """The runtime says that a device which the plugin promised is not there."""
    message = "the node promised a device that its driver does not have: no pod that gets it can start"
    return refused(gone, {"AdvertisedDeviceNotThere": ("unknown device",)}, _EXPECTED, message)


class _Seen:
    """What a driver enumerates: devices, and MIG devices of those that are cut. A plugin may give either out."""

    def __init__(self, driver: Driver) -> None:
        in_parts = [(device.uuid, device.mig) for device in driver.devices if device.mig is not None and device.mig.enabled]
        self._parts = {uuid: [part.uuid for part in mig.devices] for uuid, mig in in_parts}
        whole = [device.uuid for device in driver.devices]
        leaves = [uuid for device in whole for uuid in self._parts.get(device, [device])]
        self._leaves = set(leaves) - {""}
        self.known = {*leaves, *whole} - {""}
        self.count, self.most = len(leaves), max(len(leaves), len(whole))
        self.unnamed = leaves.count("")

    def others(self, granted: frozenset[str]) -> set[str]:
        """What nobody gave to the pod, neither by itself nor with the device that it is a part of."""
        within = {part for device, parts in self._parts.items() if device in granted for part in parts}
        return self._leaves - granted - within


def _missing(one: NodeDocument, seen: _Seen) -> str:
    """What was given and is not enumerated, in a clause. A device without a UUID may be any of them."""
    gone = sorted(one.granted - seen.known)
    if len(gone) > seen.unnamed:
        return f"the node gave {listed(gone, 3)} to the pod, and its driver does not have it: no job that gets it can start"
    if seen.most < one.asked:
        return f"the node gave {one.asked} devices to the pod, and its driver has {seen.most}: a job that gets the others cannot start"
    return ""


def _on_bus(one: NodeDocument, driver: Driver) -> int:
    """Devices of the machine that have the driver, whoever holds them. 0 where a sandbox hides the bus."""
    vendor, module, kinds = _ON_BUS.get(driver.vendor, ("", "", ()))
    return sum((one.vendor, one.driver) == (vendor, module) and one.kind in kinds for one in one.document.host.pci)


def _whole(scope: Scope, one: NodeDocument, driver: Driver) -> int:
    """How many whole devices the node advertises; 0 where units are parts or shares, which no bus shows."""
    cut_up = any(device.mig is not None and device.mig.enabled for device in driver.devices)
    place = one.places[0]
    if cut_up or place.shared or len(places_of(scope, one.node)) > 1:
        return 0
    published = scope.dra_inventory.get(one.node.name, ()) if place.driver else ()
    return sum(item.whole for item in published if item.driver == place.driver) or place.capacity
