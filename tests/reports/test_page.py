"""Causes and the matrix of nodes, as the HTML page computes them."""

from fixtures.verdict.findings import MAX_OTHERS_KEPT
from fixtures.verdict.record import ComparedChange, Comparison, InventoryRow, Report, Verdict
from reports.causes import UNKNOWN_POOL, in_short, subject_groups
from reports.page.matrix import MAX_ROWS, matrix
from reports.page.rows import buckets
from tests.reports.page_reports import fleet_report
from tests.reports.sample_report import report, result, subject


def test_subjects_with_the_same_texts_are_one_cause_and_others_are_not() -> None:
    found = subject_groups(
        [
            subject("gpu-0001", observed="none", message="gpu-0001 is bare"),
            subject("gpu-0002", Verdict.FAILED, observed="none", message="gpu-0002 is bare"),
            subject("gpu-0003", Verdict.FAILED, observed="none", message="gpu-0003 is bare"),
            subject("gpu-0004", Verdict.FAILED, observed="soft", message="gpu-0004 is bare"),
            subject("gpu-0005", Verdict.FAILED, observed="none", message="gpu-0005 is bare", kind="pool"),
        ]
    )
    assert [[one.name for one in cause.subjects] for cause in found] == [["gpu-0002", "gpu-0003"], ["gpu-0004"], ["gpu-0005"], ["gpu-0001"]]
    assert [cause.message for cause in found] == ["… is bare", "gpu-0004 is bare", "gpu-0005 is bare", "gpu-0001 is bare"]


def test_in_short_the_message_alone_tells_causes_apart() -> None:
    made = [subject(f"node-{i}", Verdict.FAILED, observed=str(i), message="another driver") for i in range(3)]
    [one] = in_short(subject_groups(made))
    assert [member.name for member in one.subjects] == ["node-0", "node-1", "node-2"]


def a_cluster(nodes: int, failing: int) -> Report:
    names = [f"n{i:04}" for i in range(nodes)]
    subjects = [subject(name, Verdict.FAILED if i < failing else Verdict.PASSED, kind="Node") for i, name in enumerate(names)]
    made = report(
        [result("ADV-01", Verdict.FAILED, subjects), result("ADV-02", Verdict.PASSED, [subject(name, kind="Node") for name in names])]
    )
    made.inventory = [InventoryRow(node=name, product="A" if i % 2 else "B") for i, name in enumerate(names)]
    return made


def test_few_nodes_have_a_row_each_by_pool_and_worst_first() -> None:
    found = matrix(a_cluster(4, 1))
    assert found
    assert [one.id for one in found.columns] == ["ADV-01"]
    assert [one.id for one in found.good] == ["ADV-02"]
    assert [(row.pool, row.nodes, row.cells) for row in found.rows] == [
        ("A", ["n0001"], [Verdict.PASSED]),
        ("A", ["n0003"], [Verdict.PASSED]),
        ("B", ["n0000"], [Verdict.FAILED]),
        ("B", ["n0002"], [Verdict.PASSED]),
    ]


def test_many_nodes_that_show_the_same_share_a_row() -> None:
    found = matrix(a_cluster(1_000, 211))
    assert found
    assert found.grouped
    assert {(row.pool, len(row.nodes), row.cells[0]) for row in found.rows} == {
        ("A", 105, Verdict.FAILED),
        ("B", 106, Verdict.FAILED),
        ("A", 395, Verdict.PASSED),
        ("B", 394, Verdict.PASSED),
    }


def test_nodes_that_the_record_does_not_keep_are_not_shown_as_good_where_too_many_failed() -> None:
    made = a_cluster(1_000, 700)
    first = made.results[0]
    failed = [one for one in first.subjects if one.verdict is Verdict.FAILED]
    first.subjects = failed[:MAX_OTHERS_KEPT] + [one for one in first.subjects if one.verdict is Verdict.PASSED][:100]
    first.subjects_omitted = 400
    found = matrix(made)
    assert found
    assert {(row.cells[0], len(row.nodes)) for row in found.rows} == {(Verdict.FAILED, 250), (Verdict.PASSED, 50), (None, 200)}


def test_every_node_of_a_fleet_is_in_a_row_or_counted() -> None:
    found = matrix(fleet_report())
    assert found
    assert len(found.rows) <= MAX_ROWS
    assert found.partial
    listed = sum(len(row.nodes) for row in found.rows)
    assert listed == 1_000 if not found.more_rows else listed < 1_000


def test_parts_of_nodes_agents_and_unknown_nodes_count_for_their_node() -> None:
    made = report(
        [
            result(
                "ADV-01",
                Verdict.FAILED,
                [
                    subject("n1 nvidia.com/gpu", kind="Node"),
                    subject("n1 nvidia.com/mig", Verdict.FAILED, kind="Node"),
                    subject("exporter on n2", Verdict.INCONCLUSIVE, kind="Agent"),
                    subject("team-a", Verdict.FAILED, kind="Namespace"),
                ],
            )
        ]
    )
    made.inventory = []
    found = matrix(made)
    assert found
    assert [(row.pool, row.nodes, row.cells) for row in found.rows] == [
        (UNKNOWN_POOL, ["n1"], [Verdict.FAILED]),
        (UNKNOWN_POOL, ["n2"], [Verdict.INCONCLUSIVE]),
    ]


def changed(bucket: str, about: str, message: str = "") -> ComparedChange:
    return ComparedChange(bucket=bucket, requirement="FENCE-01", subject=about, message=message)


def test_subjects_with_the_same_change_stand_together() -> None:
    changes = [changed("new failure", f"Node gpu-{i:03}", f"gpu-{i:03} has no taint") for i in range(100)]
    changes += [
        changed("new failure", "Node gpu-999", "soft taint"),
        changed("new failure", "", "in all"),
        changed("fixed", "Node gpu-500"),
    ]
    found = buckets(Comparison(run="r", started_at="s", counts={"new failure": 102, "fixed": 9}, changes=changes))
    assert [(one.name, one.count, one.more, one.is_open) for one in found] == [("new failure", 102, 0, True), ("fixed", 9, 8, True)]
    assert [(len(group.subjects), group.message) for group in found[0].groups] == [
        (100, "… has no taint"),
        (1, "soft taint"),
        (0, "in all"),
    ]
    assert buckets(None) == []
