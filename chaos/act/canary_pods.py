"""Canary pods: the experiment's own device workload, as small and as harmless as a pod can be (restricted Pod Security).

A worker lists its devices and counts a heartbeat in its log, so that anybody can see from outside that it goes on. A probe ends
well as soon as it has been given a device. Neither needs an account, a volume or the network.
"""

from typing import Any

from chaos.cluster.injector import bound_pod
from chaos.model.plan import CANARY_LABEL, GANG_LABEL, Plan, PlanFacts, canary_namespace
from chaos.observe.signals.allocations import READER
from chaos.observe.signals.gangs import SIZE_ANNOTATION
from chaos.observe.signals.pace import NO_LISTING
from chaos.observe.signals.pods import PROBE, WORKER
from conformance.gang.adapters import jobs
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.pod_resources import PROGRAM, SOCKET
from fixtures.model.dra.nvidia_driver import API_VERSION
from fixtures.ownership import owned
from fixtures.ownership.proof import PRIORITY
from fixtures.probes.pods import PodShape, probe_pod, template_of
from fixtures.verdict.record import TargetKind

HOSTNAME = "kubernetes.io/hostname"
LIFETIME_MARGIN = 300
"""Seconds beyond the experiment's deadline after which a canary is ended without us, by its node or by a controller."""

LISTS_EVERY = 20
"""Heartbeats between two listings of devices: the tail of a log always holds one.

The first follows the first beat, so that the pause which a listing makes is known before the fault. It takes seconds where the driver
starts anew for each (no persistence mode), and on an emulated processor.
"""


def worker_script(beat: float) -> str:
    """Lists the devices, then counts. ``beat``: seconds between counts."""
    return (
        "nvidia-smi -L || exit 3; n=0; "
        f'while true; do n=$((n+1)); echo "beat $n"; '
        f"if [ $((n % {LISTS_EVERY})) -eq 1 ]; then nvidia-smi -L || echo '{NO_LISTING}'; fi; sleep {beat:g}; done"
    )


HOLD = 'for device in /dev/nvidia[0-9]*; do if (: <"$device") 2>/dev/null; then exec 9<"$device"; fi; done; '
"""Keeps the granted device's file open, if it may: nothing else makes the driver know of a worker that computes nothing.

Facts: docs/facts/device-health.md#gpu-reset.
"""

PROBE_SCRIPT = "nvidia-smi -L"


def worker(
    plan: Plan,
    facts: PlanFacts,
    name: str,
    *,
    devices: int = 1,
    node: str = "",
    labels: dict[str, str] | None = None,
    claim: str = "",
    role: str = WORKER,
    hold: bool = False,
) -> Json:
    """A pod that holds devices until it is deleted, or its time is over. ``claim`` is the one that it uses, if it has another name.

    With ``hold`` it keeps a real device's file open.
    """
    script = HOLD * (hold and plan.target_kind is TargetKind.LIVE) + worker_script(beat_seconds(plan))
    pod = _pod(plan, facts, name, script, role=role, devices=devices, node=node, labels=labels or {})
    if claim:
        pod["spec"]["resourceClaims"] = [{"name": CLAIM, "resourceClaimName": claim}]
    return pod


def probe(plan: Plan, facts: PlanFacts, name: str, *, devices: int = 1, node: str = "") -> Json:
    """A pod that asks for devices, lists them and ends."""
    return _pod(plan, facts, name, PROBE_SCRIPT, role=PROBE, devices=devices, node=node, labels={})


def reader(plan: Plan, facts: PlanFacts, name: str, node: str) -> Json:
    """A pod on ``node`` that prints the kubelet's PodResources, one line each time, until it is deleted or its time is over."""
    folder = SOCKET.rpartition("/")[0]
    container = {
        "name": "reader",
        "image": facts.injector_image,
        "command": [PROGRAM, "--every", f"{beat_seconds(plan):g}"],
        "securityContext": {"privileged": True, "runAsUser": 0},  # the socket is root's
        "volumeMounts": [{"name": "pod-resources", "mountPath": folder}],
    }
    more = {
        "priorityClassName": priority_class(plan, facts),
        "tolerations": [*map(dict, facts.tolerations), *_WHILE_AWAY],
        "volumes": [{"name": "pod-resources", "hostPath": {"path": folder, "type": "Directory"}}],
    }
    return bound_pod(name, node, {CANARY_LABEL: READER}, container, seconds=lifetime(plan), pull_secrets=facts.pull_secrets, **more)


_WHILE_AWAY = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"} for key in ("not-ready", "unreachable")]
"""A node whose kubelet is stopped keeps the pod that reads it, and a quarantine that evicts takes it away."""

CLAIM = "devices"
"""What a canary calls its claim."""


def claim(facts: PlanFacts, name: str, devices: int, *, expression: str = "") -> Json:
    """The ResourceClaim of the canary of that name. ``expression``: CEL that its devices must meet."""
    exactly: Json = {"deviceClassName": facts.device_class, "allocationMode": "ExactCount", "count": devices}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    spec = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
    return {"apiVersion": API_VERSION, "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def gang_member(plan: Plan, facts: PlanFacts, gang: str, index: int, size: int, devices: int) -> Json:
    """A worker that belongs to a gang, on nodes whose devices are whole ones; the gang's system adds its marks."""
    pod = worker(plan, facts, f"{gang}-{index}", devices=devices, labels={GANG_LABEL: gang})
    pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), SIZE_ANNOTATION: str(size)}
    pod["spec"]["affinity"] = on_nodes(usable_nodes(plan, facts))
    return pod


def volcano_job(plan: Plan, facts: PlanFacts, name: str, *, version: str, size: int, devices: int, owner: Json) -> Json:
    """A Volcano Job that starts all of its pods again when one is lost. ``owner``: who ends it in time, for its pods' deadline does not."""
    pod = gang_member(plan, facts, name, 0, size, devices)
    job = jobs.volcano_job(name, template_of(pod), size, pod["spec"]["priorityClassName"], version)
    return {**job, "metadata": {**job["metadata"], "ownerReferences": [owner]}}


def ranks(plan: Plan, facts: PlanFacts, name: str, *, size: int, devices: int, node: str, seconds: int, marker: str) -> Json:
    """An Indexed Job of ``size`` ranks on a node, each for ``seconds`` at most, with ``marker`` as the last word of its command line."""
    pod = worker(plan, facts, name, devices=devices, node=node, labels={GANG_LABEL: name})
    spec = {**pod["spec"], "activeDeadlineSeconds": seconds}
    spec["containers"][0]["command"] = [*spec["containers"][0]["command"], marker]
    meta = {"labels": {**pod["metadata"]["labels"], **owned.labels(plan.run_id)}, "annotations": {SIZE_ANNOTATION: str(size)}}
    job = {"completionMode": "Indexed", "completions": size, "parallelism": size, "backoffLimit": 0}
    template = {"metadata": meta, "spec": spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {**job, "template": template}}


def usable_nodes(plan: Plan, facts: PlanFacts, including: str = "") -> list[str]:
    """Nodes with whole devices that canaries may be on: the untouched one only where there is no other beside ``including``."""
    names = sorted(facts.free)
    others = [name for name in names if name != plan.untouched]
    return others if set(others) - {including} else names


def on_nodes(names: list[str]) -> Json:
    """Affinity to nodes by name."""
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": names}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def priority_class(plan: Plan, facts: PlanFacts) -> str:
    """The PriorityClass of every pod here: the policy's, or the experiment's own (:func:`own_class`).

    Without one a pod has the cluster's default, which may preempt tenants' pods.
    """
    return facts.priority_class or canary_namespace(plan)


def own_class(plan: Plan) -> Json:
    """The experiment's PriorityClass: its pods preempt nobody, and yield to everybody."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": canary_namespace(plan)},
        "value": PRIORITY,
        "preemptionPolicy": "Never",
        "globalDefault": False,
        "description": "Pods of a chaos experiment: they preempt nothing and yield to everything.",
    }


def lifetime(plan: Plan) -> int:
    """Seconds after which the cluster ends what the experiment started for itself, even if nobody is left to undo it."""
    return int(plan.seconds.get("deadline", 600.0)) + LIFETIME_MARGIN


def beat_seconds(plan: Plan) -> float:
    """Seconds between two heartbeats."""
    return 1.0 if plan.target_kind is TargetKind.LIVE else 0.2


def _pod(plan: Plan, facts: PlanFacts, name: str, script: str, *, role: str, devices: int, node: str, labels: dict[str, str]) -> Json:
    shape = PodShape(
        name=name,
        image=facts.image,
        script=script,
        resources={} if facts.device_class else {facts.resource: devices},
        node=node,
        tolerations=[dict(item) for item in facts.tolerations],
        run_as_user=facts.user,
        labels={CANARY_LABEL: role, **labels},
        pull_secrets=facts.pull_secrets,
    )
    pod = probe_pod(shape)
    spec: dict[str, Any] = pod["spec"]
    spec["priorityClassName"] = priority_class(plan, facts)
    if facts.device_class:
        spec["resourceClaims"] = [{"name": CLAIM, "resourceClaimName": name}]
        spec["containers"][0]["resources"]["claims"] = [{"name": CLAIM}]
    spec["activeDeadlineSeconds"] = lifetime(plan)
    return pod


def expiry(plan: Plan, facts: PlanFacts, name: str) -> Json:
    """A Job without pods that fails at the end of the experiment's lifetime and is removed then, by the cluster alone.

    What names it as its owner is collected with it: for workloads whose pods their controller replaces, so that no pod's own
    deadline ends them when nobody is left to delete them.
    """
    template = probe_pod(PodShape(name=name, image=facts.image, script="true", run_as_user=facts.user))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": 0,
            "completions": 1,
            "activeDeadlineSeconds": lifetime(plan),
            "ttlSecondsAfterFinished": 0,
            "template": {"metadata": {"labels": owned.labels(plan.run_id)}, "spec": template["spec"]},
        },
    }


def deployment(plan: Plan, facts: PlanFacts, name: str, *, count: int, devices: int, prefer: str, owner: Json) -> Json:
    """A Deployment of workers that would rather be on ``prefer``, and never on the untouched node. ``owner``: who ends it in time."""
    pod = worker(plan, facts, name, devices=devices)
    spec = dict(pod["spec"], restartPolicy="Always")
    spec.pop("activeDeadlineSeconds", None)  # refused in a Deployment's template: the Job that owns it bounds its life
    spec["initContainers"] = [_slow_start(spec["containers"][0])]
    preferred = [{"weight": 100, "preference": {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [prefer]}]}}]
    affinity = on_nodes(usable_nodes(plan, facts, including=prefer))
    affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    spec["affinity"] = affinity
    labels = {**pod["metadata"]["labels"], **owned.labels(plan.run_id)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": {CANARY_LABEL: WORKER}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


START_SECONDS = 2
"""How long a worker of a Deployment takes to start at least: two that are away at once are seen to be."""


def _slow_start(container: Json) -> Json:
    """An init container that holds no device and waits."""
    small = {name: amount for name, amount in container["resources"]["limits"].items() if "/" not in name}
    kept = {key: container[key] for key in ("image", "securityContext")}
    wait = {"command": ["/bin/sh", "-c", f"sleep {START_SECONDS}"], "resources": {"requests": small, "limits": small}}
    return {"name": "start", **kept, **wait}
