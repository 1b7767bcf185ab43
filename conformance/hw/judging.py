"""One finding for every device or driver of a node's document, by what judges it; and what a pod's state shows where there is none. Pure.

Facts: docs/facts/device-health.md#devices-that-a-runtime-cannot-give.
"""

from collections.abc import Callable, Iterator

from conformance.health.judging import CAUSES, Answer, Fault, Seen, of_device, of_driver, unread
from conformance.outputs.dcgm import BASELINE_MIB
from conformance.probes.node_documents import SOURCE, NodeDocument, Unread, device_subject, refused
from fixtures.model.cluster import subject
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, advised, bad, undecided
from fixtures.verdict.subjects import Subject


class OnNode(Seen, frozen=True):
    """A device with the document that it stands in."""

    one: NodeDocument


Judge = Callable[[OnNode], Answer]

_BUSY_PERCENT = 50
"""The probe only reads, which the driver counts as a few percent."""


def per_device(judge: Judge, expected: str) -> Callable[[NodeDocument], Iterator[Finding]]:
    """What judges a document: one finding for every device; one for a node whose drivers enumerate none."""

    def of_document(one: NodeDocument) -> Iterator[Finding]:
        for driver in one.drivers:
            if not driver.devices:
                message = f"no device could be asked: {driver.problem or 'the driver enumerates none'}"
                yield undecided(subject(one.node), message=message, source=SOURCE, cause="DeviceDoesNotAnswer")
            yield from (_finding(OnNode(one.document.host, driver, device, one), judge, expected) for device in driver.devices)

    return of_document


def _finding(seen: OnNode, judge: Judge, expected: str) -> Finding:
    device, place = seen.device, device_subject(seen.one.node, seen.device)
    if device.lost:
        message = f"it does not answer ({next(iter(device.unread.values()), 'it is lost')}), so nothing is known of it"
        return undecided(place, message=message, source=SOURCE, cause="DeviceDoesNotAnswer")
    return finding(place, judge(seen), expected, " at ".join(text for text in (device.name, device.pci_address) if text))


def finding(place: Subject, answer: Answer, expected: str, name: str) -> Finding:
    """The finding that an answer is. ``name`` stands before what is said of it."""
    about = About(place, SOURCE, expected)
    if answer.faults:
        words = "; ".join(fault.words for fault in answer.faults)
        say = bad if any(fault.grave for fault in answer.faults) else advised
        cause = answer.faults[0].cause
        return say(place, cause=cause, observed=words, expected=expected, source=SOURCE, message=f"{name}: {words}")
    if answer.unknown:
        return about.undecided(f"{name}: {answer.unknown}")
    if answer.absent:
        return about.not_judged(f"{name}: {answer.absent}")
    return about.ok(answer.observed)


def use(persistence: bool | None) -> Judge:
    """HW-07: the persistence mode is the policy's, and nothing computes on a device that was just given to the probe's own pod.

    Shared units and MIG devices are parts of a device on which others may compute. A pod that sees a whole node holds none of its devices,
    and others may get them at any time. Reports: docs/facts/device-health.md#use-recovery-and-firmware.
    """

    def judge(seen: OnNode) -> Answer:
        device = seen.device
        faults: list[Fault] = []
        if persistence is not None and device.persistence is not None and device.persistence != persistence:
            words = f"persistence mode is {_on(device.persistence)}, the policy wants it {_on(persistence)}"
            faults.append(Fault("PersistenceUnlike", words))
        pids = [str(process.pid) for process in device.processes if process.kind == "compute"]
        shared = seen.one.whole or (device.mig and device.mig.enabled) or any(place.shared for place in seen.one.places)
        if pids and not shared:
            words = f"{len(pids)} processes compute on it, and the only pod that holds it is the probe's own: {listed(pids)}"
            faults.append(Fault("ProcessWithoutPod", words))
        left = (device.memory_used or 0) / (1 << 20)
        if left > BASELINE_MIB and (device.utilisation or 0) >= _BUSY_PERCENT and not device.processes and not shared:
            words = (
                f"it is at {device.utilisation} % with {left:.0f} MiB in use, no process is shown, and only the probe's own pod holds it"
            )
            faults.append(Fault("ProcessWithoutPod", words, grave=False))
        if faults:
            return Answer(faults=faults)
        if persistence is not None and device.persistence is None:
            return unread(seen, "persistence mode", "persistence")
        if any(field.startswith("processes") for field in device.unread) and not shared:
            return unread(seen, "list of processes", "processes")
        if shared and persistence is None:
            return Answer(absent="other pods may compute on it, and the policy asks for no persistence mode")
        mode = "not known" if device.persistence is None else _on(device.persistence)
        return Answer(f"persistence mode {mode}, {'processes not judged' if shared else 'no process'}")

    return judge


def _on(mode: bool) -> str:
    return "on" if mode else "off"


_REFUSALS = {**CAUSES, "DeviceDoesNotAnswer": ("gpu is lost",)}
_EXPECTED = "a library of the driver's version, and devices that answer"


def check_answers(one: NodeDocument) -> Iterator[Finding]:
    """A finding for each fault of a node's driver and devices, or one that says that all is well."""
    for driver in one.drivers:
        answer = of_driver(driver)
        devices = [] if answer.faults or answer.unknown else driver.devices
        asked = [(device, of_device(Seen(one.document.host, driver, device))) for device in devices]
        found = [(device_subject(one.node, device), given) for device, given in asked if given.faults or given.unknown]
        yield from (finding(place, given, _EXPECTED, one.pod) for place, given in found or [(subject(one.node), answer)])


def check_refused(gone: Unread) -> Finding | None:
    """A pod that got no devices because of the node's driver or devices."""
    message = "a pod with devices cannot start on the node: its driver, or one of its devices, does not answer"
    return refused(gone, _REFUSALS, _EXPECTED, message)
