"""Reader of what ``kubectl get pods`` prints, and what the state of each pod says (docs/facts/scheduling-messages.md#states-in-a-table)."""

from __future__ import annotations

import re

import msgspec

from conformance.outputs.log_text import log_lines
from conformance.outputs.unreadable import Unreadable

_HEAD = re.compile(r"\s{0,16}(?:NAMESPACE\s{1,64})?NAME\s{1,128}READY\s{1,32}STATUS\s{1,64}RESTARTS\b")
_OTHER_HEAD = re.compile(r"\s{0,16}(?:NAMESPACE\s{1,64})?NAME\s{2,128}[A-Z]|\s{0,16}[$>#] ")
_ROW = re.compile(
    r"\s{0,16}(?:(?P<namespace>[a-z0-9][a-z0-9-]{0,62})\s{1,64})?(?P<name>[a-z0-9][a-z0-9.-]{0,252})\s{1,128}(?P<ready>\d{1,3})/(?P<total>\d{1,3})"
    r"\s{1,32}(?P<status>\S{1,80})\s{1,64}(?P<restarts>\d{1,7})\b"
)
_WAITING = re.compile(r"(?:Pending|ContainerCreating|PodInitializing|Terminating|Init:\d{1,3}/\d{1,3}|SchedulingGated|NotReady|Unknown)\Z")
_ENDED = frozenset({"Completed", "Succeeded"})


class PodRow(msgspec.Struct, frozen=True):
    """One row of the table."""

    namespace: str
    name: str
    ready: int
    total: int
    status: str
    restarts: int

    @property
    def well(self) -> bool | None:
        """Whether the pod runs with all its containers ready, or has ended well; ``None`` while it may still come to that."""
        if self.status == "Running":
            return True if self.ready == self.total else None
        if self.status in _ENDED:
            return True
        return None if _WAITING.match(self.status) else False


def parse(text: str) -> list[PodRow]:
    """Rows of every table in the text, also behind a prompt or between other lines.

    Raises:
        Unreadable: empty, binary or oversized text, or no table of pods in it.
    """
    rows: list[PodRow] = []
    inside = False
    for line in log_lines(text):
        if _HEAD.match(line):
            inside = True
        elif _OTHER_HEAD.match(line):
            inside = False
        elif inside and (match := _ROW.match(line)):
            ready, total, restarts = (int(match[part]) for part in ("ready", "total", "restarts"))
            rows.append(PodRow(match["namespace"] or "", match["name"], ready, total, match["status"], restarts))
    if not rows:
        raise Unreadable("no table of pods found")
    return rows
