"""Read requirements over a scenario's initial objects, without a server: fast, and the same snapshot that a run would read."""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from fixtures.cluster.kinds import BUILT_IN, KINDS, kubectl_name
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.policy.model import Policy
from fixtures.policy.platforms import chosen_by_marks
from fixtures.policy.policy_file import build_policy
from fixtures.simulator.builder import build
from fixtures.simulator.config.defects import policy_of
from fixtures.simulator.config.scenario import Defect, Scenario
from fixtures.simulator.simulated_cluster import with_defects
from fixtures.snapshot.custom_kinds import DEFINITIONS, saved
from fixtures.snapshot.state import Listing, Snapshot
from fixtures.verdict.findings import Evidence, Finding
from fixtures.verdict.record import Level, Verdict
from fixtures.verdict.subjects import Inconclusive, NotApplicable

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def scope_of(scenario: Scenario, defects: Sequence[Defect] = ()) -> Scope:
    """The scope a run would have: every kind listed, the scenario's policy with the defects' over the presets that its marks choose."""
    objects = with_defects(healthy(scenario), defects, NOW)
    snapshot = snapshot_of(objects, scenario.kubernetes_version)
    return Scope(snapshot, policy_over(snapshot, policy_of(scenario, defects)))


def healthy(scenario: Scenario) -> list[Json]:
    """The objects that a scenario begins with."""
    return _built(msgspec.json.encode(scenario))


@lru_cache(maxsize=64)
def _built(scenario: bytes) -> list[Json]:
    """The objects of a scenario, given as JSON. Hundreds of tests begin with the same, and none changes them."""
    return build(msgspec.json.decode(scenario, type=Scenario), now=NOW)


def policy_over(snapshot: Snapshot, *documents: Json) -> Policy:
    """The policy of documents over the presets that the cluster's marks choose."""
    return build_policy(*(preset.policy for preset in chosen_by_marks(snapshot)), *documents)


def snapshot_of(objects: Iterable[Json], version: str = "v1.36.3") -> Snapshot:
    """Objects as a snapshot: each under the kind of its group and name, decoded as a list page would be."""
    items: dict[str, list[Any]] = {key: [] for key in KINDS}
    named: dict[tuple[str, str], dict[tuple[str, str], Json]] = {}
    keys = {(kind.group, kind.kind): key for key, kind in KINDS.items()}
    for item in objects:
        group = item["apiVersion"].rpartition("/")[0]
        meta = item["metadata"]
        named.setdefault((group, item["kind"]), {})[meta.get("namespace", ""), meta["name"]] = item
        if key := keys.get((group, item["kind"])):
            items[key].append(msgspec.convert(item, KINDS[key].shape, strict=False))
    listings = [Listing(key=key, items=values) for key, values in items.items()] + saved(named, items[DEFINITIONS], ())
    fields = {name: item["metadata"].get("managedFields") for (_, name), item in named.get(("", "Node"), {}).items()}
    pods = {
        f"{space}/{name}": item["metadata"].get("managedFields")
        for (space, name), item in named.get(("", "Pod"), {}).items()
        if item.get("status", {}).get("phase") == "Failed" and "managedFields" in item["metadata"]
    }
    groups = {group for group, _ in named} | {item["spec"]["group"] for item in items[DEFINITIONS]}
    served = {*map(kubectl_name, BUILT_IN), *(item["metadata"]["name"] for item in items[DEFINITIONS])}
    return Snapshot(
        listings,
        taken_at=NOW.timestamp(),
        version=version,
        managed_fields=fields,
        failed_pod_fields=pods,
        groups=groups - {""},
        resources=served | {f"*.{group}" for group in groups - {""} - {name.partition(".")[2] for name in served}},
    )


def verdict(check: Callable[[], Iterable[Finding]]) -> tuple[Verdict, str]:
    """Verdict and message of a requirement, as a run concludes it."""
    evidence = Evidence()
    try:
        evidence(check())
    except NotApplicable as error:
        return Verdict.NOT_APPLICABLE, error.message
    except Inconclusive as error:
        if evidence.judgement(Level.MUST).verdict is not Verdict.FAILED:
            return Verdict.INCONCLUSIVE, error.message
    judgement = evidence.judgement(Level.MUST)
    return judgement.verdict, f"{judgement.message} ({judgement.judged}/{judgement.total})"
