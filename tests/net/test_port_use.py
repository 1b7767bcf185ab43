"""NET-07: ports that carry the payload of a run, or do not, or count errors."""

from __future__ import annotations

from typing import Any

from conformance.net.port_use import judge_ports
from fixtures.probes import allreduce
from fixtures.verdict.findings import Outcome
from tests.net.logs import a_run, gdr, nccl_log
from tests.net.test_port_counters import reading
from tests.tables import each_row

GIB = 1 << 30
PORT = ("mlx5_0", "400 Gb/sec (4X NDR)")
TABLE = "\n".join(allreduce.format_row(size, 4, [(0.01, 0), (0.01, 0)]) for size in (GIB, 2 * GIB))
WORDS = 12 * GIB // 4  # 12 GiB, and 6 GiB are the least: 2 sizes, 2 halves


def pod(node: int, words: int = WORDS, table: str = TABLE, via: str = "", **counted: Any) -> str:
    after: dict[str, Any] = {"port_xmit_data": 7 + words, "port_rcv_data": 7 + words, **counted}
    before: dict[str, Any] = dict.fromkeys(after, 7) | dict.fromkeys(counted, 0)
    log = nccl_log(node, via=(lambda *_: via) if via else gdr)
    return f"{reading('before', *PORT, **before)}{log}\n{table if node == 0 else ''}\n{reading('after', *PORT, **after)}"


@each_row
def test_ports_are_judged_by_what_they_counted(counted: dict[str, Any], outcome: Outcome, cause: str) -> None:
    whole = {name: counted[name] for name in ("table", "via") if name in counted}
    found = list(judge_ports(a_run(pod(0, **counted), pod(1, words=0 if "via" in whole else WORDS, **whole))))
    assert (found[0].subject.name, found[0].outcome, found[0].cause) == ("gpu-0 RDMA ports", outcome, cause), found
    assert whole or found[1].outcome is Outcome.OK, "the other node's ports are well"


def test_ports_that_nobody_read_prove_nothing() -> None:
    assert {finding.outcome for finding in judge_ports(a_run(nccl_log(0), nccl_log(1)))} == {Outcome.UNDECIDED}
