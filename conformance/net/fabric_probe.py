"""Starts the two-node run: one pod per node, a DNS name for rank 0, and the suite's all-reduce.

Facts: docs/facts/nccl.md#nccl-log-lines, docs/facts/nccl.md#nccl-tests.
"""

from __future__ import annotations

from pathlib import Path

from conformance.devices.products import product_of
from conformance.net.advertising import MACHINE_TYPE
from conformance.net.device_probe import attached
from conformance.net.two_node_run import FabricRun, RankPod
from conformance.net.two_nodes import Plan, make_plans
from conformance.policy.model import Network
from conformance.probes.running import pod_trouble
from conformance.scope.scope import Scope, matches
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json, Pod
from fixtures.probes import allreduce
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.probes.watched_pods import decode_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Inconclusive, NotApplicable

NAME = "net-fabric"
"""Name of the Service and of the ConfigMap; pods are ``net-fabric-<node rank>``."""

PORT = 29500
FOLDER = "/opt/gpu-conformance"
SCRIPT = "allreduce.py"
COMMAND = (
    "torchrun --nnodes=$NNODES --node-rank=$NODE_RANK --nproc-per-node=$NPROC_PER_NODE "
    f"--master-addr=$MASTER_ADDR --master-port=$MASTER_PORT {FOLDER}/{SCRIPT}"
)
MAX_LOG_BYTES = 8 << 20
LOGGING = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,GRAPH,ENV"}
"""Environment variables that make NCCL print its channels and their transport, since 2.18 (docs/facts/nccl.md#nccl-log-lines)."""

_DEFAULT_IMAGE = Network().image
_JOB = "gpu-conformance.io/fabric-run"


def run_fabric(scope: Scope, workspace: Workspace, plan: Plan) -> FabricRun:
    """Run a plan once and bring back what it left. The workspace removes the pods.

    Raises :class:`NotApplicable` where it cannot be asked and :class:`Inconclusive` when a pod did not start.
    """
    network = scope.policy.network
    if not plan.device.startswith("nvidia.com/") and _image(network, plan).endswith(_DEFAULT_IMAGE):
        raise NotApplicable("NoImageForVendor", f"set network.image to a PyTorch image that runs on {plan.device}")
    namespace = workspace.namespace("privileged") if network.ipc_lock else workspace.namespace()
    for key, obj in objects(network):
        workspace.create(key, obj, namespace)
    workspace.let_talk(NAME, {_JOB: NAME}, namespace)
    names = [workspace.start(pod, namespace) for pod in pods(scope, plan, namespace)]
    seconds = scope.policy.probes.start_seconds * 2
    ended = workspace.wait(names, _ended, seconds, namespace)
    return FabricRun(
        namespace=namespace,
        pods=tuple(_left(workspace, name, namespace, seconds) for name in names),
        per_node=plan.per_node,
        device=plan.device,
        fabric=plan.fabric,
        seconds=seconds,
        finished=ended is not None,
        product=product_of(scope, plan.nodes[0]),
        machine=plan.nodes[0].metadata.label.get(MACHINE_TYPE, ""),
    )


def _image(network: Network, plan: Plan) -> str:
    return next((image for glob, image in network.images.items() if matches(plan.device, (glob,))), network.image)


def _ended(seen: list[Pod]) -> bool | None:
    """All pods have ended, or one has failed: the others would only wait for it."""
    if seen and (all(pod.finished for pod in seen) or any(pod.status.phase == "Failed" for pod in seen)):
        return True
    return None


def objects(network: Network) -> list[tuple[str, Json]]:
    """The headless Service that gives pods names before they are ready, and the script (unless the policy brings its own command)."""
    service: Json = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAME},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {_JOB: NAME},
            "ports": [{"name": "rendezvous", "port": PORT}],
        },
    }
    if network.command:
        return [("services", service)]
    script = Path(allreduce.__file__).read_text(encoding="utf-8")
    config: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {SCRIPT: script}}
    return [("configmaps", config), ("services", service)]


def pods(scope: Scope, plan: Plan, namespace: str) -> list[Json]:
    """One pod per node, in order of node rank, each pinned to its node: anti-affinity by name."""
    return [_pod(scope, plan, namespace, rank) for rank in range(len(plan.nodes))]


def _pod(scope: Scope, plan: Plan, namespace: str, rank: int) -> Json:
    network, probes = scope.policy.network, scope.policy.probes
    name, node = f"{NAME}-{rank}", plan.nodes[rank]
    pod = probe_pod(
        PodShape(
            name=name,
            image=_image(network, plan),
            script=network.command or COMMAND,
            resources={plan.device: plan.per_node, **({plan.fabric: 1} if plan.fabric else {})},
            node=node.name,
            tolerations=[*scope.tolerations_for(node), *probes.tolerations],
            env=environment(network, plan, namespace, rank),
            run_as_user=0 if network.ipc_lock else probes.run_as_user,
            pull_secrets=probes.pull_secrets,
            labels={_JOB: NAME},
        )
    )
    spec = pod["spec"]
    spec |= {"hostname": name, "subdomain": NAME, "activeDeadlineSeconds": int(probes.start_seconds * 2) + 60}
    volumes: list[Json] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
    mounts = [{"name": "shm", "mountPath": "/dev/shm"}]
    if not network.command:
        volumes.append({"name": "script", "configMap": {"name": NAME}})
        mounts.append({"name": "script", "mountPath": FOLDER})
    container = spec["containers"][0]
    spec["volumes"], container["volumeMounts"] = volumes, mounts
    devices = dict(container["resources"]["limits"])
    for small in ("cpu", "memory"):
        del devices[small]  # a training process is no small one: it is bounded by its node
    container["resources"] = {"limits": devices, "requests": {"cpu": f"{plan.per_node}", "memory": f"{2 * plan.per_node}Gi", **devices}}
    if network.ipc_lock:
        # a capability reaches the processes of root only; restricted and baseline forbid it (docs/facts/pod-security.md#pods-with-devices)
        spec["securityContext"]["runAsNonRoot"] = False
        container["securityContext"]["capabilities"]["add"] = ["IPC_LOCK"]
    return attached(pod, scope) if plan.fabric else pod


def environment(network: Network, plan: Plan, namespace: str, rank: int) -> dict[str, str]:
    """Environment of one pod: the owner's, where torchrun finds rank 0, and logging, which evidence depends on."""
    return {
        "HOME": "/tmp",
        "LOGNAME": "gpu-conformance",
        **network.env,
        **LOGGING,
        "NNODES": str(len(plan.nodes)),
        "NODE_RANK": str(rank),
        "NPROC_PER_NODE": str(plan.per_node),
        "MASTER_ADDR": f"{NAME}-0.{NAME}.{namespace}.svc",
        "MASTER_PORT": str(PORT),
    }


def _left(workspace: Workspace, name: str, namespace: str, seconds: float) -> RankPod:
    """Where a pod is and what it printed. Raises :class:`Inconclusive` when it did not start or its log cannot be read."""
    answer = workspace.cluster.get("pods", name, namespace)
    if not answer.ok:
        raise Inconclusive(answer.reason, f"pod {name} of the run is gone: {answer.status} {answer.message}")
    pod = decode_pod(answer.json())
    state = pod_trouble(pod)
    if not pod.spec.node_name:
        raise Inconclusive("Unschedulable", f"pod {name} of the run got no node within {seconds:g} s: {state}")
    if pod.status.phase == "Pending" or not pod.status.container_statuses:
        raise Inconclusive("NotStarted", f"pod {name} of the run did not start on {pod.spec.node_name} within {seconds:g} s: {state}")
    try:
        log = workspace.logs(name, namespace=namespace, limit_bytes=MAX_LOG_BYTES)
    except ApiTrouble as trouble:
        raise Inconclusive("NoLog", f"the log of pod {name} could not be read ({trouble.message}): {state}") from None
    if len(log.encode(errors="replace")) >= MAX_LOG_BYTES:  # bytes are what the API cuts at
        raise Inconclusive("LogTooLarge", f"the log of pod {name} is larger than {MAX_LOG_BYTES >> 20} MiB, and the result is at its end")
    return RankPod(name=name, node=pod.spec.node_name, state=state, exit_code=_exit_code(pod), log=log)


def _exit_code(pod: Pod) -> int | None:
    for status in pod.status.container_statuses or ():
        terminated = (status.state or {}).get("terminated")
        if isinstance(terminated, dict) and isinstance(terminated.get("exitCode"), int):
            return int(terminated["exitCode"])
    return None


class SharedRuns:
    """One run on every kind of machine for all requirements that judge them, started by the first that asks."""

    def __init__(self) -> None:
        self._results: list[FabricRun | NotApplicable | Inconclusive] = []

    def get(self, scope: Scope, workspace: Workspace) -> list[FabricRun | NotApplicable | Inconclusive]:
        """The runs, the one with the most ranks first, and why there is none of some kinds. Raises the reason when there is none at all."""
        if not self._results:
            self._results = self._run(scope, workspace)
        reasons = [result for result in self._results if not isinstance(result, FabricRun)]
        if len(reasons) == len(self._results):
            raise type(reasons[0])(reasons[0].code, reasons[0].message)
        return self._results

    def _run(self, scope: Scope, workspace: Workspace) -> list[FabricRun | NotApplicable | Inconclusive]:
        try:
            plans, held = make_plans(scope)
        except (NotApplicable, Inconclusive) as reason:
            return [reason]
        results: list[FabricRun | NotApplicable | Inconclusive] = []
        for plan in plans:
            if results:
                workspace.clear()  # names and devices are free for the next
            try:
                results.append(run_fabric(scope, workspace, plan))
            except (NotApplicable, Inconclusive) as reason:
                results.append(reason)
        return [*results, *(Inconclusive("NoFreeDevice", f"too little is free for a run: {text}") for text in held)]
