"""Undos on a host: a timer that is still to come is called off, and a kubelet that is stopped is started."""

import asyncio
import shlex
from pathlib import Path

import msgspec

from chaos.activities.hosts import PROMPT, kubelet_args
from chaos.ledger.undos.host import HostKubelet, Programs
from chaos.model.plan import Target
from tests.chaos.ledger.simulated_cluster import acting, ledger, plan, world
from tests.simulator.host.injector import on_host
from tests.simulator.programs.small_cluster import hardware, small_cluster

START, STOP = "gpu-conformance-run-1-n2-kubelet-start", "gpu-conformance-run-1-n2-kubelet-stop"


def arguments(folder: Path) -> Programs:
    with world(folder) as (cluster, _):
        made = acting(folder, cluster, ledger(folder))
        target = Target(kind="nodes", name="gpu-1", uid="uid-gpu-1", node="gpu-1")
        made.plan = msgspec.structs.replace(made.plan, targets=(target,), facts={**plan().facts, "injector_image": "injector"})
        with made.as_current():
            return HostKubelet().programs(kubelet_args("kubelet.service", STOP, START))


def after(*commands: str, running: bool = True) -> tuple[str, dict[str, str], bool]:
    """What the commands print on a host, its units' states then, and whether its kubelet runs."""

    async def scenario() -> tuple[str, dict[str, str], bool]:
        async with small_cluster([hardware("a")]) as cluster:
            host = cluster.kubelets.hosts["a"]
            host.kubelet_running = running
            reported = await on_host(cluster, "\n".join(commands))
            return reported, {name: unit.state for name, unit in host.units.items()}, host.kubelet_running

    return asyncio.run(scenario())


def test_a_stop_that_is_still_to_come_is_called_off(tmp_path: Path) -> None:
    args = arguments(tmp_path)
    start = f"systemd-run --on-active=300 {PROMPT} --unit={START} systemctl start kubelet.service"
    stop = f"systemd-run --on-active=300 {PROMPT} --unit={STOP} systemctl stop kubelet.service"
    reported, units, running = after(start, stop, shlex.join(args.check), shlex.join(args.undo), "echo undone", shlex.join(args.check))
    before, _, later = reported.partition("undone")
    assert before.rstrip().endswith("active\nactive")  # the kubelet is up, and it is not restored
    assert later.strip() == args.expected
    assert (units[START], units[STOP], running) == ("stopped", "stopped", True)


def test_a_stopped_kubelet_is_started(tmp_path: Path) -> None:
    assert after(shlex.join(arguments(tmp_path).undo), running=False)[2]
