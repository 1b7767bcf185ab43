"""Objects whose shape no API server checks, broken in each of their parts: every requirement still ends with a verdict.

One that cannot be read is left out, or undecided; none ends a requirement in an error, and none hides the whole object beside it.
"""

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from conformance.coverage.unjudged_devices import accelerators
from conformance.devices.free_devices import usable_places
from conformance.policy.model import Policy
from conformance.scope.scope import Scope
from fixtures.cluster.answer import item_problem
from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import Json
from fixtures.simulator.config.scenario import load_scenario
from fixtures.verdict.record import Verdict
from tests.builders import a_node, a_pod, a_snapshot, a_workload
from tests.dra import a_claim, a_class, a_device, a_slice, a_template
from tests.judging import judge
from tests.req.test_templates import SHAPES
from tests.requirements_offline import scope_of

WILD: tuple[object, ...] = (None, True, -1, 10**40, "\x00", [[]], {"": {}}, [None], ["x"], [{"name": 7}], {"a": [{"b": None}]})
SOURCES = ("showcase", "kueue-inference", "dra", "amd", "mig-rdma")
TAINTED = a_device(
    "gpu-0",
    taints=[{"key": "k", "value": "v", "effect": "NoExecute"}],
    consumesCounters=[{"counterSet": "s", "counters": {"memory": {"value": "1"}}}],
)
RULE: Json = {"deviceSelector": {"driver": "d", "pool": "p"}, "taint": {"key": "k", "effect": "NoSchedule"}}
DRA: dict[str, Json] = {
    "resource.k8s.io/resourceslices": a_slice("gpu-0", devices=[TAINTED]),
    "resource.k8s.io/deviceclasses": a_class(extended="example.com/gpu"),
    "resource.k8s.io/resourceclaims": a_claim("c", device="gpu-0", consumedCapacity={"memory": "1Gi"}, shareID="s"),
    "resource.k8s.io/resourceclaimtemplates": a_template("t"),
    "resource.k8s.io/devicetaintrules": {"metadata": {"name": "r"}, "spec": RULE},
}
ANY_SPEC: Json = {
    "minMember": 2,
    "subGroups": [{"name": "a", "minMember": 1}],
    "parentName": "all",
    "resourceGroups": [{"flavors": [{"name": "f", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "8"}]}]}],
    "podGroups": [{"name": "g", "policy": {"gang": {"minCount": 2}}}],
    "tfReplicaSpecs": {"Worker": {"replicas": 2, "template": SHAPES["apps/deployments"][0]["template"]}},
    "rayClusterSpec": SHAPES["ray.io/rayclusters"][0],
}
"""What kinds say that no scenario has an object of: groups of pods, cohorts, jobs."""
ANY_STATUS: Json = {"phase": "Running", "state": "ready", "conditions": [{"type": "Ready", "status": "True"}], "rayClusterName": "x"}
GROUPS = ("ray.io/cluster", "leaderworkerset.sigs.k8s.io/name", "volcano.sh/job-name", "jobset.sigs.k8s.io/jobset-name")
LABELS = dict.fromkeys((*GROUPS, "training.kubeflow.org/job-name", "grove.io/podclique", "kueue.x-k8s.io/queue-name"), "x")
PARTS = 150
"""Broken objects at a time, beside a whole one: each of them is one of a cluster's many."""


@cache
def whole() -> dict[str, Json]:
    """One good object of each kind that is read as a dictionary."""
    found = {
        key: a_workload(KINDS[key].kind, "x", {**spec, "replicas": 2, "parallelism": 2}, status={}) for key, (spec, _) in SHAPES.items()
    }
    for name in SOURCES:
        snapshot = scope_of(load_scenario(name)).snapshot
        for key in KINDS:
            for item in snapshot.listing(key).items[:1]:
                if isinstance(item, dict):
                    found.setdefault(key, item)
    for key, kind in KINDS.items():
        if kind.shape == Json:
            found.setdefault(key, a_workload(kind.kind, "x", ANY_SPEC, status=ANY_STATUS))
    return {**found, **DRA}


def broken(good: Json) -> Iterator[Json]:
    """An object with each of its parts, at any depth but that of its own name, replaced by each wild value."""

    def paths(value: object, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        yield path
        for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
            yield from paths(child, (*path, key))

    def replaced(value: Any, path: tuple[Any, ...], new: object) -> Any:
        if not path:
            return new
        if isinstance(value, dict):
            return {key: replaced(child, path[1:], new) if key == path[0] else child for key, child in value.items()}
        return [replaced(child, path[1:], new) if index == path[0] else child for index, child in enumerate(value)]

    for path, new in itertools.product(paths(good, ()), WILD):
        if isinstance(found := replaced(good, path, new), dict) and not item_problem(found):
            yield found


def scope_with(key: str, *objects: Json) -> Scope:
    """A cluster with these objects of a kind beside a whole one of every kind, and pods that name them."""
    named = [{"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimTemplateName": "t"}]
    pods = [
        a_pod("bound", node="gpu-1", resourceClaims=named, labels=LABELS),
        a_pod("waits", resourceClaims=[*named, {}], labels=LABELS),
        *(a_pod(f"of-{number}", owner=f"{KINDS[key].kind}/x", devices=1, labels=LABELS) for number in range(2)),
    ]
    lists: dict[str, Any] = {name.replace("/", "__").replace(".", "_"): [item] for name, item in whole().items()}
    lists[key.replace("/", "__").replace(".", "_")] += objects
    nodes = [a_node("gpu-0", gpus=0), a_node("gpu-1")]
    return Scope(a_snapshot(nodes=nodes, pods=pods, **lists), Policy())


@pytest.mark.test_all
@pytest.mark.parametrize("key", whole())
def test_every_requirement_ends_on_broken_objects(key: str) -> None:
    objects = list(broken(whole()[key]))
    for start in range(0, len(objects), PARTS):
        scope = scope_with(key, *objects[start : start + PARTS])
        results = judge(scope.snapshot, scope.policy)
        assert {id_: result.message for id_, result in results.items() if result.verdict is Verdict.ERROR} == {}
        assert usable_places(scope)
        assert list(accelerators(scope, []))


@pytest.mark.parametrize("wild", WILD, ids=repr)
def test_claims_of_pods_may_be_anything(wild: object) -> None:
    entries = [wild] if isinstance(wild, dict) else [{"name": wild, "resourceClaimName": wild, "resourceClaimTemplateName": wild}]
    snapshot = a_snapshot(nodes=[a_node()], pods=[a_pod("p", node="gpu-0", resourceClaims=entries)])
    assert judge(snapshot, Policy(), ["FENCE-02"])["FENCE-02"].total
