"""Pods that reach the machine, as a chaos experiment's injector does."""

import re
from typing import Any

from fixtures.simulator.api.objects import Json
from tests.simulator.programs.small_cluster import SmallCluster, pod

NSENTER = "nsenter --target 1 --mount --uts --ipc --net --pid -- "


def injector(name: str, script: str, node: str = "a", *, privileged: bool = True, host_pid: bool = True, **more: Any) -> Json:
    """A pod pinned to a node, with the given rights."""
    spec = {"nodeName": node, "hostPID": host_pid, **more.pop("spec", {})}
    return pod(name, script, spec=spec, container={"securityContext": {"privileged": privileged}, **more.pop("container", {})}, **more)


async def on_host(cluster: SmallCluster, script: str, node: str = "a", name: str = "injector", **more: Any) -> str:
    """Run a script through an injector, each line of it on the machine; its output."""
    return (await ran_on_host(cluster, script, node, name, **more))[0]


async def ran_on_host(cluster: SmallCluster, script: str, node: str = "a", name: str = "injector", **more: Any) -> tuple[str, list[int]]:
    """As :func:`on_host`, with the exit status of every line."""
    lines = "\n".join(f'{NSENTER}{line}; echo "## exit $?"' for line in script.strip().splitlines())
    await cluster.start(injector(name, lines, node, **more))
    output = await cluster.output(name)
    return re.sub(r"## exit \d+\n", "", output), [int(code) for code in re.findall(r"## exit (\d+)", output)]
