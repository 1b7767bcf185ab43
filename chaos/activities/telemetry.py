"""Faults of telemetry: values in DCGM's cache, and lines in the kernel log. No device is touched.

Facts: docs/facts/telemetry.md#fault-injection, docs/facts/device-health.md#kernel-log.
"""

import shlex
from typing import Any

from chaoslib.exceptions import ActivityFailed

from chaos.activities.base import SHORT, create, current, host_namespace, node_target, plan_facts, poll, target_record, targets
from chaos.activities.devices import restarted
from chaos.activities.hosts import run
from chaos.cluster.injector import COMPONENT, LIMITS, bound_pod
from chaos.ledger.undos.nodes import ClearedArgs, cleared_args
from chaos.model.plan import Target
from chaos.observe.view import View
from fixtures.model.devices.gpu_names import kernel_address, names_of
from fixtures.model.objects import phase_of

XID_FIELD = 230
"""DCGM_FI_DEV_XID_ERRORS. In NVML's own numbering 230 is the recovery action (docs/facts/telemetry.md#fault-injection)."""


def inject_dcgm(values: dict[int, str], seconds: str = "outage", restart: str = "host-engine") -> dict[str, Any]:
    """Write values into the host engine's cache about once a second, from a pod of the engine's own image on the node.

    It heals when the pod ends, which its deadline sees to; an Xid stays in the cache until the engine is restarted, which the undo
    does. ``values`` is by DCGM field id. Raises ActivityFailed when the first injection is refused.
    """
    acting = current()
    target = node_target()
    engine = plan_facts().components.get("host-engine")
    if engine is None or not engine.images:
        raise ActivityFailed("there is no standalone host engine to inject into")
    index = int(target.facts["index"])
    length = int(acting.plan.seconds.get(seconds, 60))
    container = {
        "name": "inject",
        "image": engine.images[0],
        "command": ["sh", "-c", injection(values, index, length)],
        "resources": {"limits": dict(LIMITS), "requests": dict.fromkeys(LIMITS, "0")},
    }
    name, labels = f"dcgm-inject-{acting.plan.experiment.lower()}", {COMPONENT: "injector"}
    network = {"hostNetwork": True}  # the engine listens on the node's own loopback
    secrets = plan_facts().pull_secrets
    pod = bound_pod(name, target.name, labels, container, seconds=length + 30, pull_secrets=secrets, **network)
    cleared: ClearedArgs = cleared_args(acting.cluster, target.name, names_of(target.facts))
    with acting.fault("node.cleared", cleared) as reaction, acting.fault("agent.restarted", restarted(restart)) as detector:
        create("pods", pod, host_namespace(), preparation=False, grace=0)

        def injected() -> str | None:
            found = View.of(acting.cluster).find("pods", name, host_namespace())
            if found is None or phase_of(found) in ("Failed", "Pending", ""):
                return "failed" if found is not None and phase_of(found) == "Failed" else None
            return "injected" if "injected" in acting.cluster.logs(host_namespace(), name, limit_bytes=4096) else None

        reported = poll(injected, SHORT)
        if reported != "injected":
            raise ActivityFailed(f"dcgmi on {target.name} did not inject: {reported or 'the pod did not start'}")
        detail = {"node": target.name, "gpu": index, "fields": {str(key): value for key, value in values.items()}}
        detector.applied(detail)
        reaction.applied(detail)
    return {**target_record(target), **detail}


def injection(values: dict[int, str], index: int, length: int) -> str:
    """A script that writes values for a GPU once, says so or ends with 9, and writes them again each second for so many seconds."""
    once = " && ".join(f"dcgmi test --inject --gpuid {index} -f {field} -v {value} --offset 1" for field, value in sorted(values.items()))
    return f"{once} || exit 9; echo injected; n=0; while [ $n -lt {length} ]; do n=$((n+1)); sleep 1; {once} >/dev/null; done"


def write_kernel_lines(lines: list[str]) -> list[dict[str, Any]]:
    """Write lines to the kernel log of each of the plan's nodes, each with the run's id. ``{pci}`` is its GPU as its driver names it.

    A line cannot be taken back.
    The undo is the clear path of whoever reacted: cordon, state label and conditions of the node are put back as they were. A line
    counts as landed when the log gives it back.
    """
    return [_write_lines(target, lines) for target in targets("nodes")]


def _write_lines(target: Target, lines: list[str]) -> dict[str, Any]:
    acting = current()
    pci = kernel_address(str(target.facts.get("pci") or ""))
    if not pci and any("{pci}" in line for line in lines):
        raise ActivityFailed(f"the PCI address of {target.facts.get('uuid')} is not known: a line about it cannot be written")
    stamp = f"gpu-conformance-{acting.plan.run_id}-{acting.plan.experiment}"
    texts = [f"{line.replace('{pci}', pci)} ({stamp})" for line in lines]
    if any("\\" in text or "\n" in text for text in texts):
        raise ActivityFailed("a kernel line with a backslash or a line break is not written")
    names = names_of(target.facts) if all("{pci}" in line for line in lines) else ()  # else they are about other devices
    args: ClearedArgs = cleared_args(acting.cluster, target.name, names)
    with acting.fault("node.cleared", args) as fault:
        written = "".join(f"echo {shlex.quote(text)} > /dev/kmsg && " for text in texts)
        # one program writes and reads: a drain that the lines lead to ends its pod
        back = run(("sh", "-c", f"{written}dmesg | grep -c {stamp}"), good=(0, 1), node=target.name).output.strip()
        if not back.isdigit() or int(back) < len(texts):
            raise ActivityFailed(f"the kernel log of {target.name} shows {back or 'none'} of {len(texts)} lines")
        fault.applied({"node": target.name, "lines": texts})
    return {**target_record(target), "lines": texts}
