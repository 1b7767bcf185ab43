"""How many nodes need attention, and a section for each of them: what was found, what passed, what was left out and why."""

import msgspec
import pytest

from conformance.plugin.progress import wrapped
from fixtures.verdict.record import (
    Cause,
    Coverage,
    DeviceClaim,
    FindingCause,
    InventoryRow,
    Level,
    Measure,
    NotJudged,
    PublishedDevice,
    PublishedSlice,
    Remedy,
    Report,
    Result,
    SubjectResult,
    Verdict,
)
from reports.causes import device_count, found_causes, need_words, nodes_in_need
from reports.diff.of_nodes import about_nodes
from reports.formats import html, markdown
from reports.page.nodes import MAX_NODES, Nodes, measured, nodes
from reports.phrases import subject_detail
from reports.terminal.summary import summary
from tests.reports.page_reports import fleet_report
from tests.reports.sample_report import report, result, subject
from tests.tables import each_row

CAUSE = FindingCause(code="Odd", title="A node is odd", remedy=Remedy.LOOK, advice="Look.")


def a_report() -> Report:
    """Four nodes of two pools: gpu-1 fails twice, a pod on gpu-2 warns, gpu-3 is waived, gpu-4 is cordoned."""
    made = report(
        [
            result(
                "FENCE-01",
                Verdict.FAILED,
                [on("gpu-1", Verdict.FAILED, "no taint"), on("gpu-2"), on("gpu-4", Verdict.NOT_APPLICABLE, "cordoned")],
            ),
            result(
                "ADV-01", Verdict.FAILED, [on("gpu-1", Verdict.FAILED, "a device short"), on("gpu-2"), on("gpu-3", Verdict.WAIVED, "known")]
            ),
            result("INV-01", Verdict.PASSED, [on("gpu-1"), on("gpu-2"), on("gpu-3")]),
            result("OPS-04", Verdict.WARNED, [subject("exporter on gpu-2", Verdict.WARNED, kind="Agent", namespace="ops", message="old")]),
        ]
    )
    made.inventory = [
        InventoryRow(node=f"gpu-{at}", product="H100" if at < 3 else "A100", judged=at < 4, capacity={"nvidia.com/gpu": "8"})
        for at in (1, 2, 3, 4)
    ]
    made.causes = [CAUSE]
    return made


def on(node: str, verdict: Verdict = Verdict.PASSED, message: str = "") -> SubjectResult:
    found = subject(node, verdict, kind="Node", message=message)
    found.cause = CAUSE.code if verdict in (Verdict.FAILED, Verdict.WAIVED) else ""
    return found


def test_a_waived_or_cordoned_node_needs_no_attention() -> None:
    made = a_report()
    assert nodes_in_need(made) == {"gpu-1", "gpu-2"}
    assert need_words(made) == "2 of 4 accelerator nodes need attention"
    made.inventory = []
    assert need_words(made) == ""


@pytest.mark.parametrize(
    ("verdict", "blames", "needs"),
    [
        (Verdict.FAILED, True, True),
        (Verdict.WARNED, True, True),
        (Verdict.WAIVED, True, False),
        (Verdict.FAILED, False, False),  # what a tenant's pod does wrong is no fault of its node
        (Verdict.INCONCLUSIVE, False, True),
    ],
)
def test_a_pod_speaks_of_its_node_by_its_cause(verdict: Verdict, blames: bool, needs: bool) -> None:
    made = a_report()
    cause = FindingCause(code="Sick", title="A device is sick", remedy=Remedy.LOOK, advice="Look.", blames_node=blames)
    made.results = [result("ADV-07", verdict, [subject("p", verdict, kind="Pod", namespace="a", node="gpu-3", cause=cause.code)])]
    made.causes = [cause]
    assert nodes_in_need(made) == ({"gpu-3"} if needs else set())
    assert [row.name for row in nodes_of(made).rows] == (["gpu-3"] if needs else [])
    kept = about_nodes(made, ["gpu-3"]).results
    assert bool(kept) is (blames or needs)
    if verdict is Verdict.FAILED:
        made.causes_since, made.run.started_at = {cause.code: "2026-11-01T00:00:00+00:00"}, "2026-11-01T10:00:00+00:00"
        [found] = found_causes(made)
        assert found.where == "On 1 node with 8 devices: A100 (1); by node: gpu-3 (1); in namespace a (1)"
        assert ("80 device-hours" in found.lasted) is blames


def test_a_record_that_does_not_keep_all_says_at_least() -> None:
    made = a_report()
    made.results[0].subjects = [on(f"gpu-{at}", Verdict.FAILED) for at in range(500)]
    made.results[0].subjects_omitted = 100
    assert need_words(made) == "at least 4 of 4 accelerator nodes need attention"
    assert not need_words(fleet_report(1_000, 54)).startswith("at least ")  # only passed subjects are left out


def test_a_node_has_a_section_with_all_that_was_judged_of_it() -> None:
    found = nodes(a_report())
    assert found is not None
    first, second = found.rows
    assert (first.name, ids(first.passed), [one.words for one in first.found]) == ("gpu-1", ["INV-01"], ["no taint", "a device short"])
    assert (second.name, [one.words for one in second.found]) == ("gpu-2", ["Agent ops/exporter on gpu-2: old"])
    assert [(pool.name, pool.nodes, pool.advertised, pool.in_need, pool.not_judged) for pool in found.pools] == [
        ("H100", 2, 16, 16, 0),
        ("A100", 2, 16, 0, 8),
    ]


def test_a_pool_shows_what_is_held_and_what_is_sick() -> None:
    made = a_report()
    made.inventory[0].held, made.inventory[0].sick = 3, 1
    assert [pool.held for pool in nodes_of(made).pools] == [None, None]  # nobody counted those of gpu-2
    made.inventory[1].held, made.inventory[1].sick = 8, 0
    pool, _ = nodes_of(made).pools
    assert (pool.held, pool.sick) == (11, 1)
    assert pool.bars == [(0, 165, "held"), (165, 60, "free"), (225, 15, "failed")]


def test_a_figure_is_beside_the_least_that_it_has_to_be() -> None:
    low = subject("bus bandwidth", Verdict.FAILED, kind="measurement", measure=Measure(value=120, unit="GB/s", least=240))
    alone = subject("bus bandwidth", kind="measurement", namespace="two", measure=Measure(value=60, unit="GB/s"))
    made = report([result("NET-06", Verdict.FAILED, [alone, low])])
    assert [(one.value, one.least, one.width, one.mark) for one in measured(made)] == [
        ("120 GB/s", "240 GB/s", 120, 240),
        ("60 GB/s", "", 60, None),
    ]
    page = html.render(made)
    assert 'id="measured"' in page
    assert "no figure" in page


def ids(results: list[Result] | None) -> list[str]:
    return [one.id for one in results or ()]


def test_a_named_node_has_a_section_without_a_finding_and_says_why_it_is_blank() -> None:
    made = a_report()
    bare = NotJudged(id="HW-01", title="t", area="HW", level=Level.MUST, cause=Cause.ACCESS, because="they need probe pods")
    made.scope = Coverage(requirements=5, judged=4, not_judged=[bare], nodes=["gpu-3", "gpu-4"])
    rows = {row.name: row for row in nodes_of(made).rows}
    assert list(rows) == ["gpu-1", "gpu-2", "gpu-3", "gpu-4"], "those in need first, then those that are named"
    other = "because what they judged names another node or none"
    assert (rows["gpu-1"].named, rows["gpu-1"].blank) == (False, [])
    assert (ids(rows["gpu-3"].passed), [one.words for one in rows["gpu-3"].found]) == (["INV-01"], ["known"])
    assert rows["gpu-3"].blank == [("because they need probe pods", ["HW-01"]), (other, ["FENCE-01", "OPS-04"])]
    assert ([one.words for one in rows["gpu-4"].left_out], rows["gpu-4"].blank[1]) == (
        ["cordoned"],
        (other, ["ADV-01", "INV-01", "OPS-04"]),
    )
    page = html.render(made)
    assert "4 of 5 requirements about gpu-3, gpu-4 judged" in page
    assert "No result for it, because they need probe pods: HW-01." in page
    made.results[2].subjects_omitted = 1
    assert nodes_of(made).rows[2].passed is None
    assert "The record does not keep all that passed." in html.render(made)


@each_row
def test_a_cause_says_where_it_is(pools: dict[str, list[str]], subjects: list[SubjectResult], where: str) -> None:
    made = report([result("REQ-01", Verdict.FAILED, [msgspec.structs.replace(one, cause=CAUSE.code) for one in subjects])])
    made.inventory = [
        InventoryRow(node=node, pool=pool, product=product, capacity={"nvidia.com/gpu": "8"}) for node, (pool, product) in pools.items()
    ]
    made.causes = [CAUSE]
    [odd] = found_causes(made)
    assert odd.where == where


def test_devices_are_counted_by_the_pool_that_a_label_names() -> None:
    made = a_report()
    made.inventory[0].pool = made.inventory[2].pool = "large"
    tainted = [PublishedDevice(name="d", taint="xid=79:NoExecute"), PublishedDevice(name="e")]
    made.inventory[2].slices = [PublishedSlice(name="s", driver="d", pool="p", generation=1, devices=tainted)]
    found = [(pool.name, pool.products, pool.nodes, pool.advertised, pool.sick) for pool in nodes_of(made).pools]
    assert found == [("H100", "", 1, 8, 0), ("large", "H100, A100", 2, 16, 1), ("A100", "", 1, 8, 0)]


def nodes_of(made: Report) -> Nodes:
    found = nodes(made)
    assert found is not None
    return found


def test_what_left_a_node_out_is_said() -> None:
    made = a_report()
    made.results[0].subjects[2].name = "gpu-1"
    found = nodes(made)
    assert found is not None
    assert [one.words for one in found.rows[0].left_out] == ["cordoned"]


def test_a_cause_has_its_subjects_once_and_by_pool_and_namespace() -> None:
    [odd] = [one for one in found_causes(a_report()) if one.cause is not None]
    assert odd.where == "On 1 node with 8 devices: H100 (1)"
    assert sum(len(group.subjects) for group in odd.groups) == 3  # two findings of one node with two messages, and the waived one
    fleet = found_causes(fleet_report(1_000, 54))[0]
    assert max(len(group.subjects) for group in fleet.groups) <= 54


@pytest.mark.parametrize(
    ("capacity", "published", "count"), [({"nvidia.com/gpu": "8"}, 0, 8), ({}, 3, 3), ({"x/y": "many"}, 0, 0), ({"a/b": "4"}, 4, 4)]
)
def test_devices_of_a_node_are_not_counted_twice(capacity: dict[str, str], published: int, count: int) -> None:
    claims = [DeviceClaim(namespace="a", name="b")]
    devices = [PublishedDevice(name=f"d{at}", claims=claims) for at in range(published)]
    row = InventoryRow(node="n", capacity=capacity, slices=[PublishedSlice(name="s", driver="d", pool="p", generation=1, devices=devices)])
    assert device_count(row) == count


def test_every_view_says_how_many_nodes_need_attention() -> None:
    made = a_report()
    words = "2 of 4 accelerator nodes need attention"
    assert words in html.render(made)
    assert words in markdown.render(made)
    assert words in " ".join(summary(made, width=80, colour=False, report_path="").split())


@pytest.mark.parametrize(
    ("named", "words"), [(False, "more nodes need attention;"), (True, "more nodes need attention or are named by --nodes;")]
)
def test_a_page_of_a_thousand_nodes_is_below_two_megabytes(named: bool, words: str) -> None:
    made = fleet_report(1_000, 900)
    if named:
        bare = [
            NotJudged(id=f"HW-{at:02}", title="t", area="HW", level=Level.MUST, cause=Cause.ACCESS, because="they need pods")
            for at in range(99)
        ]
        made.scope = Coverage(requirements=183, judged=84, not_judged=bare, nodes=[row.node for row in made.inventory])
        for one in made.results:
            one.subjects_omitted = 0
    page = html.render(made)
    assert len(page.encode()) < 2_000_000
    assert page.count('<details class="node">') == MAX_NODES
    assert words in page


@each_row
def test_what_was_observed_is_not_said_twice(observed: str, message: str, said: str) -> None:
    assert subject_detail(subject("n", Verdict.FAILED, observed=observed, message=message)) == said


@pytest.mark.parametrize(("width", "lines"), [(200, 1), (80, 3)])
def test_a_title_goes_on_below_itself_and_nothing_is_cut(width: int, lines: int) -> None:
    title = "Nodes of one product run the same driver and programs, and sources agree"
    shown = wrapped(title, 52, width).split("\n")
    assert (len(shown), " ".join(" ".join(shown).split())) == (lines, title)
    assert all(line.startswith(" " * 52) and len(line) <= width for line in shown[1:])
