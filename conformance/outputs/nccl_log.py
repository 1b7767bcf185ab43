"""Verdict over an NCCL log: which transport carried the run between nodes, and which directions were seen.

A job's exit status, ``Connected all rings … GDR 1`` and ``Using network IB`` are never evidence on their own; channel lines are.

Facts: docs/facts/nccl.md#evidence-of-gpudirect.

Facts: docs/facts/nccl.md#warnings.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path

import msgspec

from conformance.outputs.inspection import OutputVerdict
from conformance.outputs.nccl_channel import Channel
from conformance.outputs.nccl_lines import Adapter, NcclLog
from fixtures.text import yaml_text


class Weight(StrEnum):
    """What a warning means for the run."""

    FAILING = "failing"
    DOUBTFUL = "doubtful"
    HARMLESS = "harmless"


_OF_AN_ERROR = re.compile(
    r"\b(?:fail(?:ed|ure|s|ing)?|error|unable|cannot|can't|couldn't|could not|timed out|timeout|not working|refused|invalid|lost|fatal"
    r"|corrupt\w*|incompatible|mismatch\w*|unreachable|broken|bad|denied|exceed\w*|unexpected|leaking)\b",
    re.IGNORECASE,
)


@cache  # not when imported: read-only runs read no log of NCCL
def _known() -> dict[Weight, re.Pattern[str]]:
    """The warnings whose weight is known."""
    known = yaml_text.packaged(Path(__file__).with_name("nccl_warnings.yaml"), dict[Weight, tuple[str, ...]])
    return {kind: re.compile("|".join(patterns)) for kind, patterns in known.items()}


def weight(warning: str) -> Weight:
    """What one ``NCCL WARN`` weighs, by its text without the prefix."""
    if _known()[Weight.FAILING].search(warning):
        return Weight.FAILING
    if _known()[Weight.HARMLESS].search(warning) or not _OF_AN_ERROR.search(warning):
        return Weight.HARMLESS
    return Weight.DOUBTFUL


SOCKET_NETWORKS = frozenset({"Socket", "FastSocket"})
_TCPX_NETWORKS = ("FasTrak", "GPUDirectTCPX")
_TCP_PROVIDERS = ("tcp", "sockets", "udp", "net")


class NcclCode(StrEnum):
    """What carried the traffic between nodes."""

    GDR_ENGAGED = "GDR_ENGAGED"
    PARTIAL_GDR = "PARTIAL_GDR"
    RDMA_WITHOUT_GDR = "RDMA_WITHOUT_GDR"
    SOCKET_FALLBACK = "SOCKET_FALLBACK"
    MNNVL = "MNNVL"
    TCPX_GPUDIRECT = "TCPX_GPUDIRECT"
    FAILED = "FAILED"
    SINGLE_NODE = "SINGLE_NODE"
    NO_EVIDENCE = "NO_EVIDENCE"


GPU_DIRECT_CODES = frozenset({NcclCode.GDR_ENGAGED, NcclCode.MNNVL, NcclCode.TCPX_GPUDIRECT})
UNDECIDABLE_CODES = frozenset({NcclCode.SINGLE_NODE, NcclCode.NO_EVIDENCE})


class Uncovered(msgspec.Struct, frozen=True, order=True):
    """A rank pair of one channel seen from one side only: ``missing`` is ``send`` or ``receive``."""

    channel: int
    connection: int
    src: int
    dst: int
    missing: str


def uncovered(log: NcclLog, placement: Mapping[int, str] | None = None) -> list[Uncovered]:
    """Rank pairs whose network channel was logged in one direction only, sorted.

    Pairs within one node, by ``placement`` (rank → node) or, when it is not given, by the hosts the log itself shows, do not count.
    """
    where = log.placement if placement is None else placement
    seen: dict[tuple[int, int, int, int], set[str]] = defaultdict(set)
    for line in log.net_channels:
        if line.kind == "NET" and line.direction and (where.get(line.src, "a?") != where.get(line.dst, "b?")):
            seen[(line.channel, line.connection, line.src, line.dst)].add(line.direction)
    return sorted(Uncovered(*pair, missing) for pair, directions in seen.items() for missing in {"send", "receive"} - directions)


def one_way_nodes(log: NcclLog, placement: Mapping[int, str] | None = None) -> list[tuple[str, str]]:
    """Node pairs (from, to) with channels from the first to the second and none back, sorted: a ring and a tree use both ways."""
    where = log.placement if placement is None else placement
    pairs = {(where[line.src], where[line.dst]) for line in log.channels if line.src in where and line.dst in where}
    return sorted(pair for pair in pairs if pair[::-1] not in pairs)


def silent_ranks(log: NcclLog, placement: Mapping[int, str]) -> list[int]:
    """Ranks of ``placement`` that appear in no channel line, sorted: a channel lost from the log was not seen to be direct."""
    spoken = {rank for line in log.channels for rank in (line.src, line.dst)}
    return sorted(rank for rank in placement if rank not in spoken)


def adapters_in_use(log: NcclLog) -> dict[str, list[Adapter]]:
    """By host the adapters that its channels go through; all that NCCL found there where no channel names one.

    A machine has more of them than its devices use: those of storage and of the management network are in NCCL's list too.
    """
    used: dict[str, set[int]] = defaultdict(set)
    for line in log.net_channels:
        used[line.host].add(line.device)
    return {
        host: [adapter for index, adapter in found.items() if index in used[host]] or list(found.values())
        for host, found in log.adapters.items()
    }


def judge(log: NcclLog) -> OutputVerdict[NcclCode]:
    """What carried the traffic between nodes (docs/facts/nccl.md#evidence-of-gpudirect). Pure."""
    net = log.net_channels
    direct = [line for line in net if line.gdr]
    sockets = [line for line in net if line.network in SOCKET_NETWORKS]
    disabled = sorted({hca.index for hca in log.hcas if not hca.enabled and hca.network not in SOCKET_NETWORKS})
    code, message = _code(log, len(direct), len(sockets), disabled)
    failures = (
        *(warning for warning in log.warnings if weight(warning) is Weight.FAILING),
        *log.sick_fabrics,
        *log.failures,
    )
    doubts = tuple(warning for warning in log.warnings if weight(warning) is Weight.DOUBTFUL)
    if failures and code in UNDECIDABLE_CODES:
        code, message = NcclCode.FAILED, f"the run failed: {failures[0][:200]}"
    elif failures:
        message += f"; NCCL warned: {failures[0][:200]}"
    elif doubts:
        message += f"; not understood: {doubts[0][:200]}"
    facts: dict[str, object] = {
        "nodes": log.nodes,
        "hosts": list(log.hosts),
        "ranks": log.ranks,
        "networks": sorted({*log.networks, *(line.network for line in net if line.network)}),
        "netChannels": len(net),
        "gdrChannels": len(direct),
        "socketChannels": len(sockets),
        "p2pChannels": sum(line.via.startswith("P2P/") for line in log.channels),
        "shmChannels": sum(line.via.startswith("SHM/") for line in log.channels),
        "mnnvlChannels": len(log.mnnvl_channels),
        "hcasWithoutGdr": disabled,
        "channelsNotUnderstood": sum(not line.understood for line in net),
        "railsSeen": sorted({line.device for line in net if line.device >= 0}),
        "railsWithoutGdr": sorted({line.device for line in net if not line.gdr and line.device >= 0}),
        "wholeLog": log.whole,
        "oneDirectionOnly": len(uncovered(log)),
        "environment": dict(log.environment),
        "versions": list(log.versions),
        "warnings": len(log.warnings),
    }
    good: bool | None = code in GPU_DIRECT_CODES and not failures
    if not failures and (code in UNDECIDABLE_CODES or (good and doubts)):
        good = None
    return OutputVerdict(code=code, message=message, failures=failures, doubts=doubts, facts=facts, good=good)


def _code(log: NcclLog, direct: int, sockets: int, disabled: list[int]) -> tuple[NcclCode, str]:
    net = log.net_channels
    total = len(net)
    nodes = log.nodes if log.nodes is not None else len(log.hosts)
    socket_network = any(network in SOCKET_NETWORKS for network in log.networks)
    if log.nodes == 1 and not _crosses_hosts(log, net):
        if several_hosts(log, log.mnnvl_channels):
            return _mnnvl(log)
        return NcclCode.SINGLE_NODE, "the run had one node: nothing travelled between nodes"
    if sockets:
        return NcclCode.SOCKET_FALLBACK, f"{sockets} of {total} network channels go via NET/{_socket_name(log)}"
    if total and not direct and log.provider.startswith(_TCP_PROVIDERS):
        return NcclCode.SOCKET_FALLBACK, f"libfabric provider {log.provider}: {total} network channels ride TCP"
    if socket_network and nodes > 1 and not total and not log.mnnvl_channels:
        return NcclCode.SOCKET_FALLBACK, f"{nodes} nodes and Using network {_socket_name(log)}"
    if not total:
        return _without_net_channels(log)
    strange = [line for line in net if not line.understood]
    if strange and not any(line.network for line in net):
        via = strange[0].via[:80] or "a transport that is cut off"
        return NcclCode.NO_EVIDENCE, f"{total} channels via {via}, which is not understood"
    if direct == total and disabled:
        return (
            NcclCode.PARTIAL_GDR,
            f"{direct} of {total} channels seen are direct, but GPU Direct RDMA is disabled for HCA {_words(disabled)}",
        )
    if direct == total and log.whole and (missing := uncovered(log)):
        first = missing[0]
        pair = f"channel {first.channel:02d}/{first.connection} {first.src} -> {first.dst} has no [{first.missing}] line"
        return NcclCode.PARTIAL_GDR, f"{len(missing)} channel(s) were seen in one direction only: {pair}"
    if direct == total and all(line.network.startswith(_TCPX_NETWORKS) for line in log.net_channels):
        return NcclCode.TCPX_GPUDIRECT, f"all {total} network channels go via {log.net_channels[0].network}: GPU-direct over TCP, not RDMA"
    if direct == total:
        return NcclCode.GDR_ENGAGED, f"all {total} network channels go via GDRDMA"
    tail = f"; {len(strange)} not understood, as via {strange[0].via[:80] or 'nothing'}" if strange else ""
    if direct:
        rails = sorted({line.device for line in net if not line.gdr and line.device >= 0})
        where = f"; without it: rail {_words(rails)}" if rails else ""
        return NcclCode.PARTIAL_GDR, f"{direct} of {total} network channels go via GDRDMA{where}{tail}"
    return NcclCode.RDMA_WITHOUT_GDR, f"0 of {total} network channels go via GDRDMA{tail}"


def several_hosts(log: NcclLog, channels: Sequence[Channel]) -> bool:
    """Whether channels join more than one host: by the hosts of their ranks, or because one device index has two ranks.

    NCCL counts an NVLink domain as one node, however many hosts it spans.
    """
    ranks = {rank for line in channels for rank in (line.src, line.dst)}
    hosts = {log.placement[rank] for rank in ranks if rank in log.placement}
    devices: dict[str, set[int]] = defaultdict(set)
    for line in channels:
        devices[line.src_device].add(line.src)
        devices[line.dst_device].add(line.dst)
    return len(hosts) > 1 or any(len(ranks) > 1 for device, ranks in devices.items() if device)


def _crosses_hosts(log: NcclLog, channels: Sequence[Channel]) -> bool:
    where = log.placement
    return any(line.src in where and line.dst in where and where[line.src] != where[line.dst] for line in channels)


def _mnnvl(log: NcclLog) -> tuple[NcclCode, str]:
    return NcclCode.MNNVL, f"{len(log.mnnvl_channels)} channels go via multi-node NVLink, none via a network"


def _without_net_channels(log: NcclLog) -> tuple[NcclCode, str]:
    # a host that only prints is no rank of a channel
    if log.mnnvl_channels and ((log.nodes or 0) > 1 or several_hosts(log, log.mnnvl_channels)):
        return _mnnvl(log)
    if log.mnnvl_channels:
        return NcclCode.NO_EVIDENCE, "channels via multi-node NVLink, and all the log shows is one host"
    tcpx = next((network for network in log.networks if network.startswith(_TCPX_NETWORKS)), "")
    if tcpx:
        return NcclCode.TCPX_GPUDIRECT, f"Using network {tcpx}: GPU-direct over TCP, not RDMA"
    reasons = []
    if log.environment.get("NCCL_IB_DISABLE") not in (None, "0"):
        reasons.append(f"NCCL_IB_DISABLE={log.environment['NCCL_IB_DISABLE']} is set")
    if log.networks:
        reasons.append(f"Using network {', '.join(log.networks)}")
    reasons.append("no network channel line and no nNodes: the log does not tell how traffic between nodes went")
    return NcclCode.NO_EVIDENCE, "; ".join(reasons)


def _socket_name(log: NcclLog) -> str:
    return next((name for name in (*(line.network for line in log.net_channels), *log.networks) if name in SOCKET_NETWORKS), "Socket")


def _words(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
