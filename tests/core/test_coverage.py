"""How much of the catalogue was judged, why not the rest, and what of that keeps a run from being conformant."""

from typing import Any

import pytest

from conformance.coverage.run import floor_of, shortfalls
from fixtures.policy.model import Gate
from fixtures.verdict.coverage import (
    Asked,
    Floor,
    Most,
    beyond_access,
    groups,
    is_cut_down,
    is_partial,
    measure,
    within_access,
    within_snapshot,
)
from fixtures.verdict.record import Access, Cause, Coverage, Level, Result, Verdict
from tests.reports.sample_report import result, subject
from tests.tables import each_row

AREAS = {"FENCE": 3, "GANG": 2, "NET": 2}
ASKED = [
    Asked(id=f"{area}-{n:02}", title=f"Title of {area} {n}", area=area, level=Level.MUST)
    for area, n_ in AREAS.items()
    for n in range(1, n_ + 1)
]
IDS = [one.id for one in ASKED]


def good(id_: str) -> Result:
    return result(id_, Verdict.PASSED, [subject("node-1")])


def silent(id_: str, code: str, message: str = "", *, verdict: Verdict = Verdict.NOT_APPLICABLE, total: int = 0) -> Result:
    return result(id_, verdict, reason_code=code, message=message, total=total)


def measured(*results: Result, left_out: dict[str, str] | None = None) -> Coverage:
    """Coverage of a run in which everything that is not named passed."""
    named = {one.id for one in results}
    return measure(ASKED, [*results, *(good(id_) for id_ in IDS if id_ not in named and id_ not in (left_out or {}))], left_out or {})


@each_row
def test_causes_are_reported_apart(one: dict[str, Any], cause: Cause) -> None:
    coverage = measured(silent(**one))
    assert [(missing.id, missing.cause) for missing in coverage.not_judged] == [("NET-01", cause)]
    assert coverage.judged == 6


def test_a_snapshot_that_lacks_what_a_must_reads_makes_the_verdict_one_of_the_snapshot() -> None:
    pods, two = "the snapshot holds no pods", "the snapshot holds no pods, namespaces"
    coverage = measured(silent("FENCE-02", "NotInSnapshot", pods), silent("NET-01", "NotInSnapshot", two))
    assert within_snapshot(coverage)
    assert is_partial(coverage)
    assert coverage.sentence.endswith("2 (FENCE-02, NET-01), because the snapshot lacks kinds that they read")
    assert is_cut_down(coverage)


@pytest.mark.parametrize(
    ("code", "message"),
    [("SnapshotTarget", "a saved snapshot cannot answer"), ("AboveAccess", beyond_access(Access.WORKLOAD, Access.READ, read_only=True))],
)
def test_a_must_beyond_the_access_or_a_snapshot_makes_the_verdict_one_of_a_part(code: str, message: str) -> None:
    """Labels and fleets take it for whole nevertheless: nothing that such a run can judge was left out."""
    coverage = measured(silent("NET-01", code, message))
    assert (is_partial(coverage), is_cut_down(coverage)) == (True, False)
    assert (within_snapshot(coverage), within_access(coverage)) == (code == "SnapshotTarget", code == "AboveAccess")


def test_pods_that_load_the_hardware_are_no_third_thing_beside_probe_pods() -> None:
    needs = {"NET-01": Access.WORKLOAD, "NET-02": Access.HARDWARE}
    found = [silent(id_, "AboveAccess", beyond_access(access, Access.READ, read_only=True)) for id_, access in needs.items()]
    assert measured(*found).sentence.endswith("because they need probe pods; this run was --read-only")
    assert "because they need probe pods that load the hardware" in measured(found[1]).sentence


def test_the_sentence_stays_short_whatever_was_not_judged() -> None:
    asked = [Asked(id=f"A{n:03}-01", title="t", area=f"A{n:03}", level=Level.MUST) for n in range(500)]
    coverage = measure(asked, [silent(one.id, "NotInSnapshot", f"the snapshot holds no kind-{one.id}") for one in asked], {})
    assert len(coverage.sentence) < 500
    assert "and 492 more" in coverage.sentence
    assert len(groups(coverage)[0].requirements) == 500


def missing(*results: Result, floor: Floor | None = None, left_out: dict[str, str] | None = None, lost: str = "") -> list[str]:
    """The shortfalls of a run in which everything that is not named passed, and ``lost`` has no result."""
    named = {one.id for one in results}
    found = [*results, *(good(id_) for id_ in IDS if id_ not in named and id_ not in (left_out or {}) and id_ != lost)]
    return list(shortfalls(measure(ASKED, found, left_out or {}), found, floor or Floor()))


def test_an_area_of_which_nothing_was_judged_is_named() -> None:
    floor = Floor(areas=("FENCE", "NET"))
    assert missing(silent("NET-02", "NoRdmaNodes"), floor=floor) == []
    stated = missing(floor=floor, left_out={"NET-01": "-k x", "NET-02": "-k x"})
    assert stated == ["no requirement of NET was judged, and gate.areas asks for one of each"]


def test_a_requirement_without_a_result_is_a_run_cut_short() -> None:
    assert missing(lost="GANG-02") == ["the run ended before it had judged GANG-02"]


def test_a_missing_right_gates_at_any_level() -> None:
    lacking = result("NET-02", Verdict.INCONCLUSIVE, reason_code="Forbidden", message="pods could not be listed", level=Level.SHOULD)
    assert missing(lacking) == ["NET-02 was refused: pods could not be listed"]
    assert missing(silent("NET-02", "Timeout", verdict=Verdict.INCONCLUSIVE)) == []


def test_more_undecided_or_silent_requirements_than_allowed_are_named() -> None:
    unsure, quiet = silent("NET-01", "Timeout", verdict=Verdict.INCONCLUSIVE), silent("NET-02", "NoRdmaNodes")
    none = Most(verdict=Verdict.INCONCLUSIVE, count=0, source="--max-inconclusive")
    one = Most(verdict=Verdict.NOT_APPLICABLE, count=1, source="gate.maxNotApplicable")
    assert missing(unsure, quiet, floor=Floor(most=(none, one))) == [
        "1 requirements are inconclusive (NET-01), and --max-inconclusive allows 0"
    ]
    two = [quiet, silent("NET-01", "NoRdmaNodes")]
    assert missing(*two, floor=Floor(most=(one,))) == [
        "2 requirements are not applicable (NET-02, NET-01), and gate.maxNotApplicable allows 1"
    ]
    assert missing(quiet, floor=Floor(most=(none, one))) == []


def test_no_option_may_leave_out_what_is_required() -> None:
    floor = Floor(required=("NET-01",))
    assert missing(floor=floor) == []
    assert missing(floor=floor, left_out={"NET-01": "-k GANG", "NET-02": "-k GANG"}) == [
        "NET-01 has to be judged (required of the policy), and it was left out by -k GANG"
    ]


def test_an_option_overrides_the_policys_gate() -> None:
    gate = Gate(minimum_judged=3, max_inconclusive=1, areas=("NET",))
    assert floor_of(gate) == Floor(
        not_in_snapshot=0.25,
        minimum=3,
        areas=("NET",),
        source="gate.minimumJudged",
        most=(Most(verdict=Verdict.INCONCLUSIVE, count=1, source="gate.maxInconclusive"),),
    )
    assert floor_of(gate, min_judged=5, max_inconclusive=0, max_not_applicable=2, required=("NET-01",)) == Floor(
        not_in_snapshot=0.25,
        minimum=5,
        areas=("NET",),
        source="--min-judged",
        most=(
            Most(verdict=Verdict.INCONCLUSIVE, count=0, source="--max-inconclusive"),
            Most(verdict=Verdict.NOT_APPLICABLE, count=2, source="--max-not-applicable"),
        ),
        required=("NET-01",),
    )
