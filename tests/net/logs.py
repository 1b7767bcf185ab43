"""NCCL logs of two-node runs as tests need them: rings over all ranks, one network channel per local device.

Facts: docs/facts/nccl.md#nccl-log-lines.
"""

from collections.abc import Callable
from typing import Any

from conformance.net.two_nodes import FabricRun, Plan, RankPod, make_plans
from fixtures.model.cluster import Scope

Via = Callable[[int, int, str], str]
"""What a channel between nodes goes via: from source rank, target rank and direction; empty leaves the line out."""


def gdr(source: int, target: int, direction: str) -> str:
    """All as it should be."""
    return f"NET/IB/{source % 8}/GDRDMA"


def nccl_log(node: int, *, nodes: int = 2, per_node: int = 2, via: Via = gdr, host: str = "", extra: str = "") -> str:
    """What the ranks of one node print: a ring over all ranks in order, whose hops between nodes go by ``via``."""
    host = host or f"net-fabric-{node}"
    total = nodes * per_node
    lines = [f"NCCL version 2.28.9+cuda13.0\n{host}:10:10 [0] NCCL INFO Using network IB"]
    for local in range(per_node):
        rank = node * per_node + local
        prefix = f"{host}:{10 + local}:{10 + local} [{local}] NCCL INFO "
        lines.append(f"{prefix}comm 0xabc{rank} rank {rank} nRanks {total} nNodes {nodes} localRanks {per_node} localRank {local} MNNVL 0")
        for source, target, direction in (((rank - 1) % total, rank, "receive"), (rank, (rank + 1) % total, "send")):
            if source // per_node != target // per_node:
                how = via(source, target, direction)
                mark = f" [{direction}]" if how.startswith(("NET", "COLLNET")) else ""
            else:
                how, mark = ("P2P/CUMEM" if direction == "send" else ""), ""
            if how:
                lines.append(f"{prefix}Channel 00/0 : {source}[{source % per_node}] -> {target}[{target % per_node}]{mark} via {how}")
        lines.append(f"{prefix}Connected all rings, use ring PXN 0 GDR 1")
    return "\n".join([*lines, extra]) + "\n"


def adapters(host: str, count: int = 8, gbits: int = 400, link: str = "IB", skip: str = "", used: int = -1) -> str:
    """The lines by which NCCL says what adapters a host has, how fast their ports are, and that channels go through the first of them."""
    names = [f"mlx5_{index}" for index in range(count)]
    lines = [
        f"NET/IB: [{at}] {name}:uverbs{at}:1/{link} provider=Mlx5 speed={gbits * 1000} context=0x1 ar=1" for at, name in enumerate(names)
    ]
    lines.append("NET/IB : Using " + " ".join(f"[{at}]{name}:1/{link}" for at, name in enumerate(names)) + " [RO]; OOB eth0:10.0.0.1<0>")
    ends = ("0[0] -> 1[0]", "1[0] -> 0[0]")[:: 1 if host.endswith("0") else -1]
    for at in range(count if used < 0 else used):
        lines += [f"Channel {at:02d}/0 : {end} [{way}] via NET/IB/{at}/GDRDMA" for end, way in zip(ends, ("send", "receive"), strict=True)]
    return "\n".join(f"{host}:10:10 [0] NCCL INFO {line}" for line in lines if not (skip and skip in line))


def a_run(
    *logs: str,
    nodes: tuple[str, ...] = ("gpu-0", "gpu-1"),
    per_node: int = 2,
    exit_code: int | None = 0,
    state: str = "Succeeded",
    finished: bool = True,
    **more: Any,
) -> FabricRun:
    """A run with these logs, one per pod."""
    return FabricRun(
        namespace="ns",
        pods=tuple(
            RankPod(name=f"net-fabric-{index}", node=node, state=state, exit_code=exit_code, log=log)
            for index, (node, log) in enumerate(zip(nodes, logs, strict=True))
        ),
        per_node=per_node,
        seconds=360,
        finished=finished,
        **{"device": "nvidia.com/gpu", "fabric": "rdma/a", **more},
    )


def run_of(via: Via = gdr, *, extra: str = "") -> FabricRun:
    """A two-node run whose channels between nodes go by ``via``."""
    return a_run(nccl_log(0, via=via, extra=extra), nccl_log(1, via=via))


def make_plan(scope: Scope) -> Plan:
    """The plan of the kind of machine that gives the most ranks."""
    return make_plans(scope)[0][0]
