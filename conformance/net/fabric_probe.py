"""Starts the two-node run: one pod per node, a DNS name for rank 0, and the suite's all-reduce.

Facts: docs/facts/nccl.md#nccl-log-lines, docs/facts/nccl.md#nccl-tests.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from conformance.net.ports import with_ports_read
from conformance.net.two_nodes import FabricRun, Plan, RankPod
from conformance.net.visible_fabric import attached
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.labels import INSTANCE_TYPE
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.cluster import Scope
from fixtures.model.demand.pod_state import pod_trouble
from fixtures.model.nodes.pools import product_of
from fixtures.model.placement.affinity import fence_tolerations
from fixtures.policy.model import Network
from fixtures.probes import allreduce
from fixtures.probes.pods import PodShape, decode_pod, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.text.globs import matches
from fixtures.verdict.subjects import Inconclusive, NotApplicable

NAME = "net-fabric"
"""Name of the ConfigMap and, of a job that runs alone, of the Service; its pods are ``net-fabric-<node rank>``."""

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


class Job(msgspec.Struct, frozen=True):
    """A run to start: ``name`` is that of its Service and begins those of its pods, ``env`` is its own, over the policy's."""

    plan: Plan
    name: str = NAME
    env: Mapping[str, str] = {}

    @property
    def pods(self) -> list[str]:
        """Names of its pods, in order of node rank."""
        return [f"{self.name}-{rank}" for rank in range(len(self.plan.nodes))]


def run_fabric(scope: Scope, workspace: Workspace, plan: Plan) -> FabricRun:
    """Run a plan once and bring back what it left. The workspace removes the pods.

    Raises :class:`NotApplicable` where it cannot be asked and :class:`Inconclusive` when a pod did not start.
    """
    (result,) = run_together(scope, workspace, [Job(plan)])
    if isinstance(result, Inconclusive):
        raise result
    return result


def run_together(scope: Scope, workspace: Workspace, jobs: Sequence[Job]) -> list[FabricRun | Inconclusive]:
    """What jobs on different nodes leave that run at the same time, in their order; of one that did not run, why."""
    network = scope.policy.network
    for job in jobs:
        if not job.plan.device.startswith("nvidia.com/") and _image(network, job.plan).endswith(_DEFAULT_IMAGE):
            raise NotApplicable("NoImageForVendor", f"set network.image to a PyTorch image that runs on {job.plan.device}")
    namespace = workspace.namespace("privileged") if network.ipc_lock else workspace.namespace()
    for key, obj in objects(network, [job.name for job in jobs]):
        workspace.create(key, obj, namespace)
    for job in jobs:
        workspace.let_talk(job.name, {_JOB: job.name}, namespace)
        for pod in pods(scope, job, namespace):
            workspace.start(pod, namespace)
    seconds = scope.policy.probes.start_seconds * 2
    names = [job.pods for job in jobs]
    ended = workspace.wait([name for group in names for name in group], lambda seen: _ended(seen, names), seconds, namespace)
    return [_result(scope, workspace, job, namespace, seconds, finished=ended is not None) for job in jobs]


def _result(scope: Scope, workspace: Workspace, job: Job, namespace: str, seconds: float, *, finished: bool) -> FabricRun | Inconclusive:
    try:
        left = tuple(_left(workspace, name, namespace, seconds) for name in job.pods)
    except Inconclusive as reason:
        return reason
    return FabricRun(
        namespace=namespace,
        pods=left,
        per_node=job.plan.per_node,
        device=job.plan.device,
        fabric=job.plan.fabric,
        seconds=seconds,
        finished=finished or all(pod.exit_code is not None for pod in left),
        product=product_of(scope, job.plan.nodes[0]),
        machine=job.plan.nodes[0].metadata.label.get(INSTANCE_TYPE, ""),
    )


def _image(network: Network, plan: Plan) -> str:
    return next((image for glob, image in network.images.items() if matches(plan.device, (glob,))), network.image)


def _ended(seen: list[Pod], jobs: Sequence[Sequence[str]]) -> bool | None:
    """Of every job all pods have ended, or one has failed: the others would only wait for it."""
    there = {pod.name: pod for pod in seen}
    for names in jobs:
        mine = [there[name] for name in names if name in there]
        if not mine or not (any(pod.phase == "Failed" for pod in mine) or all(pod.finished for pod in mine)):
            return None
    return True


def objects(network: Network, names: Sequence[str]) -> list[tuple[str, Json]]:
    """For each job a headless Service that gives pods names before they are ready; the script, unless the policy brings its own command."""
    spec: Json = {"clusterIP": "None", "publishNotReadyAddresses": True, "ports": [{"name": "rendezvous", "port": PORT}]}
    services: list[tuple[str, Json]] = [
        ("services", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {**spec, "selector": {_JOB: name}}})
        for name in names
    ]
    if network.command:
        return services
    script = Path(allreduce.__file__).read_text(encoding="utf-8")
    config: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {SCRIPT: script}}
    return [("configmaps", config), *services]


def pods(scope: Scope, job: Job, namespace: str) -> list[Json]:
    """One pod per node, in order of node rank, each pinned to its node: anti-affinity by name."""
    return [_pod(scope, job, namespace, rank) for rank in range(len(job.plan.nodes))]


def _pod(scope: Scope, job: Job, namespace: str, rank: int) -> Json:
    network, probes, plan = scope.policy.network, scope.policy.probes, job.plan
    name, node = job.pods[rank], plan.nodes[rank]
    pod = probe_pod(
        PodShape(
            name=name,
            image=_image(network, plan),
            script=with_ports_read(network.command or COMMAND),
            resources={plan.device: plan.per_node, **({plan.fabric: 1} if plan.fabric else {})},
            node=node.name,
            tolerations=[*fence_tolerations(scope, node), *probes.tolerations],
            env=environment(network, job, namespace, rank),
            run_as_user=0 if network.ipc_lock else probes.run_as_user,
            pull_secrets=probes.pull_secrets,
            labels={_JOB: job.name},
        )
    )
    spec = pod["spec"]
    spec |= {"hostname": name, "subdomain": job.name, "activeDeadlineSeconds": int(probes.start_seconds * 2) + 60}
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


def environment(network: Network, job: Job, namespace: str, rank: int) -> dict[str, str]:
    """Environment of one pod: the owner's, the job's, where torchrun finds rank 0, and logging, which evidence depends on."""
    return {
        "HOME": "/tmp",
        "LOGNAME": "gpu-conformance",
        **network.env,
        **job.env,
        **LOGGING,
        "NNODES": str(len(job.plan.nodes)),
        "NODE_RANK": str(rank),
        "NPROC_PER_NODE": str(job.plan.per_node),
        "MASTER_ADDR": f"{job.pods[0]}.{job.name}.{namespace}.svc",
        "MASTER_PORT": str(PORT),
    }


def _left(workspace: Workspace, name: str, namespace: str, seconds: float) -> RankPod:
    """Where a pod is and what it printed. Raises :class:`Inconclusive` when it did not start or its log cannot be read."""
    answer = workspace.cluster.get("pods", name, namespace)
    if not answer.ok:
        raise Inconclusive(answer.reason, f"pod {name} of the run is gone: {answer.status} {answer.message}")
    pod = decode_pod(answer.json())
    state = pod_trouble(pod)
    if not pod.node_name:
        raise Inconclusive("Unschedulable", f"pod {name} of the run got no node within {seconds:g} s: {state}")
    if pod.phase == "Pending" or not pod.started:
        raise Inconclusive("NotStarted", f"pod {name} of the run did not start on {pod.node_name} within {seconds:g} s: {state}")
    try:
        log = workspace.logs(name, namespace=namespace, limit_bytes=MAX_LOG_BYTES)
    except ApiTrouble as trouble:
        raise Inconclusive("NoLog", f"the log of pod {name} could not be read ({trouble.message}): {state}") from None
    if len(log.encode(errors="replace")) >= MAX_LOG_BYTES:  # bytes are what the API cuts at
        raise Inconclusive("LogTooLarge", f"the log of pod {name} is larger than {MAX_LOG_BYTES >> 20} MiB, and the result is at its end")
    return RankPod(name=name, node=pod.node_name, state=state, exit_code=pod.exit_code, log=log)
