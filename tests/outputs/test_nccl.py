from __future__ import annotations

import pytest

from conformance.outputs import nccl_log
from conformance.outputs.nccl_log import NcclCode
from tests.outputs.lookalikes import lookalike

PREFIX = "h1:1:2 [0] NCCL INFO "


def channel(src: int, dst: int, direction: str, via: str = "NET/IB/0/GDRDMA", host: str = "h1", number: str = "00/0") -> str:
    return f"{host}:1:2 [0] NCCL INFO Channel {number} : {src}[0] -> {dst}[0] [{direction}] via {via}\n"


def code(text: str) -> NcclCode:
    return nccl_log.judge(nccl_log.parse(text)).code


def test_channels_of_a_two_node_run() -> None:
    log = nccl_log.parse(lookalike("nccl-gdr"))
    assert [(line.src, line.dst, line.direction, line.device, line.gdr, line.pci, line.shared) for line in log.net_channels] == [
        (3, 0, "receive", 0, True, False, False),
        (1, 2, "send", 0, True, True, False),
        (1, 2, "receive", 0, True, False, False),
        (3, 0, "send", 0, True, False, True),
    ]
    assert log.net_channels[1].proxy_rank == 0
    assert log.placement == {0: "gpu-a", 1: "gpu-a", 2: "gpu-b", 3: "gpu-b"}
    assert (log.nodes, log.ranks, log.rails) == (2, 4, {0: "mlx5_0", 1: "mlx5_1"})
    assert log.versions == ("NCCL version 2.29.3+cuda13.1",)
    verdict = nccl_log.judge(log)
    assert (verdict.code, verdict.good) == (NcclCode.GDR_ENGAGED, True)
    assert nccl_log.uncovered(log) == []
    assert nccl_log.one_way_nodes(log) == []


def test_one_direction_only_fails_a_whole_log_and_not_an_excerpt() -> None:
    comms = "".join(f"h{rank}:1:2 [0] NCCL INFO comm 0x1 rank {rank} nRanks 2 nNodes 2 localRanks 1 localRank 0\n" for rank in (0, 1))
    one = channel(0, 1, "send", host="h0")
    both = one + channel(0, 1, "receive")
    assert code(one) is NcclCode.GDR_ENGAGED
    assert code(comms + both) is NcclCode.GDR_ENGAGED
    verdict = nccl_log.judge(nccl_log.parse(comms + one))
    assert (verdict.code, verdict.good) == (NcclCode.PARTIAL_GDR, False)
    assert "0 -> 1 has no [receive] line" in verdict.message


def test_traffic_one_way_between_nodes_is_found() -> None:
    log = nccl_log.parse(channel(0, 1, "send") + channel(0, 1, "receive", host="h2"))
    assert nccl_log.uncovered(log) == []
    assert nccl_log.one_way_nodes(log) == [("h1", "h2")]
    assert nccl_log.silent_ranks(log, {0: "h1", 1: "h2", 2: "h2"}) == [2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (channel(0, 1, "send") + channel(1, 0, "send", "NET/IB/1"), NcclCode.PARTIAL_GDR),
        (channel(0, 1, "send", "NET/Libfabric/3/GDRDMA/Shared"), NcclCode.GDR_ENGAGED),
        (channel(0, 1, "send", "COLLNET/SHARP/0/GDRDMA"), NcclCode.GDR_ENGAGED),
        (channel(0, 1, "send", "NET/FastSocket/0"), NcclCode.SOCKET_FALLBACK),
        (PREFIX + "NET/OFI Selected Provider is tcp (found 1 nics)\n" + channel(0, 1, "send", "NET/Libfabric/0"), NcclCode.SOCKET_FALLBACK),
        (
            PREFIX + "NET/OFI Selected provider is efa, fabric is efa (found 4 nics)\n" + channel(0, 1, "send", "NET/Libfabric/0"),
            NcclCode.RDMA_WITHOUT_GDR,
        ),
        (channel(0, 1, "send", "NET/FasTrak/0(0)/GDRDMA"), NcclCode.TCPX_GPUDIRECT),
        (PREFIX + "Using network FasTrak", NcclCode.TCPX_GPUDIRECT),
        (PREFIX + "Using network GPUDirectTCPX_v7", NcclCode.TCPX_GPUDIRECT),
        (PREFIX + "Connected all rings, use ring PXN 0 GDR 1", NcclCode.NO_EVIDENCE),
        (PREFIX + "Using network IB", NcclCode.NO_EVIDENCE),
        (PREFIX + "Using network Socket\nh2:1:2 [0] NCCL INFO Using network Socket", NcclCode.SOCKET_FALLBACK),
        (
            PREFIX + "comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0\n" + PREFIX + "Using network Socket",
            NcclCode.SINGLE_NODE,
        ),
        (
            PREFIX + "comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0\n" + PREFIX + "Using network Socket",
            NcclCode.SOCKET_FALLBACK,
        ),
    ],
)
def test_codes(text: str, expected: NcclCode) -> None:
    assert code(text) is expected


@pytest.mark.parametrize(
    ("warning", "fails"),
    [
        ("Detected mixed local Net device counts across ranks (min 7, max 8).", True),
        ("Call to ibv_modify_qp failed with error Connection timed out", True),
        ('Missing "iommu=pt" from kernel command line', False),
    ],
)
def test_warnings_fail_a_run_only_when_they_matter(warning: str, fails: bool) -> None:
    verdict = nccl_log.judge(nccl_log.parse(channel(0, 1, "send") + f"[2026-01-01 10:00:00] h1:1:2 [0] net.cc:5 NCCL WARN {warning}"))
    assert verdict.code is NcclCode.GDR_ENGAGED
    assert verdict.good is not fails
    assert verdict.facts["warnings"] == 1


@pytest.mark.parametrize(
    "decoration",
    ["\x1b[32m{}\x1b[0m", "[pod/worker-0/nccl] {}", "2026-01-01T00:00:00.123Z {}", "3: {}", "{} <-- look here", "{} comm 0x5 nRanks 02"],
)
def test_prefixes_and_marks_are_stripped(decoration: str) -> None:
    log = nccl_log.parse(decoration.format(channel(0, 1, "send").strip()))
    assert [(line.via, line.gdr) for line in log.channels] == [("NET/IB/0/GDRDMA", True)]


def test_ring_lists_and_quoted_commands_are_no_channels() -> None:
    log = nccl_log.parse(PREFIX + "Channel 00/16 :    0   7   6\n$ grep 'via NET/Socket' log\n" + PREFIX + "Trees [0] 1/-1/-1->0->-1")
    assert log.channels == ()
