"""Read requirements over a scenario's initial objects, without a server: fast, and the same snapshot that a run would read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from conformance.policy import Policy
from conformance.scope import Scope
from fixtures.evidence import Evidence, Finding, Inconclusive, NotApplicable
from fixtures.kinds import KINDS
from fixtures.models import Json
from fixtures.record import Level, Verdict
from fixtures.simulator.builder import build
from fixtures.simulator.defects_apply import apply, policy_of
from fixtures.simulator.scenario import Defect, Scenario
from fixtures.snapshot import Listing, Snapshot

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def scope_of(scenario: Scenario, defects: Sequence[Defect] = ()) -> Scope:
    """The scope a run would have: every kind listed, the scenario's policy with the defects'."""
    objects = build(scenario, now=NOW)
    for defect in defects:
        objects = apply(objects, defect, now=NOW)
    return Scope(snapshot_of(objects, scenario.kubernetes_version), msgspec.convert(policy_of(scenario, defects), Policy))


def snapshot_of(objects: Iterable[Json], version: str = "v1.36.3") -> Snapshot:
    """Objects as a snapshot: each under the kind of its group and name, decoded as a list page would be."""
    items: dict[str, list[Any]] = {key: [] for key in KINDS}
    keys = {(kind.group, kind.kind): key for key, kind in KINDS.items()}
    for item in objects:
        group = item["apiVersion"].rpartition("/")[0]
        if key := keys.get((group, item["kind"])):
            items[key].append(msgspec.convert(item, KINDS[key].shape, strict=False))
    listings = [Listing(key=key, items=values) for key, values in items.items()]
    return Snapshot(listings, taken_at=NOW.timestamp(), version=version)


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
