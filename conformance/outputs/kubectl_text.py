"""Readers of what kubectl prints: tables of pods, claims and slices, and the API server's refusal of an object that is not valid.

Facts: docs/facts/admission.md#extended-resources, docs/facts/dra.md#what-kubectl-prints,
docs/facts/scheduling-messages.md#states-in-a-table.
"""

import re
from collections.abc import Iterator

import msgspec

from conformance.outputs.captured_text import Unreadable, log_lines

_POD_HEAD = re.compile(r"\s{0,16}(?:NAMESPACE\s{1,64})?NAME\s{1,128}READY\s{1,32}STATUS\s{1,64}RESTARTS\b")
_POD_ROW = re.compile(
    r"\s{0,16}(?:(?P<namespace>[a-z0-9][a-z0-9-]{0,62})\s{1,64})?(?P<name>[a-z0-9][a-z0-9.-]{0,252})\s{1,128}(?P<ready>\d{1,3})/(?P<total>\d{1,3})"
    r"\s{1,32}(?P<status>\S{1,80})\s{1,64}(?P<restarts>\d{1,7})\b"
)
_WAITING = re.compile(r"(?:Pending|ContainerCreating|PodInitializing|Terminating|Init:\d{1,3}/\d{1,3}|SchedulingGated|NotReady|Unknown)\Z")
_ENDED = frozenset({"Completed", "Succeeded"})


class NamedRow(msgspec.Struct, frozen=True):
    """One row of a table; ``namespace`` is empty where the table has no column of namespaces."""

    namespace: str
    name: str

    @property
    def subject(self) -> str:
        """``namespace/name``, or the name."""
        return f"{self.namespace}/{self.name}".strip("/")


class PodRow(NamedRow, frozen=True):
    """One pod of a table."""

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


def parse_pods(text: str) -> list[PodRow]:
    """Rows of every table in the text, also behind a prompt or between other lines.

    Raises:
        Unreadable: empty, binary or oversized text, or no table of pods in it.
    """
    rows: list[PodRow] = []
    inside = False
    for line in log_lines(text):
        if _POD_HEAD.match(line):
            inside = True
        elif _OTHER_HEAD.match(line):
            inside = False
        elif inside and (match := _POD_ROW.match(line)):
            ready, total, restarts = (int(match[part]) for part in ("ready", "total", "restarts"))
            rows.append(PodRow(match["namespace"] or "", match["name"], ready, total, match["status"], restarts))
    if not rows:
        raise Unreadable("no table of pods found")
    return rows


_CLAIM_HEAD = re.compile(
    r"\s{0,16}(?P<all>NAMESPACE\s{1,64})?NAME\s{1,300}(?:RESOURCECLASSNAME\s{1,80}ALLOCATIONMODE\s{1,80})?STATE\s{1,64}AGE\b"
)
_SLICE_HEAD = re.compile(r"\s{0,16}NAME\s{1,300}NODE\s{1,300}DRIVER\s{1,128}POOL\s{1,300}AGE\b")
_OTHER_HEAD = re.compile(r"\s{0,16}(?:NAMESPACE\s{1,64})?NAME\s{2,300}[A-Z]|\s{0,16}[$>#] ")
_STATE = re.compile(r"(?:pending|deleted|(?:deleted,)?allocated(?:,reserved)?)\Z")
_KIND = re.compile(r"resource(?:claim|slice)s?(?:\.resource\.k8s\.io)?/")


class ClaimRow(NamedRow, frozen=True):
    """One claim of a table. ``state`` are its words: ``deleted``, ``allocated``, ``reserved``, ``pending``."""

    state: tuple[str, ...]


class SliceRow(msgspec.Struct, frozen=True):
    """One slice of a table; ``node`` is empty where several nodes reach its devices."""

    name: str
    node: str
    driver: str
    pool: str


def claim_rows(text: str) -> list[ClaimRow]:
    """Claims of every table in the text; empty where there is none."""
    rows = []
    for spread, words in _rows(text, _CLAIM_HEAD):
        state = next((word for word in words if _STATE.match(word)), "")
        if state and len(words) > spread:
            namespace, name = (words[0], words[1]) if spread else ("", words[0])
            rows.append(ClaimRow(namespace, _KIND.sub("", name), tuple(state.split(","))))
    return rows


def slice_rows(text: str) -> list[SliceRow]:
    """Slices of every table in the text; empty where there is none."""
    rows = []
    for _, words in _rows(text, _SLICE_HEAD):
        if len(words) in (4, 5):
            name, driver, pool = words[0], words[-3], words[-2]
            rows.append(SliceRow(_KIND.sub("", name), words[1] if len(words) == 5 else "", driver, pool))
    return rows


def _rows(text: str, head: re.Pattern[str]) -> Iterator[tuple[bool, list[str]]]:
    """Words of the lines below each such head, and whether the head has a column of namespaces."""
    inside, spread = False, False
    for line in log_lines(text):
        if found := head.match(line):
            inside, spread = True, bool(found.groupdict().get("all"))
        elif _OTHER_HEAD.match(line) or not line.strip():
            inside = False
        elif inside:
            yield spread, line[:2048].split()


_REFUSAL_HEAD = re.compile(
    r"(?:The (?P<kind>[A-Z]\w{1,62}) \"(?P<name>[^\"]{1,253})\" is invalid:|\"?(?P<other>[\w.-]{1,253})\"? is invalid:)\s{0,4}(?P<rest>.*)"
)
_CAUSE = re.compile(
    r"(?:[*-]\s{1,4})?(?P<field>[a-zA-Z][\w.\[\]/\"-]{1,300}): "
    r"(?P<what>Invalid value|Required value|Forbidden|Unsupported value|Duplicate value|Too long|Too many|Not found|Internal error)"
    r"(?:: (?P<detail>.{1,600}))?"
)


class Cause(msgspec.Struct, frozen=True):
    """One field that the API server refuses, in its words."""

    field: str
    what: str
    detail: str


class ApiRefusal(msgspec.Struct, frozen=True):
    """One refused object."""

    kind: str
    name: str
    causes: tuple[Cause, ...]


def parse_refusal(text: str) -> ApiRefusal:
    """The first refusal of the text.

    Raises:
        Unreadable: empty, binary or oversized text, or no refusal in it.
    """
    kind, name = "", ""
    causes: list[Cause] = []
    seen = False
    for line in log_lines(text):
        if head := _REFUSAL_HEAD.search(line):
            if seen:
                break
            seen, kind, name = True, head["kind"] or "", head["name"] or head["other"] or ""
            line = head["rest"]
        if seen:
            causes += [Cause(m["field"], m["what"], (m["detail"] or "").strip()) for m in _CAUSE.finditer(line)]
    if not seen:
        raise Unreadable("no refusal of an invalid object found")
    return ApiRefusal(kind, name, tuple(causes))
