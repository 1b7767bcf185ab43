"""Whatever stands below ``metadata``, ``spec`` and ``status``, no requirement ends in an error: a kind is unreadable, or it is judged.

API servers check objects of their own kinds. Nobody checks custom resources with open schemas, annotations, the text of ConfigMaps
and saved files.
"""

import copy
import json
import random
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from conformance.policy.policy_file import build_policy
from fixtures.cluster.answer import item_problem
from fixtures.cluster.kinds import BUILT_IN, KINDS
from fixtures.kubernetes.models import Json
from fixtures.simulator.builder import build
from fixtures.simulator.config.scenario import load_scenario
from fixtures.snapshot import whole_lists
from fixtures.snapshot.files import load_files
from fixtures.snapshot.state import Listing, Snapshot
from fixtures.text import json_text, yaml_text
from fixtures.text.yaml_text import NotYaml
from fixtures.verdict.record import Verdict
from tests.judging import judge
from tests.platforms.clusters import CLUSTERS
from tests.requirements_offline import NOW

pytestmark = pytest.mark.test_all

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

SHAPES = {(kind.group, kind.kind): kind.shape for kind in KINDS.values()}
COUNTED = ("nodeName", *whole_lists.COUNT_PODS.values())
"""What pods and controllers say of lists: with an odd value there, a list would seem to be a part of it, and nobody would judge it."""
SOURCES = ("mig-rdma", "dra-shared", "kueue-inference", "amd-operator", "openshift")


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
        msgspec.convert(item, SHAPES.get((item["apiVersion"].rpartition("/")[0], item["kind"]), Json), strict=False)
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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SOURCES)
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
