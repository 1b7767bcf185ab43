"""Canaries that a controller replaces, and the Job that ends them in time when nobody is left to delete them."""

from __future__ import annotations

from chaos.act import canary_pods
from chaos.model.plan import Plan
from chaos.model.plan_facts import CANARY_LABEL, PlanFacts
from chaos.observe.signals.pods import WORKER
from fixtures.kubernetes.models import Json
from fixtures.ownership import owned
from fixtures.probes.pods import PodShape, probe_pod


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
            "activeDeadlineSeconds": canary_pods.lifetime(plan),
            "ttlSecondsAfterFinished": 0,
            "template": {"metadata": {"labels": owned.labels(plan.run_id)}, "spec": template["spec"]},
        },
    }


def deployment(plan: Plan, facts: PlanFacts, name: str, *, count: int, devices: int, prefer: str, owner: Json) -> Json:
    """A Deployment of workers that would rather be on ``prefer``, and never on the untouched node. ``owner``: who ends it in time."""
    pod = canary_pods.worker(plan, facts, name, devices=devices)
    spec = dict(pod["spec"], restartPolicy="Always")
    spec.pop("activeDeadlineSeconds", None)  # refused in a Deployment's template: the Job that owns it bounds its life
    spec["initContainers"] = [_slow_start(spec["containers"][0])]
    preferred = [{"weight": 100, "preference": {"matchExpressions": [{"key": canary_pods.HOSTNAME, "operator": "In", "values": [prefer]}]}}]
    affinity = canary_pods.on_nodes(canary_pods.usable_nodes(plan, facts, including=prefer))
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
