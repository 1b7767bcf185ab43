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
from chaos.cluster.injector import FIND_KUBELET, HostResult, kubelet_units, run_on_host
from chaos.ledger.undos.host import KUBELET_UNIT, KubeletArgs
from chaos.ledger.undos.nodes import identity
from fixtures.cluster.trouble import ApiTrouble

PROMPT = "--timer-property=AccuracySec=100ms"
"""Without it systemd lets a timer be up to a minute late (its default AccuracySec): the fault would come after its undo."""


def restart_kubelet() -> dict[str, Any]:
    """Restart the node's kubelet by a transient unit, which does not depend on the pod that asks for it.

    It has landed when systemd says that the kubelet was started since: a timer that was armed is no restart.
    """
    must_be_alone(node_target().name)
    kubelet, pending = kubelet_unit(), unit_name("kubelet-restart")
    started = ("systemctl", "show", "--property=ActiveEnterTimestampMonotonic", kubelet)
    before = run(started).output.strip()
    with current().fault("host.kubelet", kubelet_args(kubelet, pending)) as fault:
        done = run(("systemd-run", "--on-active=1", PROMPT, f"--unit={pending}", "systemctl", "restart", kubelet))
        if not poll(lambda: run(started).output.strip() not in ("", before), SHORT):
            raise ActivityFailed(f"{kubelet} of {node_target().name} was not restarted within {SHORT:g} s ({before})")
        fault.applied({"node": node_target().name, "kubelet": kubelet, "unit": pending, "said": done.output[-300:]})
    return {**target_record(node_target()), "kubelet": kubelet, "unit": pending}


def stop_kubelet(outage: str) -> dict[str, Any]:
    """Stop the node's kubelet. Its start, after the duration of that name, is armed on the host and seen to be armed before."""
    must_be_alone(node_target().name)
    length = seconds(outage)
    kubelet, start, stop = kubelet_unit(), unit_name("kubelet-start"), unit_name("kubelet-stop")
    script = (
        f"systemd-run --on-active={length:g} {PROMPT} --unit={start} systemctl start {kubelet} && systemctl is-active {start}.timer && "
        f"systemd-run --on-active=1 {PROMPT} --unit={stop} systemctl stop {kubelet}"
    )
    with current().fault("host.kubelet", kubelet_args(kubelet, stop, start)) as fault:
        done = run(("sh", "-c", script))
        fault.applied({"node": node_target().name, "kubelet": kubelet, "starts_after": length, "unit": start, "said": done.output[-300:]})
    return {**target_record(node_target()), "kubelet": kubelet, "starts_after": length}


def kubelet_unit() -> str:
    """The unit of systemd that runs the kubelet of the plan's node, by what runs. Raises ActivityFailed unless there is one.

    Where no injector pod runs, nothing could be read back: this finds it out before anything is armed.
    """
    node = node_target().name
    reported = run(FIND_KUBELET, good=(0, 1)).output
    found = kubelet_units(reported)
    if len(found) != 1:
        what = ", ".join(found) or f"none: {' '.join(reported.split())[:200] or 'no process has the name of a kubelet'}"
        raise ActivityFailed(f"expected one unit of systemd that runs the kubelet of {node}, found {what}")
    if not KUBELET_UNIT.fullmatch(found[0]):
        raise ActivityFailed(f"{found[0]} runs the kubelet of {node}, and nothing in its name shows that: it is left alone")
    return found[0]


def kubelet_args(kubelet: str, pending: str, returning: str = "") -> KubeletArgs:
    """Arguments of the kubelet's undo on the plan's node. ``pending`` is the unit whose timer is about to stop it, ``returning`` the one

    whose timer would start it again.
    """
    return KubeletArgs(**identity(read_target(node_target())), kubelet=kubelet, pending=pending, returning=returning)


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
        raise ActivityFailed(f"{' '.join(argv)[:400]} on {target.name}: exit {result.exit_code}: {result.output.strip()[-400:]}")
    return result


def unit_name(what: str) -> str:
    """A unit of this run and experiment, so that two never share one."""
    plan = current().plan
    return f"gpu-conformance-{plan.run_id}-{plan.experiment.lower()}-{what}"
