from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.hardware import PRODUCTS, gpus
from fixtures.simulator.nodes.nccl.bandwidth_table import SIZES, measure, table_lines
from fixtures.simulator.nodes.nccl.debug_log import log_lines
from fixtures.simulator.nodes.nccl.world import Member, World

ENV = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,ENV"}


def member(rank: int, ranks: int = 8, **more: Any) -> Member:
    shape = Member(
        node_rank=rank,
        host=f"worker-{rank}",
        pod_ip=f"10.1.{rank}.2",
        gpus=gpus(f"node-{rank}", PRODUCTS["H100"], ranks),
        hcas=tuple(f"mlx5_{n}" for n in range(8)),
        env=ENV,
        bandwidth=390.0,
        behaviour=Behaviour(),
    )
    return dataclasses.replace(shape, **more)


def world(hosts: int = 2, ranks: int = 8, **more: Any) -> World:
    return World(tuple(member(rank, ranks, **more) for rank in range(hosts)))


def text(of: World) -> str:
    return "\n".join(line for each in of.members for line in log_lines(of, each, "13.0"))


@pytest.mark.parametrize(("hosts", "ranks"), [(2, 8), (2, 1), (3, 2), (4, 8)])
def test_a_healthy_run_is_direct_on_every_channel_in_both_directions(hosts: int, ranks: int) -> None:
    from conformance.outputs import nccl_lines, nccl_log

    run = world(hosts, ranks)
    log = nccl_lines.parse(text(run))
    verdict = nccl_log.judge(log)
    assert str(verdict.code) == "GDR_ENGAGED"
    assert log.nodes == hosts
    assert log.ranks == hosts * ranks
    assert nccl_log.uncovered(log) == []
    assert nccl_log.one_way_nodes(log) == []
    assert nccl_log.silent_ranks(log, dict.fromkeys(range(hosts * ranks), "")) == []


def test_one_host_needs_no_network() -> None:
    lines = text(world(1))
    assert "via NET" not in lines
    assert "via P2P/CUMEM" in lines


def test_the_table_is_read_as_a_good_measurement() -> None:
    from conformance.outputs import nccl_tests

    lines, code = table_lines(world())
    assert code == 0
    assert sum("# " in line and " Rank " in line for line in lines) == 16
    run = nccl_tests.parse("\n".join(lines))
    verdict = nccl_tests.judge(run)
    assert str(verdict.code) == "OK"
    largest = lines[-5].split()
    assert largest[0] == str(8 << 30)
    assert float(largest[7]) == pytest.approx(390.0, rel=0.01)


def test_bandwidth_grows_with_size_and_keeps_the_ratio() -> None:
    run = world()
    each = [measure(run, size) for size in SIZES]
    assert [m[2] for m in each] == sorted(m[2] for m in each)
    for _, algorithm, bus in each:
        assert bus / algorithm == pytest.approx(2 * 15 / 16)
