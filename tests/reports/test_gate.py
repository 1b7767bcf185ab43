"""``gpu-conformance gate BEFORE AFTER``: what may stay after an upgrade, and what nobody can tell."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from conformance.cli import reports as cli
from conformance.cli.gate_formats import to_json, to_junit, to_markdown
from fixtures.verdict.coverage import Floor, Most
from fixtures.verdict.record import Cause, Coverage, InventoryRow, Level, NotJudged, Report, TargetKind, Verdict
from reports.diff import gate, runs
from reports.diff.gate import GateCode
from reports.folder import write_all
from tests.reports.chaos_samples import chaos, experiment
from tests.reports.sample_report import HOSTILE, report, result, subject
from tests.tables import each_row

OK, BAD = Verdict.PASSED, Verdict.FAILED
H100 = {"nvidia.com/gpu": "8"}


def row(node: str, product: str = "H100", capacity: dict[str, str] | None = None) -> InventoryRow:
    return InventoryRow(node=node, product=product, capacity=H100 if capacity is None else capacity)


def a_run(nodes: dict[str, Verdict], *, inventory: list[InventoryRow] | None = None, id_: str = "ADV-01") -> Report:
    """A run that judged one requirement over nodes."""
    verdict = BAD if BAD in nodes.values() else OK
    made = report([result(id_, verdict, [subject(name, one, kind="Node") for name, one in nodes.items()])])
    made.inventory = [row(name) for name in nodes] if inventory is None else inventory
    made.target.cluster_uid = "uid-1"
    made.verdict, made.exit_code = verdict, int(verdict is BAD)
    return made


def decided(before: Report, after: Report, floor: Floor | None = None) -> gate.Decision:
    return gate.decide(before, after, runs.compare(before, after), floor or Floor())


def a_floor(minimum: int, *, most: int) -> Floor:
    unsure = Most(verdict=Verdict.INCONCLUSIVE, count=most, source="--max-inconclusive")
    silent = Most(verdict=Verdict.NOT_APPLICABLE, count=most, source="--max-not-applicable")
    return Floor(minimum=minimum, source="--min-judged", most=(unsure, silent))


def buckets(before: Report, after: Report) -> list[tuple[str, str]]:
    return [(change.bucket.value, change.subject) for change in runs.compare(before, after).changes]


# -- the decision -------------------------------------------------------------------------------------


def test_two_runs_that_judged_nothing_in_common_open_no_gate() -> None:
    """As ``--only GANG`` on a cluster without gangs, twice: nothing is worse, because nothing was judged."""
    silent = report([result("GANG-01", Verdict.NOT_APPLICABLE, [])])
    silent.results[0].judged, silent.exit_code = 0, 10
    for before, after in ((silent, silent), (silent, a_run({"a": OK}))):
        decision = decided(before, after)
        assert (decision.code, decision.reasons) == (GateCode.NOT_KNOWN, ["no requirement was judged in both runs"])


def test_a_later_run_of_experiments_alone_closes_the_gate_and_is_no_worse_than_its_baseline() -> None:
    before, after, ran = a_run({"a": OK}), report([]), chaos(experiment())
    after.target.cluster_uid = "uid-1"
    decision = gate.decide(before, after, runs.compare(before, after, ran, ran), Floor())
    assert decision.code is GateCode.WORSE
    assert decision.reasons[0].startswith(
        "no longer judged: ADV-01 MUST (passed before, no result now): the later run judged no requirement"
    )
    assert runs.regressions(gate.between(before, after, ran, ran, ())) == []


def test_a_run_that_was_cut_short_is_never_green() -> None:
    good = a_run({"a": OK})
    for code in (2, 3, 5):
        cut = a_run({"a": OK})
        cut.exit_code = code
        assert decided(good, cut).code is GateCode.NOT_KNOWN
        assert decided(cut, good).code is GateCode.NOT_KNOWN
    silent = a_run({"a": OK})
    missing = NotJudged(id="NET-01", title="t", area="NET", level=Level.MUST, cause=Cause.CUT_SHORT, because="the run ended")
    silent.scope = Coverage(requirements=2, judged=1, not_judged=[missing])
    assert decided(good, silent).code is GateCode.NOT_KNOWN


@pytest.mark.parametrize("which", ["earlier", "later"])
def test_a_run_that_ended_at_another_cluster_tells_nothing_worse(which: str) -> None:
    before, after = a_run({"a": OK}), a_run({"a": BAD})
    (before if which == "earlier" else after).other_cluster_uid = "other"
    decision = gate.decide(before, after, runs.compare(before, after), Floor(required=("ADV-01",)))
    assert decision.code is GateCode.NOT_KNOWN
    assert decision.reasons[0].startswith(f"the {which} run ended at another cluster")
    assert runs.regressions(decision.difference) == []


def test_what_a_run_had_to_judge_and_did_not_closes_the_gate() -> None:
    good, short = a_run({"a": OK}), a_run({"a": OK})
    short.scope = Coverage(requirements=2, judged=1, shortfalls=["NET was not judged"])
    decision = decided(good, short)
    assert (decision.code, decision.reasons) == (GateCode.NOT_KNOWN, ["the later run did not judge what it had to: NET was not judged"])


def test_waiver_problems_and_residue_close_the_gate_and_residue_comes_first() -> None:
    good, waived = a_run({"a": OK}), a_run({"a": OK})
    waived.waiver_problems = ["waiver 1, ADV-01: expired"]
    assert decided(good, waived).code is GateCode.WORSE
    waived.residue = ["pod x/y"]
    decision = decided(good, waived)
    assert decision.code is GateCode.RESIDUE
    assert decision.reasons == ["the later run left something behind: pod x/y", "waivers: waiver 1, ADV-01: expired"]


def test_a_floor_bounds_what_need_not_be_judged() -> None:
    before, after = a_run({"a": OK}), a_run({"a": OK})
    silent = result("NET-01", Verdict.NOT_APPLICABLE, [])
    unsure = result("NET-02", Verdict.INCONCLUSIVE, [], level=Level.SHOULD)
    for made in (before, after):
        made.results += [silent, unsure]
    assert decided(before, after).code is GateCode.OPEN
    assert decided(before, after, a_floor(1, most=1)).code is GateCode.OPEN
    tight = decided(before, after, a_floor(2, most=0))
    assert tight.code is GateCode.NOT_KNOWN
    assert tight.reasons == [
        "1 requirements were judged, and --min-judged asks for 2",
        "1 requirements are inconclusive (NET-02), and --max-inconclusive allows 0",
        "1 requirements are not applicable (NET-01), and --max-not-applicable allows 0",
    ]


def test_what_is_required_must_be_judged_and_pass() -> None:
    good, bad = a_run({"a": OK}), a_run({"a": BAD})
    assert decided(good, good, Floor(required=("ADV-01",))).code is GateCode.OPEN
    still = decided(bad, bad, Floor(required=("ADV-01",)))
    assert (still.code, still.reasons) == (GateCode.WORSE, ["ADV-01 must pass, and it failed: Requirement ADV-01"])
    absent = decided(good, good, Floor(required=("NET-01",)))
    assert (absent.code, absent.reasons) == (GateCode.NOT_KNOWN, ["NET-01 must be judged, and it has no result"])
    for made in (good, bad):
        made.results.append(result("NET-01", Verdict.NOT_APPLICABLE, []))
    silent = decided(good, good, Floor(required=("NET-01",)))
    assert (silent.code, silent.reasons) == (GateCode.NOT_KNOWN, ["NET-01 must be judged, and it is not applicable"])


def test_an_area_of_which_the_later_run_judged_nothing_closes_the_gate() -> None:
    good = a_run({"a": OK})
    assert decided(good, good, Floor(areas=("ADV",))).code is GateCode.OPEN
    assert decided(good, good, Floor(areas=("ADV", "NET"))).code is GateCode.NOT_KNOWN


# -- nodes that were replaced -------------------------------------------------------------------------


@each_row
def test_a_machine_stands_for_the_one_that_it_replaced(
    before: dict[str, Verdict], after: dict[str, Verdict], found: list[tuple[str, str]]
) -> None:
    assert sorted(buckets(a_run(before), a_run(after))) == found


def test_machines_of_another_kind_stand_for_nobody() -> None:
    before = a_run({"old": BAD})
    after = a_run({"new": BAD}, inventory=[row("new", "H200")])
    assert ("new failure", "Node new") in buckets(before, after)


def test_a_machine_that_is_gone_without_another_in_its_place_is_no_longer_judged() -> None:
    before, after = a_run({"a": OK, "b": OK, "c": OK}), a_run({"a": OK, "d": OK})
    assert [bucket for bucket, _ in buckets(before, after)] == ["no longer judged"]
    assert "nodes were replaced by others of their kind: b, c -> d" in runs.render(runs.compare(before, after))


def test_nodes_that_came_or_went_are_named() -> None:
    before = a_run({"a": OK, "b": OK}, inventory=[row("a"), row("b", "H200")])
    after = a_run({"a": OK, "c": BAD}, inventory=[row("a"), row("c", "B200")])
    text = gate.render(decided(before, after))
    assert "NOTE: new nodes: c." in text
    assert "NOTE: nodes that are gone: b." in text
    assert "ADV-01 MUST Node c (none -> failed)" in text
    assert "NOTE: n" not in gate.render(decided(after, after))


def test_each_regression_is_printed_once() -> None:
    before, after = a_run({f"n{at}": OK for at in range(7)}), a_run({f"n{at}": OK for at in range(6)})
    after.results += a_run({"n0": BAD}, id_="INV-01").results
    before.results += a_run({"n0": OK}, id_="INV-01").results
    lines = gate.render(decided(before, after)).splitlines()
    assert "  ADV-01 MUST Node n6 (passed before, gone now): 6 of 7 are left" in lines
    assert [sum(f"{id_} MUST" in line for line in lines) for id_ in ("ADV-01", "INV-01")] == [1, 1]
    assert "GATE: 2 regressions, listed above" in lines


def test_hostile_names_cannot_move_the_terminal() -> None:
    before, after = a_run({HOSTILE["ansi"]: BAD}), a_run({HOSTILE["newlines"]: BAD})
    after.residue = after.waiver_problems = list(HOSTILE.values())
    text = gate.render(decided(before, after))
    assert all(character.isprintable() or character == "\n" for character in text)


# -- the command --------------------------------------------------------------------------------------


def saved(folder: Path, made: Report) -> str:
    folder.mkdir()
    write_all(made, folder, None)
    return str(folder)


def test_the_command_ends_with_the_gates_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = saved(tmp_path / "good", a_run({"a": OK})), saved(tmp_path / "bad", a_run({"a": BAD}))
    assert cli.main(["gate", good, good]) == 0
    assert cli.main(["gate", good, bad]) == 1
    assert cli.main(["gate", bad, good]) == 0
    assert cli.main(["gate", good, good, "--min-judged", "2"]) == 10
    assert "GATE CLOSED" in capsys.readouterr().out


def test_one_node_is_compared_and_what_changed_on_others_counts_for_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = saved(tmp_path / "before", a_run({"a": BAD, "b": OK, "c": OK})), saved(tmp_path / "after", a_run({"a": OK, "b": BAD}))
    assert cli.main(["gate", before, after]) == 1
    assert cli.main(["gate", before, after, "--node", "a"]) == 0
    assert cli.main(["gate", before, after, "--node", "b"]) == 1
    assert cli.main(["gate", before, after, "--node", "c"]) == 4
    assert "judged no node c" in capsys.readouterr().err


def test_reports_of_two_clusters_are_a_mistake_unless_it_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = a_run({"a": OK})
    other.target.cluster_uid = "uid-2"
    paths = [saved(tmp_path / "one", a_run({"a": OK})), saved(tmp_path / "two", other)]
    assert cli.main(["gate", *paths]) == 4
    assert "two clusters" in capsys.readouterr().err
    assert cli.main(["gate", *paths, "--another-cluster"]) == 0


@each_row
def test_a_cluster_is_the_same_one_live_and_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kinds: tuple[TargetKind, TargetKind], uids: tuple[str, str], stated: str
) -> None:
    paths = []
    for number, (kind, uid) in enumerate(zip(kinds, uids, strict=True)):
        made = a_run({"a": OK})
        made.target.kind, made.target.cluster_uid = kind, uid
        paths.append(saved(tmp_path / str(number), made))
    assert cli.main(["gate", *paths]) == (4 if stated else 0)
    assert stated in capsys.readouterr().err


def test_the_bounds_are_the_policys_where_no_option_gives_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, policy = saved(tmp_path / "good", a_run({"a": OK})), tmp_path / "policy.yaml"
    policy.write_text("gate: {minimumJudged: 2, maxInconclusive: 0}\n")
    assert cli.main(["gate", good, good, "--policy", str(policy)]) == 10
    assert "1 requirements were judged, and gate.minimumJudged asks for 2" in capsys.readouterr().out
    assert cli.main(["gate", good, good, "--policy", str(policy), "--min-judged", "1"]) == 0
    policy.write_text("required: [NET-01]\n")
    assert cli.main(["gate", good, good, "--policy", str(policy)]) == 10
    policy.write_text("gate: {minimumJugded: 2}\n")
    assert cli.main(["gate", good, good, "--policy", str(policy)]) == 4
    assert "did you mean 'minimumJudged'?" in capsys.readouterr().err
    policy.write_text("gate: {areas: [fence]}\n")
    assert cli.main(["gate", good, good, "--policy", str(policy)]) == 4
    assert capsys.readouterr().err == "gpu-conformance gate: policy: gate.areas: unknown area 'fence'; did you mean FENCE?\n"


@pytest.mark.parametrize("arguments", [["a"], ["a", "b", "--min-judged", "-1"], ["a", "b", "--max-inconclusive", "many"], ["none", "none"]])
def test_a_wrong_use_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = cli.main(["gate", *arguments])
    except SystemExit as error:
        code = int(error.code or 0)
    assert code == 4
    assert len(capsys.readouterr().err.splitlines()) == 1


def worse() -> gate.Decision:
    """A gate that two hostile names and many more close."""
    nodes = {f"gpu-{at}": Verdict.FAILED for at in range(200)} | {" ".join(HOSTILE.values()): Verdict.FAILED}
    return decided(a_run(dict.fromkeys(nodes, Verdict.PASSED)), a_run(nodes))


def test_a_comment_fits_a_pull_request_and_has_a_legend() -> None:
    text = to_markdown(worse())
    assert text.startswith("## ❌ GATE CLOSED: worse than before; exit code 1\n")
    assert "171 more reasons" in text
    assert "❌ closes the gate" in text.splitlines()[-1]
    assert len(text) < 65_536
    assert "<script" not in text
    assert to_markdown(decided(a_run({"gpu-0": Verdict.PASSED}), a_run({"gpu-0": Verdict.PASSED}))).startswith("## ✅ GATE OPEN")


def test_a_comment_that_is_cut_closes_what_it_opened() -> None:
    names = [f"{at}-" + "<`|" * 80 for at in range(70)]
    text = to_markdown(decided(a_run(dict.fromkeys(names, Verdict.PASSED)), a_run(dict.fromkeys(names, Verdict.FAILED))))
    assert text.count("lines do not fit here") == 2
    assert len(text) < 65_536
    assert text.index("<details>") < text.index("</details>") < text.index("❌ closes the gate")


def test_programs_get_every_change() -> None:
    found = json.loads(to_json(worse()))
    assert (found["open"], found["exitCode"], len(found["changes"])) == (False, 1, 201)
    assert {one["new"] for one in found["changes"]} == {"failed"}


@pytest.mark.parametrize(("after", "tag", "count"), [(Verdict.FAILED, "failure", 1), (Verdict.PASSED, "testcase", 1)])
def test_junit_has_a_case_for_each_reason(after: Verdict, tag: str, count: int) -> None:
    root = ET.fromstring(to_junit(decided(a_run({"gpu-0": Verdict.PASSED}), a_run({"gpu-0": after}))))
    assert (len(root.findall(f".//{tag}")), root.get("tests")) == (count, "1")
    assert len(ET.fromstring(to_junit(worse())).findall(".//failure")) == 201


def test_what_is_not_known_is_an_error_of_junit() -> None:
    root = ET.fromstring(to_junit(decided(a_run({"gpu-0": Verdict.PASSED}), a_run({"gpu-0": Verdict.PASSED}), a_floor(9, most=0))))
    assert (root.get("failures"), bool(root.findall(".//error"))) == ("0", True)
