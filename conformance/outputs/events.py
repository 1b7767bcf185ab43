"""Readers of scheduling messages and of Kubernetes events, from the default scheduler, Volcano, Kueue and the kubelet.

Counts of an unschedulable message are nodes, and reasons overlap: their sum may exceed the number of nodes.

Facts: docs/facts/gangs.md#kueue, docs/facts/gangs.md#volcano, docs/facts/scheduling-messages.md#containers-that-do-not-start,
docs/facts/scheduling-messages.md#refusals-of-the-kubelet, docs/facts/scheduling-messages.md#unschedulable-pods.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

import msgspec

from conformance.outputs.captured_objects import load_objects, looks_like_json
from conformance.outputs.captured_text import EmptyList, Unreadable, readable_text
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, sequence, text_of


class Obstacle(StrEnum):
    """What keeps a pod from starting."""

    DEVICES = "its devices"
    SANDBOX = "its sandbox"
    CONTAINER = "its container"
    IMAGE = "its image"
    VOLUME = "its volumes"
    CRASH = "its program, which ends again and again"


_DEVICES = re.compile(
    r"CDI device|nvidia-container-cli|nvidia-container-runtime|libnvidia|NVML|NodePrepareResources|prepare dynamic resources"
    r"|error gathering device information|no-gpu-has|unknown device|could not select device driver|/dev/(?:nvidia|kfd|dri|accel|neuron)",
    re.IGNORECASE,
)
_CREATE = re.compile(
    r"failed to create (?:containerd|shim) (?:task|container)|failed to create task for container|OCI runtime create failed"
    r"|failed to inject CDI devices|unresolvable CDI devices|CDI device injection failed|failed to start container \""
    r"|container create failed|CreateContainer(?:Config)?Error|RunContainerError|nvidia-container-cli: "
)
_SANDBOX = re.compile(r"[Ff]ailed to create pod sandbox|no runtime for \"")
_START_REASONS = {
    **dict.fromkeys(("FailedCreatePodContainer", "CreateContainerError", "CreateContainerConfigError"), Obstacle.CONTAINER),
    **dict.fromkeys(("RunContainerError", "StartError", "ContainerCannotRun", "FailedPostStartHook"), Obstacle.CONTAINER),
    **dict.fromkeys(("FailedMount", "FailedAttachVolume", "FailedMapVolume"), Obstacle.VOLUME),
    **dict.fromkeys(("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InspectFailed", "InvalidImageName"), Obstacle.IMAGE),
    "FailedCreatePodSandBox": Obstacle.SANDBOX,
    "FailedPrepareDynamicResources": Obstacle.DEVICES,
    "CrashLoopBackOff": Obstacle.CRASH,
}
TRANSIENT = frozenset({Obstacle.VOLUME, Obstacle.IMAGE})
"""What may pass by itself, where it was seen once."""


def obstacle(reason: str, message: str) -> Obstacle | None:
    """What an event or the state of a container says keeps the pod from starting; ``None`` for any other."""
    if reason == "BackOff":
        return Obstacle.IMAGE if "pulling image" in message else Obstacle.CRASH
    known = _START_REASONS.get(reason)
    if known is None and reason in ("Failed", "FailedSync", "Error", ""):
        if _SANDBOX.search(message):
            known = Obstacle.SANDBOX
        elif _CREATE.search(message):
            known = Obstacle.CONTAINER
        elif reason == "Failed" and re.search(r"\b(?:pull|image|Err\w*Image|ImagePull\w*)\b", message):
            known = Obstacle.IMAGE
        elif reason == "Failed" and message.startswith("Error: "):
            known = Obstacle.CONTAINER
    if known in (Obstacle.CONTAINER, Obstacle.SANDBOX) and _DEVICES.search(message):
        return Obstacle.DEVICES
    return known


_HEAD = re.compile(
    r"(?:\d{1,7}/(?P<total>\d{1,7}) nodes are (?:available|unavailable)|all nodes are (?:available|unavailable)): (?P<rest>\S.*)",
    re.DOTALL,
)
_ITEM = re.compile(r"(\d{1,7}) (?=\S)")
_TAINT_OLD = re.compile(r"node\(s\) had (?:untolerated )?taint \{(?P<key>[^:}\s]{1,317}): ?(?P<value>[^}]{0,63})\}")
_INSUFFICIENT = re.compile(r"Insufficient (?P<resource>[\w./-]{1,253})")
_GANG = re.compile(r"(?P<short>\d{1,6})/(?P<total>\d{1,6}) tasks in gang unschedulable")
_QUOTA = re.compile(r"insufficient (?:unused )?quota for [\w./-]{1,253} in flavor [\w.-]{1,253}")
_TOO_LARGE = re.compile(r"maximum request size for shared resources is 1|at most 1 nvidia\.com/gpu can be requested")
_AGE = r"(?P<age><unknown>|<invalid>|\.\.\.|(?:\d{1,6}[smhdy]){1,4}(?: \(x\d{1,6} over (?:\d{1,6}[smhdy]){1,4}\))?)"
_DESCRIBE = re.compile(
    r"\s{0,8}(?P<type>Normal|Warning)\s{1,32}(?P<reason>[A-Z]\w{1,63})\s{1,32}"
    rf"{_AGE}\s{{1,32}}(?P<source>[\w.-]{{1,128}})\s{{1,32}}(?P<message>\S.*)\Z"
)
_DESCRIBE_BARE = re.compile(r"\s{0,8}(?P<type>Normal|Warning)\s{1,32}(?P<reason>[A-Z]\w{1,63})\s{1,32}(?P<message>\S.*)\Z")
_GET = re.compile(
    rf"(?:[a-z0-9-]{{1,63}}\s{{1,32}})?{_AGE}\s{{1,32}}(?P<type>Normal|Warning)\s{{1,32}}(?P<reason>[A-Z]\w{{1,63}})"
    r"\s{1,64}(?P<object>[a-z0-9.]{1,128}/[\w.:-]{1,253})\s{1,64}(?P<message>\S.*)\Z"
)
_CUSTOM = re.compile(
    r"(?P<type>Normal|Warning)\s{1,32}(?P<reason>[A-Z]\w{1,63})\s{1,32}"
    r"(?P<object>[a-z0-9][a-z0-9./-]{2,252})\s{2,64}(?P<message>\S.*)\Z"
)
_DOCUMENT = re.compile(r"^ {0,4}(?:- )?(?:kind: (?:Event|List|EventList|Pod|PodList)|items:) *$", re.MULTILINE)
_NAME = re.compile(r"Name:\s{1,32}([a-z0-9][a-z0-9.-]{0,252})\s*\Z")
_UNIT = re.compile(r"(\d{1,6})([smhdy])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "y": 365 * 86400}
_MARKDOWN_ROW = re.compile(r"\s{0,8}\|(?P<object>[^|]{1,300})\|(?P<reason>[^|]{1,100})\|(?P<message>[^|]{1,2000})\|\s*\Z")


class ReasonKind(StrEnum):
    """What a reason of an unschedulable message is about."""

    TAINT = "untolerated taint"
    INSUFFICIENT = "insufficient resource"
    AFFINITY = "node affinity or selector"
    CORDONED = "cordoned"
    POD_AFFINITY = "pod affinity"
    TOPOLOGY_SPREAD = "topology spread"
    TOO_MANY_PODS = "too many pods"
    DRA = "dynamic resource allocation"
    VOLUME = "volume"
    RESOURCE_FIT = "resource fit"
    OTHER = "other"


class Reason(msgspec.Struct, frozen=True):
    """One reason. ``detail`` is the resource for INSUFFICIENT, the taint ``key`` or ``key=value`` for TAINT where the wording names it."""

    count: int
    text: str
    kind: ReasonKind
    detail: str = ""


class Unschedulable(msgspec.Struct, frozen=True):
    """``0/<total> nodes are available: <reasons>. <postfilter>``. ``total`` is ``None`` for Volcano's ``all nodes are unavailable``."""

    total: int | None
    reasons: tuple[Reason, ...]
    postfilter: str

    def about(self, kind: ReasonKind) -> tuple[Reason, ...]:
        """Reasons of one kind."""
        return tuple(reason for reason in self.reasons if reason.kind is kind)

    @property
    def insufficient(self) -> dict[str, int]:
        """Resource name → nodes that are short of it."""
        return {reason.detail: reason.count for reason in self.reasons if reason.kind is ReasonKind.INSUFFICIENT}


class EventKind(StrEnum):
    """What an event or message says, across the systems that this module reads."""

    UNSCHEDULABLE = "Unschedulable"
    GANG_UNSCHEDULABLE = "GangUnschedulable"
    GANG_READY = "GangReady"
    QUOTA_PENDING = "QuotaPending"
    QUOTA_RESERVED = "QuotaReserved"
    ADMITTED = "Admitted"
    EVICTED = "Evicted"
    ADMISSION_FAILED = "AdmissionFailed"
    START_FAILED = "StartFailed"
    STARTED = "Started"
    AUTOSCALER = "Autoscaler"
    OTHER = "Other"


class ParsedEvent(msgspec.Struct, frozen=True):
    """One event. Fields that its form does not carry are ``""``; ``unschedulable`` is set where the message has that grammar.

    ``seen`` orders events by when they were last seen, in seconds, where the form says that; ``count`` is how often.
    """

    type: str
    reason: str
    object: str
    source: str
    message: str
    kind: EventKind
    unschedulable: Unschedulable | None = None
    seen: float | None = None
    count: int = 1


def classify(text: str) -> tuple[ReasonKind, str]:
    """Kind and detail of one reason's text, in the wordings of all supported releases.

    Facts: docs/facts/scheduling-messages.md#unschedulable-pods.
    """
    if "had untolerated taint" in text or ("had taint" in text and "didn't tolerate" in text) or "had taints that the pod" in text:
        match = _TAINT_OLD.search(text)
        value = match["value"].strip() if match else ""
        return ReasonKind.TAINT, (f"{match['key']}={value}" if value else match["key"]) if match else ""
    if match := _INSUFFICIENT.search(text):
        return ReasonKind.INSUFFICIENT, match["resource"].rstrip(".")
    for marks, kind in _MARKS:
        if any(mark in text for mark in marks):
            return kind, ""
    return ReasonKind.OTHER, ""


_MARKS: tuple[tuple[tuple[str, ...], ReasonKind], ...] = (
    (("pod affinity", "pod anti-affinity", "anti-affinity rules"), ReasonKind.POD_AFFINITY),
    (("volume", "PersistentVolume"), ReasonKind.VOLUME),  # "volume node affinity conflict" is about the volume
    (("node affinity", "node selector", "node(s) didn't match Pod's node"), ReasonKind.AFFINITY),
    (("were unschedulable",), ReasonKind.CORDONED),
    (("topology spread",), ReasonKind.TOPOLOGY_SPREAD),
    (("Too many pods",), ReasonKind.TOO_MANY_PODS),
    (("cannot allocate all claims", "resourceclaim", "dynamic resource", "claim"), ReasonKind.DRA),
    (("resource fit failed", "node unregistered"), ReasonKind.RESOURCE_FIT),  # of Volcano, of HAMi
)


def parse_unschedulable(message: str) -> Unschedulable:
    """Read a scheduler's message; text before its head is skipped.

    Raises:
        Unreadable: the text holds no ``0/N nodes are available: …`` (nor ``all nodes are unavailable: …``).
    """
    match = _HEAD.search(message[:65536])
    if match is None:
        raise Unreadable("no '0/N nodes are available' message found")
    rest = match["rest"]
    cut = _sentence_end(rest)
    body, postfilter = rest[:cut], rest[cut:].lstrip(". ").strip()
    reasons = tuple(Reason(count, text, *classify(text)) for count, text in _items(body))
    return Unschedulable(int(match["total"]) if match["total"] else None, reasons, postfilter)


def _sentence_end(text: str) -> int:
    """Index of the full stop that ends the reasons: followed by a blank or by nothing, and not inside braces of a taint."""
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "{") - (character == "}" and depth > 0)
        if character == "." and not depth and (index + 1 == len(text) or text[index + 1] in " \n"):
            return index
    return len(text)


def _items(body: str) -> Iterable[tuple[int, str]]:
    """``<n> <text>`` separated by ``, ``; a comma that no number follows belongs to the text."""
    current: tuple[int, str] | None = None
    for part in body.split(", "):
        match = _ITEM.match(part)
        if match:
            if current is not None:
                yield current
            current = (int(match[1]), part[match.end() :].strip())
        elif current is not None:
            current = (current[0], f"{current[1]}, {part.strip()}")
    if current is not None:
        yield current


def event_of(type_: str, reason: str, object_: str, source: str, message: str, *, seen: float | None = None, count: int = 1) -> ParsedEvent:
    """Classify one event by its reason and message."""
    message = " ".join(message.split())
    unschedulable = parse_unschedulable(message) if _HEAD.search(message) else None
    return ParsedEvent(type_, reason, object_, source, message, _event_kind(reason, message, unschedulable), unschedulable, seen, count)


_KIND_OF_REASON = {
    "Started": EventKind.STARTED,
    "QuotaReserved": EventKind.QUOTA_RESERVED,
    "Admitted": EventKind.ADMITTED,
    **dict.fromkeys(("Evict", "Evicted", "Preempted"), EventKind.EVICTED),
}


def _event_kind(reason: str, message: str, unschedulable: Unschedulable | None) -> EventKind:
    if reason in ("UnexpectedAdmissionError", "TopologyAffinityError") or reason.startswith("OutOf") or _TOO_LARGE.search(message):
        return EventKind.ADMISSION_FAILED
    if obstacle(reason, message):
        return EventKind.START_FAILED
    if _GANG.search(message):
        return EventKind.GANG_UNSCHEDULABLE
    if _QUOTA.search(message) or "queue resource quota insufficient" in message:
        return EventKind.QUOTA_PENDING
    if reason in ("NotTriggerScaleUp", "TriggeredScaleUp"):
        return EventKind.AUTOSCALER
    if unschedulable is not None or reason == "FailedScheduling":
        return EventKind.UNSCHEDULABLE
    if message.startswith("pod group is ready") or (reason == "Scheduled" and "gang" in message):
        return EventKind.GANG_READY
    return _KIND_OF_REASON.get(reason, EventKind.OTHER)


def gang_shortage(message: str) -> tuple[int, int] | None:
    """(unschedulable, tasks) of Volcano's ``3/6 tasks in gang unschedulable``; ``None`` for other text."""
    match = _GANG.search(message.replace("**", ""))
    return (int(match["short"]), int(match["total"])) if match else None


def parse_events(text: str) -> list[ParsedEvent]:
    """Events from plain messages, ``kubectl describe``, ``kubectl get events`` columns, or a JSON or YAML Event or List.

    Raises:
        Unreadable: empty, binary or oversized text, or not one event or scheduling message in it.
    """
    text = readable_text(text)
    found = _from_objects(text)
    if found is None:
        found = list(_from_lines(text))
    if not found:
        raise Unreadable("no event or scheduling message found")
    # ``kubectl get events`` does not sort
    return found if any(event.seen is None for event in found) else sorted(found, key=lambda event: event.seen or 0.0)


def _from_lines(text: str) -> Iterable[ParsedEvent]:
    described = ""
    for line in text.split("\n"):
        if name := _NAME.match(line):
            described = f"pod/{name[1]}"
        if (event := _from_line(line[:8192], described)) is not None:
            yield event


def _seen(text: str) -> tuple[float | None, int]:
    """When, as seconds before now, and how often: ``4m43s (x93 over 24m)``."""
    last, _, often = text.partition(" (x")
    units = _UNIT.findall(last)
    seen = -float(sum(int(number) * _SECONDS[unit] for number, unit in units)) if units else None
    return seen, int(often.partition(" ")[0]) if often[:1].isdigit() else 1


def _from_line(line: str, described: str) -> ParsedEvent | None:
    line = line.replace("**", "").rstrip()
    if line.startswith("#"):
        return None
    for form in (_DESCRIBE, _GET, _CUSTOM, _DESCRIBE_BARE):
        if match := form.match(line):
            parts = {"object": described, "source": "", "age": "", **match.groupdict()}
            seen, count = _seen(parts["age"])
            return event_of(parts["type"], parts["reason"], parts["object"], parts["source"], parts["message"], seen=seen, count=count)
    if match := _MARKDOWN_ROW.match(line):
        event = event_of("", match["reason"].strip(), match["object"].strip(), "", match["message"])
        return event if event.kind is not EventKind.OTHER or event.reason in ("Schedulable", "Unschedulable") else None
    if _HEAD.search(line) or _GANG.search(line) or _QUOTA.search(line) or _TOO_LARGE.search(line) or obstacle("", line):
        return event_of("", "", "", "", line)
    return None


def _from_objects(text: str) -> list[ParsedEvent] | None:
    """Events of a JSON or YAML document; ``None`` when the text is not one."""
    if not looks_like_json(text) and not _DOCUMENT.search(text):
        return None
    try:
        objects = load_objects(text)
    except EmptyList:
        raise
    except Unreadable:
        return None
    return [event for item in objects for event in _from_object(item)]


def _from_object(item: Json) -> Iterable[ParsedEvent]:
    about = mapping(item.get("involvedObject") or item.get("regarding"))
    name = f"{text_of(about.get('kind'))}/{text_of(about.get('name'))}".strip("/").lower()
    if item.get("kind") == "Pod":
        yield from _from_pod(item)
        return
    message = text_of(item.get("message")) or text_of(item.get("note"))
    if not message:
        return
    source = text_of(mapping(item.get("source")).get("component")) or text_of(item.get("reportingController"))
    reporter = source or text_of(item.get("reportingComponent"))
    count = item.get("count") or mapping(item.get("series")).get("count")
    times = int(count) if isinstance(count, int) else 1
    yield event_of(text_of(item.get("type")), text_of(item.get("reason")), name, reporter, message, seen=_time(item), count=times)


def _time(item: Json) -> float | None:
    series, metadata = mapping(item.get("series")), mapping(item.get("metadata"))
    written = (item.get("lastTimestamp"), series.get("lastObservedTime"), item.get("eventTime"), metadata.get("creationTimestamp"))
    try:
        return datetime.fromisoformat(next(text_of(time) for time in written if time).replace("Z", "+00:00")).timestamp()
    except (StopIteration, ValueError, OverflowError):
        return None


def _from_pod(pod: Json) -> Iterable[ParsedEvent]:
    """What a Pod's status says in place of its events: why it is not scheduled, why the kubelet refused it."""
    status = mapping(pod.get("status"))
    name = f"pod/{text_of(mapping(pod.get('metadata')).get('name'))}"
    if message := text_of(status.get("message")):
        yield event_of("Warning", text_of(status.get("reason")), name, "", message)
    for condition in map(mapping, sequence(status.get("conditions"))):
        if condition.get("type") == "PodScheduled" and text_of(condition.get("status")).lower() == "false":
            yield event_of("Warning", text_of(condition.get("reason")), name, "", text_of(condition.get("message")))
    for container in (*sequence(status.get("initContainerStatuses")), *sequence(status.get("containerStatuses"))):
        state = mapping(mapping(container).get("state"))
        held = mapping(state.get("waiting")) or mapping(state.get("terminated"))
        reason, message = text_of(held.get("reason")), text_of(held.get("message"))
        if obstacle(reason, message):
            restarts = mapping(container).get("restartCount")
            times = 1 + restarts if isinstance(restarts, int) else 1
            yield event_of("Warning", reason, name, "", f"container {text_of(mapping(container).get('name'))}: {message}", count=times)
