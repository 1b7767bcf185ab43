"""Reader of NCCL (and RCCL) logs: channels, networks, HCAs, settings, warnings. Grammar of facts 5.4, tags v2.18.1 to v2.30.7.

The verdict over what is read here is :func:`conformance.outputs.nccl_log.judge`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from conformance.outputs.log_text import log_lines
from conformance.outputs.unreadable import Unreadable

_PREFIX = re.compile(r"(?<![\w.-])([A-Za-z0-9][\w.-]{0,253}):\d{1,10}:\d{1,10} \[-?\d{1,4}\]")
_CHANNEL = re.compile(
    r"Channel (?P<channel>\d{1,4})(?:/(?P<connection>\d{1,4}))?\s{0,8}:\s{0,8}"
    r"(?P<src>\d{1,7})\[(?P<src_device>[0-9a-f]{1,16})\]\s{0,8}->\s{0,8}(?P<dst>\d{1,7})\[(?P<dst_device>[0-9a-f]{1,16})\]"
    r"(?:\s{0,8}\[(?P<direction>send|receive)\])?\s{1,8}via\s{1,8}(?P<via>\S.*)"
)
_TRAILER = re.compile(r"\s(?:comm 0x\S{0,32} nRanks \d|<--|\[cite|#)")
_NET = re.compile(
    r"(?P<kind>NET|COLLNET)/(?P<network>[^/]{1,64})/(?P<device>\d{1,4})(?:\((?P<proxy>-?\d{1,7})\))?"
    r"(?P<gdr>/GDRDMA)?(?P<pci>\(PCI\))?(?P<shared>/Shared)?\Z"
)
_COMM = re.compile(
    r"\brank (?P<rank>\d{1,7}) nRanks (?P<ranks>\d{1,7}) nNodes (?P<nodes>\d{1,6})"
    r" localRanks \d{1,6} localRank \d{1,6}(?: MNNVL (?P<mnnvl>\d))?"
)
_RANK = re.compile(r"\brank (\d{1,7}) nranks (\d{1,7})\b")
_RCCL_RANKS = re.compile(r"\bcomm 0x\S{0,32} nRanks (\d{1,7})")
_TEST_RANK = re.compile(r"#\s{1,8}Rank\s{1,8}(\d{1,7})\s.{0,80}?\bon\s{1,12}(\S{1,253})\s{1,8}device\b")
_VERSION = re.compile(r"\b((?:NCCL|RCCL) version :?\s?[^\s]{1,64})")
_USING = re.compile(r"Using network (.{1,64})\Z")
_ASSIGNED = re.compile(r"Assigned NET plugin (.{1,64}?) to comm")
_HCA = re.compile(
    r"NET/(?P<network>[^/:]{1,64}?) ?: GPU Direct RDMA (?P<state>Enabled|Disabled) for HCA (?P<index>\d{1,4}) '(?P<name>[^']{0,64})'"
)
_ENV = re.compile(r"((?:NCCL|RCCL|FI|OFI)_\w{1,64}) set by environment to (\S.{0,255})")
_PROVIDER = re.compile(r"(?i)\bselected provider is ([\w;.-]{1,64})")
_DEVICE = re.compile(r"\[(\d{1,4})\]([\w.-]{1,64}):\d{1,3}/(IB|RoCE)")
_MNNVL = re.compile(r"\bMNNVL 1\b")
_ERROR_PATH = re.compile(r"[\w/.-]{1,128}\.(?:cc|cu|cpp|h):\d{1,6} -> \d{1,3}")


class Channel(msgspec.Struct, frozen=True):
    """One ``Channel`` line. ``src_device``/``dst_device`` are NVML indexes, or bus ids in hex in old releases."""

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
        """Whether the line goes through a network plugin (``NET/…`` or ``COLLNET/…``)."""
        return bool(self.kind)


class Hca(msgspec.Struct, frozen=True):
    """One ``GPU Direct RDMA Enabled|Disabled for HCA`` line."""

    network: str
    index: int
    name: str
    enabled: bool
    host: str


class NcclLog(msgspec.Struct, frozen=True):
    """What a log says. ``nodes`` is the largest ``nNodes`` seen, ``None`` when no line states it; ``placement`` maps rank → host.

    ``whole`` is true when every rank of the run printed its ``comm … nNodes`` line: then a line that is missing was not printed.
    """

    lines: int
    channels: tuple[Channel, ...]
    nodes: int | None
    ranks: int | None
    hosts: tuple[str, ...]
    placement: Mapping[int, str]
    networks: tuple[str, ...]
    hcas: tuple[Hca, ...]
    rails: Mapping[int, str]
    provider: str
    environment: Mapping[str, str]
    versions: tuple[str, ...]
    warnings: tuple[str, ...]
    error_paths: tuple[str, ...]
    mnnvl: bool
    whole: bool = False

    @property
    def net_channels(self) -> tuple[Channel, ...]:
        """Channels that go through a network."""
        return tuple(channel for channel in self.channels if channel.is_net)

    @property
    def mnnvl_channels(self) -> tuple[Channel, ...]:
        """Channels over multi-node NVLink (``P2P/MNNVL``)."""
        return tuple(channel for channel in self.channels if channel.via.startswith("P2P/MNNVL"))


class _Reading:
    """The mutable side of :func:`parse`: one log being read line by line."""

    def __init__(self) -> None:
        self.channels: list[Channel] = []
        self.nodes: list[int] = []
        self.ranks: list[int] = []
        self.hosts: dict[str, None] = {}
        self.placement: dict[int, str] = {}
        self.networks: dict[str, None] = {}
        self.hcas: dict[tuple[str, int, str, str], Hca] = {}
        self.rails: dict[int, str] = {}
        self.provider = ""
        self.environment: dict[str, str] = {}
        self.versions: dict[str, None] = {}
        self.warnings: dict[str, None] = {}
        self.error_paths: list[str] = []
        self.mnnvl = False
        self.comm_ranks: set[int] = set()
        self.recognised = 0

    def line(self, line: str) -> None:
        """Take one line in."""
        prefix = _PREFIX.search(line)
        host = prefix[1] if prefix else ""
        head, marker, text = line.partition("NCCL INFO ")
        if host and "NCCL " in line:
            self.hosts[host] = None
        if " NCCL WARN " in f" {line}":
            self.recognised += 1
            self.warnings[line.partition("NCCL WARN ")[2].strip()] = None
            return
        text = (text if marker else head).strip()
        if channel := _CHANNEL.search(text):
            self._channel(channel, host)
            return
        if rank := _TEST_RANK.match(text):
            self.placement.setdefault(int(rank[1]), rank[2])
            self.recognised += 1
        if "NCCL" in line or text.startswith(("Using network ", "NET/", "Connected all ", "# nThread")):
            self.recognised += 1
            self._message(text, host)

    def _channel(self, match: re.Match[str], host: str) -> None:
        self.recognised += 1
        if suffix := _RCCL_RANKS.search(match["via"]):
            self.ranks.append(int(suffix[1]))
        via = _TRAILER.split(match["via"], maxsplit=1)[0].rstrip()
        net = _NET.match(via)
        channel = Channel(
            channel=int(match["channel"]),
            connection=int(match["connection"] or 0),
            src=int(match["src"]),
            dst=int(match["dst"]),
            src_device=match["src_device"],
            dst_device=match["dst_device"],
            direction=match["direction"] or "",
            via=via,
            host=host,
            kind=net["kind"] if net else "",
            network=net["network"] if net else "",
            device=int(net["device"]) if net else -1,
            proxy_rank=int(net["proxy"]) if net and net["proxy"] else -1,
            gdr=bool(net and net["gdr"]),
            pci=bool(net and net["pci"]),
            shared=bool(net and net["shared"]),
        )
        self.channels.append(channel)
        if host:
            # the receiving side prints [receive], the sending side prints [send] and the P2P lines
            self.placement.setdefault(channel.dst if channel.direction == "receive" else channel.src, host)

    def _message(self, text: str, host: str) -> None:
        if match := _COMM.search(text):
            self.nodes.append(int(match["nodes"]))
            self.comm_ranks.add(int(match["rank"]))
            self.ranks.append(int(match["ranks"]))
            self.mnnvl = self.mnnvl or match["mnnvl"] == "1"
            if host:
                self.placement.setdefault(int(match["rank"]), host)
        elif match := _RANK.search(text):
            self.ranks.append(int(match[2]))
            if host:
                self.placement.setdefault(int(match[1]), host)
        if match := _USING.match(text) or _ASSIGNED.match(text):
            self.networks[_TRAILER.split(match[1], maxsplit=1)[0].strip()] = None
        elif match := _HCA.match(text):
            hca = Hca(match["network"], int(match["index"]), match["name"], match["state"] == "Enabled", host)
            self.hcas[(hca.network, hca.index, hca.name, host)] = hca
        elif text.startswith("NET/IB : Using ["):
            self.rails.update({int(index): name for index, name, _ in _DEVICE.findall(text)})
        elif match := _ENV.match(text):
            self.environment[match[1]] = _TRAILER.split(match[2], maxsplit=1)[0].strip().removesuffix(".")
        elif match := _PROVIDER.search(text):
            self.provider = match[1]
        elif _MNNVL.match(text):
            self.mnnvl = True
        elif _ERROR_PATH.match(text):
            self.error_paths.append(text)
        if match := _VERSION.search(text):
            self.versions[" ".join(match[1].split())] = None


def parse(text: str) -> NcclLog:
    """Read a captured NCCL log, whatever launchers put around its lines.

    Raises:
        Unreadable: empty, binary or oversized text, or not one line that NCCL or nccl-tests writes.
    """
    reading = _Reading()
    lines = log_lines(text)
    for line in lines:
        reading.line(line)
    if not reading.recognised:
        raise Unreadable("no line of an NCCL log found")
    return NcclLog(
        lines=len(lines),
        channels=tuple(reading.channels),
        nodes=max(reading.nodes, default=None),
        ranks=max(reading.ranks, default=None),
        hosts=tuple(reading.hosts),
        placement=reading.placement,
        networks=tuple(reading.networks),
        hcas=tuple(reading.hcas.values()),
        rails=reading.rails,
        provider=reading.provider,
        environment=reading.environment,
        versions=tuple(reading.versions),
        warnings=tuple(reading.warnings),
        error_paths=tuple(reading.error_paths),
        mnnvl=reading.mnnvl,
        whole=bool(reading.ranks) and len(reading.comm_ranks) == max(reading.ranks),
    )
