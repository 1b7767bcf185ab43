"""Ports read before and after a run, in the pods of the run."""

import subprocess
from typing import Any

import pytest

from conformance.net.figures import fabric_of
from conformance.net.ports import judge_ports, ports_in, uses, with_ports_read
from fixtures.probes import allreduce
from fixtures.verdict.findings import Outcome
from tests.net.logs import a_run, adapters, gdr, nccl_log
from tests.tables import each_row


def reading(when: str, adapter: str = "mlx5_0", rate: str = "400 Gb/sec (4X NDR)", **counters: int) -> str:
    folder = f"/sys/class/infiniband/{adapter}/ports/1"
    kinds = {name: "hw_counters" if name in ("tx_bytes", "out_of_sequence") else "counters" for name in counters}
    lines = [
        f"{folder}/state:4: ACTIVE",
        f"{folder}/rate:{rate}",
        *(f"{folder}/{kinds[name]}/{name}:{value}" for name, value in counters.items()),
    ]
    return "\n".join([f"## ports of adapters {when}", *lines, "## ports of adapters end", ""])


@pytest.mark.parametrize(("command", "status"), [("true", 0), ("false", 1), ("sh -c 'exit 126' # a remark", 126), ("no-such-program", 127)])
def test_a_real_shell_reads_around_the_command_and_ends_as_it_does(command: str, status: int) -> None:
    ran = subprocess.run(["sh", "-c", with_ports_read(f"echo it runs; {command}")], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == status
    assert set(ports_in(ran.stdout)) == {"before", "after"}
    assert ran.stdout.index("before") < ran.stdout.index("it runs") < ran.stdout.index("after")


def test_what_a_port_counted_is_what_its_counters_grew_by() -> None:
    before = reading("before", port_xmit_data=1000, symbol_error=7, link_downed=2, out_of_sequence=1)
    after = reading("after", port_xmit_data=51000, symbol_error=9, link_downed=0, out_of_sequence=1, port_rcv_errors=4)
    (use,) = uses(f"{before}NCCL INFO /sys/x:1\n{after}")
    assert (use.adapter, use.port, use.state, use.rate) == ("mlx5_0", 1, "ACTIVE", "400 Gb/sec (4X NDR)")
    assert use.grown == {"port_xmit_data": 50000, "symbol_error": 2, "out_of_sequence": 0}, "set back, or not there before: not known"


@pytest.mark.parametrize(
    "log",
    [
        "",
        reading("before", port_xmit_data=1),
        reading("before", port_xmit_data=1) + reading("after", port_xmit_data=2).partition("## ports of adapters end")[0],
        reading("before", port_xmit_data=1) + reading("after", "mlx5_1", port_xmit_data=2),
    ],
    ids=["nothing", "once", "cut off", "another adapter"],
)
def test_without_both_readings_of_a_port_there_is_no_use(log: str) -> None:
    assert list(uses(log)) == []


def test_sysfs_tells_the_speed_that_an_older_nccl_does_not_print() -> None:
    ports = "".join(reading("before", f"mlx5_{index}", "200 Gb/sec (4X HDR)") for index in range(8))
    ports = ports.replace("## ports of adapters end\n## ports of adapters before\n", "")
    logs = [ports + nccl_log(node, extra=adapters(f"net-fabric-{node}", skip="NET/IB: [")) for node in (0, 1)]
    assert fabric_of(a_run(*logs)).gbits == 1600
    assert fabric_of(a_run(logs[0].replace("mlx5_7/", "mlx5_9/"), logs[1])).gbits is None


# -- NET-07: ports that carry the payload of a run, or do not, or count errors


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


def test_ports_that_were_not_read_prove_nothing() -> None:
    assert {finding.outcome for finding in judge_ports(a_run(nccl_log(0), nccl_log(1)))} == {Outcome.UNDECIDED}
