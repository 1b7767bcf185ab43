"""Pods of device plugins that have run for long, and what a node's status says of devices."""

from collections.abc import Mapping

from fixtures.simulator.api.objects import Json
from fixtures.simulator.config.behaviour import Tempo
from tests.watching import PATIENCE

GPU = "nvidia.com/gpu"
SYSTEM = "/api/v1/namespaces/kube-system/pods"
QUICK = Tempo(
    plugin_registration=0.05,
    plugin_grace=0.4,
    status_update=0.05,
    lease_renewal=0.2,
    node_monitor_grace=PATIENCE,
    node_monitor_period=0.1,
    pod_gc=0.1,
)
"""No node is called unreachable because the machine that runs the test is slow."""


def plugin_pod(
    node: str,
    name: str = "plugin",
    *,
    app: str = "nvidia-device-plugin-daemonset",
    env: Mapping[str, str] | None = None,
    runs: bool = True,
    managed: bool = False,
) -> Json:
    """A plugin's pod on a node; one that ``runs`` has done so for long. If ``managed``, with a configuration manager beside the plugin."""
    status: Json = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {
                "name": "plugin",
                "ready": True,
                "restartCount": 0,
                "image": "x",
                "imageID": "x",
                "containerID": f"containerd://{name}",
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }
        ],
    }
    containers = [{"name": "plugin", "image": "plugin:1", "env": [{"name": key, "value": value} for key, value in (env or {}).items()]}]
    if managed:
        containers.append({"name": "config-manager", "image": "plugin:1"})
        status["containerStatuses"].append({**status["containerStatuses"][0], "name": "config-manager"})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system", "labels": {"app": app}},
        "spec": {
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "containers": containers,
        },
        "status": status if runs else {},
    }


def devices(node: Json, resource: str = GPU) -> tuple[str, str]:
    """Capacity and allocatable of a resource; empty where the status has none."""
    status = node["status"]
    return str(status["capacity"].get(resource, "")), str(status["allocatable"].get(resource, ""))
