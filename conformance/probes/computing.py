"""Pods that compute on the devices that they were given, and causes of what they find.

A driver lists devices with which no program can start, so listing them proves little. Facts: docs/facts/compute.md#error-codes.
"""

import re
from collections.abc import Mapping

import msgspec

from conformance.outputs.captured_text import Unreadable
from conformance.outputs.job_logs import parse_vector_add
from conformance.outputs.nvidia_smi import parse_listing
from conformance.probes.running import ProbeResult, pinned_pod, read_held
from fixtures.compute.document import SCHEMA_VERSION, Device, Document, Status, Trouble, decode
from fixtures.compute.level_zero import OUT_OF_MEMORY
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.model.placement.free_devices import Place, why_unlistable
from fixtures.nodeprobe.smi_xml import Listing
from fixtures.probes.workspace import Workspace
from fixtures.text.json_text import NotJson
from fixtures.text.sentences import cut, listed
from fixtures.verdict.findings import About, Finding, Outcome

END_MARKER = "## end"
SOURCE = "nvidia-smi -L and /dev in the container"
LIST_SCRIPT = 'echo "## uid"; id -u; echo "## smi"; nvidia-smi -L 2>&1 || echo "exit=$?"; echo "## dev"; ls -1 /dev; echo "## end"'
"""Prints who the container runs as, what nvidia-smi lists and what is in /dev, between markers."""

_BEGIN = "\n## uid\n"
STAY = "; sleep 3600"
HOLD_SCRIPT = LIST_SCRIPT + STAY
"""The same, and keeps the devices until the pod is deleted."""

_COMPUTE = 'echo "## compute"; gpu-conformance compute --json {options} 2>/dev/null; echo "## end"'


def computing_script(options: str) -> str:
    """The same list, and what the compute check finds with these options; for an image of the suite."""
    return LIST_SCRIPT.replace('echo "## end"', _COMPUTE.format(options=options))


_SMI = re.compile(r"^## smi\n(.*?)^## ", re.MULTILINE | re.DOTALL)
_DEVICE = re.compile(r"nvidia(\d{1,4}|ctl|-uvm|-uvm-tools|-caps|-modeset)\Z|kfd\Z|dri\Z")
MAX_UUIDS_SHOWN = 8


class VisibleDevices(msgspec.Struct, frozen=True, kw_only=True):
    """What a container printed. ``computed`` is what the compute check found, None where the script did not run it."""

    uid: str
    listing: Listing
    exit_code: str
    device_files: tuple[str, ...]
    computed: Document | None = None

    @property
    def uuids(self) -> tuple[str, ...]:
        """Devices it lists, MIG devices in place of the GPU they are part of."""
        return tuple(self.listing.uuids)

    @property
    def failures(self) -> tuple[str, ...]:
        """What nvidia-smi says of why it cannot list."""
        return self.listing.failures

    @property
    def sees_nothing(self) -> bool:
        """Whether neither nvidia-smi nor ``/dev`` shows a device."""
        return not self.uuids and not self.device_files

    @property
    def text(self) -> str:
        """One line of evidence."""
        shown = ", ".join(self.uuids[:MAX_UUIDS_SHOWN]) + (" …" if len(self.uuids) > MAX_UUIDS_SHOWN else "")
        smi = f"{len(self.uuids)} devices ({shown})" if self.uuids else "no device"
        if not self.uuids and (self.failures or self.exit_code):
            smi += f" ({'; '.join(self.failures) or 'nvidia-smi'}{f', exit {self.exit_code}' if self.exit_code else ''})"
        files = ", ".join(f"/dev/{name}" for name in self.device_files[:MAX_UUIDS_SHOWN])
        return f"uid {self.uid or '?'} sees {smi}" + (f"; {files}" if files else "")


def read_visible_devices(text: str) -> VisibleDevices:
    """Read the output of :data:`LIST_SCRIPT`, or of :func:`computing_script`.

    Raises :class:`Unreadable` when a section is missing, out of order or no document.
    """
    found = sections(text)
    computed = found.pop("compute", None)
    if list(found) != ["uid", "smi", "dev", "end"]:
        raise Unreadable(f"the probe's output is incomplete: it has the sections {', '.join(found) or 'none'}")
    smi = found["smi"]
    exits = re.findall(r"^exit=(\d{1,3})$", smi, re.MULTILINE)
    files = [line.strip() for line in found["dev"].splitlines()]
    devices = tuple(sorted(name for name in files if _DEVICE.match(name)))
    if not devices and "null" not in files:
        raise Unreadable("the probe's output lists no /dev/null, so it is not a listing of /dev and proves nothing")
    return VisibleDevices(
        uid=found["uid"].strip()[:32],
        listing=_listed(smi),
        exit_code=exits[-1] if exits else "",
        device_files=devices,
        computed=None if computed is None else _computed(computed),
    )


def _computed(text: str) -> Document:
    try:
        document = decode(text.encode())
    except NotJson as error:
        raise Unreadable(f"gpu-conformance compute printed no document ({error})") from None
    if document.schema_version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        raise Unreadable(f"the compute check's document has the version {document.schema_version[:20]}, and {SCHEMA_VERSION} is read here")
    return document


def _listed(smi: str) -> Listing:
    try:
        return parse_listing(smi)
    except Unreadable:  # no nvidia-smi in the container, or nothing printed: it sees nothing
        first = next((line.strip() for line in smi.splitlines() if line.strip() and not line.startswith("exit=")), "")
        return Listing((), (first[:200],) if first else ())


def sections(text: str) -> dict[str, str]:
    """What stands between the markers ``## name`` of a probe's output, by name. Raises :class:`Unreadable` where one stands twice."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in text.replace("\r", "").split("\n"):
        if line.startswith("## "):
            name = line[3:].strip()
            if name in found:
                raise Unreadable(f"the probe's output has the section {name!r} twice")
            current = found[name] = []
        elif current is not None:
            current.append(line)
    return {name: "\n".join(lines) for name, lines in found.items()}


def before_listing(text: str) -> str:
    """What a pod printed before it listed its devices."""
    return text.partition(_BEGIN)[0]


def after_text(ran: ProbeResult) -> ProbeResult:
    """The probe without what it printed before it listed its devices."""
    _, mark, listing = ran.logs.get("probe", "").partition(_BEGIN)
    return msgspec.structs.replace(ran, logs={"probe": mark.lstrip() + listing})


def visible_to(ran: ProbeResult, container: str = "probe") -> VisibleDevices | str:
    """What a container saw, or why that is not known."""
    if ran.trouble:
        return f"the probe pod gave no answer: {ran.trouble}"
    try:
        return read_visible_devices(ran.logs.get(container, ""))
    except Unreadable as error:
        return f"the probe's output could not be read: {error}"


def listing_of(ran: ProbeResult) -> Listing | str:
    """What nvidia-smi listed in a probe's container, whatever the rest of the output is; else why that is not known."""
    if ran.trouble:
        return f"the probe pod gave no answer: {ran.trouble}"
    found = _SMI.search(ran.logs.get("probe", "").replace("\r", ""))
    if found is None:
        return "the probe's output has no section of nvidia-smi"
    try:
        listing = parse_listing(found[1])
    except Unreadable as error:
        return f"nvidia-smi -L could not be read: {error}"
    return listing if listing.gpus else f"nvidia-smi does not work in the pod: {listed(listing.failures, 1) or 'it lists no device'}"


def listed_to(ran: ProbeResult) -> VisibleDevices | str:
    """What a container saw, where nvidia-smi lists a device; else why that is not known."""
    sight = visible_to(ran)
    return sight if isinstance(sight, str) or sight.uuids else f"nvidia-smi does not work in the pod: {sight.text}"


COMPUTES = "computes, and gives the values that it must"
ENVIRONMENT = {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
LIMITS = {"cpu": "1", "memory": "1Gi"}
"""What Python, the driver's library, its context on one device and the values to compare take, with room."""

LIMITS_OF_ALL = {"cpu": "1", "memory": "2Gi"}
"""The same for a container with all devices of a node: one context at a time, but a driver that knows each device."""

SECONDS_PER_DEVICE = 15
"""How long the quick check may take on one device, beside what its pod takes to start."""

_QUICK = "--rows 8 --memory 256 --copy 8 --patience 45"
"""A few seconds on any device: small matrices, a quarter of a GiB of memory, and three repetitions."""

_WORDS = 300
_LIBRARIES = {"amd": "ROCm", "intel": "Level Zero"}
"""Libraries that come with an image, by vendor."""

NO_LIBRARY = "the image that probes.images names for it has no library of its vendor, or not this suite"
_FABRIC, _UNKNOWN, _MISMATCH, _UNAVAILABLE = 802, 999, 803, 46
_NO_MEMORY = (2, OUT_OF_MEMORY)
_OF_MPS = range(805, 810)
_SAYS = {"system not yet initialized": _FABRIC, "unknown error": _UNKNOWN, "out of memory": 2, "busy or unavailable": _UNAVAILABLE}
"""Words of CUDA's runtime for errors, in logs of its samples."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Why devices do not compute. Without a cause it is not known whether they do."""

    cause: str = ""
    message: str
    observed: str


def listing_pod(
    scope: Scope,
    node: Node,
    name: str,
    *,
    resources: Mapping[str, int],
    sibling: str = "",
    then: str = "",
    options: str = _QUICK,
    limits: Mapping[str, str] = LIMITS,
    image: str = "",
) -> Json:
    """A pod that lists its devices, and computes on them in ``image`` or in the suite's, where the policy names one.

    ``then`` is what it does afterwards.
    """
    run = listing_run(scope, then=then, options=options, limits=limits, image=image)
    return pinned_pod(scope, node, name, run.script, resources=resources, sibling=sibling, env=run.env, image=run.image, limits=run.limits)


def start_holders(scope: Scope, workspace: Workspace, places: Mapping[str, Place]) -> dict[str, str]:
    """Create pods that list one device of a place each and keep it: their names, by those that are asked for.

    Beside other probes one pod serves several of them, and there may be fewer than are asked for.
    """
    by_place: dict[str, list[str]] = {}
    for name, place in places.items():
        by_place.setdefault(f"{place.node.name}/{place.resource}", []).append(name)
    started: dict[str, str] = {}
    for key, names in by_place.items():
        pods = [listing_pod(scope, places[name].node, name, resources={places[name].resource: 1}, then=STAY) for name in names]
        started |= dict(zip(names, workspace.hold(key, pods), strict=False))
    return started


def read_holders(scope: Scope, workspace: Workspace, started: Mapping[str, str]) -> dict[str, ProbeResult]:
    """What they printed while all of them ran, by the names that were asked for."""
    seconds = scope.policy.probes.start_seconds + SECONDS_PER_DEVICE
    ran = read_held(workspace, list(dict.fromkeys(started.values())), END_MARKER, seconds) if started else {}
    return {name: ran[pod] for name, pod in started.items()}


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod runs, and in what."""

    script: str
    image: str = ""
    env: Mapping[str, str] = {}
    limits: Mapping[str, str] = {}


def listing_run(scope: Scope, *, then: str, options: str = _QUICK, limits: Mapping[str, str] = LIMITS, image: str = "") -> Run:
    """The part of :func:`listing_pod` that is not the pod's place."""
    image = image or scope.policy.probes.suite_image
    if not image:
        return Run(script=LIST_SCRIPT + then)
    return Run(script=computing_script(options) + then, image=image, env=ENVIRONMENT, limits=limits)


def sample_pod(scope: Scope, node: Node, name: str, resource: str) -> Json:
    """A pod of CUDA's sample vectorAdd: its image's own program, which computes on the first device."""
    image = scope.policy.probes.sample_image
    return pinned_pod(scope, node, name, "", resources={resource: 1}, env=ENVIRONMENT, image=image, limits=LIMITS)


def brings_library(place: Place) -> bool:
    """Whether the library of its devices comes with an image, as AMD's and Intel's: no runtime mounts it."""
    return place.vendor in _LIBRARIES


def image_of(scope: Scope, place: Place) -> str:
    """The image in which the suite's check computes on devices of a place; empty where the policy names none."""
    probes = scope.policy.probes
    if not brings_library(place):
        return probes.suite_image
    claimed = [f"{place.driver}/{place.device_class}"] if place.driver else []
    named = probes.image_for([place.resource, *claimed])
    return "" if named == probes.image else named


def why_unchecked(scope: Scope, place: Place) -> str:
    """Why the suite's check cannot compute on the devices of a place, or empty."""
    if brings_library(place):
        words = f"the library comes with an image, and probes.images names none for it with {_LIBRARIES[place.vendor]} and this suite"
        return "" if image_of(scope, place) else words
    unnamed = "the policy names no image of the suite (probes.suiteImage), in which devices compute"
    return why_unlistable(place) or ("" if image_of(scope, place) else unnamed)


def why_uncomputed(scope: Scope, place: Place) -> str:
    """The same where CUDA's sample may stand for the check."""
    by_sample = scope.policy.probes.sample_image and not brings_library(place)
    return why_unlistable(place) if by_sample else why_unchecked(scope, place)


def computing(finding: Finding, sight: VisibleDevices | str, *, shared: bool = False) -> Finding:
    """A good finding about devices that are listed, or what is found where they do not compute.

    ``sight`` is a reason where the output could not be read. Where nobody knows whether they compute, it stays good and says so:
    ISO-05 asks that question.
    """
    if finding.outcome is not Outcome.OK:
        return finding
    if isinstance(sight, str):
        return msgspec.structs.replace(finding, observed=f"{finding.observed}; whether they compute is not known ({sight})")
    if sight.computed is None:
        return finding
    fault = fault_of(sight.computed, sight, shared=shared)
    if fault is None or not fault.cause:
        words = words_of(sight.computed) if fault is None else f"whether they compute is not known ({fault.observed})"
        return msgspec.structs.replace(finding, observed=f"{finding.observed}; {words}")
    return faulty(About(finding.subject, finding.source, f"{finding.expected}, which {COMPUTES}"), fault)


def faulty(about: About, fault: Fault) -> Finding:
    """The finding of a fault."""
    if not fault.cause:
        return about.undecided(fault.message, cause="ProbeDidNotRun")
    return about.bad(fault.message, cause=fault.cause, observed=fault.observed)


def words_of(document: Document) -> str:
    """What computed, in words."""
    compared = sum(step.compared for device in document.devices for step in device.steps)
    return f"{len(document.devices)} compute, {compared / 2**20:.0f} MiB compared"


def has_library(ran: ProbeResult) -> bool:
    """Whether the compute check ran in a pod and found a vendor's library."""
    sight = visible_to(ran)
    return not isinstance(sight, str) and sight.computed is not None and bool(sight.computed.present)


def fault_of(document: Document, sight: VisibleDevices, *, shared: bool = False) -> Fault | None:
    """Why not all devices that a container lists compute, or None. On ``shared`` devices others may hold the memory."""
    if document.stopped:
        return Fault(message="the compute check was stopped before it had ended", observed="stopped")
    if not document.present:
        message = f"the container lists {len(sight.uuids)} devices and has no library with which a program computes on them"
        return Fault(
            cause="ComputeLibraryMissing",
            message=message,
            observed=f"{listed([library.file for library in document.libraries], 3)} is not there",
        )
    for library in document.broken:
        words = cut(str(library.trouble), _WORDS)
        cause = _cause(library.trouble or Trouble(call=""), sight, shared)
        return Fault(cause=cause, message=f"devices are listed and no program can use them: {words}", observed=words)
    for device in document.devices:
        if (fault := _of_device(device, sight, shared)) is not None:
            return fault
    return _unlike(document, sight)


def _of_device(device: Device, sight: VisibleDevices, shared: bool) -> Fault | None:
    failed = device.failed
    name = cut(f"device {device.index} {device.uuid}".rstrip(), _WORDS)
    if failed is None:
        if device.computes:
            return None
        return Fault(message=f"nothing was compared on {name}", observed="nothing compared")
    if failed.wrong is not None:
        observed = f"{name}: {failed.wrong.count} wrong values in {failed.compared} bytes, the first at byte {failed.wrong.first}"
        message = f"{name} gives wrong values without any error ({failed.name}): every job on it computes wrong results"
        return Fault(cause="DeviceComputesWrong", message=message, observed=observed)
    trouble = failed.trouble or Trouble(call=failed.name, message=str(failed.status))
    observed = cut(f"{name}: {failed.name} {failed.status}: {trouble}", _WORDS)
    if failed.status is Status.CRASHED and "SIGKILL" in trouble.message:  # the memory of the pod is bounded
        return Fault(message=f"the compute check was killed in its pod: {observed}", observed=observed)
    return Fault(cause=_cause(trouble, sight, shared), message=f"{name} is listed and does not compute: {observed}", observed=observed)


def _cause(trouble: Trouble, sight: VisibleDevices | None, shared: bool) -> str:
    """The cause of an error; empty where it shows nothing of the device."""
    files = sight.device_files if sight is not None else ()
    if trouble.code == _UNKNOWN and files and "nvidia-uvm" not in files:
        return "UvmMissing"
    if shared and (trouble.code is None or trouble.code in _NO_MEMORY or trouble.code in _OF_MPS):
        return ""  # others hold the memory, or the server of MPS, which serves one user after the other
    taken = dict.fromkeys((*_NO_MEMORY, _UNAVAILABLE), "DeviceTakenByOthers")
    known = {_FABRIC: "FabricNotReady", _MISMATCH: "DriverLibraryMismatch", **taken}
    return known.get(trouble.code or 0, "DeviceDoesNotCompute")


def _unlike(document: Document, sight: VisibleDevices) -> Fault | None:
    """Devices that one library lists and another does not. CUDA enumerates one MIG device at most, and may call it by its parent's UUID."""
    if not sight.uuids or any(uuid.startswith("MIG-") for uuid in sight.uuids):
        return None
    named = {device.uuid for device in document.devices if device.uuid}
    missing = sorted(set(sight.uuids) - named)
    if not named or (not missing and named <= set(sight.uuids)):
        return None
    observed = f"{len(sight.uuids)} listed, {len(named)} compute" + (f"; not among them {missing[0]}" if missing else "")
    return Fault(cause="DeviceDoesNotCompute", message=f"programs do not get the devices that are listed: {observed}", observed=observed)


def sample_fault(ran: ProbeResult, *, shared: bool = False) -> Fault | None:
    """What the log of the sample shows, or None where it computed."""
    if ran.trouble:
        return Fault(message=f"the pod of the sample gave no answer: {ran.trouble}", observed=ran.trouble)
    try:
        log = parse_vector_add(ran.logs.get("probe", ""))
    except Unreadable as error:
        return Fault(message=f"the log of the sample could not be read: {error}", observed="no log of vectorAdd")
    if log.passed:
        return None
    if log.passed is None:
        return Fault(message="the log ends before the sample's verdict", observed="no verdict")
    if "verification failed" in log.error or "FAILED" in log.error:
        message = "the device adds two vectors and gives a wrong sum, without any error"
        return Fault(cause="DeviceComputesWrong", message=message, observed=log.error)
    code = next((number for words, number in _SAYS.items() if words in log.error), 0)
    trouble = Trouble(call="vectorAdd", code=code, message=log.error)
    return Fault(cause=_cause(trouble, None, shared), message=f"CUDA's sample does not compute: {log.error}", observed=log.error)
