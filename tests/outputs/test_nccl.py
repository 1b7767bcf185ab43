"""NCCL logs: channels, transports and warnings, as launchers, collectors and racing writers leave them."""

import json

import pytest

from conformance.cli.inspect import inspect
from conformance.outputs import nccl_lines, nccl_log
from conformance.outputs.nccl_lines import Adapter
from conformance.outputs.nccl_log import NcclCode, Weight, weight
from tests.outputs.lookalikes import lookalike
from tests.tables import each_row


def line(host: str, text: str, device: int = 0) -> str:
    return f"{host}:11:12 [{device}] NCCL INFO {text}"


def hop(host: str, src: int, dst: int, direction: str, via: str = "NET/IB/0/GDRDMA", channel: str = "00/0") -> str:
    return line(host, f"Channel {channel} : {src}[0] -> {dst}[0] [{direction}] via {via}")


A, B = hop("gpu-a", 0, 1, "send"), hop("gpu-b", 0, 1, "receive")
COPY = hop("gpu-a", 0, 1, "send", "NET/IB/1", "01/0")


def read(text: str) -> tuple[str, int, int]:
    log = nccl_lines.parse(text)
    return nccl_log.judge(log).code.value, sum(channel.gdr for channel in log.net_channels), len(log.net_channels)


@pytest.mark.parametrize(
    "text",
    [
        A + B,
        f"{A}\n{B}{A.replace('00/0', '02/0')}\n",
        A + "[1,3]<stdout>:" + B,
        f"{A}  {B}",
        f"{A}'\n'{B}'",
        f"{A}.\n{B},",
        "\\n".join([A, B]),
        json.dumps([A, B]),
        "".join(json.dumps({"body": text}) for text in (A, B)),
        "\n".join(f"worker-0  | {text}" for text in (A, B)),
        "\n".join(f"[default3]:{text}" for text in (A, B)),
        "\n".join(f"Jan  2 03:04:05 node-7 slurmstepd[991]: {text}" for text in (A, B)),
        f"{A.replace('gpu-a:11:12 [0] NCCL INFO ', '')}{B}",
        f"{A}NCCL INFO {B.partition('NCCL INFO ')[2]}",
        f'time="2026" level=info msg="{A}"\ntime="2026" level=info msg="{B}"',
        f"<pre>{A}</pre>\n<pre>{B}</pre>",
        f"{A}\r\n{B}\r\n",
    ],
)
def test_whatever_stands_around_or_between_lines_no_channel_is_lost(text: str) -> None:
    code, direct, total = read(text)
    assert (code, direct) == ("GDR_ENGAGED", total)
    assert total >= 2
    mixed = text.replace("00/0 : 0[0] -> 1[0] [receive] via NET/IB/0/GDRDMA", "01/0 : 0[0] -> 1[0] [receive] via NET/IB/1")
    assert read(mixed)[:1] == ("PARTIAL_GDR",), "and the one that is not direct is seen in the same place"


def test_no_channel_of_a_very_long_line_is_lost() -> None:
    bare = [text.partition("NCCL INFO ")[2] for text in (A, B)] * 400
    assert read(" ".join(bare)) == ("GDR_ENGAGED", 800, 800)
    assert read(" ".join([*bare, COPY.partition("NCCL INFO ")[2]])) == ("PARTIAL_GDR", 800, 801)
    assert read("".join([A, B] * 400 + [COPY])) == ("PARTIAL_GDR", 800, 801)


def test_a_glued_name_makes_no_new_host() -> None:
    log = nccl_lines.parse(
        f"{A}\n{B}\n{A}{B}\n{hop('gpu-a', 0, 1, 'send', 'NET/IB/0')}{B}\n{line('gpu-a', 'Connected all rings, GDR 1')}{B}"
    )
    assert set(log.hosts) == {"gpu-a", "gpu-b"}
    assert len(log.net_channels) == 7


@each_row
def test_a_transport_that_is_not_understood_is_not_direct_and_never_dropped(via: str) -> None:
    strange = hop("gpu-a", 0, 1, "send", via, "01/0").rstrip()
    code, direct, total = read(f"{A}\n{B}\n{strange}\n")
    assert (code, direct, total) == ("PARTIAL_GDR", 2, 3)
    alone = nccl_log.judge(nccl_lines.parse(strange))
    assert alone.good is not True
    assert alone.facts["netChannels"] == 1


def test_lines_of_old_releases_that_say_ring() -> None:
    text = "h1:1:2 [0] NCCL INFO Ring 00 : 15 -> 0 [receive] via NET/IB/0/GDRDMA\nh1:1:2 [0] NCCL INFO Ring 00 : 0[0] -> 1[1] via P2P/IPC\n"
    assert read(text + "h1:1:2 [0] NCCL INFO Ring 00 : 17 -> 0 -> 7\n") == ("GDR_ENGAGED", 1, 1)
    assert read("h1:1:2 [0] NCCL INFO Ring 01 : 7 -> 8 [send] via NET/Socket/0\n") == ("SOCKET_FALLBACK", 0, 1)


def test_in_network_reduction_is_a_channel_to_the_switches() -> None:
    sharp = "CollNet 00/0 : {} [{}] via COLLNET/SHARP/1{}"
    direct = [line(f"n{rank}", sharp.format(rank, way, "/GDRDMA")) for rank in (0, 2) for way in ("send", "receive")]
    assert read("\n".join(direct)) == ("GDR_ENGAGED", 4, 4)
    copied = [*direct, line("n0", sharp.format(0, "send", ""))]
    assert read("\n".join(copied)) == ("PARTIAL_GDR", 4, 5)
    assert read(line("n0", sharp.format(0, "send", ""))) == ("RDMA_WITHOUT_GDR", 0, 1)
    log = nccl_lines.parse("\n".join(direct))
    assert nccl_log.uncovered(log) == []
    assert log.placement == {0: "n0", 2: "n2"}


def mnnvl(hosts: int, nodes: int = 1, per_host: int = 2) -> str:
    ranks = hosts * per_host
    lines = []
    for rank in range(ranks):
        host, device = f"tray-{rank // per_host}", rank % per_host
        comm = f"comm 0x5 rank {rank} nRanks {ranks} nNodes {nodes} localRanks {ranks} localRank {rank} MNNVL 1"
        lines.append(line(host, comm, device))
        following = (rank + 1) % ranks
        lines.append(line(host, f"Channel 00/0 : {rank}[{device}] -> {following}[{following % per_host}] via P2P/MNNVL", device))
        lines.append(line(host, "Using network Socket", device))
    return "\n".join(lines)


def test_a_domain_over_several_hosts_is_one_node_to_nccl() -> None:
    verdict = nccl_log.judge(nccl_lines.parse(mnnvl(hosts=2)))
    assert (verdict.code, verdict.good) == (NcclCode.MNNVL, True)


def test_a_domain_of_one_host_proves_nothing_about_several() -> None:
    assert read(mnnvl(hosts=1, per_host=4))[0] == "SINGLE_NODE"
    without_comm = "\n".join(text for text in mnnvl(hosts=1, per_host=4).splitlines() if "comm 0x" not in text)
    assert read(without_comm)[0] == "NO_EVIDENCE"


def test_one_tray_of_an_excerpt_shows_the_other_by_its_device_indexes() -> None:
    text = "\n".join(text for text in mnnvl(hosts=2).splitlines() if text.startswith("tray-0"))
    assert read(text)[0] == "MNNVL"


def test_a_network_between_hosts_is_judged_though_some_communicator_has_one_node() -> None:
    inner = line("gpu-a", "comm 0x9 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0")
    crossing = f"{A}\n{hop('gpu-b', 1, 0, 'send')}\n{inner}"
    assert read(crossing)[0] == "GDR_ENGAGED"
    assert read(crossing.replace("/GDRDMA", ""))[0] == "RDMA_WITHOUT_GDR"


@each_row
def test_a_failing_warning_fails_the_run_whatever_else_the_log_has(warning: str) -> None:
    text = f"[2026-01-01 10:00:00] gpu-a:11:12 [0] init.cc:99 NCCL WARN {warning}\n"
    alone = inspect("nccl-log", text)
    assert (alone.verdict, alone.reason_code) == ("bad", "FAILED")
    assert warning[:60] in alone.message
    beside = inspect("nccl-log", f"{A}\n{B}\n{text}")
    assert (beside.verdict, beside.reason_code) == ("bad", "GDR_ENGAGED")
    glued = inspect("nccl-log", f"{A}\n{B}gpu-a:11:12 [0] init.cc:99 NCCL WARN {warning}\n")
    assert glued.verdict == "bad"


@each_row
def test_words_decide_about_warnings_that_nobody_knows(warning: str, expected: Weight) -> None:
    assert weight(warning) is expected
    verdict = inspect("nccl-log", f"{A}\n{B}\ngpu-a:11:12 [0] x.cc:9 NCCL WARN {warning}\n").verdict
    assert verdict == ("undecidable" if expected is Weight.DOUBTFUL else "good")


def test_a_program_that_says_that_nccl_failed_is_believed() -> None:
    text = f"{A}\n{B}\ngpu-a: Test NCCL failure common.cu:1005 'unhandled system error (run with NCCL_DEBUG=INFO for details)'\n"
    assert inspect("nccl-log", text).verdict == "bad"
    torch = "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, internal error, NCCL version 2.27.5\n"
    assert inspect("nccl-log", f"{A}\n{B}\n{torch}").verdict == "bad"


@pytest.mark.parametrize(
    ("state", "mask", "verdict"), [(3, "0xaa", "good"), (3, "0x2aa", "good"), (3, "0x9a", "bad"), (2, "0x0", "bad"), (0, "0x0", "good")]
)
def test_health_of_the_fabric_that_nccl_prints(state: int, mask: str, verdict: str) -> None:
    fabric = f"MNNVL busId 0x901000 fabric UUID 31b1.2cc5 cliqueId 0x7ffe state {state} healthMask {mask}"
    assert inspect("nccl-log", f"{mnnvl(hosts=2)}\n{line('tray-0', fabric)}\n").verdict == verdict


PREFIX = "h1:1:2 [0] NCCL INFO "


def channel(src: int, dst: int, direction: str, via: str = "NET/IB/0/GDRDMA", host: str = "h1", number: str = "00/0") -> str:
    return f"{host}:1:2 [0] NCCL INFO Channel {number} : {src}[0] -> {dst}[0] [{direction}] via {via}\n"


def code(text: str) -> NcclCode:
    return nccl_log.judge(nccl_lines.parse(text)).code


def test_channels_of_a_two_node_run() -> None:
    log = nccl_lines.parse(lookalike("nccl-gdr"))
    assert [(line.src, line.dst, line.direction, line.device, line.gdr, line.pci, line.shared) for line in log.net_channels] == [
        (3, 0, "receive", 0, True, False, False),
        (1, 2, "send", 0, True, True, False),
        (1, 2, "receive", 0, True, False, False),
        (3, 0, "send", 0, True, False, True),
    ]
    assert log.net_channels[1].proxy_rank == 0
    assert log.placement == {0: "gpu-a", 1: "gpu-a", 2: "gpu-b", 3: "gpu-b"}
    assert (log.nodes, log.ranks) == (2, 4)
    assert log.adapters == {"gpu-a": {0: Adapter("mlx5_0", "RoCE"), 1: Adapter("mlx5_1", "RoCE")}}
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
    verdict = nccl_log.judge(nccl_lines.parse(comms + one))
    assert (verdict.code, verdict.good) == (NcclCode.PARTIAL_GDR, False)
    assert "0 -> 1 has no [receive] line" in verdict.message


def test_traffic_one_way_between_nodes_is_found() -> None:
    log = nccl_lines.parse(channel(0, 1, "send") + channel(0, 1, "receive", host="h2"))
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


@each_row
def test_warnings_fail_a_run_only_when_they_matter(warning: str, fails: bool) -> None:
    verdict = nccl_log.judge(nccl_lines.parse(channel(0, 1, "send") + f"[2026-01-01 10:00:00] h1:1:2 [0] net.cc:5 NCCL WARN {warning}"))
    assert verdict.code is NcclCode.GDR_ENGAGED
    assert verdict.good is not fails
    assert verdict.facts["warnings"] == 1


@each_row
def test_prefixes_and_marks_are_stripped(decoration: str) -> None:
    log = nccl_lines.parse(decoration.format(channel(0, 1, "send").strip()))
    assert [(line.via, line.gdr) for line in log.channels] == [("NET/IB/0/GDRDMA", True)]


def test_ring_lists_and_quoted_commands_are_no_channels() -> None:
    log = nccl_lines.parse(PREFIX + "Channel 00/16 :    0   7   6\n$ grep 'via NET/Socket' log\n" + PREFIX + "Trees [0] 1/-1/-1->0->-1")
    assert log.channels == ()
