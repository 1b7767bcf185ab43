"""Jobs that make the pods of a gang, and make them again when one is lost (docs/facts/gangs.md#lost-members)."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from conformance.gang.adapters.base import Adapter, Gang, controllers_health
from conformance.gang.adapters.grouped import GroupedPods
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.probes.pods import template_of
from fixtures.text import yaml_text

JOBS = "batch/jobs"
EXPIRY = "expiry"
_RETRIES = 3


class Jobs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A kind of jobs, as ``jobs.yaml`` describes it. ``key`` must be served."""

    name: str
    key: str
    policy: str
    object: dict[str, Any]
    grouped: bool = False
    suspended: bool = False
    all_anew: bool = False
    controller: str = ""
    home: str = ""
    without: tuple[str, ...] = ()

    def make(self, gang: Gang, pod: Json, priority: str, adapter: Adapter | None = None) -> list[tuple[str, Json]]:
        """Its objects with their kinds, from a gang, one of its pods, and their priority class."""
        groups: list[tuple[str, Json]] = []
        if self.grouped and isinstance(adapter, GroupedPods):
            groups, pod = [(adapter.key, adapter.group(gang, priority))], adapter.member(pod, gang.name)
        template = template_of(pod, *self.without)
        many = {"parallelism": gang.size, "completions": gang.size, "backoffLimit": _RETRIES, "template": template}
        values = {"name": gang.name, "size": gang.size, "priority": priority, "template": template}
        return [*groups, (self.key, _filled(self.object, {**values, "many": {**many, **({"suspend": True} if self.suspended else {})}}))]


@cache
def _known() -> tuple[Jobs, ...]:
    return yaml_text.packaged(Path(__file__).with_name("jobs.yaml"), tuple[Jobs, ...])


def jobs_of(scope: Scope, adapters: Sequence[Adapter]) -> list[tuple[Jobs, Adapter | None]]:
    """The kinds whose controllers are there, with their gang scheduler, which must be among ``adapters``, where they need one."""
    there = {adapter.name: adapter for adapter in adapters if adapter.detect(scope).installed}
    alone = [jobs for jobs in _known() if jobs.controller and scope.snapshot.served(jobs.key)]
    found: list[tuple[Jobs, Adapter | None]] = [(jobs, there[jobs.name]) for jobs in _known() if jobs.name in there]
    return found + [(jobs, None) for jobs in alone if controllers_health(scope, {"controller": jobs.controller}, jobs.home).installed]


def volcano_job(name: str, template: Json, size: int, priority: str, version: str) -> Json:
    """A Job of Volcano that starts all of its pods again when one is lost."""
    [jobs] = (one for one in _known() if one.name == "volcano")
    values = {"name": name, "size": size, "priority": priority, "template": template}
    return {**_filled(jobs.object, values), "apiVersion": version}


def expiry(seconds: float) -> Json:
    """A Job without pods that fails after a time and is then removed by the cluster alone, and what it owns with it."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "none", "image": "none"}]}}
    spec = {"parallelism": 0, "completions": 1, "activeDeadlineSeconds": int(seconds), "ttlSecondsAfterFinished": 0, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": EXPIRY}, "spec": spec}


def _filled(value: Any, values: Mapping[str, object]) -> Any:
    """A copy in which each text ``$name`` is that value."""
    if isinstance(value, dict):
        return {key: _filled(inner, values) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, values) for inner in value]
    return values[value[1:]] if isinstance(value, str) and value.startswith("$") else value
