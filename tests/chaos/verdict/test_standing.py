"""What of the GPU stack is not as before: which fields count, whose doing it is, and what the verdict says."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chaos.verdict.artefacts import StandingRecord
from fixtures.model.standing import Difference, differences, read_standing
from fixtures.verdict.record import Verdict
from tests.chaos.verdict.test_verdict import judged, message_of, put, verdict_of
from tests.tables import each_row, tables_of

SINCE = datetime(2026, 11, 29, 9, 30, tzinfo=UTC).timestamp()
"""Between the two writes of the table."""


class Lists:
    """Objects of one moment."""

    resources: frozenset[str] | None = None

    def __init__(self, key: str, *items: Any) -> None:
        self.serves: Callable[[str], bool] = lambda served: served == key
        self._items = [item for item in items if item]

    def select(self, key: str, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Any]:
        return self._items


@each_row
def test_only_what_the_platform_left_differs(row: dict[str, Any]) -> None:
    before, after = (read_standing(Lists(row["key"], row.get(when)), {"gpu-operator"}) for when in ("before", "after"))
    found = differences(before, after, SINCE)
    assert sorted(one.field for one in found) == sorted(row.get("differ", []))
    assert {one.by for one in found} <= {row.get("theirs", "")}


def test_what_follows_from_a_persons_write_is_theirs() -> None:
    def pod(image: str) -> Any:
        meta = {"name": "d-1", "namespace": "gpu-operator", "ownerReferences": [{"kind": "DaemonSet", "name": "d"}]}
        return {"metadata": meta, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": image}]}}

    rows = tables_of(Path(__file__).with_suffix(".yaml"))["test_only_what_the_platform_left_differs"]["row"]
    row = rows["an image that a person changed"]
    read = [
        read_standing(Lists("apps/daemonsets", row[when]), {"gpu-operator"}).objects
        | read_standing(Lists("pods", pod(image)), {"gpu-operator"}).objects
        for when, image in (("before", "a:1"), ("after", "a:2"))
    ]
    before, after = (read_standing(Lists("none"), ()) for _ in read)
    before.objects, after.objects = read
    assert [one.by for one in differences(before, after, SINCE)] == ["kubectl-set", "kubectl-set"]


def test_a_fault_of_one_agents_pod_replaces_no_other_agent_of_its_node() -> None:
    def pods(uid: str) -> Any:
        owner = {"kind": "DaemonSet", "name": "driver"}
        meta = {"name": f"driver-{uid}", "namespace": "gpu-operator", "uid": uid, "ownerReferences": [owner]}
        return read_standing(Lists("pods", {"metadata": meta, "spec": {"nodeName": "n"}}), {"gpu-operator"})

    for replaced, found in ((None, []), ({"gpu-operator/driver"}, []), ({"gpu-operator/nfd-worker"}, ["metadata.uid"])):
        assert [one.field for one in differences(pods("a"), pods("b"), SINCE, ("n",), replaced)] == found


def test_the_verdict_names_object_field_before_and_after(tmp_path: Path) -> None:
    left = Difference(subject="nodes n1", field="metadata.labels.a", before=None, after="b")
    found = judged(tmp_path, put("standing", StandingRecord(objects=3, differences=(left,))))
    assert (found.verdict, found.reason_codes) == (Verdict.FAILED, ["NotAsBefore"])
    assert message_of(found, "standing nodes n1") == "metadata.labels.a was absent and is b"


def test_what_somebody_else_wrote_is_no_failure(tmp_path: Path) -> None:
    theirs = Difference(subject="nodes n1", field="metadata.labels.a", after="b", by="kubectl-label")
    found = judged(tmp_path, put("standing", StandingRecord(objects=3, differences=(theirs,))))
    assert found.verdict is Verdict.PASSED
    assert verdict_of(found, "standing nodes n1") is Verdict.NOT_APPLICABLE


def test_a_kind_that_can_no_longer_be_read_is_undecided(tmp_path: Path) -> None:
    found = judged(tmp_path, put("standing", StandingRecord(objects=3, unread={"nodes": "403"})))
    assert found.verdict is Verdict.INCONCLUSIVE


def test_values_of_variables_are_not_shown() -> None:
    assert "hunter2" not in str(Difference(subject="apps/daemonsets d", field="spec.c.env.KEY.value", before="hunter2", after="x"))
