"""A tenant names the node of his pods, and a healthy node refuses them: that fails no node. Refusing what a scheduler sent does."""

import json
import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.req.refusal_faults import MOST_SAMPLES, Records, read_of
from conformance.req.refused import PILE, check_refused
from fixtures.cluster.answer import Answer
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json, Pod
from fixtures.snapshot.files import load_files
from fixtures.snapshot.managed_fields import MOST_ASKED
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.record import Verdict
from tests.builders import a_node, a_scope
from tests.findings import by_name, messages
from tests.judging import asking, judge
from tests.req.suffering import DAY, NOW, a_refused_pod, ago, created, written
from tests.requirements_offline import policy_over
from tests.tables import each_row

FULL = "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 8, capacity: 8"
REASON = "OutOfnvidia.com/gpu"
PLACE = f"gpu-0 {REASON}"
SCHEDULED, NAMED = written(), written(node_name=True)


def refused(name: str = "train-0", namespace: str = "team-a", **more: Any) -> Pod:
    """A pod that a full node refused. Its toleration and its controller let it look like a scheduler's."""
    return a_refused_pod(name, namespace=namespace, **{"reason": REASON, "message": FULL, **more})


class Api:
    """Answers for single pods, by namespace and name."""

    def __init__(self, pods: Iterable[Pod], fields: Mapping[str, object], default: object) -> None:
        self.asked: list[str] = []
        self._uids = {f"{pod.namespace}/{pod.name}": pod.metadata.uid for pod in pods}
        self._fields = fields
        self._default = default

    def get(self, key: str, name: str, namespace: str) -> Answer:
        who = f"{namespace}/{name}"
        self.asked.append(who)
        fields = self._fields.get(who, self._default)
        if isinstance(fields, Exception):
            raise fields
        meta = {"uid": self._uids[who], "managedFields": fields} if fields != "another pod" else {"uid": "new", "managedFields": SCHEDULED}
        return Answer(status=200, body=json.dumps({"metadata": meta}).encode())


def judged(*pods: Pod, default: object, fields: Mapping[str, object] | None = None, **more: Any) -> tuple[list[Finding], Api]:
    scope = a_scope(nodes=[a_node(), a_node("gpu-1")], pods=list(pods), **more)
    api: Any = Api(pods, fields or {}, default)
    return list(check_refused(scope, NOW, Records(scope.snapshot, partial(read_of, asking(api))))), api


def a_deployment(node: str) -> Json:
    template = {"metadata": {"labels": {"app": "train"}}, "spec": {"nodeName": node, "containers": [{"name": "main", "image": "a"}]}}
    return {"metadata": {"name": "train", "namespace": "team-a", "uid": "d"}, "spec": {"template": template}}


# -- a healthy node ------------------------------------------------------------------------------------


def test_pods_whose_controllers_template_names_the_node_fail_no_node() -> None:
    pods = [refused(f"train-{number}", owner="ReplicaSet/train") for number in range(PILE + 10)]
    findings, _ = judged(*pods, default=NAMED)
    assert by_name(findings) == {PLACE: Outcome.UNDECIDED}
    assert "managedFields say that kube-controller-manager wrote spec.nodeName" in messages(findings)


@pytest.mark.parametrize(
    "fields",
    [None, [], [{}], "nonsense", [7, {"fieldsV1": "x"}], SCHEDULED[1:], ApiTrouble("Timeout", "no answer"), "another pod"],
    ids=["none", "empty", "reset", "text", "wild", "the kubelet's only", "no answer", "another pod"],
)
def test_a_pod_without_a_whole_record_fails_no_node(fields: object) -> None:
    findings, _ = judged(*(refused(f"train-{number}") for number in range(20)), default=fields)
    assert by_name(findings) == {PLACE: Outcome.UNDECIDED}
    assert "nothing else says that a scheduler sent it there" in messages(findings)


def test_a_rewritten_record_does_not_hide_the_template_that_names_the_node() -> None:
    findings, _ = judged(refused(), default=SCHEDULED, deployments=[a_deployment("gpu-0")])
    assert by_name(findings) == {PLACE: Outcome.UNDECIDED}
    assert "the template of Deployment team-a/train names gpu-0" in messages(findings)
    findings, _ = judged(refused(), default=SCHEDULED, deployments=[a_deployment("gpu-1")])
    assert by_name(findings) == {PLACE: Outcome.BAD}, "that is another node"


def test_many_namespaces_whose_pods_name_the_node_fail_no_node() -> None:
    findings, api = judged(*(refused("a", f"team-{number}") for number in range(40)), default=NAMED)
    assert by_name(findings) == {PLACE: Outcome.UNDECIDED}
    assert len(api.asked) == MOST_SAMPLES


def test_requests_do_not_grow_with_the_nodes_that_refuse() -> None:
    nodes = [a_node(f"gpu-{number}") for number in range(50)]
    pods = [refused(f"a-{number}", node=f"gpu-{number}") for number in range(50)]
    scope = a_scope(nodes=nodes, pods=pods)
    api: Any = Api(pods, {}, NAMED)
    findings = list(check_refused(scope, NOW, Records(scope.snapshot, partial(read_of, asking(api)))))
    assert {finding.outcome for finding in findings} == {Outcome.UNDECIDED}
    assert len(api.asked) == MOST_ASKED


# -- a node that refuses what a scheduler sent ---------------------------------------------------------


def test_a_bare_pod_that_a_scheduler_sent_convicts_the_node_however_long_ago() -> None:
    pod = created(refused(owner="", status={"startTime": ago(9 * DAY)}), 9 * DAY)
    assert by_name(judged(pod, default=SCHEDULED)[0]) == {PLACE: Outcome.BAD}


def test_pods_that_name_the_node_do_not_hide_one_that_a_scheduler_sent() -> None:
    named = [refused(f"by-hand-{number}", "team-x") for number in range(30)]
    findings, _ = judged(*named, refused("sent", "team-b"), default=NAMED, fields={"team-b/sent": SCHEDULED})
    assert by_name(findings) == {PLACE: Outcome.BAD}


@pytest.mark.parametrize("newest", ["another pod", []], ids=["is gone", "has lost its record"])
def test_where_the_newest_pod_of_a_controller_tells_nothing_an_older_one_is_asked(newest: object) -> None:
    pods = [created(refused(f"train-{number}"), 60.0 * (number + 1)) for number in range(20)]
    findings, api = judged(*pods, default=SCHEDULED, fields={"team-a/train-0": newest})
    assert by_name(findings) == {PLACE: Outcome.BAD}
    assert len(api.asked) == 2


@pytest.mark.parametrize(("owner", "expected"), [("Job/train", Outcome.BAD), ("", Outcome.UNDECIDED)])
def test_in_a_snapshot_without_records_a_controllers_pod_convicts_the_node(owner: str, expected: Outcome) -> None:
    findings, api = judged(refused(owner=owner), default=None, offline=True, events=[], resourceslices=[])
    assert by_name(findings) == {PLACE: expected}
    assert api.asked == []


def test_in_a_snapshot_without_records_a_template_that_names_the_node_convicts_nothing() -> None:
    more: dict[str, Any] = {"offline": True, "events": [], "resourceslices": []}
    findings, _ = judged(refused(), default=None, deployments=[a_deployment("gpu-0")], **more)
    assert by_name(findings) == {PLACE: Outcome.UNDECIDED}


def test_records_that_were_emptied_in_several_namespaces_fail_no_node() -> None:
    """Every API server keeps them, so a snapshot that has some of them and a live cluster show that these were taken away."""
    pods = [refused(), refused("b", "team-b")]
    assert by_name(judged(*pods, default=None)[0]) == {PLACE: Outcome.UNDECIDED}
    scope = a_scope(nodes=[a_node()], pods=pods, offline=True)
    scope.snapshot.failed_pod_fields = {"team-c/other": SCHEDULED}
    assert by_name(list(check_refused(scope, NOW, Records(scope.snapshot, partial(pytest.fail, "asked"))))) == {PLACE: Outcome.UNDECIDED}


def test_a_pod_in_a_namespace_of_the_platform_convicts_the_node_without_a_record() -> None:
    assert by_name(judged(refused(namespace="kube-system"), default=None)[0]) == {PLACE: Outcome.BAD}


# -- saved snapshots -----------------------------------------------------------------------------------


def a_saved_snapshot(folder: Path, fields: object) -> Snapshot:
    """What ``kubectl get nodes,pods -o json`` says, with managedFields if it was told to show them."""
    pod = {"apiVersion": "v1", "kind": "Pod", **msgspec.to_builtins(created(refused(), 600))}
    node = {"apiVersion": "v1", "kind": "Node", **msgspec.to_builtins(a_node())}
    if fields is not None:
        pod["metadata"]["managedFields"] = fields
    file = folder / "all.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, pod]}))
    os.utime(file, (NOW, NOW))
    return load_files(folder)


@each_row
def test_a_saved_snapshot_is_judged_by_its_records(tmp_path: Path, fields: object, expected: Verdict) -> None:
    snapshot = a_saved_snapshot(tmp_path, fields)
    snapshot.save(tmp_path / "handed-on")
    for one in (snapshot, Snapshot.load(tmp_path / "handed-on")):
        result = judge(one, policy_over(one), ["REQ-11"])["REQ-11"]
        assert result.verdict is expected, result.message


@pytest.mark.parametrize("odd", [10**30, {"deep": [[10**30, None]]}, "\u0000", 1e308])
def test_records_of_any_shape_are_handed_on_to_workers(tmp_path: Path, odd: object) -> None:
    snapshot = a_saved_snapshot(tmp_path, [*SCHEDULED, {"fieldsV1": odd, "time": odd}])
    snapshot.managed_fields = {"gpu-0": [{"fieldsV1": odd}]}
    snapshot.save(tmp_path / "handed-on")
    handed_on = Snapshot.load(tmp_path / "handed-on")
    assert handed_on.managed_fields.keys() == {"gpu-0"}
    assert judge(handed_on, policy_over(handed_on), ["REQ-11"])["REQ-11"].verdict is Verdict.FAILED
