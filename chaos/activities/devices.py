"""Faults of devices as NVML clients see them, by a mocked NVML on the node (nvml-mock), and resets by the vendor's own tool.

The mock reaches the device plugin, DCGM and whoever else asks NVML; it never touches a device. Undoing takes its overrides away and
restarts the detectors, which do not forget by themselves.

Facts: docs/facts/device-health.md#mocked-nvml, docs/facts/device-health.md#gpu-reset, docs/facts/device-plugin.md#health.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
from chaoslib.exceptions import ActivityFailed

from chaos.activities import base
from chaos.activities.hosts import run
from chaos.cluster.injector import never_resets, nvidia_smi, open_files, says_in_use
from chaos.cluster.requests import read
from chaos.ledger.undos.agents import RestartedArgs
from chaos.ledger.undos.host import MOCK, STATE, DeviceArgs, HostPersistence, MockArgs
from chaos.ledger.undos.nodes import identity
from chaos.ledger.undos.workloads import EnvArgs, containers_of, template_of, value_of, with_value
from chaos.model.plan import CANARY_LABEL, canary_namespace
from chaos.model.records import PREPARATION
from chaos.observe.signals.pace import uuids_in
from chaos.observe.signals.pods import WORKER
from chaos.observe.view import View
from fixtures.model.objects import amounts_of, is_unschedulable, labels_of, name_of, node_of, phase_of, uid_of
from fixtures.model.platform.installed import DETECTORS, pods_of
from fixtures.verdict.record import TargetKind


def fail_gpu(mode: str = "lost", xid: int = 0, restart: Sequence[str] = DETECTORS) -> dict[str, Any]:
    """Let NVML say that the plan's GPU is ``mode`` (lost, fallen_off_bus, ecc_uncorrectable), with an Xid event if ``xid``.

    ``restart`` names the agents that the undo restarts on the node once the fault is gone; one that is not installed is left out.
    """
    uuid = str(base.node_target().facts["uuid"])
    argv = [MOCK, "fail", "--gpu", uuid, "--mode", mode] + (["--xid", str(xid)] if xid else [])
    return _mocked([argv], restart, {"uuid": uuid, "mode": mode, "xid": xid})


def raise_xids(codes: list[int], restart: Sequence[str] = DETECTORS) -> dict[str, Any]:
    """Raise Xid events of the plan's GPU, one after the other; the device itself stays as it is."""
    uuid = str(base.node_target().facts["uuid"])
    return _mocked([[MOCK, "xid", "--gpu", uuid, "--code", str(code)] for code in codes], restart, {"uuid": uuid, "codes": codes})


def fail_event_wait(restart: Sequence[str] = DETECTORS) -> dict[str, Any]:
    """Let NVML's event wait fail on the node."""
    return _mocked([[MOCK, "event-wait", "--fail"]], restart, {"event_wait": "fail"})


def heal_gpu() -> dict[str, Any]:
    """Take the mock's overrides of the plan's GPU away, and restart nothing: whether the device comes back by itself is the question."""
    base.current().check()
    uuid = str(base.node_target().facts["uuid"])
    run((MOCK, "fail", "--gpu", uuid, "--mode", "healthy"))
    return {**base.target_record(base.node_target()), "uuid": uuid, "mode": "healthy"}


def restart_agent(component: str = "device-plugin") -> dict[str, Any]:
    """Restart an agent on the plan's node."""
    acting = base.current()
    args = msgspec.structs.replace(restarted(component), allocatable={})  # devices are read back by the undo of what broke them
    with acting.fault("agent.restarted", args) as fault:
        _end_pods(component, args)
        fault.applied({"restarted": component, "node": args.node, "uids": list(args.uids)})
    return {**base.target_record(base.node_target()), "component": component, "uids": list(args.uids)}


def configure_plugin(variable: str, value: str) -> dict[str, Any]:
    """Set a variable of the device plugin's DaemonSet and restart its pod on the plan's node, which alone runs with it.

    On the simulated cluster only: the real DaemonSet controller rolls changed pods out on every node, and no account of ours may
    write DaemonSets.
    """
    acting = base.current()
    if acting.plan.target_kind is not TargetKind.SIMULATED:
        raise ActivityFailed("a change of the plugin's DaemonSet reaches every node of a real control plane")
    found = base.plan_facts().components["device-plugin"]
    owner = read(acting.cluster, found.key, found.name, found.namespace)
    if owner is None or uid_of(owner) != found.uid:
        raise ActivityFailed(f"{found} was replaced since it was planned")
    container = str(containers_of(owner)[0]["name"])
    env = EnvArgs(
        key=found.key,
        namespace=found.namespace,
        name=found.name,
        uid=found.uid,
        container=container,
        variable=variable,
        prior=value_of(owner, container, variable),
        ours=value,
    )
    agent = msgspec.structs.replace(restarted("device-plugin"), env={variable: value})
    with acting.fault("agent.restarted", agent) as detector, acting.fault("workload.env", env) as fault:
        base.change(
            found.key,
            owner,
            with_value(owner, container, variable, value),
            lambda newer: template_of(newer) == template_of(owner),
        )
        fault.applied({"workload": found.name, "variable": variable, "value": value, PREPARATION: True})
        _end_pods("device-plugin", agent)
        detector.applied({"restarted": "device-plugin", "node": agent.node, PREPARATION: True})
    return {**base.target_record(base.node_target()), "variable": variable, "value": value}


def restarted(component: str) -> RestartedArgs:
    """Arguments of restarting an agent on the plan's node. Raises ActivityFailed when it does not run there, or the node was replaced."""
    found = base.plan_facts().components.get(component)
    if found is None:
        raise ActivityFailed(f"{component} was not found when the experiment was planned")
    target = base.node_target()
    view = View.of(base.current().cluster)
    uids = tuple(uid_of(pod) for pod in pods_of(view, found) if node_of(pod) == target.name)
    if not uids:
        raise ActivityFailed(f"no pod of {found} is on {target.name}")
    node = base.read_target(target)
    advertises = component == "device-plugin"
    allocatable = amounts_of(node, "allocatable") if advertises else {}
    return RestartedArgs(
        namespace=found.namespace,
        owner=found.name,
        owner_uid=found.uid,
        selector=found.selector,
        node=target.name,
        uids=uids,
        allocatable={name: str(count) for name, count in allocatable.items() if base.plan_facts().is_device(name)},
    )


def reset_gpu() -> dict[str, Any]:
    """Reset the plan's GPU once nobody holds it: ``nvidia-smi --gpu-reset``. The node must be cordoned and its agents be away.

    Raises ActivityFailed when clients stay, or when the reset is refused: nothing is forced.
    """
    acting = base.current()
    target = base.node_target()
    uuid = str(target.facts["uuid"])
    if not is_unschedulable(base.read_target(base.node_target())):
        raise ActivityFailed(f"{target} is not cordoned: somebody could be given the device during its reset")
    base.must_be_alone(target.name)  # a pod may hold the device and have no process on it yet
    _open_persistence(uuid)
    quiet = nvidia_smi("--query-compute-apps=pid", "--format=csv,noheader", "-i", uuid)
    if not base.poll(lambda: not _pids(run(quiet).output), base.seconds("clients"), 1.0):
        raise ActivityFailed(f"processes still hold {uuid} after {base.seconds('clients'):g} s")
    with acting.fault("host.reset", DeviceArgs(**identity(base.read_target(target)), uuid=uuid)) as fault:
        done = _reset_when_free(uuid)
        fault.applied({"node": target.name, "uuid": uuid, "said": done[-300:]})
    return {**base.target_record(target), "uuid": uuid}


def _open_persistence(uuid: str) -> None:
    """Switch the persistence mode off, which by itself makes the driver refuse a reset even with no process there."""
    args = DeviceArgs(**identity(base.read_target(base.node_target())), uuid=uuid)
    programs = HostPersistence().programs(args)
    mode = programs.read(run(programs.check, good=()).output).strip()
    if mode == programs.ours:
        return
    if mode != programs.expected:
        raise ActivityFailed(f"nobody knows the persistence mode of {uuid}: {mode[-300:]}")
    with base.current().fault("host.persistence", args) as fault:
        run(nvidia_smi("-i", uuid, "-pm", "0"))
        fault.applied({"node": base.node_target().name, "uuid": uuid, "persistence": "off", PREPARATION: True})


_NO_PROCESSES = "No running processes found"
"""What some releases of nvidia-smi print instead of nothing."""


def _pids(output: str) -> list[str]:
    """Process ids of a listing. Raises ActivityFailed for a line that is none, and does not say that there is none."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and line.strip() != _NO_PROCESSES]
    if strange := [line for line in lines if not line.isdigit()]:
        raise ActivityFailed(f"nobody knows which processes hold the device: {strange[0][:200]}")
    return lines


def _reset_when_free(uuid: str) -> str:
    """The reset's words once it was not refused as in use, which agents that are still ending make it.

    A refusal because of NVLink is final: its peers are nobody's to reset here.
    """
    reported: list[str] = []

    def attempt() -> bool:
        result = run(nvidia_smi("--gpu-reset", "-i", uuid), good=())
        reported.append(result.output.strip())
        if result.exit_code != 0 and never_resets(result.output):
            raise ActivityFailed(f"{uuid} is not reset without its peers: {reported[-1][-300:]}")
        return result.exit_code == 0

    if not base.poll(attempt, base.seconds("clients"), 1.0):
        raise ActivityFailed(f"the reset of {uuid} was refused for {base.seconds('clients'):g} s: {reported[-1][-300:]}")
    return reported[-1]


def reset_in_use() -> dict[str, Any]:
    """Ask for the reset of a GPU that a worker holds. On hardware it is asked for only while somebody has the GPU open: the driver
    resets one that is free, and a worker without a process there does not keep it.

    Whether it was refused is returned and not judged here: what happened to the worker is for the samples to show. Raises
    ActivityFailed for an answer that is about something else than the use of the GPU.
    """
    acting = base.current()
    target = base.node_target()
    uuid = worker_device()
    listing = nvidia_smi("--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader", "-i", uuid)
    clients = [line for line in run(listing).output.splitlines() if uuid in line]
    if acting.plan.target_kind is TargetKind.LIVE:
        clients += run(open_files(uuid), good=()).output.splitlines()
    with acting.fault("host.device", DeviceArgs(**identity(base.read_target(target)), uuid=uuid)) as fault:
        if acting.plan.target_kind is TargetKind.LIVE and not clients:
            result: dict[str, Any] = {"attempted": False, "clients": 0, "refused": False}
        else:
            done = run(nvidia_smi("--gpu-reset", "-i", uuid), good=())
            reported = " ".join(done.output.split())[:300]
            if done.exit_code != 0 and not says_in_use(done.output):
                raise ActivityFailed(f"the driver did not answer whether {uuid} is in use: {reported or f'exit {done.exit_code}'}")
            result = {"attempted": True, "clients": len(clients), "refused": done.exit_code != 0, "said": reported}
        fault.applied({"node": target.name, "uuid": uuid, **result})
    return {**base.target_record(target), "uuid": uuid, **result}


def worker_device() -> str:
    """A device of the plan's node that a worker holds, by what the worker lists."""
    view = View.of(base.current().cluster)
    namespace = canary_namespace(base.current().plan)
    for pod in view.select("pods", namespace):
        if labels_of(pod).get(CANARY_LABEL) == WORKER and phase_of(pod) == "Running" and node_of(pod) == base.node_target().name:
            uuids = uuids_in(view.log_tail(namespace, name_of(pod), 40))
            if uuids:
                return uuids[0]
    raise ActivityFailed(f"no worker holds a device of {base.node_target().name}")


def _mocked(commands: list[list[str]], restart: Sequence[str], detail: dict[str, Any]) -> dict[str, Any]:
    """Run the mock's commands, their undo and the restart of the detectors written down before: the restarts are undone last."""
    acting = base.current()
    target = base.node_target()
    prior = run(STATE).output.strip()
    healing = MockArgs(**identity(base.read_target(target)), prior=prior)
    with ExitStack() as stack:
        present = [name for name in restart if name in base.plan_facts().components]
        faults = [stack.enter_context(acting.fault("agent.restarted", restarted(name))) for name in present]
        faults.append(stack.enter_context(acting.fault("host.nvml-mock", healing)))
        for command in commands:
            run(command)
        for fault in faults:
            fault.applied({"node": target.name, **detail})
    return {**base.target_record(target), **detail}


def _end_pods(component: str, args: RestartedArgs) -> None:
    """Delete an agent's pods, each only if it still is that very pod."""
    cluster, found = base.current().cluster, base.plan_facts().components[component]
    pods = {uid_of(pod): name_of(pod) for pod in pods_of(View.of(cluster), found)}
    for uid in args.uids:
        if uid not in pods:
            raise ActivityFailed(f"the pod of {found} is gone")
        base.accepted(cluster.delete("pods", pods[uid], args.namespace, uid=uid), f"delete pod {pods[uid]}")
