"""Rights that an experiment's own workload takes: asked for before anything is touched, as those of its faults are."""

from __future__ import annotations

from collections.abc import Iterator

from chaos import namespaces
from chaos.experiment import Experiment
from chaos.facts import Facts, canary_namespace
from chaos.target import Plan
from fixtures.ownership import PRIORITY_CLASSES

KINDS = {
    "start_workers": ("pods",),
    "start_probe": ("pods",),
    "start_latecomer": ("pods",),
    "start_deployment": ("apps/deployments", "batch/jobs"),
    "create_budget": ("policy/poddisruptionbudgets",),
    "submit_gangs": ("pods",),
    "submit_job": ("batch.volcano.sh/jobs", "batch/jobs"),
    "start_ranks": ("batch/jobs",),
}
"""What each function of the activities creates in the experiment's namespace."""


def rights(experiment: Experiment, plan: Plan) -> Iterator[str]:
    """Creating and deleting the workload, its namespace and, unless the policy names one, its PriorityClass."""
    kinds = [kind for function in sorted(experiment.functions & KINDS.keys()) for kind in KINDS[function]]
    if not kinds:
        return
    cluster_wide = ("namespaces",) if Facts.of(plan).priority_class else ("namespaces", PRIORITY_CLASSES)
    yield from (f"{right} in {canary_namespace(plan)}" for right in namespaces.RIGHTS)
    for verb in ("create", "delete"):
        yield from (f"{verb} {kind}" for kind in cluster_wide)
        yield from (f"{verb} {kind} in {canary_namespace(plan)}" for kind in dict.fromkeys(kinds))
