"""Objects whose shape no API server checks, broken in each of their parts: every requirement still ends with a verdict.

One that cannot be read is left out, or undecided; none ends a requirement in an error, and none hides the whole object beside it.
"""

import copy
import itertools
import json
import random
from collections.abc import Iterator
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from conformance.coverage.unjudged_devices import accelerators
from fixtures.cluster.answer import item_problem
from fixtures.cluster.kinds import BUILT_IN, KINDS
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.placement.free_devices import usable_places
from fixtures.policy.model import Policy
from fixtures.policy.policy_file import build_policy
from fixtures.simulator.builder import build
from fixtures.simulator.config.scenario import load_scenario
from fixtures.snapshot import whole_lists
from fixtures.snapshot.files import load_files
from fixtures.snapshot.state import Listing, Snapshot
from fixtures.text import json_text, yaml_text
from fixtures.text.yaml_text import NotYaml
from fixtures.verdict.record import Verdict
from tests.builders import a_node, a_pod, a_snapshot, a_workload
from tests.dra import a_claim, a_class, a_device, a_slice, a_template
from tests.judging import judge
from tests.platforms.clusters import CLUSTERS
from tests.req.test_templates import SHAPES
from tests.requirements_offline import NOW, scope_of

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


# -- whatever stands below ``metadata``, ``spec`` and ``status``, no requirement ends in an error: a kind is unreadable, or it is judged --


TEXTS = (
    *("", "\x00", "²", "-1", "NaN", "1e400", "9" * 5_000, "1e999999", "0x10", "99999999999999999999", "5e500", "1Q"),
    *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "2026-13-45T99:99:99Z", "2026-11-21T12:00:00", "20261121T120000Z"),
    *("v1.37.2+evil", "v", ".", "(", "[", "**", "{0}", "%s", "/", "a/b/c", ",,", "=", "0g.0gb", "1-", "0-99999999999"),
    *("[null]", '{"a": null}', "[" * 60_000, "a: 0x" + "f" * 6_000, "a: .nan", "a: 1" + ":59" * 5_000, "1: 2", "version: v1\nsharing: 5"),
)
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31 - 1, 10**12, 2**63, 10**30, 0.5, 1e308, [], {}, [[]], [None], [{}], {"": None}, {"a": {"b": None}}),
    *([{"name": None}], [{"name": {}}], [{"type": None}], [{"type": []}], {"name": 5}, *TEXTS),
)
NOT_JSON: tuple[Any, ...] = (16**200, {1: 2, "a": 3}, {True: 1, "b": 2}, date(2026, 11, 21), datetime(1, 1, 1), "2026-11-21")
"""What only YAML has."""

KIND_SHAPES = {(kind.group, kind.kind): kind.shape for kind in KINDS.values()}
COUNTED = ("nodeName", *whole_lists.COUNT_PODS.values())
"""What pods and controllers say of lists: with an odd value there, a list would seem to be a part of it, and nobody would judge it."""
SPOILT = ("mig-rdma", "dra-shared", "kueue-inference", "amd-operator", "openshift")


LEAST_JUDGED = 15
"""Requirements: a cluster of which nobody can read anything shows nothing."""


def objects_of(name: str) -> tuple[list[Json], Json]:
    """A healthy cluster, and the policy of its owner."""
    if name in CLUSTERS:
        cluster = CLUSTERS[name]()
        return cluster.objects, cluster.policy
    scenario = load_scenario(name)
    return build(scenario, now=NOW), scenario.policy


def places(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """The path of each value below ``value``."""
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(below, *path, key)


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def put(value: Any, path: tuple[str | int, ...], new: Any) -> None:
    at(value, path[:-1])[path[-1]] = copy.deepcopy(new)  # else an odd value could be put into itself


def spoilt_text(text: str, chance: random.Random) -> str:
    """A text with something odd inside: of a document, one of its values; else anywhere."""
    try:
        document = yaml_text.load(text)
    except NotYaml:
        document = None
    if inner := list(places(document)):
        put(document, chance.choice(inner), chance.choice(ODD))
        return json.dumps(document, default=str)
    cut = chance.randint(0, len(text))
    return text[:cut] + chance.choice(TEXTS) + text[cut:]


def as_read(digits: str) -> int | float:
    return int(digits) if json_text.LEAST <= int(digits) <= json_text.MOST else float(digits)


def readable(item: Json) -> bool:
    """Whether the item is still of its kind, so that requirements get to see it."""
    item = json.loads(json.dumps(item, default=lambda _: 0), parse_int=as_read)  # a day or a time of YAML is no text
    try:
        if item_problem(item):
            return False
        msgspec.convert(item, KIND_SHAPES.get((item["apiVersion"].rpartition("/")[0], item["kind"]), Json), strict=False)
    except msgspec.ValidationError:
        return False
    return True


def spoil(item: Json, odd: tuple[Any, ...], chance: random.Random) -> None:
    """Put odd values into some places of an object, as far as it stays readable."""
    for _ in range(chance.choice((1, 3, 10))):
        path = chance.choice([path for path in places(item) if path[0] not in ("kind", "apiVersion") and len(path) > 1])
        old = at(item, path)
        if path[:2] in (("metadata", "name"), ("metadata", "namespace")) or path[-1] in COUNTED:
            continue
        put(item, path, spoilt_text(old, chance) if isinstance(old, str) and chance.random() < 0.4 else chance.choice(odd))
        if not readable(item):
            put(item, path, old)


def snapshot_of_file(file: Path) -> Snapshot:
    """A saved file as if it held every kind that its cluster serves, after it went to another worker."""
    saved = load_files(file)
    listings = []
    for key, kind in KINDS.items():
        listing = saved.listing(key)
        served = key in BUILT_IN or kind.group in saved.groups or kind.group == "resource.k8s.io"
        listings.append(listing if listing.collected or listing.trouble else Listing(key=key, served=served))
    handed = file.with_suffix(".saved")
    Snapshot([*listings, *saved.custom], taken_at=NOW.timestamp(), version="v1.37.2", groups=saved.groups).save(handed)
    return Snapshot.load(handed)


@pytest.mark.test_all
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SPOILT)
def test_no_odd_value_ends_a_requirement_in_an_error(tmp_path: Path, name: str, seed: int) -> None:
    chance = random.Random(f"{name} {seed}")
    objects, policy = json.loads(json.dumps(objects_of(name)))
    in_yaml = seed == 0
    for item in objects:
        if chance.random() < 0.5:
            spoil(item, (*ODD, *NOT_JSON) if in_yaml else ODD, chance)
    items = {"apiVersion": "v1", "kind": "List", "items": objects}
    file = tmp_path / "cluster.json"
    file.write_bytes(yaml.dump(items, Dumper=yaml.CSafeDumper, encoding="utf-8") if in_yaml else msgspec.json.encode(items))
    results = judge(snapshot_of_file(file), build_policy(policy))
    assert {id_: result.message for id_, result in results.items() if result.verdict is Verdict.ERROR} == {}
    assert sum(result.judged > 0 for result in results.values()) >= LEAST_JUDGED
