"""What an injector pod can do to the machine it runs on, and what it cannot."""

from __future__ import annotations

import asyncio
import json

import pytest

from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.nodes.machine.host import GpuMode, Host
from tests.simulator.host.injector import NSENTER, injector, on_host, ran_on_host
from tests.simulator.programs.small_cluster import PODS, hardware, pod, small_cluster
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all


async def changed(host: Host, seconds: float = PATIENCE) -> None:
    """Wait for the machine's next change."""
    event = asyncio.Event()
    host.listen(event.set)
    try:
        await asyncio.wait_for(event.wait(), seconds)
    finally:
        host.forget(event.set)


@pytest.mark.parametrize(
    ("privileged", "host_pid", "said"),
    [
        (False, False, "nsenter: reassociate to namespace 'ns/ipc' failed: Operation not permitted\n"),
        (False, True, "nsenter: cannot open /proc/1/ns/ipc: Permission denied\n"),
        (True, False, "nsenter: failed to execute systemctl: No such file or directory\n"),
    ],
)
def test_a_container_without_the_rights_does_not_reach_the_machine(privileged: bool, host_pid: bool, said: str) -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a")]) as cluster:
            await cluster.start(injector("i", NSENTER + "systemctl stop kubelet", privileged=privileged, host_pid=host_pid))
            assert await cluster.output("i") == said
            assert cluster.kubelets.hosts["a"].kubelet_running

    asyncio.run(scenario())


def test_systemd_says_when_the_kubelet_was_last_started() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a")]) as cluster:
            show = "systemctl show --property=ActiveEnterTimestampMonotonic kubelet"
            output = await on_host(cluster, f"{show}\n{show}\nsystemctl restart kubelet\n{show}\nsystemctl show kubelet || echo no")
            first, again, later, *rest = output.splitlines()
            assert first == again
            assert int(later.partition("=")[2]) > int(first.partition("=")[2])
            assert rest[-1] == "no"

    asyncio.run(scenario())


def test_a_timer_runs_on_the_machine_after_its_pod_is_gone() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a")]) as cluster:
            host = cluster.kubelets.hosts["a"]
            await on_host(
                cluster, "systemd-run --on-active=0.3 --unit=undo-1 --timer-property=AccuracySec=1s sh -c 'echo undone > /dev/kmsg'"
            )
            assert host.units["undo-1"].state == "waiting"
            await cluster.client.delete(f"{PODS}/injector")
            await cluster.gone(f"{PODS}/injector")
            while host.units["undo-1"].state != "elapsed":
                await changed(host)
            assert [line.text for line in host.kernel_log] == ["undone"]
            assert host.units["undo-1"].status == 0

    asyncio.run(scenario())


def test_a_stopped_timer_never_runs_and_its_name_is_free_again() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a")]) as cluster:
            host = cluster.kubelets.hosts["a"]
            script = """
systemd-run --on-active=30 --unit=undo-1 systemctl start kubelet
systemd-run --on-active=30 --unit=undo-1 systemctl start kubelet
systemctl is-active undo-1.timer
systemctl stop undo-1.timer
systemctl is-active undo-1.timer
systemctl stop undo-1.timer
systemd-run --on-active=60 --unit=undo-1 systemctl start kubelet
"""
            output, codes = await ran_on_host(cluster, script)
            assert "Running timer as unit: undo-1.timer\nWill run service as unit: undo-1.service\n" in output
            assert "Unit undo-1.timer was already loaded" in output
            assert "\ninactive\nFailed to stop undo-1.timer: Unit undo-1.timer not loaded.\n" in output
            assert host.units["undo-1"].state == "waiting"
            assert codes == [0, 1, 0, 0, 3, 5, 0]

    asyncio.run(scenario())


def test_the_kubelet_is_stopped_started_and_restarted() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a")]) as cluster:
            host = cluster.kubelets.hosts["a"]
            seen: list[bool] = []
            host.listen(lambda: seen.append(host.kubelet_running))
            await cluster.start(
                injector("i", NSENTER + "sh -c 'systemctl stop kubelet; systemctl start kubelet; systemctl restart kubelet'")
            )
            await asyncio.wait_for(_until(lambda: seen == [False, True, False, True]), PATIENCE)
            assert host.kubelet_started == 3

    asyncio.run(scenario())


async def _until(true: object) -> None:
    assert callable(true)
    while not true():
        await asyncio.sleep(0.01)


def test_lines_for_the_kernel_log_are_written_by_redirection_and_read_by_dmesg() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a")]) as cluster:
            script = f"""
echo '<3>straight from the container' > /dev/kmsg
{NSENTER}sh -c 'echo "NVRM: Xid (PCI:0000:18:00): 79, run=1" > /dev/kmsg'
{NSENTER}dmesg
"""
            await cluster.start(injector("i", script))
            output = await cluster.output("i")
            texts = [line.text for line in cluster.kubelets.hosts["a"].kernel_log]
            assert texts == ["straight from the container", "NVRM: Xid (PCI:0000:18:00): 79, run=1"]
            assert output.startswith("[    0.000000] straight from the container\n")

    asyncio.run(scenario())


def test_an_unprivileged_container_neither_writes_nor_reads_the_kernel_log() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a")]) as cluster:
            cluster.kubelets.hosts["a"].log("secret of the machine")
            await cluster.start(pod("p", "echo x > /dev/kmsg; dmesg"))
            assert await cluster.output("p") == "dmesg: read kernel buffer failed: Operation not permitted\n"
            assert [line.text for line in cluster.kubelets.hosts["a"].kernel_log] == ["secret of the machine"]

    asyncio.run(scenario())


def test_nvml_mock_sets_modes_events_and_tells_them() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a", 2)]) as cluster:
            host = cluster.kubelets.hosts["a"]
            first, second = host.hardware.gpus
            script = f"""
nvml-mock-ctl fail --gpu 0 --mode lost --xid 79
nvml-mock-ctl fail --gpu {second.uuid} --mode ecc_uncorrectable
nvml-mock-ctl xid --gpu 0 --code 43
nvml-mock-ctl event-wait --fail
nvml-mock-ctl status
"""
            status = json.loads(await on_host(cluster, script))
            assert status["eventWait"] == "fail"
            assert [gpu["mode"] for gpu in status["gpus"]] == ["lost", "ecc_uncorrectable"]
            assert [(event.uuid, event.code) for event in host.xids] == [(first.uuid, 79), (first.uuid, 43)]
            assert host.ecc == {second.uuid: 1}
            await on_host(cluster, "nvml-mock-ctl fail --gpu 1 --mode healthy", name="healthy")
            assert host.modes == {first.uuid: GpuMode.LOST, second.uuid: GpuMode.HEALTHY}
            assert await ran_on_host(cluster, "nvml-mock-ctl reset", name="reset") == ("", [0])
            assert host.modes[first.uuid] is GpuMode.HEALTHY
            assert not host.event_wait_fails

    asyncio.run(scenario())


def test_nvml_mock_refuses_devices_that_are_not_there_and_wrong_calls() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a")]) as cluster:
            wrong = (
                "fail --gpu 0",
                "fail --gpu 0 --mode odd",
                "xid --gpu 0 --code x",
                "event-wait --ok",
                "fail --mode lost",
                "reset --gpu 0",
            )
            script = "nvml-mock-ctl fail --gpu 9 --mode lost\n" + "\n".join(f"nvml-mock-ctl {call}" for call in wrong)
            output, codes = await ran_on_host(cluster, script)
            assert output.startswith("nvml-mock-ctl: no GPU '9' on this node\nusage: nvml-mock-ctl fail ")
            assert codes == [1, *(2 for _ in wrong)]
            assert set(cluster.kubelets.hosts["a"].modes.values()) == {GpuMode.HEALTHY}

    asyncio.run(scenario())


def test_dcgmi_needs_a_standalone_engine_and_names_device_and_field() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a", 2)]) as cluster:
            host = cluster.kubelets.hosts["a"]
            refused = await on_host(cluster, "dcgmi test --inject --gpuid 0 -f 230 -v 79")
            assert "unable to establish a connection" in refused
            assert host.dcgm == {}
            host.start_engine("engine-1", standalone=True)
            image = {"image": "nvcr.io/nvidia/cloud-native/dcgm:4"}
            await cluster.start(pod("engine", "dcgmi test --inject --gpuid 1 -f 230 -v 79; dcgmi test --inject -f 230", container=image))
            assert (await cluster.output("engine")).startswith("Successfully injected field info.\nUsage: ")
            assert {key: value.value for key, value in host.dcgm.items()} == {(1, 230): "79"}
            host.start_engine("engine-2", standalone=True)
            assert host.dcgm == {}
            await cluster.start(pod("other", "dcgmi test --inject"))
            assert "not found" in await cluster.output("other")

    asyncio.run(scenario())


LOOP = 'i=0; while true; do i=$((i+1)); echo "beat $i"; sleep 0.02; done'


def test_a_stopped_process_goes_on_where_it_was_and_a_killed_one_ends_with_137() -> None:
    async def scenario() -> None:
        async with small_cluster([hardware("a")]) as cluster:
            await cluster.start(pod("rank-0", LOOP, env={"RANK_OF": "job-7"}), pod("rank-1", LOOP))
            await cluster.phase("rank-0", "Running")
            await cluster.phase("rank-1", "Running")
            node = (await cluster.client.get(f"{PODS}/rank-0"))["spec"]["nodeName"]
            worker = cluster.kubelets.worker_of("default", "rank-0")
            assert worker is not None
            await on_host(cluster, "pkill -STOP -f job-7", node, "stop")
            await asyncio.sleep(0.1)
            stopped = len(worker.logs["probe"].lines)
            other = cluster.kubelets.worker_of("default", "rank-1")
            assert other is not None
            goes_on = len(other.logs["probe"].lines)
            while len(other.logs["probe"].lines) < goes_on + 5:
                await other.logs["probe"].changed()
            assert len(worker.logs["probe"].lines) == stopped
            await on_host(cluster, "pkill -CONT -f job-7", node, "continue")
            await worker.logs["probe"].changed()
            assert worker.logs["probe"].lines[stopped].data == f"beat {stopped + 1}\n".encode()
            _, codes = await ran_on_host(cluster, "pkill -KILL -f job-7\npkill -KILL -f nobody", node, "kill")
            ended = await cluster.phase("rank-0", "Failed")
            assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
            assert codes == [0, 1]

    asyncio.run(scenario())


@pytest.mark.parametrize("broken", [False, True])
def test_a_stopped_pod_ends_at_its_deadline_unless_the_watchdog_is_broken(broken: bool) -> None:
    async def scenario() -> None:
        behaviour = Behaviour(watchdog_never_fires=broken)
        async with small_cluster([hardware("a")], behaviour) as cluster:
            await cluster.start(pod("rank", LOOP, {"nvidia.com/gpu": 8}, spec={"activeDeadlineSeconds": 1}))
            await cluster.phase("rank", "Running")
            worker = cluster.kubelets.worker_of("default", "rank")
            assert worker is not None
            await on_host(cluster, "pkill -STOP -f beat")
            if not broken:
                await cluster.phase("rank", "Failed")
                assert not list(worker.allocation.units)
                return
            await asyncio.sleep(1.3)
            assert (await cluster.client.get(f"{PODS}/rank"))["status"]["phase"] == "Running"
            assert len(list(worker.allocation.units)) == 8
            await on_host(cluster, "pkill -CONT -f beat", name="continue")
            await cluster.phase("rank", "Failed")

    asyncio.run(scenario())
