"""ISO-04: what a pod gave back is free again, and its memory is as empty as before.

Facts: docs/facts/device-health.md#memory-that-stays.
"""

from collections.abc import Iterator, Sequence

from conformance.probes.computing import SECONDS_PER_DEVICE, has_library, image_of, listing_pod
from conformance.probes.node_documents import SOURCE, NodeDocument, NodeDocuments, Unread, collect, device_subject, judged, units
from conformance.probes.running import ProbeResult, run_pods
from fixtures.model.cluster import Scope, subject
from fixtures.model.placement.free_devices import Place, is_slice
from fixtures.nodeprobe.document import Device
from fixtures.probes.workspace import Workspace
from fixtures.text.sentences import cut
from fixtures.verdict.findings import About, Finding

MIB = 1 << 20
TOLERATED = 256 * MIB
"""More than before: contexts of monitoring programs come and go."""

AT_REST = 2048 * MIB
"""More than any driver keeps for itself on a device that nobody has."""

_COHERENT = ("GH200", "GB200", "GB300", "MI300A")
_REFUSAL = "requested number of devices unavailable"
_EXPECTED = "the device is free again, and its memory as empty as before"


class Computing:
    """What pods computed on all free devices of places in this run, by node and resource: ISO-05 judges what ISO-04 ran."""

    def __init__(self, _cluster: object = None, _scope: object = None) -> None:
        self.ran: dict[tuple[str, str], ProbeResult] = {}


def probe_release(scope: Scope, workspace: Workspace, computing: Computing) -> Iterator[Finding]:
    """ISO-04: read the free devices of nodes, compute on them, give them back, and read them again with the next pods.

    What the pods computed stays in ``computing``.
    """
    before = collect(scope, workspace, way="no", peers=0, then=lambda places: _in_one_pod(scope, places))
    computing.ran |= before.computed
    workspace.clear()
    computed = {node for (node, _), ran in before.computed.items() if not ran.trouble and has_library(ran)}
    computed |= _compute(scope, workspace, before)
    after = collect(scope, workspace, way="no", nodes=before.by_node, peers=0)
    yield from judged(
        scope,
        NodeDocuments(by_node=after.by_node, unread={**before.unread, **after.unread}),
        lambda one: compared(before.by_node[one.node.name], one, computed=one.node.name in computed),
        lambda gone: not_freed(gone) if gone.places[0].node.name in after.unread else None,
    )


def _in_one_pod(scope: Scope, places: Sequence[Place]) -> bool:
    """Whether the pod that reads the devices may compute on them too: they are of one kind and its own, and its image is the suite's."""
    image, one = scope.policy.probes.suite_image, places[0]
    return bool(image) and len(places) == 1 and not (one.shared or is_slice(one)) and image_of(scope, one) == image


def _compute(scope: Scope, workspace: Workspace, read: NodeDocuments) -> set[str]:
    """Use the memory of the other devices, where the policy names an image that can: names of the nodes on which that ran."""
    probes = scope.policy.probes
    done = {node for node, _ in read.computed}
    left = [one for node, one in read.by_node.items() if node not in done and not _unfit(one)]
    places = [place for one in left for place in one.places if image_of(scope, place)]
    used: set[str] = set()
    for start in range(0, len(places), probes.at_once):
        batch = dict(enumerate(places[start : start + probes.at_once]))
        pods = [
            listing_pod(scope, place.node, f"iso-04-{n}", resources={place.resource: units(place)}, image=image_of(scope, place))
            for n, place in batch.items()
        ]
        ran = run_pods(workspace, pods, probes.start_seconds + SECONDS_PER_DEVICE * max(map(units, batch.values())))
        used |= {one.node for one in ran.values() if not one.trouble and has_library(one)}
        workspace.clear()
    return used


def compared(before: NodeDocument, after: NodeDocument, *, computed: bool) -> Iterator[Finding]:
    """A finding for each device whose memory did not become free, or one that says that all did."""
    about = About(subject(after.node), SOURCE, _EXPECTED)
    if reason := _unfit(after):
        yield about.not_judged(reason)
        return
    known = {name: device for _, device in before.devices() if (name := device.uuid or device.pci_address)}
    pairs = [(known[name], device) for _, device in after.devices() if (name := device.uuid or device.pci_address) in known]
    found = [finding for old, new in pairs if (finding := _of_device(after, old, new))]
    yield from found
    if not pairs:
        yield about.undecided("no device was read both before and after")
    elif not found:
        most = max((new.memory_used or 0) // MIB for _, new in pairs)
        use = "after programs computed on them" if computed else "after a pod that listed them"
        yield about.ok(f"{len(pairs)} devices given back {use}, {most} MiB in use at most")


def not_freed(gone: Unread) -> Finding | None:
    """A kubelet that refuses the next pod, although the scheduler counts the devices as free, did not take them back.

    Words: docs/facts/scheduling-messages.md#refusals-of-the-kubelet.
    """
    if not any(words in gone.trouble for words in (_REFUSAL, *(f"OutOf{place.resource}" for place in gone.places))):
        return None
    about = About(subject(gone.places[0].node), "pod status", _EXPECTED, cut(gone.trouble, 300))
    return about.bad("the pod that held the devices is gone, and the kubelet gives them to no other", cause="DeviceNotFreed")


def _of_device(one: NodeDocument, old: Device, new: Device) -> Finding | None:
    about = About(device_subject(one.node, new), SOURCE, _EXPECTED)
    if new.mig is not None and new.mig.enabled:
        return about.not_judged("it is cut into MIG devices, and others may work on its memory")
    if any(name in new.name for name in _COHERENT):
        return about.not_judged("the kernel of a machine with coherent memory may keep its own there")
    if old.memory_used is None or new.memory_used is None:
        reason = new.unread.get("memoryTotal", "the driver does not say it")
        return about.undecided(f"how much of its memory is in use is not known: {reason}")
    if new.memory_used <= min(old.memory_used + TOLERATED, AT_REST):
        return None
    observed = f"{old.memory_used // MIB} MiB in use before, {new.memory_used // MIB} MiB after"
    message = "nobody holds the device, and part of its memory stays in use: the next job on it runs out of memory"
    return about.bad(message, cause="MemoryNotReleased", observed=observed)


def _unfit(one: NodeDocument) -> str:
    if one.whole and len(list(one.devices())) != sum(map(units, one.places)):
        return "the kernel shows all devices of the node, and others hold some of them or work on parts of them"
    return "its devices are shared, and others may work on their memory" if any(place.shared for place in one.places) else ""
