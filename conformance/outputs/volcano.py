"""Where a Volcano PodGroup stands.

A PodGroup keeps ``Unschedulable=True`` and ``Scheduled=True`` side by side, so the phase decides first and then the newest
``lastTransitionTime``; ``Succeeded`` and ``Releasing`` members mean tearing down, not lack of room. Whether a gang is all or nothing is
proven by bound pods only, which a PodGroup does not show.

Facts: docs/facts/gangs.md#volcano, docs/facts/gangs.md#volcano-conditions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from conformance.outputs.unreadable import Unreadable
from conformance.outputs.yaml_text import load_objects
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, sequence, text_of

_MEMBERS = re.compile(r"(\d{1,6}) (Pending|Running|Succeeded|Failed|Releasing|Pipelined|Binding|Bound|Allocated|Unknown|minAvailable)\b")
_RELEASING = frozenset({"Releasing", "Succeeded"})


class GangState(StrEnum):
    """What the gang is doing."""

    HELD = "held"  # waiting, nothing of it is running
    RUNNING = "running"
    COMPLETED = "completed"
    TEARING_DOWN = "tearing down"
    NOT_CREATED = "pods not created yet"
    UNKNOWN = "unknown"  # phase Unknown: part of the gang is gone


class GroupCondition(msgspec.Struct, frozen=True):
    """One condition of ``status.conditions``; ``since`` is ``lastTransitionTime`` in RFC 3339."""

    type: str
    status: bool
    reason: str
    message: str
    since: str


class PodGroup(msgspec.Struct, frozen=True):
    """One PodGroup ``scheduling.volcano.sh/v1beta1``. Counts are those of its status."""

    namespace: str
    name: str
    phase: str
    min_member: int
    running: int
    succeeded: int
    failed: int
    conditions: tuple[GroupCondition, ...]
    api: str = ""

    @property
    def foreign(self) -> bool:
        """Whether it is another scheduler's PodGroup, whose phases are its own."""
        return bool(self.api) and not self.api.startswith("scheduling.volcano.sh/")

    @property
    def newest(self) -> GroupCondition | None:
        """The true condition that changed last; earlier ones are stale."""
        return max((condition for condition in self.conditions if condition.status), key=lambda condition: condition.since, default=None)

    @property
    def members(self) -> dict[str, int]:
        """Counts by task state out of the newest condition's message (``3 Releasing``), ``minAvailable`` left out."""
        message = (self.newest.message if self.newest else "").partition(";")[0]
        return {state: int(count) for count, state in _MEMBERS.findall(message) if state != "minAvailable"}

    @property
    def state(self) -> GangState:
        """Phase first, then what the newest condition says."""
        if self.phase == "Running":
            return GangState.RUNNING
        if self.phase == "Completed":
            return GangState.COMPLETED
        if self.phase == "Unknown" or self.phase not in ("Pending", "Inqueue"):
            return GangState.UNKNOWN
        if self.succeeded or _RELEASING & self.members.keys():
            return GangState.TEARING_DOWN
        if self.newest and re.match(r"\d{1,6}/0 tasks in gang", self.newest.message):
            return GangState.NOT_CREATED
        return GangState.HELD


def parse(text: str) -> list[PodGroup]:
    """PodGroups of a JSON or YAML text.

    Raises:
        Unreadable: empty, binary or oversized text, malformed JSON or YAML, or no PodGroup in it.
    """
    groups = [group_of(item) for item in load_objects(text) if item.get("kind") == "PodGroup"]
    if not groups:
        raise Unreadable("no PodGroup found")
    return groups


def group_of(item: Json) -> PodGroup:
    """A decoded PodGroup object; fields of the wrong type read as absent."""
    metadata, spec, status = (mapping(item.get(part)) for part in ("metadata", "spec", "status"))
    return PodGroup(
        namespace=text_of(metadata.get("namespace")),
        name=text_of(metadata.get("name")),
        phase=text_of(status.get("phase")),
        min_member=_whole(spec, "minMember"),
        running=_whole(status, "running"),
        succeeded=_whole(status, "succeeded"),
        failed=_whole(status, "failed"),
        api=text_of(item.get("apiVersion")),
        conditions=tuple(_condition(condition) for condition in map(mapping, sequence(status.get("conditions")))),
    )


def _whole(values: Mapping[str, object], name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _condition(condition: Json) -> GroupCondition:
    return GroupCondition(
        type=text_of(condition.get("type")),
        status=text_of(condition.get("status")).lower() == "true",
        reason=text_of(condition.get("reason")),
        message=" ".join(text_of(condition.get("message")).split()),
        since=text_of(condition.get("lastTransitionTime")).replace(" ", "T"),
    )
