"""Lines of an NCCL log taken apart by writer, and the channels in them (docs/facts/nccl.md#nccl-log-lines).

Processes that write at once leave several lines in one. A transport that is not understood to its end is kept as ``UNKNOWN``: it is a
channel, and nobody can say that it is direct.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from conformance.outputs.captured_text import MAX_LINE_CHARACTERS

_PREFIX = re.compile(r"(?<![\w.-])([A-Za-z0-9][\w.-]{0,253}):\d{1,10}:\d{1,10} \[-?\d{1,4}\]")
_WRITTEN = re.compile(r"NCCL (?:INFO|WARN) |Channel \d|CollNet \d")
_CHANNEL = re.compile(r"(?:NCCL INFO )?(?:Channel|CollNet|Ring) \d")
_TAIL = re.compile(r"(?:GDRDMA|Shared|CUMEM|IPC|MNNVL|read|CE|direct)(?=.)")


class Segment(msgspec.Struct, frozen=True):
    """What one process wrote into one line. ``glued`` is what follows in the same line, by another."""

    text: str
    host: str
    glued: str = ""


def segments(lines: Sequence[str]) -> Iterator[Segment]:
    """Every line, cut before each ``host:pid:tid [device]`` behind another writer's text. No segment is longer than a line may be."""
    found = [list(_PREFIX.finditer(line)) for line in lines]
    hosts = {match[1] for line, matches in zip(lines, found, strict=True) for match in matches[:1] if not line[: match.start()].strip()}
    for line, matches in zip(lines, found, strict=True):
        parts: list[tuple[int, str]] = []
        if not matches or _WRITTEN.search(line, 0, matches[0].start()):
            parts.append((0, ""))
        for match in matches:
            # what a launcher put in front belongs to the line
            parts.append((match.start(), _host(match, line, hosts)) if parts else (0, match[1]))
        following = matches[len(matches) + 1 - len(parts) :]
        for number, (start, name) in enumerate(parts):
            after = following[number] if number < len(following) else None
            # the name of the next host may be glued to this one's last word: this one keeps both
            end = after.end(1) if after else len(line)
            yield from _bounded(line[start:end], name, after[0] if after else "")


def _bounded(text: str, host: str, glued: str) -> Iterator[Segment]:
    """One segment, or one for each channel of a text that is longer than a line may be."""
    if len(text) <= MAX_LINE_CHARACTERS:
        yield Segment(text, host, glued)
        return
    starts = [0, *(match.start() for match in _CHANNEL.finditer(text)), len(text)]
    for start, end in pairwise(starts):
        yield Segment(text[start : min(end, start + MAX_LINE_CHARACTERS)], host, glued if end == len(text) else "")


def _host(match: re.Match[str], line: str, hosts: set[str]) -> str:
    """The host of a prefix behind other text; empty where it is glued to a word and cannot be told from it."""
    name = match[1]
    if name in hosts:
        return name
    if known := max((host for host in hosts if name.endswith(host)), key=len, default=""):
        return known
    if tail := _TAIL.match(name):
        return name[tail.end() :]
    return "" if line[: match.start()].endswith(("/", ")")) else name


_HEAD = re.compile(
    r"(?P<word>Channel|Ring) (?P<channel>\d{1,4})(?:/(?P<connection>\d{1,4}))?\s{0,8}:\s{0,8}"
    r"(?P<src>\d{1,7})(?:\[(?P<src_device>[0-9a-f]{1,16})\])?\s{0,8}->\s{0,8}(?P<dst>\d{1,7})(?:\[(?P<dst_device>[0-9a-f]{1,16})\])?"
    r"(?:\s{0,8}\[(?P<direction>send|receive)\])?(?P<via>\s{1,8}via\b)?"
    r"|(?P<collnet>CollNet) (?P<collnet_channel>\d{1,4})(?:/(?P<collnet_connection>\d{1,4}))?\s{0,8}:\s{0,8}(?P<rank>\d{1,7})"
    r"\s{0,8}\[(?P<collnet_direction>send|receive)\](?:\s{1,8}via\b)?"
)
_NET = re.compile(r"(?P<kind>NET|COLLNET)/(?P<network>[^/\"'\\|<>{}\[\]]{1,64})(?:/(?P<device>\d{1,4})(?:\((?P<proxy>-?\d{1,7})\))?)?")
_DIRECT = re.compile(r"(?P<gdr>/GDRDMA)?(?P<pci>\(PCI\))?(?P<shared>/Shared)?")
_LOCAL = re.compile(r"P2P\b|SHM\b|direct shared memory\b", re.IGNORECASE)
_TRAILER = re.compile(r"\s(?:comm 0x\S{0,32} nRanks \d|<--|\[cite|#)")
_HOST = re.compile(r"[A-Za-z0-9][\w.-]{0,253}\Z")
_NEXT_WRITER = re.compile(r"NCCL (?:INFO|WARN|version)|Channel \d|CollNet \d|Connected all|Trees \[|Ring \d")
_MAX_VIA = 200
UNKNOWN = "UNKNOWN"
ROOT = -1
"""The other end of a CollNet channel: the switches."""


class Channel(msgspec.Struct, frozen=True):
    """One ``Channel`` or ``CollNet`` line. ``src_device``/``dst_device`` are NVML indexes, or bus ids in hex in old releases.

    ``kind`` is ``NET`` or ``COLLNET`` for a network, ``UNKNOWN`` for a transport that was not understood to its end, else empty.
    """

    channel: int
    connection: int
    src: int
    dst: int
    src_device: str
    dst_device: str
    direction: str
    via: str
    host: str
    kind: str = ""
    network: str = ""
    device: int = -1
    proxy_rank: int = -1
    gdr: bool = False
    pci: bool = False
    shared: bool = False

    @property
    def is_net(self) -> bool:
        """Whether the line goes through a network (``NET/…`` or ``COLLNET/…``), or nobody knows that it does not."""
        return bool(self.kind)

    @property
    def collective(self) -> bool:
        """Whether it goes to the switches, which reduce (CollNet): it has one rank only."""
        return self.dst == ROOT

    @property
    def understood(self) -> bool:
        """Whether the transport was read to its end."""
        return self.kind != UNKNOWN


def without_trailer(text: str) -> str:
    """A line's text without what RCCL and authors of documents put behind it."""
    return _TRAILER.split(text, maxsplit=1)[0]


def channels_in(text: str, host: str, glued: str = "") -> Iterator[Channel]:
    """Every channel in the text of one writer. ``glued`` is the next writer's text, where one follows without a line's end."""
    # rings are listed like channels; only what has devices, a direction or a transport is one
    marks = ("collnet", "via", "direction")
    every = _HEAD.finditer(text)
    heads = [head for head in every if any(map(head.group, marks)) or (head["word"] == "Channel" and head["src_device"])]
    for number, head in enumerate(heads):
        last = number + 1 == len(heads)
        rest = text[head.end() : None if last else heads[number + 1].start()]
        yield _channel(head, rest.strip(), host, glued if last else "")


def _channel(head: re.Match[str], rest: str, host: str, glued: str) -> Channel:
    collective = head["collnet"] is not None
    part = "collnet_" if collective else ""
    via = without_trailer(rest).rstrip()[:_MAX_VIA]
    direction = head[f"{part}direction"] or ""
    net, kind, direct = _transport(via, direction, glued)
    if net is not None and kind != UNKNOWN:
        via = via[: (direct or net).end()]
    return Channel(
        channel=int(head[f"{part}channel"]),
        connection=int(head[f"{part}connection"] or 0),
        src=int(head["rank"] if collective else head["src"]),
        dst=ROOT if collective else int(head["dst"]),
        src_device=head["src_device"] or "",
        dst_device=head["dst_device"] or "",
        direction=direction,
        via=via,
        host=host,
        kind=kind,
        network=net["network"].strip() if net else "",
        device=int(net["device"]) if net and net["device"] else -1,
        proxy_rank=int(net["proxy"]) if net and net["proxy"] else -1,
        gdr=bool(kind != UNKNOWN and direct and direct["gdr"]),
        pci=bool(direct and direct["pci"]),
        shared=bool(direct and direct["shared"]),
    )


def _transport(via: str, direction: str, glued: str) -> tuple[re.Match[str] | None, str, re.Match[str] | None]:
    """The network, the kind of transport, and the marks of GPUDirect behind the device."""
    net = _NET.match(via)
    if net is None:
        return None, "" if _LOCAL.match(via) and not direction else UNKNOWN, None
    direct = _DIRECT.match(via, net.end())
    if net["device"] is None or direct is None or not _ends(via[direct.end() :], glued):
        return net, UNKNOWN, direct
    return net, net["kind"], direct


def _ends(rest: str, glued: str) -> bool:
    """Whether the transport ends before ``rest``: nothing is behind it, or punctuation, or the next writer's text."""
    if not rest or rest[0].isspace() or rest[0] in "\"'`,;:!*#<>|)]}{[\\&~=":
        return True
    if rest[0] == ".":
        return not rest[1:2].isalnum()
    return bool(_NEXT_WRITER.match(rest) or (glued and _HOST.match(rest)))
