"""Which figure a run is held against, and what a low one is put down to."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from conformance.net.figures import Figure, fabric_of, figure_of, measured
from conformance.net.judging import judge_bandwidth
from conformance.net.two_nodes import FabricRun
from conformance.outputs import nccl_tests
from fixtures.policy.model import Network
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_policy
from tests.net.logs import Via, a_run, adapters, gdr, nccl_log
from tests.net.test_bandwidth import table
from tests.samples import sample

H100, A100, MI300X, GB200 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB", "AMD_Instinct_MI300X_OAM", "NVIDIA-GB200"
IB = (8, 400, "IB")


def libfabric(source: int, target: int, direction: str) -> str:
    return f"NET/Libfabric/{source % 8}/GDRDMA"


def fastrak(source: int, target: int, direction: str) -> str:
    return f"NET/FasTrak/{source % 8}/GDRDMA"


def sockets(source: int, target: int, direction: str) -> str:
    return "NET/Socket/0"


def nvlink(source: int, target: int, direction: str) -> str:
    return "P2P/MNNVL" if direction == "send" else ""


def a_measured_run(
    product: str = H100,
    ports: tuple[int, int, str] | None = IB,
    via: Via = gdr,
    busbw: float = 380,
    per_node: int = 8,
    names: str = "",
    **more: Any,
) -> FabricRun:
    """A run whose table calls the devices ``names``, by default as the nodes' product."""
    logs = [nccl_log(node, per_node=per_node, via=via, extra=adapters(f"net-fabric-{node}", *ports) if ports else "") for node in (0, 1)]
    printed = table(busbw, ranks=2 * per_node).replace("NVIDIA H100", names or product.replace("-", " "))
    return a_run(logs[0] + printed, logs[1], per_node=per_node, product=product, **more)


def test_every_row_has_a_source_and_a_date_and_no_two_say_the_same() -> None:
    rows = measured()
    assert len({(row.product, row.fabric, row.gbits, row.machine, row.per_node, row.ranks) for row in rows}) == len(rows) >= 12
    for row in rows:
        assert row.source.startswith("https://"), row
        assert datetime.date(2020, 1, 1) < row.date <= datetime.date.today(), row
        assert 0.4 * row.busbw <= row.minimum < row.busbw, row
        assert row.gbits or row.machine or row.fabric == "nvlink", f"{row}: nothing tells this fabric from a slower one"


@pytest.mark.parametrize(
    ("run", "minimum", "words"),
    [
        (a_measured_run(), 352.5, "440.58 GB/s of 16 ranks of H100 over 3200 Gb/s of infiniband, 2026-05-26, https://"),
        (a_measured_run("NVIDIA-H200"), 280.0, "1984 ranks"),  # more nodes are never faster
        (a_measured_run(A100, (16, 100, "RoCE")), 151.7, "roce"),
        (a_measured_run(MI300X, (8, 400, "RoCE"), device="amd.com/gpu"), 285.6, "MI300X"),
        (a_measured_run(GB200, None, nvlink, per_node=4), 648.8, "nvlink"),
        (a_measured_run(ports=None, via=libfabric, machine="p5.48xlarge"), 350.2, "efa of p5.48xlarge"),
        (a_measured_run(ports=None, via=sockets, machine="p5.48xlarge"), 350.2, "efa"),
        (a_measured_run(ports=None, via=fastrak, machine="a3-megagpu-8g"), 254.3, "tcpxo"),
        (a_measured_run(ports=None, via=fastrak, machine="a3-edgegpu-8g"), None, "tcpxo"),
        (a_measured_run("NVIDIA-H100-PCIe"), None, "H100-PCIe"),
        (a_measured_run("NVIDIA-H200-NVL"), None, "H200-NVL"),
        (a_measured_run("NVIDIA-GH200-480GB"), None, "GH200"),
        (a_measured_run(""), None, "unknown product"),
        (a_measured_run("Standard_X16", names="NVIDIA H100 80GB HBM3"), 352.5, "H100"),
        (a_measured_run("Standard_X16", names="NVIDIA H100 PCIe"), None, "Standard_X16"),
        (a_measured_run(ports=(4, 400, "IB")), None, "1600 Gb/s of infiniband"),
        (a_measured_run(ports=(8, 400, "RoCE")), None, "3200 Gb/s of roce"),
        (a_measured_run(per_node=4), None, "8 ranks"),
        (a_measured_run(ports=None), None, "a fabric that the log does not name"),
    ],
)
def test_the_table_gives_a_figure_of_the_same_product_fabric_and_ranks_or_none(run: FabricRun, minimum: float | None, words: str) -> None:
    figure = figure_of(run, Network(), first=True)
    assert figure.minimum == minimum
    assert words in figure.words
    assert ("network.busBandwidths" in figure.words) == (minimum is None)


def test_the_policys_figure_wins_and_the_one_of_the_product_before_the_one_for_all() -> None:
    network = a_policy(network={"minBusBandwidth": 300, "busBandwidths": {"NVIDIA-H100*": 200}}).network
    run, other = a_measured_run(), a_measured_run(A100)
    assert [figure_of(one, network, first=True).minimum for one in (run, other)] == [200, 300]
    assert figure_of(other, network, first=False).minimum is None, "the figure for all is of the kind of machine with the most ranks"


def test_a_node_that_lost_an_adapter_or_a_ports_speed_is_held_against_the_figure_of_its_kind() -> None:
    for lost in ((7, 400, "IB"), (8, 100, "IB")):
        logs = [nccl_log(node, per_node=8, extra=adapters(f"net-fabric-{node}", *ports)) for node, ports in enumerate((IB, lost))]
        assert figure_of(a_run(*logs, per_node=8, product=H100), Network(), first=True).minimum == 352.5


def test_adapters_of_storage_and_management_do_not_count() -> None:
    logs = [nccl_log(node, extra=adapters(f"net-fabric-{node}", 12, used=8)) for node in (0, 1)]
    assert fabric_of(a_run(*logs)).gbits == 3200
    assert (
        fabric_of(a_run(*(nccl_log(node, via=lambda *_: "", extra=adapters(f"net-fabric-{node}", used=0)) for node in (0, 1)))).gbits
        == 3200
    )


def test_without_the_speed_of_every_port_the_fabric_is_not_known() -> None:
    log = nccl_log(0, per_node=8, extra=adapters("net-fabric-0", skip="NET/IB: [3]"))
    assert fabric_of(a_run(log, log, per_node=8)).gbits is None


@pytest.mark.parametrize(
    ("name", "fabric", "ranks"),
    [("nccl-tests-1", "infiniband", 64), ("nccl-tests-2", "nvlink", 72), ("nccl-tests-5", "efa", 16), ("nccl-tests-6", "efa", 16)],
)
def test_real_tables_of_healthy_fabrics_reach_the_minimum_of_their_row(name: str, fabric: str, ranks: int) -> None:
    product = "GB200" if fabric == "nvlink" else "H100"
    (row,) = [row for row in measured() if (row.product, row.fabric, row.ranks) == (product, fabric, ranks)]
    largest = nccl_tests.largest(nccl_tests.parse(sample(name)))
    assert largest is not None
    assert row.minimum <= largest.out_of_place.busbw


def bandwidth(run: FabricRun, figure: Figure | None = None) -> Finding:
    return next(iter(judge_bandwidth(run, figure or figure_of(run, Network(), first=True))))


def test_sizes_below_the_figures_are_not_held_against_it() -> None:
    run = a_measured_run(busbw=100)
    assert [Figure(300, "", size << 30).least_of(run) for size in (8, 16)] == [300, None]  # no further runs look for who is slow
    smaller = list(judge_bandwidth(run, Figure(300, "of 16 GiB", 16 << 30)))
    assert {one.subject.name: one.outcome for one in smaller} == dict.fromkeys(("bus bandwidth", "ranks", "values"), Outcome.NOT_JUDGED)
    assert bandwidth(run, Figure(90, "of 16 GiB", 16 << 30)).outcome is Outcome.OK


def copied(source: int, target: int, direction: str) -> str:
    return f"NET/IB/{source % 8}" + ("/GDRDMA" if direction == "receive" else "")


@pytest.mark.parametrize(
    ("run", "cause", "word"),
    [
        # https://github.com/NVIDIA/nccl-tests/issues/309: two hosts of eight H100 with 8 x NDR reach 250 GB/s, all by GPUDirect
        (a_measured_run(busbw=250), "BandwidthLow", "a part of it is slow"),
        # https://github.com/NVIDIA/nccl-tests/issues/106: a pair of A100 machines reaches half of what others do
        (a_measured_run(A100, (4, 200, "IB"), busbw=40), "BandwidthLow", "a part of it is slow"),
        # https://github.com/elideng-sg/hypercomputer-internode-deepdive: A3 Mega without GPUDirect-TCPXO, 23.7 GB/s and no error
        (a_measured_run(ports=None, via=sockets, machine="a3-megagpu-8g", busbw=23.7), "TrafficOverSockets", "NET/Socket"),
        # https://github.com/areal-project/AReaL/issues/639: 5 GB/s over bond0, and the adapters are there
        (a_measured_run(via=sockets, busbw=5), "TrafficOverSockets", "NET/Socket"),
        (a_measured_run(via=copied, busbw=150), "TrafficNotDirect", "go via GDRDMA"),
    ],
)
def test_a_low_figure_is_put_down_to_the_transport_or_to_a_slow_part(run: FabricRun, cause: str, word: str) -> None:
    found = bandwidth(run)
    assert (found.cause, found.outcome) == (cause, Outcome.BAD)
    assert word in found.message
