"""Ports read before and after a run, in the pods of the run."""

from __future__ import annotations

import subprocess

import pytest

from conformance.net.figures import fabric_of
from conformance.net.port_counters import ports_in, uses, with_ports_read
from tests.net.logs import a_run, adapters, nccl_log


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
def test_without_both_readings_of_a_port_nothing_is_said(log: str) -> None:
    assert list(uses(log)) == []


def test_sysfs_tells_the_speed_that_an_older_nccl_does_not_print() -> None:
    ports = "".join(reading("before", f"mlx5_{index}", "200 Gb/sec (4X HDR)") for index in range(8))
    ports = ports.replace("## ports of adapters end\n## ports of adapters before\n", "")
    logs = [ports + nccl_log(node, extra=adapters(f"net-fabric-{node}", skip="NET/IB: [")) for node in (0, 1)]
    assert fabric_of(a_run(*logs)).gbits == 1600
    assert fabric_of(a_run(logs[0].replace("mlx5_7/", "mlx5_9/"), logs[1])).gbits is None
