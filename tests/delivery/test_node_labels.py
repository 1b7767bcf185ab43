"""The verdict on each node: what the labels may say, about which cluster, and until when."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.cli import job
from conformance.delivery.node_labels import (
    LABEL,
    UNTIL,
    Change,
    NodeVerdict,
    NotPublished,
    Statement,
    apply,
    changes,
    check,
    expired,
    of_other_machines,
    out_of_work,
    read_nodes,
    state,
    statements,
    until,
    verdicts,
    withdrawn,
)
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json
from fixtures.model.nodes.health import CONFORMANT
from fixtures.simulator.config.scenario import load_scenario
from fixtures.verdict.record import (
    AreaCoverage,
    Cause,
    Coverage,
    FindingCause,
    InventoryRow,
    Level,
    NotJudged,
    Remedy,
    Report,
    Result,
    SubjectResult,
    Target,
    TargetKind,
    Verdict,
    encode,
)
from tests.endtoend.runs import run_for_record
from tests.hostile.faults import effects
from tests.hostile.faults.effects import Effect
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.judging import judge
from tests.reports.sample_report import report, result, subject
from tests.requirements_offline import healthy, policy_over, snapshot_of
from tests.served import served
from tests.tables import each_row

NOW = 1_800_000_000
STARTED = "2026-11-20T10:00:00Z"


def a_report(*results: Result, exit_code: int = 0, nodes: tuple[str, ...] = ("gpu-0", "gpu-1"), **fields: Any) -> Report:
    made = report(list(results), exit_code=exit_code)
    return msgspec.structs.replace(made, inventory=[InventoryRow(node=name) for name in nodes], **fields)


def on(node: str, verdict: Verdict = Verdict.PASSED, kind: str = "Node") -> SubjectResult:
    return subject(node, verdict, kind=kind)


GOOD = result("FENCE-01", Verdict.PASSED, [on("gpu-0"), on("gpu-1")])


def test_a_failure_of_a_part_of_a_node_is_the_node_s() -> None:
    bad = result("ADV-01", Verdict.FAILED, [on("gpu-0 nvidia.com/gpu", Verdict.FAILED), on("gpu-1")])
    assert verdicts(a_report(GOOD, bad, exit_code=1)) == {"gpu-0": NodeVerdict.FAILED, "gpu-1": NodeVerdict.PASSED}


@each_row
def test_what_a_subject_says_of_its_node(subject_: dict[str, Any], level: Level, expected: NodeVerdict) -> None:
    made = on(**subject_)
    other = result("OPS-01", made.verdict, [made], level=level)
    assert verdicts(a_report(GOOD, other, exit_code=1))["gpu-0"] is expected


UNSURE_POD = SubjectResult(kind="Pod", namespace="team-a", name="train-0", verdict=Verdict.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("pods", "code", "expected"),
    [
        ([msgspec.structs.replace(UNSURE_POD, node="gpu-0")], "Undecided", {"gpu-0": "unknown", "gpu-1": "passed"}),
        ([msgspec.structs.replace(UNSURE_POD, node="gpu-0"), UNSURE_POD], "Undecided", {"gpu-0": "unknown", "gpu-1": "passed"}),
        ([msgspec.structs.replace(UNSURE_POD, kind="Resource")], "Undecided", {"gpu-0": "passed", "gpu-1": "passed"}),
        ([msgspec.structs.replace(UNSURE_POD, kind="Request")], "Undecided", {"gpu-0": "unknown", "gpu-1": "unknown"}),
        ([msgspec.structs.replace(UNSURE_POD, node="gpu-0")], "Forbidden", {"gpu-0": "unknown", "gpu-1": "unknown"}),
        ([msgspec.structs.replace(UNSURE_POD, node="gpu-0")] * 500, "Undecided", {"gpu-0": "unknown", "gpu-1": "unknown"}),
    ],
)
def test_a_pod_that_could_not_be_judged_costs_its_own_node_only(pods: list[SubjectResult], code: str, expected: dict[str, str]) -> None:
    unsure = result("FENCE-02", Verdict.INCONCLUSIVE, pods, reason_code=code)
    assert verdicts(a_report(GOOD, unsure, exit_code=10)) == expected


@pytest.mark.parametrize(("blames", "expected"), [(True, "unknown"), (False, "passed")])
def test_a_fault_that_a_pod_alone_shows_holds_its_node_back_and_fails_none(blames: bool, expected: str) -> None:
    pod = msgspec.structs.replace(UNSURE_POD, verdict=Verdict.FAILED, node="gpu-0", cause="Odd")
    made = a_report(GOOD, result("REQ-13", Verdict.FAILED, [pod]), exit_code=1)
    made.causes = [FindingCause(code="Odd", title="Odd", remedy=Remedy.LOOK, advice="Look.", blames_node=blames)]
    assert verdicts(made) == {"gpu-0": expected, "gpu-1": "passed"}


@pytest.mark.parametrize("amount", ["nvidia.com/gpumem", "nvidia.com/priority", "amd.com/gpu", "koordinator.sh/gpu-core"])
def test_one_tenants_odd_pod_leaves_the_other_nodes_their_verdict(amount: str) -> None:
    """A pod that names its node and asks for what only another cluster's scheduler counts."""
    scenario = load_scenario("healthy")
    limits = {"requests": {amount: "1"}, "limits": {amount: "1"}}
    tolerates = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    spec = {"nodeName": "h100-0", "containers": [{"name": "main", "image": "x.io/a:1", "resources": limits}], "tolerations": tolerates}
    odd = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd", "namespace": "team-vision"}, "spec": spec}
    snapshot = snapshot_of([*healthy(scenario), {**odd, "status": {"phase": "Running"}}], scenario.kubernetes_version)
    results = judge(
        snapshot, policy_over(snapshot, scenario.policy), ("FENCE-01", "FENCE-02", "REQ-03", "REQ-05", "ADV-01"), may_probe=True
    )
    code = 1 if any(one.verdict is Verdict.FAILED for one in results.values()) else 10
    made = verdicts(a_report(*results.values(), exit_code=code, nodes=("h100-0", "h100-1", "h100-2")))
    assert (made["h100-1"], made["h100-2"]) == (NodeVerdict.PASSED, NodeVerdict.PASSED)


def test_a_selection_passes_no_node_and_may_fail_one() -> None:
    left = NotJudged(id="INV-01", title="x", area="INV", level=Level.MUST, cause=Cause.SELECTION, because="left out by --only")
    scope = Coverage(requirements=2, judged=1, areas=[AreaCoverage(area="INV", requirements=1, judged=0)], not_judged=[left])
    bad = result("ADV-01", Verdict.FAILED, [on("gpu-1", Verdict.FAILED)])
    assert verdicts(a_report(GOOD, bad, exit_code=1, scope=scope)) == {"gpu-0": NodeVerdict.UNKNOWN, "gpu-1": NodeVerdict.FAILED}


def whole_but(**fields: Any) -> Coverage:
    return Coverage(requirements=2, judged=2, areas=[AreaCoverage(area="INV", requirements=2, judged=2)], not_judged=[], **fields)


def test_a_failure_elsewhere_passes_no_node_of_a_run_that_did_not_judge_what_it_had_to() -> None:
    bad = result("ADV-01", Verdict.FAILED, [on("gpu-1", Verdict.FAILED)])
    whole = a_report(GOOD, bad, exit_code=1, scope=whole_but())
    assert verdicts(whole) == {"gpu-0": NodeVerdict.PASSED, "gpu-1": NodeVerdict.FAILED}
    short = a_report(GOOD, bad, exit_code=1, scope=whole_but(shortfalls=["the run ended before it had judged ISO-01"]))
    assert verdicts(short) == {"gpu-0": NodeVerdict.UNKNOWN, "gpu-1": NodeVerdict.FAILED}


@pytest.mark.parametrize("level", [Level.MUST, Level.SHOULD])
def test_a_failure_elsewhere_passes_no_node_where_a_must_is_undecided_that_names_none(level: Level) -> None:
    bad = result("ADV-01", Verdict.FAILED, [on("gpu-1", Verdict.FAILED)])
    unread = result("ISO-01", Verdict.INCONCLUSIVE, [], level=level)
    expected = NodeVerdict.UNKNOWN if level is Level.MUST else NodeVerdict.PASSED
    assert verdicts(a_report(GOOD, bad, unread, exit_code=1))["gpu-0"] is expected


def test_a_run_that_ends_with_its_first_failure_passes_no_node(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, "--simulate", "healthy,fence-untainted-gpu-node", "--read-only", "-x")
    assert done.code == 1, done.output
    assert done.report is not None
    assert Counter(verdicts(done.report).values()) == {NodeVerdict.FAILED: 1, NodeVerdict.UNKNOWN: 2}


def test_a_run_that_came_to_its_end_passes_the_nodes_for_which_nothing_failed(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, "--simulate", "healthy,fence-untainted-gpu-node", "--read-only")
    assert done.code == 1, done.output
    assert done.report is not None
    assert Counter(verdicts(done.report).values()) == {NodeVerdict.FAILED: 1, NodeVerdict.PASSED: 2}


def test_failures_that_the_record_could_not_hold_pass_no_node() -> None:
    bad = result("ADV-01", Verdict.FAILED, [on("gpu-9", Verdict.FAILED)], subjects_omitted=1)
    assert verdicts(a_report(GOOD, bad, exit_code=1))["gpu-0"] is NodeVerdict.UNKNOWN


def test_only_nodes_of_the_inventory_are_labelled() -> None:
    assert set(verdicts(a_report(GOOD, nodes=("gpu-1",)))) == {"gpu-1"}


@each_row
def test_a_report_labels_the_nodes_of_its_own_cluster_only(kind: TargetKind, uid: str, version: str, words: str) -> None:
    held = a_report(GOOD, target=Target(kind=kind, cluster_uid=uid))
    with pytest.raises(NotPublished, match=words):
        check(held, "uid" if uid else "", version)


@pytest.mark.parametrize("code", [2, 10, 11])
def test_a_run_that_ended_at_another_cluster_labels_no_node(code: int) -> None:
    bad = result("ADV-01", Verdict.FAILED, [on("gpu-1", Verdict.FAILED)])
    target = Target(kind=TargetKind.LIVE, cluster_uid="uid")
    with pytest.raises(NotPublished, match="ended at another cluster"):
        check(a_report(bad, exit_code=code, target=target, other_cluster_uid="other"), "uid", "v1.37.0")


@each_row
def test_labels_hold_from_the_beginning_of_the_run_on(age: float | None, hours: int, words: str) -> None:
    made = a_report()
    made.run.started_at = "" if age is None else datetime.fromtimestamp(NOW - age * 3600, UTC).isoformat()
    if words:
        with pytest.raises(NotPublished, match=words):
            until(made, hours, 24, NOW)
    else:
        assert until(made, hours, 24, NOW) == NOW - int((age or 0) * 3600) + hours * 3600


@pytest.mark.parametrize(
    ("uid", "machine", "differs"), [("u", "m", ""), ("other", "m", "its UID differs"), ("u", "other", "its systemUUID differs")]
)
def test_a_node_that_was_replaced_is_another_machine(uid: str, machine: str, differs: str) -> None:
    made = msgspec.structs.replace(a_report(), inventory=[InventoryRow(node="gpu-0", uid=uid, system_uuid=machine)])
    node = {"metadata": {"name": "gpu-0", "uid": "u"}, "status": {"nodeInfo": {"systemUUID": "m"}}}
    found = of_other_machines(made, [node, a_node("gpu-7")])
    assert (list(found), differs in found.get("gpu-0", "")) == (["gpu-0"] if differs else [], True)


def test_a_record_without_machines_labels_none() -> None:
    with pytest.raises(NotPublished, match="does not say which machines it judged: run again"):
        of_other_machines(a_report(GOOD), [a_node("gpu-0")])


def test_a_node_that_was_made_anew_or_fell_sick_after_the_run_is_not_labelled_as_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kube_system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": "c"}}
    rows = [InventoryRow(node=name, uid=f"uid-{name}") for name in ("gpu-0", "gpu-1", "gpu-2")]
    target = Target(kind=TargetKind.LIVE, cluster_uid="c")
    every = result("FENCE-01", Verdict.PASSED, [on(row.node) for row in rows])
    made = msgspec.structs.replace(a_report(every, target=target), inventory=rows)
    made.run.started_at = datetime.now(UTC).isoformat()
    (tmp_path / "report.json").write_bytes(encode(made))
    again = {**a_node("gpu-1"), "metadata": {**a_node("gpu-1")["metadata"], "uid": "made-anew"}}
    sick = {**a_node("gpu-2"), "status": {"conditions": [{"type": "XidCriticalError", "status": "True"}]}}
    with served(tmp_path, [kube_system, a_node("gpu-0"), again, sick]) as (cluster, _):
        assert job.main(["publish", str(tmp_path / "report.json"), "--kubeconfig", str(tmp_path / "kubeconfig")]) == 0
        labels = {node["metadata"]["name"]: node["metadata"]["labels"].get(LABEL) for node in read_nodes(cluster)}
    assert labels == {"gpu-0": "passed", "gpu-1": None, "gpu-2": "unknown"}
    reported = capsys.readouterr().out
    assert "node gpu-1: it gets no label: it is another machine" in reported
    assert "node gpu-2: it passed and is not to be used now, so its label says unknown: has XidCriticalError=True" in reported
    begun = datetime.fromisoformat(made.run.started_at)
    assert reported.endswith(f"2 nodes changed; the verdicts end at {begun + timedelta(hours=26):%Y-%m-%d %H:%M} UTC\n")


def a_node(name: str, **labels: str) -> dict[str, Any]:
    held = {"gpu-conformance.io/" + key.replace("_", "-"): value for key, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"zone": "a", **held}}}


def test_labels_follow_the_report_and_leave_nodes_that_it_does_not_name() -> None:
    nodes = [a_node("gpu-0"), a_node("cpu-0", verdict="passed", verdict_until="1"), a_node("gpu-1", verdict="failed", verdict_until="99")]
    wanted = {"gpu-0": NodeVerdict.PASSED, "gpu-1": NodeVerdict.FAILED, "gone": NodeVerdict.PASSED}
    assert changes(nodes, wanted, 99) == [
        Change("gpu-0", "uid-gpu-0", {LABEL: "passed", UNTIL: "99"}),
        Change("cpu-0", "uid-cpu-0", {LABEL: None, UNTIL: None}),
    ]


@each_row
def test_a_label_goes_when_its_time_has_come_or_cannot_be_reported(labels: dict[str, str], goes: bool) -> None:
    assert [change.node for change in expired([a_node("gpu-0", **labels)], NOW)] == (["gpu-0"] if goes else [])


def test_removal_takes_labels_that_still_hold_too() -> None:
    nodes = [a_node("gpu-0", verdict="passed", verdict_until=str(NOW + 60)), a_node("gpu-1")]
    assert expired(nodes, NOW, everything=True) == [Change("gpu-0", "uid-gpu-0", {LABEL: None, UNTIL: None})]


def test_labels_are_set_and_taken_away_and_nothing_else_of_the_node_changes(tmp_path: Path) -> None:
    with served(tmp_path, [a_node(f"gpu-{at}") for at in range(3)]) as (cluster, _):
        nodes = read_nodes(cluster)
        assert apply(cluster, changes(nodes, {"gpu-1": NodeVerdict.FAILED}, NOW)) == []
        labelled = cluster.get("nodes", "gpu-1").json()
        assert labelled["metadata"]["labels"] == {"zone": "a", LABEL: "failed", UNTIL: str(NOW)}
        assert apply(cluster, expired(read_nodes(cluster), NOW)) == []
        assert cluster.get("nodes", "gpu-1").json()["metadata"]["labels"] == {"zone": "a"}


def test_a_node_that_was_made_anew_under_the_name_is_not_labelled(tmp_path: Path) -> None:
    with served(tmp_path, [a_node("gpu-0")]) as (cluster, _):
        assert apply(cluster, [Change("gpu-0", "uid-of-the-old-one", {LABEL: "passed"}), Change("gone", "x", {LABEL: "passed"})]) == []
        assert cluster.get("nodes", "gpu-0").json()["metadata"]["labels"] == {"zone": "a"}


@pytest.mark.parametrize(
    "lie", [effects.not_done, effects.refused(404, "NotFound"), effects.refused(409, "Conflict")], ids=["not done", "404", "409"]
)
def test_a_label_is_gone_when_the_cluster_shows_it(tmp_path: Path, lie: Effect, capsys: pytest.CaptureFixture[str]) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1", "labels": {LABEL: "passed", UNTIL: "1"}}}
    fault = Fault(name="not done", verb="patch", resource="nodes", effect=lie, times=ALWAYS)
    with served(tmp_path, [node]) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", [fault]):
        assert job.main(["publish", "--kubeconfig", str(tmp_path / "proxied"), "--remove"]) == 11
        assert "node gpu-1: " in capsys.readouterr().err
        assert job.main(["publish", "--kubeconfig", str(tmp_path / "kubeconfig"), "--remove"]) == 0
        assert [item["metadata"].get("labels") or {} for item in cluster.each("nodes")] == [{}]


def condition(cluster: Cluster, node: str) -> Json:
    """The condition as the cluster shows it; empty where the node has none."""
    found = cluster.get("nodes", node).json().get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == CONFORMANT), {})


def test_the_condition_says_the_verdict_and_ends_with_it(tmp_path: Path) -> None:
    kubelets = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    nodes = [{**a_node(f"gpu-{at}"), "status": {"conditions": [kubelets]}} for at in range(2)]
    made = msgspec.structs.replace(a_report(GOOD), run=msgspec.structs.replace(a_report(GOOD).run, started_at=STARTED))
    begun = int(datetime.fromisoformat(STARTED).timestamp())
    with served(tmp_path, nodes) as (cluster, _):
        wanted = {"gpu-0": NodeVerdict.PASSED, "gpu-1": NodeVerdict.FAILED}
        assert state(cluster, statements(made, read_nodes(cluster), wanted, begun + 3600)) == []
        first, second = condition(cluster, "gpu-0"), condition(cluster, "gpu-1")
        assert (first["status"], first["reason"], first["lastHeartbeatTime"]) == ("True", "Conformant", STARTED)
        assert "holds until" in first["message"]
        assert (second["status"], second["reason"]) == ("False", "NotConformant")
        assert kubelets in cluster.get("nodes", "gpu-0").json()["status"]["conditions"], "that of the kubelet is its own"
        later = msgspec.structs.replace(made, run=msgspec.structs.replace(made.run, started_at="2026-11-20T12:00:00Z"))
        assert state(cluster, statements(later, read_nodes(cluster), {"gpu-0": NodeVerdict.PASSED}, begun + 9999)) == []
        again = condition(cluster, "gpu-0")
        assert (again["lastHeartbeatTime"], again["lastTransitionTime"]) == ("2026-11-20T12:00:00Z", STARTED)
        assert state(cluster, withdrawn(read_nodes(cluster), NOW)) == []
        ended = condition(cluster, "gpu-0")
        assert (ended["status"], ended["reason"]) == ("Unknown", "Expired")
        assert withdrawn(read_nodes(cluster), NOW) == []
        assert state(cluster, withdrawn(read_nodes(cluster), NOW, everything=True)) == []
        assert condition(cluster, "gpu-0") == {}
        assert state(cluster, [Statement("gpu-0", "uid-of-the-old-one", "True", first)]) == []
        assert condition(cluster, "gpu-0") == {}


def test_what_the_policy_tolerates_on_a_node_that_the_run_was_about_speaks_against_it_no_longer() -> None:
    held = {**a_node("gpu-0"), "spec": {"unschedulable": True, "taints": [{"key": "repair", "effect": "NoSchedule"}]}}
    keys = ("node.kubernetes.io/unschedulable", "repair")
    assert "gpu-0" in out_of_work([held], lambda _: False)
    assert "gpu-0" in out_of_work([held], lambda _: False, keys[:1], ["gpu-0"])
    assert "gpu-0" in out_of_work([held], lambda _: False, keys, ["gpu-1"])
    assert not out_of_work([held], lambda _: False, keys, ["gpu-0"])
