"""A scenario's objects, with or without a defect, as a scope: what the checks see of a simulated cluster, without the server."""

import functools
from datetime import UTC, datetime

import msgspec

from fixtures.cluster.kinds import KINDS
from fixtures.model.cluster import Scope
from fixtures.policy.model import Policy
from fixtures.simulator.builder import build
from fixtures.simulator.config.defects import apply, policy_of
from fixtures.simulator.config.scenario import load_defect, load_scenario
from fixtures.snapshot.state import Listing, Object, Snapshot
from fixtures.verdict.findings import Evidence, Finding
from fixtures.verdict.record import Level
from fixtures.verdict.subjects import Inconclusive, NotApplicable

MOMENT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
NOW = MOMENT.timestamp()


@functools.cache
def scope_of(scenario: str, defect: str = "") -> Scope:
    """The scope over a scenario's initial objects."""
    source = load_scenario(scenario)
    defects = [load_defect(defect)] if defect else []
    objects = build(source, now=MOMENT)
    for fault in defects:
        objects = apply(objects, fault, now=MOMENT)
    kinds = {(kind.group, kind.kind): kind for kind in KINDS.values()}
    lists: dict[str, list[Object]] = {key: [] for key in KINDS}
    for item in objects:
        kind = kinds.get((item["apiVersion"].rpartition("/")[0], item["kind"]))
        if kind is not None:
            lists[kind.key].append(item if kind.shape == dict[str, object] else msgspec.convert(item, kind.shape, strict=False))
    snapshot = Snapshot([Listing(key=key, items=items) for key, items in lists.items()], taken_at=NOW)
    return Scope(snapshot, msgspec.convert(policy_of(source, defects), Policy))


def verdict(findings: object) -> str:
    """The verdict of a MUST over findings; ``not_applicable`` or ``inconclusive`` where the check raises so."""
    evidence = Evidence()
    try:
        evidence(findings)  # type: ignore[arg-type]
    except NotApplicable:
        return "not_applicable"
    except Inconclusive:
        return "inconclusive"
    return str(evidence.judgement(Level.MUST).verdict)


def outcomes(findings: object) -> dict[str, str]:
    """Outcome by subject name; a name that comes twice keeps the worse."""
    found: dict[str, str] = {}
    order = ("not_judged", "ok", "undecided", "bad")
    for finding in list(findings):  # type: ignore[call-overload]
        assert isinstance(finding, Finding)
        worst = max(found.get(finding.subject.name, "not_judged"), str(finding.outcome), key=order.index)
        found[finding.subject.name] = worst
    return found
