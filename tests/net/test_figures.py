"""Which figure a run is held against, and what a low one is put down to."""

import datetime
from typing import Any

from conformance.net.figures import Figure, fabric_of, figure_of
from conformance.net.judging import judge_bandwidth
from conformance.net.two_nodes import FabricRun
from conformance.outputs import nccl_tests
from fixtures.policy.model import Network
from fixtures.tables.rows import BUS_BANDWIDTHS
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_policy
from tests.net.logs import Via, a_run, adapters, gdr, nccl_log
from tests.net.test_bandwidth import table
from tests.samples import sample
from tests.tables import each_row

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
    rows = BUS_BANDWIDTHS.rows
    assert len({(row.product, row.fabric, row.gbits, row.machine, row.per_node, row.ranks) for row in rows}) == len(rows) >= 12
    for row in rows:
        assert row.source.startswith("https://"), row
        assert datetime.date(2020, 1, 1) < row.date <= datetime.date.today(), row
        assert 0.4 * row.busbw <= row.minimum < row.busbw, row
        assert row.gbits or row.machine or row.fabric == "nvlink", f"{row}: nothing tells this fabric from a slower one"


@each_row
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


@each_row
def test_real_tables_of_healthy_fabrics_reach_the_minimum_of_their_row(name: str, fabric: str, ranks: int) -> None:
    product = "GB200" if fabric == "nvlink" else "H100"
    (row,) = [row for row in BUS_BANDWIDTHS.rows if (row.product, row.fabric, row.ranks) == (product, fabric, ranks)]
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


@each_row
def test_a_low_figure_is_put_down_to_the_transport_or_to_a_slow_part(run: FabricRun, cause: str, word: str) -> None:
    found = bandwidth(run)
    assert (found.cause, found.outcome) == (cause, Outcome.BAD)
    assert word in found.message
