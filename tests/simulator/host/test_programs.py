"""What an injector pod can do to the machine it runs on, and what it cannot."""

import asyncio

import pytest

from fixtures.simulator.nodes.machine.host import GpuMode, Host
from tests.simulator.host.injector import NSENTER, injector, on_host, ran_on_host
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, in_cluster, pod
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
    ("privileged", "host_pid", "reported"),
    [
        (False, False, "nsenter: reassociate to namespace 'ns/ipc' failed: Operation not permitted\n"),
        (False, True, "nsenter: cannot open /proc/1/ns/ipc: Permission denied\n"),
        (True, False, "nsenter: failed to execute systemctl: No such file or directory\n"),
    ],
)
@in_cluster(hardware("a"))
async def test_a_container_without_the_rights_does_not_reach_the_machine(
    cluster: SmallCluster, privileged: bool, host_pid: bool, reported: str
) -> None:
    await cluster.start(injector("i", NSENTER + "systemctl stop kubelet", privileged=privileged, host_pid=host_pid))
    assert await cluster.output("i") == reported
    assert cluster.kubelets.hosts["a"].kubelet_running


@in_cluster(hardware("a"))
async def test_a_timer_runs_on_the_machine_after_its_pod_is_gone(cluster: SmallCluster) -> None:
    host = cluster.kubelets.hosts["a"]
    await on_host(cluster, "systemd-run --on-active=0.3 --unit=undo-1 --timer-property=AccuracySec=1s sh -c 'echo undone > /dev/kmsg'")
    assert host.units["undo-1"].state == "waiting"
    await cluster.client.delete(f"{PODS}/injector")
    await cluster.gone(f"{PODS}/injector")
    while host.units["undo-1"].state != "elapsed":
        await changed(host)
    assert [line.text for line in host.kernel_log] == ["undone"]
    assert host.units["undo-1"].status == 0


@in_cluster(hardware("a"))
async def test_a_stopped_timer_never_runs_and_its_name_is_free_again(cluster: SmallCluster) -> None:
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


@in_cluster(hardware("a"))
async def test_an_unprivileged_container_neither_writes_nor_reads_the_kernel_log(cluster: SmallCluster) -> None:
    cluster.kubelets.hosts["a"].log("secret of the machine")
    await cluster.start(pod("p", "echo x > /dev/kmsg; dmesg"))
    assert await cluster.output("p") == "dmesg: read kernel buffer failed: Operation not permitted\n"
    assert [line.text for line in cluster.kubelets.hosts["a"].kernel_log] == ["secret of the machine"]


@in_cluster(hardware("a"))
async def test_nvml_mock_refuses_devices_that_are_not_there_and_wrong_calls(cluster: SmallCluster) -> None:
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
    host = cluster.kubelets.hosts["a"]
    assert {host.mode(gpu) for gpu in host.hardware.gpus} == {GpuMode.HEALTHY}
