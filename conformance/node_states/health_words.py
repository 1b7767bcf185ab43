"""What is said about the health of a node: its conditions, and labels that monitors and clouds keep on it.

Facts: docs/facts/device-health.md#node-conditions, docs/facts/device-health.md#health-labels.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from conformance.node_states.polarity import Health, Reading, read_condition, words_of
from conformance.node_states.since import UNKNOWN, Since, said
from fixtures.kubernetes.models import Node
from fixtures.kubernetes.times import moment

_HEALTH_LABEL = re.compile(r"(?i)(?:\A|[/._-])(?:gpu|host|node|accelerator|device)[-_./]?health(?:[-_.]?(?:status|state))?\Z")
_GPU_STATE = re.compile(r"metricsexporter\.amd\.com\.gpu\.\d{1,3}\.state")
_FAULT_LABEL = re.compile(r"oci\.oraclecloud\.com/host\.fault\.[\w.-]{1,60}")
_NVSENTINEL = "dgxc.nvidia.com/nvsentinel-state"
_LIKELY = ("health", "host.fault", ".gpu.", "nvsentinel")
"""Words of which such a key has one."""

_FINE_VALUES = frozenset({"healthy", "ok", "good", "true", "passed", "schedulable", "normal", "up", "online"})
_FAULT_VALUES = frozenset({"unhealthy", "degraded", "failed", "failure", "faulty", "fault", "bad", "critical", "false", "error", "down"})


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is said of a node, and what it means. ``text`` is as a report shows it."""

    text: str
    reading: Reading
    since: Since = UNKNOWN
    source: str

    @property
    def health(self) -> Health:
        """What it means."""
        return self.reading.health


def health_words(node: Node) -> list[Word]:
    """Everything said about the health of a node, in the order of the object."""
    found = []
    for condition in node.status.conditions:
        reading = read_condition(condition, node)
        if reading.health is not Health.OTHER:
            since = Since(latest=moment(condition.last_transition_time), source=f"condition {said(condition.type, 80)}")
            found.append(Word(text=words_of(condition), reading=reading, since=since, source="node.status.conditions"))
    for key in sorted(filter(_is_likely, node.metadata.label)):
        value = node.metadata.label[key]
        if (health := _label(key, value)) is not Health.OTHER:
            found.append(Word(text=f"label {key}={value}", reading=Reading(health, True), source="node labels"))
    return found


@lru_cache(maxsize=4096)  # most nodes have a hundred labels, and those of a fleet have the same keys
def _is_likely(key: str) -> bool:
    return any(word in key.lower() for word in _LIKELY)


def _label(key: str, value: str) -> Health:
    if _FAULT_LABEL.fullmatch(key):
        return Health.FAULT
    if key == _NVSENTINEL:
        return Health.FAULT if value.endswith("-failed") else Health.OTHER  # it goes no further by itself; other steps are repair
    if not (_HEALTH_LABEL.search(key) or _GPU_STATE.fullmatch(key)):
        return Health.OTHER
    word = value.lower()
    if word in _FINE_VALUES:
        return Health.FINE
    if word in _FAULT_VALUES or word.startswith("unschedulable"):
        return Health.FAULT
    return Health.UNSURE


def of(words: list[Word], health: Health) -> list[Word]:
    """Those words that mean one thing."""
    return [word for word in words if word.health is health]
