"""Reader of NCCL (and RCCL) logs: channels, networks, HCAs, settings, warnings.

Grammar of NCCL v2.18.1 to v2.30.7 (docs/facts/nccl.md#nccl-log-lines).

The verdict over what is read here is :func:`conformance.outputs.nccl_log.judge`.
"""

import re
from collections.abc import Mapping

import msgspec

from conformance.outputs.captured_text import Unreadable, readable_text, strip_launcher, unwrapped
from conformance.outputs.nccl_channel import ROOT, Channel, Segment, channels_in, segments, without_trailer
from conformance.outputs.nccl_tests_rows import parse_rank

_COMM = re.compile(
    r"\brank (?P<rank>\d{1,7}) nRanks (?P<ranks>\d{1,7}) nNodes (?P<nodes>\d{1,6})"
    r" localRanks \d{1,6} localRank \d{1,6}(?: MNNVL (?P<mnnvl>\d))?"
)
_RANK = re.compile(r"\brank (\d{1,7}) nranks (\d{1,7})\b")
_RCCL_RANKS = re.compile(r"\bcomm 0x\S{0,32} nRanks (\d{1,7})")
_VERSION = re.compile(r"\b((?:NCCL|RCCL) version :?\s?[^\s]{1,64})")
_USING = re.compile(r"Using network (.{1,64})\Z")
_ASSIGNED = re.compile(r"Assigned NET plugin (.{1,64}?) to comm")
_HCA = re.compile(
    r"NET/(?P<network>[^/:]{1,64}?) ?: GPU Direct RDMA (?P<state>Enabled|Disabled) for HCA (?P<index>\d{1,4}) '(?P<name>[^']{0,64})'"
)
_ENV = re.compile(r"((?:NCCL|RCCL|FI|OFI)_\w{1,64}) set by environment to (\S.{0,255})")
_PROVIDER = re.compile(r"(?i)\bselected provider is ([\w;.-]{1,64})")
_USES = re.compile(r"NET/(?!Socket)\w{1,16} ?: Using \[")
_DEVICE = re.compile(r"\[(\d{1,4})\]([\w.-]{1,64}):\d{1,3}/(IB|RoCE)")
_SPEED = re.compile(r"NET/\w{1,16} ?: \[\d{1,4}\] ([\w.-]{1,64}):\S{1,64}:\d{1,3}/(?:IB|RoCE) .{0,80}?\bspeed=(\d{1,8})\b")
_MNNVL = re.compile(r"\bMNNVL 1\b")
_FABRIC = re.compile(r"MNNVL busId (0x[0-9a-f]{1,16}) .{0,160}?\bstate (\d{1,3})(?: healthMask 0x([0-9a-f]{1,8}))?")
_FAILURE = re.compile(
    r"Test NCCL failure|Test CUDA failure|NCCL error in: |NCCL Error \d{1,2}: |DistBackendError"
    r"|\bnccl(?:UnhandledCudaError|SystemError|InternalError|InvalidUsage|RemoteError): |Watchdog caught collective operation timeout"
)
MAX_WARNING = 1000
FABRIC_UNSUPPORTED, FABRIC_COMPLETED = 0, 3
_FABRIC_BITS = ("degraded bandwidth", "route recovery in progress", "route unhealthy", "access timeout recovery")


class Hca(msgspec.Struct, frozen=True):
    """One ``GPU Direct RDMA Enabled|Disabled for HCA`` line."""

    network: str
    index: int
    name: str
    enabled: bool
    host: str


class Adapter(msgspec.Struct, frozen=True):
    """An adapter that NCCL uses. ``link`` is ``IB`` or ``RoCE``; ``gbits`` Gb/s of its port, 0 where no line tells it."""

    name: str
    link: str
    gbits: float = 0.0


class NcclLog(msgspec.Struct, frozen=True):
    """What a log says. ``nodes`` is the largest ``nNodes`` seen, ``None`` when no line states it; ``placement`` maps rank → host.

    ``whole`` is true when every rank of the run printed its ``comm … nNodes`` line: then a line that is missing was not printed.
    ``adapters`` are by host and index: the device of a channel. ``failures`` are words of the program that ran over NCCL;
    ``sick_fabrics`` are GPUs whose NVLink fabric NCCL found not healthy.
    """

    channels: tuple[Channel, ...]
    nodes: int | None
    ranks: int | None
    hosts: tuple[str, ...]
    placement: Mapping[int, str]
    networks: tuple[str, ...]
    hcas: tuple[Hca, ...]
    adapters: Mapping[str, Mapping[int, Adapter]]
    provider: str
    environment: Mapping[str, str]
    versions: tuple[str, ...]
    warnings: tuple[str, ...]
    mnnvl: bool
    whole: bool = False
    failures: tuple[str, ...] = ()
    sick_fabrics: tuple[str, ...] = ()

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
        self.guessed: dict[int, str] = {}  # by lines of which nobody knows which side prints them
        self.networks: dict[str, None] = {}
        self.hcas: dict[tuple[str, int, str, str], Hca] = {}
        self.adapters: dict[str, dict[int, Adapter]] = {}
        self.speeds: dict[tuple[str, str], float] = {}  # Gb/s by host and adapter: printed before the adapters are
        self.provider = ""
        self.environment: dict[str, str] = {}
        self.versions: dict[str, None] = {}
        self.warnings: dict[str, None] = {}
        self.failures: dict[str, None] = {}
        self.fabrics: dict[str, None] = {}
        self.mnnvl = False
        self.comm_ranks: set[int] = set()
        self.recognised = 0

    def segment(self, segment: Segment) -> None:
        """Take what one writer wrote into one line."""
        line, host = segment.text, segment.host
        head, marker, text = line.partition("NCCL INFO ")
        if host and "NCCL " in line:
            self.hosts[host] = None
        channels = list(channels_in(line, host, segment.glued))
        for channel in channels:
            self._channel(channel)
        if "NCCL WARN " in line:
            self.recognised += 1
            self.warnings[line.partition("NCCL WARN ")[2].strip()[:MAX_WARNING]] = None
            return
        text = (text if marker else head).strip()
        if failure := _FAILURE.search(text):
            self.recognised += 1
            self.failures[text[failure.start() :].strip()[:MAX_WARNING]] = None
        if channels:
            self.ranks += [int(match[1]) for match in _RCCL_RANKS.finditer(text)]
            return
        if rank := parse_rank(text):
            self.placement.setdefault(rank[0], rank[1])
            self.recognised += 1
        if "NCCL" in line or text.startswith(("Using network ", "NET/", "Connected all ", "# nThread")):
            self.recognised += 1
            self._message(text, host)

    def _channel(self, channel: Channel) -> None:
        self.recognised += 1
        self.channels.append(channel)
        if channel.host:
            # the receiving side prints [receive], the sending side prints [send] and the P2P lines
            rank = channel.dst if channel.direction == "receive" and channel.dst != ROOT else channel.src
            sure = channel.direction or channel.understood
            (self.placement if sure else self.guessed).setdefault(rank, channel.host)

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
            self.networks[without_trailer(match[1]).strip()] = None
        elif match := _HCA.match(text):
            hca = Hca(match["network"], int(match["index"]), match["name"], match["state"] == "Enabled", host)
            self.hcas[(hca.network, hca.index, hca.name, host)] = hca
        elif match := _SPEED.match(text):
            self.speeds[(host, match[1])] = int(match[2]) / 1000
        elif _USES.match(text):
            found = {int(index): Adapter(name, link, self.speeds.get((host, name), 0.0)) for index, name, link in _DEVICE.findall(text)}
            self.adapters.setdefault(host, {}).update(found)
        elif match := _ENV.match(text):
            self.environment[match[1]] = without_trailer(match[2]).strip().removesuffix(".")
        elif match := _PROVIDER.search(text):
            self.provider = match[1]
        elif _MNNVL.match(text):
            self.mnnvl = True
        elif (match := _FABRIC.match(text)) and (problem := _fabric_problem(match)):
            self.fabrics[problem] = None
        if match := _VERSION.search(text):
            self.versions[" ".join(match[1].split())] = None


def _fabric_problem(match: re.Match[str]) -> str:
    """What NVML says is wrong with a GPU's fabric; two bits each: 1 true, 2 false (docs/facts/nccl.md#nccl-log-lines)."""
    state, mask = int(match[2]), int(match[3] or "0", 16)
    if state not in (FABRIC_UNSUPPORTED, FABRIC_COMPLETED):
        return f"fabric state {state} of the GPU at bus {match[1]}, expected {FABRIC_COMPLETED} (completed)"
    bad = [name for position, name in enumerate(_FABRIC_BITS) if mask >> 2 * position & 3 == 1]
    return f"fabric of the GPU at bus {match[1]}: {', '.join(bad)}" if bad else ""


def _settled(channel: Channel, placement: Mapping[int, str]) -> Channel:
    """A transport that nobody understands needs no network when both ranks are on one host."""
    here = placement.get(channel.src)
    local = not channel.understood and not channel.direction and here is not None and here == placement.get(channel.dst)
    return msgspec.structs.replace(channel, kind="") if local else channel


def parse(text: str) -> NcclLog:
    """Read a captured NCCL log, whatever launchers put around its lines.

    Raises:
        Unreadable: empty, binary or oversized text, or not one line that NCCL or nccl-tests writes.
    """
    reading = _Reading()
    # some write a whole log as one quoted string
    lines = [strip_launcher(line) for line in unwrapped(readable_text(text)).replace("\\n", "\n").split("\n")]
    for segment in segments(lines):
        reading.segment(segment)
    placement = reading.guessed | reading.placement
    if not reading.recognised:
        raise Unreadable("no line of an NCCL log found")
    return NcclLog(
        channels=tuple(_settled(channel, placement) for channel in reading.channels),
        nodes=max(reading.nodes, default=None),
        ranks=max(reading.ranks, default=None),
        hosts=tuple(reading.hosts),
        placement=placement,
        networks=tuple(reading.networks),
        hcas=tuple(reading.hcas.values()),
        adapters=reading.adapters,
        provider=reading.provider,
        environment=reading.environment,
        versions=tuple(reading.versions),
        warnings=tuple(reading.warnings),
        failures=tuple(reading.failures),
        sick_fabrics=tuple(reading.fabrics),
        mnnvl=reading.mnnvl,
        whole=bool(reading.ranks) and len(reading.comm_ranks) == max(reading.ranks),
    )
