"""One report of many clusters: worst first, real and simulated apart, whatever the reports say."""

import html
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.cli.main import main
from fixtures.verdict.coverage import Asked, measure
from fixtures.verdict.record import Level, Report, Run, Target, TargetKind, Verdict, encode
from reports.merge.fleet import MAX_AREAS, Fleet, Named, code, merge
from reports.merge.views import MAX_MARKDOWN_SCOPES, sentence, to_html, to_json, to_markdown
from tests.reports.chaos_samples import chaos, experiment
from tests.reports.sample_report import HOSTILE, report, result, sample_report, subject
from tests.reports.test_html import Document
from tests.tables import each_row

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def asked(*ids: str) -> list[Asked]:
    return [Asked(id=id_, title="t", area=id_.partition("-")[0], level=Level.MUST) for id_ in ids]


def a_run(name: str, *verdicts: Verdict, kind: TargetKind = TargetKind.LIVE, exit_code: int | None = None, started: str = "") -> Report:
    """A run on a cluster of its own whose requirements FENCE-01, INV-02, FENCE-03, … have the verdicts."""
    areas = ("FENCE", "INV", "NET")
    held = [result(f"{areas[at % 3]}-{at:02d}", verdict, [subject("gpu-0", verdict)]) for at, verdict in enumerate(verdicts)]
    worst = Verdict.FAILED if Verdict.FAILED in verdicts else Verdict.PASSED
    made = report(held, kind=kind, verdict=worst, exit_code=int(worst is Verdict.FAILED) if exit_code is None else exit_code)
    made.scope = measure(asked(*(one.id for one in held)), held, {})
    target = Target(kind=kind, context=name, cluster_uid=f"uid-{name}", kubernetes_version="v1.36.2", scenario=made.target.scenario)
    return msgspec.structs.replace(made, target=target, run=Run(id=f"run-{name}", started_at=started or "2026-11-22T10:00:00Z"))


def fleet_of(*reports: Report, max_age: timedelta | None = None) -> Fleet:
    return merge([Named(one) for one in reports], now=NOW, max_age=max_age)


def test_the_worst_cluster_comes_first() -> None:
    fleet = fleet_of(
        a_run("good", Verdict.PASSED),
        a_run("unsure", Verdict.INCONCLUSIVE, exit_code=10),
        a_run("bad", Verdict.FAILED),
        a_run("worse", Verdict.FAILED, Verdict.FAILED),
        a_run("left", Verdict.PASSED, exit_code=11),
    )
    assert [one.name for one in fleet.clusters] == ["worse", "bad", "left", "unsure", "good"]


def test_what_fails_in_most_clusters_is_reported_once() -> None:
    fleet = fleet_of(a_run("a", Verdict.FAILED, Verdict.FAILED), a_run("b", Verdict.PASSED, Verdict.FAILED), a_run("c", Verdict.PASSED))
    assert [(one.id, one.clusters, one.names) for one in fleet.failing] == [("INV-01", 2, ["a", "b"]), ("FENCE-00", 1, ["a"])]


@pytest.mark.parametrize("kind", [TargetKind.SIMULATED, TargetKind.LOCAL])
def test_a_simulated_cluster_is_never_shown_as_a_real_one(kind: TargetKind) -> None:
    fleet = merge([Named(a_run("real", Verdict.PASSED)), Named(a_run("sim", Verdict.FAILED, kind=kind), "production")], now=NOW)
    assert [one.name for one in fleet.clusters] == ["real"]
    assert [one.name for one in fleet.simulated_clusters] == ["production"]
    assert sentence(fleet) == "1 cluster: 1 passed, 0 not conformant, 0 others; 1 simulated, not counted"
    assert fleet.failing == []
    assert code(fleet) == 10
    page, text = to_html(fleet), to_markdown(fleet)
    assert page.index("SIMULATED CLUSTERS: the rows below") < page.index("production")
    assert '<span class="b warned">simulated</span> <a href="#simulated-1">production' in page
    assert "production (simulated)" in text
    assert json.loads(to_json(fleet))["simulatedClusters"][0]["simulated"] is True


def test_a_cell_counts_each_verdict_under_its_own_sign() -> None:
    """One failure and two requirements that nobody could judge are not three failures."""
    verdicts = (Verdict.FAILED, Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE)
    made = a_run("a", *verdicts)
    for id_, one in zip(("NET-01", "NET-02", "NET-03"), made.results, strict=True):
        one.id, one.area = id_, "NET"
    fleet = fleet_of(made)
    row = next(line for line in to_markdown(fleet).splitlines() if line.startswith("| a |"))
    assert row.endswith("| ✗ 1 ? 2 |")
    page = html.unescape(to_html(fleet))
    assert ("✗ 1" in page, "? 2" in page, "✗ 3" in page) == (True, True, False)


def test_of_two_runs_on_one_cluster_the_later_counts() -> None:
    fleet = fleet_of(a_run("a", Verdict.PASSED, started="2026-11-21T10:00:00Z"), a_run("a", Verdict.FAILED, started="2026-11-22T10:00:00Z"))
    assert [one.exit_code for one in fleet.clusters] == [1]
    assert fleet.notes == ["run run-a of a is left out: run run-a judged the same cluster later"]


@pytest.mark.parametrize("started", ["2030-01-01T00:00:00Z", "yesterday"])
def test_a_run_of_no_known_time_replaces_none_and_is_not_replaced_if_it_is_not_good(started: str) -> None:
    def odd(verdict: Verdict) -> Report:
        made = a_run("a", verdict, started=started)
        return msgspec.structs.replace(made, run=Run(id="run-odd", started_at=started))

    good = fleet_of(odd(Verdict.PASSED), a_run("a", Verdict.FAILED))
    assert ([one.run_id for one in good.clusters], code(good)) == (["run-a"], 1)
    bad = fleet_of(odd(Verdict.FAILED), a_run("a", Verdict.PASSED))
    assert ([one.run_id for one in bad.clusters], code(bad)) == (["run-odd", "run-a"], 1)


@each_row
def test_an_old_run_is_stale_and_no_pass(started: str, stale: bool) -> None:
    fleet = fleet_of(a_run("a", Verdict.PASSED, started=started), max_age=timedelta(hours=26))
    assert fleet.clusters[0].stale is stale
    assert code(fleet) == (10 if stale else 0)


def selected(name: str, verdict: Verdict = Verdict.PASSED, *, exit_code: int | None = None, started: str = "") -> Report:
    """A run of ``--only FENCE``."""
    made = a_run(name, verdict, exit_code=exit_code, started=started)
    made.scope = measure(asked("FENCE-00", "NET-01"), made.results, {"NET-01": "--only FENCE"})
    made.run.id += "-part"
    return made


def experiments_alone(name: str, verdict: Verdict = Verdict.PASSED, *, started: str = "") -> Named:
    """A run of ``pytest chaos``: its report has neither results nor a scope."""
    made = a_run(name, exit_code=int(verdict is Verdict.FAILED), started=started)
    made.scope, made.verdict = None, verdict
    made.run.id += "-chaos"
    held = chaos(experiment(verdict), kind=TargetKind.LIVE)
    return Named(made, chaos=msgspec.structs.replace(held, run=made.run, verdict=verdict))


EARLIER, LATER = "2026-11-21T10:00:00Z", "2026-11-22T10:00:00Z"


def changed(mark: str, exit_code: int = 0, **fields: Any) -> Named:
    """A later run on cluster a that passed, with other fields."""
    made = a_run("a", Verdict.PASSED, exit_code=exit_code, started=LATER)
    made.run.id += mark
    return Named(msgspec.structs.replace(made, **fields))


PARTS = {
    "a selection": Named(selected("a", started=LATER)),
    "experiments": experiments_alone("a", started=LATER),
    "a run that was cut short": changed("-cut", 2, scope=measure(asked("FENCE-00", "NET-01"), a_run("a", Verdict.PASSED).results, {})),
    "a run that ended at another cluster": changed("-two", 10, verdict=Verdict.INCONCLUSIVE, other_cluster_uid="other"),
    "a record that does not say what it left out": changed("-old", scope=None),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_later_run_of_a_part_takes_back_no_failure(part: Named) -> None:
    red = Named(a_run("a", Verdict.FAILED, Verdict.PASSED, started=EARLIER))
    for order in ([red, part], [part, red]):
        fleet = merge(order, now=NOW)
        assert fleet.clusters[0].verdict is Verdict.FAILED
        assert [one.id for one in fleet.failing] == ["FENCE-00"]
        assert code(fleet) == 1
        assert sentence(fleet).startswith("1 cluster: 0 passed, 1 not conformant, 0 others")


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_cluster_that_no_run_judged_as_a_whole_passes_no_gate(part: Named) -> None:
    fleet = merge([part, Named(a_run("b", Verdict.PASSED))], now=NOW)
    assert code(fleet) in (2, 10)
    assert sentence(fleet).startswith("2 clusters: 1 passed")


def test_a_run_of_experiments_alone_never_says_conformant() -> None:
    for one in (experiments_alone("a"), msgspec.structs.replace(experiments_alone("a"), chaos=None)):
        fleet = merge([one], now=NOW)
        assert fleet.clusters[0].headline == ("Experiments passed" if one.chaos else "Nothing judged")
        assert "onformant:" not in to_markdown(fleet)
        assert ">Conformant" not in to_html(fleet)


def test_the_words_for_experiments_come_from_the_record_beside_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = experiments_alone("a")
    assert one.chaos is not None
    (tmp_path / "report.json").write_bytes(encode(one.report))
    (tmp_path / "chaos.json").write_bytes(encode(one.chaos))
    for argument in (tmp_path, tmp_path / "report.json"):
        assert main(["merge", str(argument), "--into", str(tmp_path / "fleet"), "--gate"]) == 10
        assert json.loads((tmp_path / "fleet" / "fleet.json").read_text())["clusters"][0]["headline"] == "Experiments passed"
    (tmp_path / "chaos.json").write_text("[")
    assert main(["merge", str(tmp_path), "--into", str(tmp_path / "fleet"), "--gate"]) == 10
    assert json.loads((tmp_path / "fleet" / "fleet.json").read_text())["clusters"][0]["headline"] == "Nothing judged"


def test_a_run_of_the_whole_and_good_parts_after_it_are_one_cluster_that_passed() -> None:
    fleet = merge([Named(a_run("a", Verdict.PASSED, started=EARLIER)), PARTS["a selection"], PARTS["experiments"]], now=NOW)
    assert [one.run_id for one in fleet.clusters] == ["run-a"]
    assert sentence(fleet) == "1 cluster: 1 passed, 0 not conformant, 0 others"
    assert fleet.notes == [f"run run-a-{part} of a is left out: it judged a part, of which nothing is bad" for part in ("part", "chaos")]
    assert code(fleet) == 0


def test_a_later_run_of_the_whole_replaces_a_part_that_failed() -> None:
    bad = Named(selected("a", Verdict.FAILED, started=EARLIER))
    fleet = merge([bad, Named(a_run("a", Verdict.PASSED, Verdict.PASSED, started=LATER))], now=NOW)
    assert [one.run_id for one in fleet.clusters] == ["run-a"]
    assert code(fleet) == 0


def test_every_view_of_a_fleet_says_how_much_was_judged() -> None:
    fleet = fleet_of(a_run("whole", Verdict.PASSED), selected("part"))
    words = "within the selection: 1 of 2 requirements judged; not judged: 1 (NET-01), left out by --only FENCE"
    assert words in html.unescape(to_markdown(fleet))
    assert words in html.unescape(to_html(fleet))
    assert words in to_json(fleet).decode()


def test_what_is_reported_of_many_clusters_in_markdown_is_bounded() -> None:
    runs = [selected(f"c{at:03}") for at in range(MAX_MARKDOWN_SCOPES + 5)]
    for one in runs:
        assert one.scope is not None
        one.scope.sentence = "_because_ " * 1000
    text = to_markdown(fleet_of(*runs))
    assert "- and 5 more clusters; see the full report." in text
    assert len(text.encode()) < 64_000


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_forms_no_markup(text: str) -> None:
    hostile = a_run(text, Verdict.FAILED)
    hostile.results[0] = msgspec.structs.replace(hostile.results[0], id=text, title=text, area=text, message=text)
    hostile.target.server = hostile.target.kubernetes_version = hostile.target.cluster_uid = hostile.run.id = text
    fleet = merge([Named(hostile), Named(hostile, text)], unreadable=[text], now=NOW)
    elements = Document(to_html(fleet)).elements
    assert not {"script", "img", "svg", "iframe", "link"} & {tag for tag, _ in elements}
    assert not [name for _, attributes in elements for name in attributes if name.startswith("on")]
    assert to_html(fleet).count("<style>") == 1
    assert not re.search(r"<script|<img|<svg|\x1b|\u202e|\]\(", to_markdown(fleet))
    assert json.loads(to_json(fleet))["schemaVersion"] == "1.0"


def test_a_report_with_a_thousand_areas_keeps_the_grid_narrow() -> None:
    wide = report([result(f"A{at}-01", Verdict.PASSED) for at in range(1000)])
    fleet = fleet_of(wide)
    assert len(fleet.areas) == MAX_AREAS
    assert fleet.notes == [f"{1000 - MAX_AREAS} of 1000 areas are not shown"]


def test_two_hundred_reports_make_one_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for at in range(200):
        made = sample_report(TargetKind.LIVE if at % 4 else TargetKind.SIMULATED)
        made.target.context, made.target.cluster_uid, made.run.id = f"cluster-{at:03d}", f"uid-{at}", f"run-{at}"
        if at % 3 == 0:
            made.results, made.exit_code, made.verdict = [one for one in made.results if one.verdict is Verdict.PASSED], 0, Verdict.PASSED
        made.scope = measure(asked(*(one.id for one in made.results)), made.results, {})
        (tmp_path / f"{at}").mkdir()
        (tmp_path / f"{at}" / "report.json").write_bytes(encode(made))
    assert main(["merge", *(str(tmp_path / f"{at}") for at in range(200)), "--into", str(tmp_path / "fleet")]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "150 clusters: 50 passed, 100 not conformant, 0 others; 50 simulated, not counted"
    fleet = json.loads((tmp_path / "fleet" / "fleet.json").read_text())
    codes = [one["exitCode"] for one in fleet["clusters"]]
    assert codes == [1] * 100 + [0] * 50
    assert (tmp_path / "fleet" / "fleet.html").stat().st_size < 2_000_000
    assert len((tmp_path / "fleet" / "fleet.md").read_bytes()) < 64_000


def test_one_broken_report_costs_nobody_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, broken = tmp_path / "a=b.json", tmp_path / "broken.json"
    good.write_bytes(encode(a_run("a", Verdict.PASSED)))
    broken.write_text("[" * 100_000)
    arguments = ["merge", str(good), f"east={good}", str(broken), str(tmp_path / "gone"), "--into", str(tmp_path / "fleet")]
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "1 cluster: 1 passed" in shown
    assert "2 reports could not be read" in shown
    assert "broken.json: not a report.json" in shown
    assert main([*arguments, "--gate"]) == 10


@each_row
def test_a_mistake_is_reported_in_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        ended = main(["merge", *arguments])
    except SystemExit as error:
        ended = int(str(error.code))
    assert ended == 4
    shown = capsys.readouterr().err
    assert words in shown
    assert shown.count("\n") == 1


def test_the_level_of_a_failure_decides_between_two_bad_clusters() -> None:
    should = a_run("should", Verdict.FAILED, Verdict.FAILED)
    for one in should.results:
        one.level = Level.SHOULD
    assert [one.name for one in fleet_of(should, a_run("must", Verdict.FAILED)).clusters] == ["must", "should"]
