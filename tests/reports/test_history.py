"""The history of a cluster: since when a cause is there, how often it came back, and what a run does not say of it."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from conformance.cli.main import main
from conformance.delivery.files import copy
from conformance.delivery.outcome import outcome_of
from fixtures.verdict.record import Cause, Coverage, FindingCause, InventoryRow, Level, NotJudged, Remedy, Report, Run, TargetKind, Verdict
from reports.causes import found_causes
from reports.folder import write_all
from reports.formats import html, markdown
from reports.merge import history, history_views
from reports.merge.fleet import Named, merge
from reports.merge.history import Cluster, Entry, clusters, entry_of
from reports.merge.views import read, to_html
from reports.terminal.summary import summary
from tests.reports.sample_report import HOSTILE, result, subject
from tests.reports.test_html import Document
from tests.reports.test_merge import a_run
from tests.tables import each_row

TEXT = " ".join(HOSTILE.values())
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
CAUSE = FindingCause(code="NodeNotFenced", title="A node has no taint", remedy=Remedy.LOOK, advice="Look.")


def on_day(day: int, nodes: list[str] | None, *, name: str = "east", other: bool = True) -> Report:
    """A run whose FENCE-01 fails for the nodes, passes where the list is empty, and was not asked where it is None."""
    made = a_run(name, *([Verdict.PASSED] if other else []), started=f"2026-11-{day:02d}T06:00:00+00:00")
    results = list(made.results)
    if nodes is not None:
        bad = [msgspec.structs.replace(subject(node, Verdict.FAILED), cause=CAUSE.code) for node in nodes]
        results.append(result("FENCE-01", Verdict.FAILED if bad else Verdict.PASSED, bad or [subject("gpu-0")]))
    run = Run(id=f"202611{day:02d}-060000-abcd", started_at=made.run.started_at)
    return msgspec.structs.replace(made, results=results, causes=[CAUSE], run=run, exit_code=int(bool(nodes)))


def cluster_of(*reports: Report) -> Cluster:
    [found] = clusters([entry_of(one) for one in reports])
    return found


@each_row
def test_a_cause_has_an_age_and_comes_back(days: list[list[str] | None], now: bool, since: int, returns: int, signs: str) -> None:
    found = cluster_of(*(on_day(day, nodes) for day, nodes in enumerate(days, start=1)))
    [cause] = found.causes
    assert (cause.now, cause.since.day, cause.returns) == (now, since, returns)
    assert history_views.signs(cause, 20) == signs
    assert {one.name: (one.now, one.since.day) for one in found.nodes if one.name == "gpu-1"} == {"gpu-1": (now, since)}


def test_what_is_so_now_and_longest_comes_first() -> None:
    found = cluster_of(on_day(1, ["gpu-1", "gpu-3"]), on_day(2, ["gpu-1", "gpu-2"]))
    assert [(one.name, one.now) for one in found.nodes] == [("gpu-1", True), ("gpu-2", True), ("gpu-3", False)]


def test_a_jobs_volume_keeps_the_history_of_runs_whose_reports_are_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    volume, source = tmp_path / "volume", tmp_path / "source"
    volume.mkdir()
    for day, nodes in ((1, []), (2, ["gpu-1"]), (3, []), (4, ["gpu-1"])):
        made = on_day(day, nodes)
        write_all(made, source, views=False)
        copy(source, volume, outcome_of(made, made.exit_code), keep=2)
    (volume / history.NAME).open("ab").write(b'{"runId": "cut sho')
    assert len(list(volume.glob("*/report.json"))) == 2
    found = history.read(volume)
    assert [len(one.nodes) for one in found.entries] == [0, 1, 0, 1]
    assert found.problems == [f"{volume / history.NAME}: 1 lines are no runs, and are left out"]
    page = tmp_path / "history.html"
    assert main(["history", str(volume), "--html", str(page)]) == 0
    assert ".x.x" in capsys.readouterr().out
    assert "<td>1</td>" in page.read_text()
    [east] = read([f"east={volume}"], [])
    assert (east.report.run.id, len(east.history)) == ("20261104-060000-abcd", 4)


def test_folders_of_runs_are_read_where_no_job_kept_a_history(tmp_path: Path) -> None:
    for day, nodes in ((2, ["gpu-1"]), (1, [])):
        write_all(on_day(day, nodes), tmp_path / f"202611{day:02d}-060000-abcd", views=False)
    (tmp_path / "latest").symlink_to("20261102-060000-abcd")
    assert [len(one.nodes) for one in history.read(tmp_path).entries] == [0, 1]


@pytest.mark.parametrize(("name", "place"), [("../outside", "outside"), ("..", ".")])
def test_a_line_names_no_file_outside_the_folder(name: str, place: str, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    write_all(on_day(1, []), tmp_path / place, views=False)
    (volume / history.NAME).write_bytes(msgspec.json.encode(msgspec.structs.replace(entry_of(on_day(1, [])), run_id=name)) + b"\n")
    assert list(read([str(volume)], [])) == []


def test_a_folder_without_runs_is_a_mistake(tmp_path: Path) -> None:
    assert main(["history", str(tmp_path)]) == 4
    assert main(["history", str(tmp_path / "none")]) == 4


def test_simulated_runs_are_named_as_such_and_stand_apart() -> None:
    simulated = entry_of(a_run("east", Verdict.PASSED, kind=TargetKind.SIMULATED))
    found = history.Histories([entry_of(on_day(1, [])), simulated], [])
    assert history_views.to_text(found, NOW, 80).count("(SIMULATED)") == 1
    assert "SIMULATED: these are no results of a real cluster" in history_views.to_html(found, NOW)


def test_hostile_names_stay_text() -> None:
    entry = msgspec.structs.replace(entry_of(on_day(1, [TEXT])), cluster=TEXT)
    page = history_views.to_html(history.Histories([entry], [TEXT]), NOW)
    assert "<script" not in page.lower()
    Document(page)
    assert "\x1b" not in history_views.to_text(history.Histories([entry], [TEXT]), NOW, 80)


def test_a_fleet_has_a_time_axis() -> None:
    earlier: tuple[Entry, ...] = tuple(entry_of(on_day(day, ["gpu-1"] if day == 2 else [])) for day in (1, 2))
    fleet = merge([Named(on_day(4, []), history=earlier), Named(on_day(3, ["gpu-9"], name="west"))], now=NOW)
    assert [(one.day[-2:], one.passed, one.not_conformant) for one in fleet.days] == [
        ("01", 1, 0),
        ("02", 0, 1),
        ("03", 0, 2),
        ("04", 1, 1),
    ]
    page = to_html(fleet)
    assert "2026-11-01: 1 of 1 passed; 2026-11-04: 1 of 2 passed" in page
    assert page.count("<rect") == 12


def test_a_history_file_is_private_and_a_run_is_a_line(tmp_path: Path) -> None:
    for day in (1, 2):
        history.append(on_day(day, []), tmp_path)
    file = tmp_path / history.NAME
    assert (file.stat().st_mode & 0o777, [json.loads(line)["exitCode"] for line in file.read_text().splitlines()]) == (0o600, [0, 0])


def test_a_line_that_was_cut_short_costs_no_other(tmp_path: Path) -> None:
    history.append(on_day(1, []), tmp_path)
    with (tmp_path / history.NAME).open("ab") as file:
        file.write(b'{"runId": "cut sho')
    history.append(on_day(2, []), tmp_path)
    assert [entry.run_id for entry in history.read(tmp_path).entries] == ["20261101-060000-abcd", "20261102-060000-abcd"]


def test_a_history_that_is_full_makes_room_and_loses_its_oldest_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = len(msgspec.json.encode(entry_of(on_day(1, [])))) + 1
    monkeypatch.setattr(history, "MAX_BYTES", 3 * one)
    for day in range(1, 8):
        history.append(on_day(day, []), tmp_path)
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 6 * one
    found = history.read(tmp_path)
    assert ([entry.run_id[6:8] for entry in found.entries], found.problems) == (["04", "05", "06", "07"], [])
    assert (tmp_path / history.OLDER).stat().st_mode & 0o777 == 0o600


def test_writers_that_find_a_history_full_at_once_lose_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = [on_day(day, []) for day in range(1, 25)]
    monkeypatch.setattr(history, "MAX_BYTES", 12 * (len(msgspec.json.encode(entry_of(reports[0]))) + 1))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda report: history.append(report, tmp_path), reports))
    found = history.read(tmp_path)
    assert (len(found.entries), found.problems) == (24, [])
    assert (tmp_path / history.OLDER).read_bytes().count(b"\n") == 12


def test_of_a_history_that_is_too_long_the_newest_runs_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for day in range(1, 5):
        history.append(on_day(day, []), tmp_path)
    monkeypatch.setattr(history, "MAX_BYTES", (tmp_path / history.NAME).stat().st_size // 2 + 10)
    found = history.read(tmp_path)
    assert [entry.run_id[6:8] for entry in found.entries] == ["03", "04"]
    assert "its oldest runs are left out" in found.problems[0]


def test_a_cause_costs_all_devices_of_its_nodes_at_most() -> None:
    rows = [InventoryRow(node=f"gpu-{at}", capacity={"nvidia.com/gpu": "8"}) for at in (1, 2, 3)]
    runs = [msgspec.structs.replace(on_day(day, ["gpu-1", "gpu-2"]), inventory=rows) for day in (20, 21)]
    [cause] = cluster_of(*runs).causes
    assert history_views.device_hours(cause, datetime(2026, 11, 22, 6, 0, tzinfo=UTC)) == "768"  # 16 devices for two days
    gone = cluster_of(*runs, msgspec.structs.replace(on_day(22, []), inventory=rows))
    assert history_views.device_hours(gone.causes[0], NOW) == ""


@each_row
def test_a_run_says_since_when_earlier_runs_show_its_causes(
    days: list[list[str] | None], baseline: int, knew: str, about: list[str], since: str, tmp_path: Path
) -> None:
    """``days`` are as above, the last one that of the run; ``baseline`` is the day of the baseline, which itself ``knew`` more."""
    runs = [on_day(day, nodes) for day, nodes in enumerate(days, start=1)]
    *earlier, this = runs
    for one in earlier:
        history.append(one, tmp_path)
    before = msgspec.structs.replace(runs[baseline - 1], causes_since={CAUSE.code: knew} if knew else {}) if baseline else None
    if about:
        bare = NotJudged(id="OPS-01", title="t", area="OPS", level=Level.MUST, cause=Cause.NODES, because="no node")
        this = msgspec.structs.replace(this, scope=Coverage(requirements=2, judged=1, nodes=about, not_judged=[bare]))
    found = history.held_since(this, None if baseline else tmp_path, before)
    assert found == ({CAUSE.code: f"2026-{since}T06:00:00+00:00"} if since else {})


def test_a_cause_keeps_its_age_when_the_file_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_BYTES", 10)  # no file has room for a second run
    for day in (1, 2):
        history.append(on_day(day, ["gpu-1"]), tmp_path)
    assert (tmp_path / history.OLDER).is_file()
    since = {CAUSE.code: "2026-11-01T06:00:00+00:00"}
    assert history.held_since(on_day(3, ["gpu-1"]), tmp_path, None) == since
    (tmp_path / history.OLDER).unlink()
    (tmp_path / history.OLDER).mkdir()
    assert history.held_since(on_day(3, ["gpu-1"]), tmp_path, None) == {CAUSE.code: "2026-11-02T06:00:00+00:00"}, "what can be read counts"


def test_what_is_no_history_or_of_another_cluster_says_nothing(tmp_path: Path) -> None:
    (tmp_path / history.NAME).write_text("no run\n")
    assert history.held_since(on_day(3, ["gpu-1"]), tmp_path, None) == {}
    history.append(on_day(4, ["gpu-1"]), tmp_path)
    assert history.held_since(on_day(3, ["gpu-1"]), tmp_path, None) == {}, "a later run is no earlier one"
    other = on_day(1, ["gpu-1"], name="west")
    other.target = msgspec.structs.replace(other.target, cluster_uid="another")
    assert history.held_since(on_day(3, ["gpu-1"]), None, other) == {}


@pytest.mark.parametrize(("since", "words"), [("", ""), ("soon", ""), ("2026-11-22T06:00:00+00:00", "")])
def test_a_cause_whose_begin_is_not_known_has_no_age(since: str, words: str) -> None:
    made = msgspec.structs.replace(on_day(21, ["gpu-1"]), causes_since={CAUSE.code: since})
    assert found_causes(made)[0].lasted == words


def test_a_cause_says_beside_it_what_it_can_have_cost() -> None:
    made = msgspec.structs.replace(on_day(22, ["gpu-1", "gpu-2"]), causes_since={CAUSE.code: "2026-11-20T06:00:00Z"})
    assert found_causes(made)[0].lasted == "For 2 days, since 2026-11-20 06:00 UTC"
    young = msgspec.structs.replace(made, causes_since={CAUSE.code: "2026-11-22T05:20:00Z"})
    assert found_causes(young)[0].lasted == "For 40 min, since 2026-11-22 05:20 UTC"
    one = msgspec.structs.replace(on_day(22, ["gpu-1"]), inventory=[InventoryRow(node="gpu-1", capacity={"nvidia.com/gpu": "1"})])
    assert found_causes(one)[0].where.startswith("On 1 node with 1 device: ")
    made.inventory = [InventoryRow(node=f"gpu-{at}", capacity={"nvidia.com/gpu": "8"}) for at in (1, 2, 3)]
    words = "For 2 days, since 2026-11-20 06:00 UTC: 768 device-hours at most"
    assert words in summary(made, width=200, colour=False, report_path="r")
    assert words in html.render(made)
    assert words in markdown.render(made).replace("&#58;", ":")


def test_a_run_about_some_nodes_ends_nothing_on_others() -> None:
    found = cluster_of(on_day(1, ["gpu-1", "gpu-2"]), on_day(2, []))
    runs = [found.entries[0], msgspec.structs.replace(found.entries[1], about=["gpu-1"])]
    [one] = clusters(runs)
    assert [(course.name, course.now) for course in (*one.causes, *one.nodes)] == [
        ("NodeNotFenced", True),
        ("gpu-2", True),
        ("gpu-1", False),
    ]


def test_a_page_shows_the_trend_of_nodes_and_causes() -> None:
    entries = [entry_of(on_day(1, ["gpu-1", "gpu-2"])), entry_of(on_day(2, ["gpu-1"])), entry_of(on_day(3, []))]
    entries.append(msgspec.structs.replace(entry_of(on_day(4, ["gpu-1"])), about=["gpu-1"]))
    [cluster] = clusters(entries)
    assert [(one.name, one.counts) for one in history_views.trends(cluster)] == [
        ("nodes that need attention", [2, 1, 0, None]),
        ("causes: failed", [1, 1, 0, None]),
    ]
    page = history_views.to_html(history.Histories(entries, []), NOW)
    assert '<td class="n">0</td><td class="n">2</td>' in page


def test_a_history_is_as_wide_as_the_option_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history.append(on_day(1, [f"{'gpu-of-a-long-name-' * 5}{at}" for at in range(3)]), tmp_path)
    shown = {}
    for columns in ("80", "200"):
        assert main(["history", str(tmp_path), "--columns", columns]) == 0
        shown[columns] = max(map(len, capsys.readouterr().out.splitlines()))
    assert shown["80"] <= 80 < shown["200"] <= 200
    with pytest.raises(SystemExit, match="4"):
        main(["history", str(tmp_path), "--columns", "wide"])


def test_the_tables_fit_eighty_columns() -> None:
    found = history.Histories([entry_of(on_day(day, [f"gpu-pool-1-{day:04d}.example.internal"])) for day in range(1, 20)], [])
    assert max(map(len, history_views.to_text(found, NOW, 80).splitlines())) <= 80
