"""Faults of a machine below Kubernetes, through injector pods. What outlives the pod arms its own reversal on the host first."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from chaoslib.exceptions import ActivityFailed

from chaos.activities.base import (
    SHORT,
    current,
    host_namespace,
    must_be_alone,
    node_target,
    plan_facts,
    poll,
    read_target,
    seconds,
    target_record,
)
from chaos.cluster.injector import HostResult, run_on_host
from chaos.ledger.undos.host import KubeletArgs
from chaos.ledger.undos.nodes import identity
from fixtures.cluster.trouble import ApiTrouble

PROMPT = "--timer-property=AccuracySec=100ms"
"""Without it systemd lets a timer be up to a minute late (its default AccuracySec): the fault would come after its undo."""


SINCE = ("systemctl", "show", "--property=ActiveEnterTimestampMonotonic", "kubelet")
"""Asks systemd when the kubelet was last started (systemctl(1), show)."""


def restart_kubelet() -> dict[str, Any]:
    """Restart the node's kubelet by a transient unit, which does not depend on the pod that asks for it.

    It has landed when systemd says that the kubelet was started since: a timer that was armed is no restart.
    """
    must_be_alone(node_target().name)
    unit = unit_name("kubelet-restart")
    before = run(SINCE).output.strip()
    with current().fault("host.kubelet", kubelet_args(unit)) as fault:
        done = run(("systemd-run", "--on-active=1", PROMPT, f"--unit={unit}", "systemctl", "restart", "kubelet"))
        if not poll(lambda: run(SINCE).output.strip() not in ("", before), SHORT):
            raise ActivityFailed(f"the kubelet of {node_target().name} was not restarted within {SHORT:g} s ({before})")
        fault.applied({"node": node_target().name, "unit": unit, "said": done.output[-300:]})
    return {**target_record(node_target()), "unit": unit}


def stop_kubelet(outage: str) -> dict[str, Any]:
    """Stop the node's kubelet. Its start, after the duration of that name, is armed on the host and seen to be armed before."""
    must_be_alone(node_target().name)
    length = seconds(outage)
    start, stop = unit_name("kubelet-start"), unit_name("kubelet-stop")
    script = (
        f"systemd-run --on-active={length:g} {PROMPT} --unit={start} systemctl start kubelet && systemctl is-active {start}.timer && "
        f"systemd-run --on-active=1 {PROMPT} --unit={stop} systemctl stop kubelet"
    )
    run(SINCE)  # where no injector pod runs, nothing could be read back: found out before anything is armed
    with current().fault("host.kubelet", kubelet_args(stop, start)) as fault:
        done = run(("sh", "-c", script))
        fault.applied({"node": node_target().name, "starts_after": length, "unit": start, "said": done.output[-300:]})
    return {**target_record(node_target()), "starts_after": length}


def kubelet_args(pending: str, returning: str = "") -> KubeletArgs:
    """Arguments of the kubelet's undo on the plan's node. ``pending`` is the unit whose timer is about to stop it, ``returning`` the one

    whose timer would start it again.
    """
    return KubeletArgs(**identity(read_target(node_target())), pending=pending, returning=returning)


def run(argv: Sequence[str], *, good: Sequence[int] = (0,)) -> HostResult:
    """Run a program on the plan's node. Raises ActivityFailed when it could not be run, or ended with none of the ``good`` codes."""
    acting = current()
    target = node_target()
    try:
        result = run_on_host(
            acting.cluster,
            namespace=host_namespace(),
            node=target.name,
            image=plan_facts().injector_image,
            argv=argv,
            run_id=acting.plan.run_id,
            pull_secrets=plan_facts().pull_secrets,
            deadline=time.monotonic() + max(SHORT, acting.plan.seconds.get("host", SHORT)),
        )
    except ApiTrouble as trouble:
        raise ActivityFailed(f"{argv[0]} on {target.name}: {trouble.message}") from trouble
    if good and result.exit_code not in good:
        raise ActivityFailed(f"{' '.join(argv)} on {target.name}: exit {result.exit_code}: {result.output.strip()[-400:]}")
    return result


def unit_name(what: str) -> str:
    """A unit of this run and experiment, so that two never share one."""
    plan = current().plan
    return f"gpu-conformance-{plan.run_id}-{plan.experiment.lower()}-{what}"
