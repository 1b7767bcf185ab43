"""Kubernetes objects out of captured text (JSON, YAML, Lists, with prompts and cut ends around), and readers of slices and PodGroups.

A pool is complete only when the slices of its newest generation number ``resourceSliceCount``; older generations are ignored.

A PodGroup of Volcano keeps ``Unschedulable=True`` and ``Scheduled=True`` side by side, so the phase decides first and then the newest
``lastTransitionTime``; ``Succeeded`` and ``Releasing`` members mean tearing down, not lack of room. Whether a gang is all or nothing is
proven by bound pods only, which a PodGroup does not show.

Facts: docs/facts/dra.md#nvidia-driver, docs/facts/dra.md#slices-and-pools, docs/facts/gangs.md#volcano,
docs/facts/gangs.md#volcano-conditions.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from conformance.outputs.captured_text import MAX_CHARACTERS, EmptyList, Unreadable, readable_text
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.dra.slices import SHAPE_FOR_MACHINES, Slice, SliceDevice, lack_of, newest
from fixtures.model.objects import Row, conditions_of, row_of
from fixtures.text import json_text, yaml_text
from fixtures.text.json_text import NotJson
from fixtures.text.yaml_text import NotYaml

_BETWEEN = re.compile(r"\}[ \t]*\n[ \t]*\{")
_LEADING = re.compile(r"\A(?:[ \t]*(?:[#$][^\n]*)?\n)*[ \t]*")


def load_objects(text: str) -> list[Json]:
    """The objects (mappings with ``kind`` or anything else that is a mapping) of a JSON or YAML text, Lists unpacked.

    Lines before the first that looks like a document (``$ kubectl …``, notes) are skipped; a lone ``...`` line that stands for omitted
    text, which YAML would take for the end of the document, is dropped.

    Raises:
        Unreadable: empty, binary or oversized text, or neither JSON nor YAML with a mapping in it.
    """
    text = readable_text(text)
    stripped = _LEADING.sub("", text, count=1)
    documents: list[Any]
    if stripped[:1] in "{[":
        try:
            documents = [json_text.decode(stripped)]
        except NotJson as error:
            documents = _stream(stripped)
            if not documents:
                raise Unreadable(f"malformed JSON: {_first_line(error)}") from error
    else:
        documents = _load_yaml(text)
    objects = [item for document in documents for item in _unpack(document)]
    if not objects:
        lists = any(isinstance(document, Mapping) and document.get("items") == [] for document in documents)
        raise EmptyList("the list is empty") if lists else Unreadable("neither a JSON nor a YAML object found")
    return objects


def none_of(kind: str, objects: Iterable[Json]) -> str:
    """Why a text has no object of a kind: ``kubectl describe`` prints something that looks like YAML."""
    described = any("API Version" in item and item.get("Kind") == kind for item in objects)
    return f"kubectl describe leaves out what is read here: kubectl get {kind.lower()}s -o yaml" if described else f"no {kind} found"


def _stream(text: str) -> list[Any]:
    """Documents one behind another, as jq prints them; none where any is malformed."""
    try:
        documents = json_text.decode(f"[{_BETWEEN.sub('},{', text)}]") if _BETWEEN.search(text) else []
    except NotJson:
        return []
    return list(documents)


def looks_like_json(text: str) -> bool:
    """Whether the first character after comment and prompt lines opens a JSON object or list."""
    return _LEADING.sub("", text, count=1)[:1] in ("{", "[")


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _load_yaml(text: str) -> list[Any]:
    lines = text.split("\n")
    start = next((number for number, line in enumerate(lines) if _opens(line)), None)
    if start is None:
        none = next((line.strip() for line in lines if line.startswith("No resources found")), "")
        raise Unreadable(f"kubectl says: {none[:120]}" if none else "neither a JSON nor a YAML object found")
    fenced = any(line.lstrip().startswith("```") for line in lines[:start])
    end = next((number for number in range(start, len(lines)) if fenced and lines[number].lstrip().startswith("```")), len(lines))
    kept = [line for line in lines[start:end] if line.strip() != "..." and not line.startswith(("$ ", "```"))]
    try:
        return yaml_text.load_all("\n".join(kept), most=MAX_CHARACTERS)
    except NotYaml as error:
        raise Unreadable(f"malformed YAML: {_first_line(error)}") from error


def _opens(line: str) -> bool:
    word = line.removeprefix("- ").partition(":")[0]
    return (
        bool(word) and ":" in line and word.replace("_", "").replace("-", "").isalnum() and word[:1].isalpha() and not line.startswith("#")
    )


def _unpack(document: Any) -> Iterator[Json]:
    if isinstance(document, Mapping):
        items = document.get("items")
        if isinstance(items, list):
            # the API server says kind and version once, for the list
            kind = str(document.get("kind") or "").removesuffix("List")
            reported = {"apiVersion": document.get("apiVersion"), "kind": kind} if kind else {}
            yield from ({**reported, **item} for item in items if isinstance(item, dict))
        elif isinstance(document, dict):
            yield document
    elif isinstance(document, list):
        yield from (item for item in document if isinstance(item, dict))


class Pool(msgspec.Struct, frozen=True):
    """One pool of one driver, in its newest generation."""

    driver: str
    name: str
    generation: int
    slices: int
    expected_slices: int
    stale_slices: int
    devices: tuple[SliceDevice, ...]
    incomplete: str
    lack: str = ""

    @property
    def complete(self) -> bool:
        """Whether every slice of the newest generation is there and could be read."""
        return not self.incomplete and not self.lack

    @property
    def types(self) -> dict[str, int]:
        """Devices by type."""
        return dict(Counter(device.type or "?" for device in self.devices))


def pools(slices: Iterable[Slice]) -> list[Pool]:
    """Pools by driver and name, sorted; each in its newest generation."""
    every = list(slices)
    count = Counter((entry.driver, entry.pool) for entry in every)
    return [
        Pool(
            driver=driver,
            name=name,
            generation=current[0].generation,
            slices=len(current),
            expected_slices=max(entry.expected_slices for entry in current),
            stale_slices=count[(driver, name)] - len(current),
            devices=tuple(device for entry in current for device in entry.devices),
            incomplete="; ".join(dict.fromkeys(entry.incomplete for entry in current if entry.incomplete)),
            lack=lack_of(current),
        )
        for (driver, name), current in newest(every).items()
    ]


class PoolProblem(msgspec.Struct, frozen=True):
    """What is wrong with a pool. ``certain`` is false where it is said in words that nobody here knows."""

    code: str
    message: str
    certain: bool = True


def pool_problems(pool: Pool) -> list[PoolProblem]:
    """What is wrong with a pool, worst first: slices missing, no device, names or UUIDs published twice, devices that no claim gets.

    What was left out of the text is not a problem.
    """
    problems = []
    if pool.lack and not pool.incomplete:
        problems.append(PoolProblem("INCOMPLETE_POOL", pool.lack))
    alone = [device for device in pool.devices if not device.counters and not device.shareable]
    for what, values in (
        ("device name", [("", device.name) for device in pool.devices]),
        ("UUID", [(device.type, uuid) for device in alone if (uuid := device.attribute("uuid"))]),  # a shape for machines shares it
    ):
        twice = [(value, count) for (_, value), count in sorted(Counter(values).items()) if count > 1]
        problems += [PoolProblem("DUPLICATE", f"{what} {value} is published {count} times") for value, count in twice]
    problems += [PoolProblem("DUPLICATE", message) for message in _beside_parts(pool)]
    if not pool.devices and pool.complete:
        problems.append(PoolProblem("NO_DEVICES", "its driver publishes no device: no claim gets one here"))
    for device in pool.devices:
        if device.tainted:
            problems.append(PoolProblem("TAINTED", f"device {device.name} has {device.tainted}: no new claim gets it"))
        elif strange := next((taint for taint in device.taints if not taint.hard and taint.effect != "None"), None):
            message = f"device {device.name} has the taint {strange}, whose effect is not known"
            problems.append(PoolProblem("TAINTED", message, certain=False))
    return problems


def _beside_parts(pool: Pool) -> Iterator[str]:
    """Whole devices beside parts of them, which share no counters: both can be allocated."""
    parts: dict[str, list[SliceDevice]] = defaultdict(list)
    for device in pool.devices:
        parts[device.attribute("parentUUID")].append(device)
    for device in pool.devices:
        mine = parts.get(device.attribute("uuid"), ()) if device.attribute("uuid") else ()
        loose = [part.name for part in mine if not set(part.counters) & set(device.counters)]
        if loose and device.type != SHAPE_FOR_MACHINES:
            yield f"device {device.name} is published beside its own parts ({', '.join(loose[:3])}), and no counters tie them"


_RELEASING = re.compile(r"\d{1,6} (?:Releasing|Succeeded)\b")


class GangState(StrEnum):
    """What the gang is doing."""

    HELD = "held"  # waiting, nothing of it is running
    RUNNING = "running"
    COMPLETED = "completed"
    TEARING_DOWN = "tearing down"
    NOT_CREATED = "pods not created yet"
    UNKNOWN = "unknown"  # phase Unknown: part of the gang is gone


class PodGroup(Row, frozen=True, kw_only=True):
    """One PodGroup ``scheduling.volcano.sh/v1beta1``. Counts are those of its status; fields of the wrong type read as absent."""

    api: str
    phase: str
    min_member: int
    running: int
    succeeded: bool
    newest: str  # the message of the true condition that changed last; earlier ones are stale

    @property
    def foreign(self) -> bool:
        """Whether it is another scheduler's PodGroup, whose phases are its own."""
        return bool(self.api) and not self.api.startswith("scheduling.volcano.sh/")

    @property
    def doing(self) -> GangState:
        """Phase first, then what the newest condition says of members (``3 Releasing``), before it says how many are needed."""
        if self.phase == "Running":
            return GangState.RUNNING
        if self.phase == "Completed":
            return GangState.COMPLETED
        if self.phase not in ("Pending", "Inqueue"):
            return GangState.UNKNOWN
        if self.succeeded or _RELEASING.search(self.newest.partition(";")[0]):
            return GangState.TEARING_DOWN
        return GangState.NOT_CREATED if re.match(r"\d{1,6}/0 tasks in gang", self.newest) else GangState.HELD


def group_of(item: Json) -> PodGroup:
    """A decoded PodGroup object."""
    spec, status = mapping(item, "spec"), mapping(item, "status")
    true = [one for one in conditions_of(item) if text_of(one.get("status")).lower() == "true"]
    last = max(true, key=lambda one: text_of(one.get("lastTransitionTime")).replace(" ", "T"), default={})
    return PodGroup(
        **row_of(item),
        api=text_of(item.get("apiVersion")),
        phase=text_of(status.get("phase")),
        min_member=_count(spec.get("minMember")),
        running=_count(status.get("running")),
        succeeded=_count(status.get("succeeded")) > 0,
        newest=" ".join(text_of(last.get("message")).split()),
    )


def _count(value: Any) -> int:
    return max(value, 0) if type(value) is int else 0
