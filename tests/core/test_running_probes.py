from pathlib import Path
from typing import Any

import pytest

from conformance.causes import cause_of
from conformance.plugin.waves import Shape, fit_beside
from conformance.probes.running import ended, pinned_pod
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.podsecurity import Level, evaluate
from fixtures.model.demand.pod_state import pod_trouble
from fixtures.ownership import owned
from fixtures.ownership.proof import PRIORITY
from fixtures.probes.pods import PodShape, WatchedPods, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.simulator.admission.plugins import chain
from fixtures.simulator.interface import start
from fixtures.verdict.subjects import Inconclusive
from tests.builders import a_node, a_pod, a_policy, a_scope
from tests.endtoend.runs import run_for_record
from tests.served import served
from tests.tables import each_row
from tests.troubles import Trouble


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (
            {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed"},
            "UnexpectedAdmissionError: Allocate failed",
        ),
        (
            {"phase": "Pending", "containerStatuses": [{"name": "probe", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
            "container probe waiting: ImagePullBackOff",
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]},
            "Unschedulable: 0/3 nodes",
        ),
        ({"phase": "Succeeded", "containerStatuses": [{"name": "probe", "state": {"terminated": {"reason": "Completed"}}}]}, "Succeeded"),
        ({"phase": "Running", "containerStatuses": [{"name": "probe", "state": {"waiting": "x" * 9000}}]}, "Running"),
    ],
)
def test_why_a_pod_is_where_it_is(status: Json, words: str) -> None:
    text = pod_trouble(a_pod(status=status))
    assert words in text
    assert len(text) <= 600


def test_a_pinned_pod_satisfies_restricted_and_tolerates_exactly_the_fence() -> None:
    scope = a_scope(a_policy(probes={"runAsUser": 4242}))
    pod = pinned_pod(scope, a_node("gpu-7"), "p", "id -u", resources={"nvidia.com/gpu": 2}, sibling="id -u", runtime_class="nvidia")
    spec = pod["spec"]
    assert evaluate(spec, {}, Level.RESTRICTED) == []
    assert spec["securityContext"]["runAsUser"] == 4242
    assert spec["runtimeClassName"] == "nvidia"
    assert spec["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}]
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"][0]["values"] == ["gpu-7"]
    assert [container["resources"]["limits"].get("nvidia.com/gpu") for container in spec["containers"]] == ["2", None]


def test_a_pod_is_done_when_its_own_containers_are_whatever_was_added_to_it() -> None:
    over: Json = {"terminated": {"exitCode": 0}}
    on: Json = {"running": {}}
    pod = a_pod(
        node="gpu-0",
        status={"phase": "Running", "containerStatuses": [{"name": "probe", "state": over}, {"name": "istio-proxy", "state": on}]},
    )
    assert ended(pod, ["probe"])
    assert not ended(pod, ["probe", "sibling"])
    assert ended(a_pod(node="gpu-0", phase="Failed"), ["probe"])


# -- Pods of a watch: what did not change is not decoded again


def test_what_is_no_pod_is_trouble() -> None:
    with pytest.raises(ApiTrouble, match="pod: "):
        WatchedPods().among({"run/first": {"metadata": {"name": "first"}, "spec": "none"}}, ["run/first"])


# -- Probes of several requirements run in one wave, within the free devices, and leave each other's pods alone


POD_START = 4
TOGETHER = ("FENCE-06", "PSA-04", "ISO-01", "ISO-02", "ISO-03", "OBS-02", "OBS-09")


@each_row
def test_a_wave_holds_no_more_than_the_scarcest_place_has_free(units: list[int], holders: list[int], free: list[int], fits: bool) -> None:
    assert fit_beside([*(Shape(devices) for devices in units), *(Shape(0, count) for count in holders)], free) is fits


def test_probes_wait_for_their_pods_together_and_each_is_judged(tmp_path: Path) -> None:
    done = run_for_record(tmp_path, "--simulate", f"healthy:podStart={POD_START}", "--only", ",".join(TOGETHER))
    assert done.report is not None, done.output
    results = [done.result(id_) for id_ in TOGETHER]
    assert {result.verdict for result in results} == {"passed"}, done.output
    waited = [result.duration_seconds for result in results]
    assert min(waited) >= POD_START
    assert done.report.run.duration_seconds < sum(waited) - POD_START


def test_a_part_of_a_workspace_clears_its_own_pods_and_creates_none_after_the_end(tmp_path: Path) -> None:
    running = start("healthy", tmp_path)
    try:
        workspace = Workspace(Cluster.from_kubeconfig(running.kubeconfig), "waves-test")
        first, second = workspace.branch(), workspace.branch()
        namespace = workspace.namespace()
        for part, name in ((first, "one"), (second, "two")):
            config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            part.create("configmaps", config, namespace)
        first.clear()
        there = {name: workspace.cluster.get("configmaps", name, namespace).status for name in ("one", "two")}
        assert there == {"one": 404, "two": 200}
        workspace.halt()
        with pytest.raises(Inconclusive):
            second.create("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "three"}}, namespace)
        workspace.join(second)
        workspace.close()
        assert workspace.residue == []
    finally:
        running.stop()


# -- What probes may do to others: every pod is bounded on the node's side, and none can take the place of a tenant's


RUN = "20261121-100000-test"
POD = probe_pod(PodShape(name="p", image="registry.example/probe:1", script="true"))


def classes(cluster: Cluster) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = cluster.request("GET", cluster.path(owned.PRIORITY_CLASSES)).json()["items"]
    return items


def test_a_probe_pod_preempts_nobody_and_ends_by_itself(tmp_path: Path) -> None:
    with served(tmp_path, admissions=chain()) as (cluster, _):
        workspace = Workspace(cluster, RUN, pod_seconds=90.5)
        spec = workspace.create("pods", POD, workspace.namespace())["spec"]
        assert (spec["priority"], spec["preemptionPolicy"], spec["activeDeadlineSeconds"]) == (PRIORITY, "Never", 90)
        [created] = classes(cluster)
        assert created["metadata"]["labels"][owned.RUN_LABEL] == RUN
        assert created.get("globalDefault", False) is False
        second = {**POD, "metadata": {"name": "q"}, "spec": {**POD["spec"], "activeDeadlineSeconds": 5}}
        assert workspace.create("pods", second, workspace.namespace())["spec"]["activeDeadlineSeconds"] == 5
        assert cluster.requests().by_verb_and_resource["create scheduling.k8s.io/priorityclasses"] == 1
        workspace.clear(seconds=2)
        assert len(classes(cluster)) == 1  # the next requirement's pods name it too
        workspace.close()
        assert (workspace.residue, classes(cluster)) == ([], [])


def test_the_owner_s_class_is_used_as_it_is_and_stays(tmp_path: Path) -> None:
    own = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "probes"},
        "value": -7,
        "preemptionPolicy": "Never",
    }
    with served(tmp_path, [own], admissions=chain()) as (cluster, _):
        workspace = Workspace(cluster, RUN, priority_class="probes")
        assert workspace.create("pods", POD, workspace.namespace())["spec"]["priority"] == -7
        workspace.close()
        assert [item["metadata"]["name"] for item in classes(cluster)] == ["probes"]


def test_without_a_class_no_pod_is_created(tmp_path: Path) -> None:
    with served(tmp_path, troubles=[Trouble("create", owned.PRIORITY_CLASSES, 403, 9)], admissions=chain()) as (cluster, _):
        workspace = Workspace(cluster, RUN, folder=tmp_path)
        with pytest.raises(Inconclusive, match=r"PriorityClass gpu-conformance-.*probes\.priorityClass"):
            workspace.create("pods", POD, workspace.namespace())
        assert "create pods" not in cluster.requests().by_verb_and_resource
        workspace.close()
        assert workspace.residue == []


REFUSALS = {
    "ValidatingAdmissionPolicy 'images' with binding 'images' denied request: images come from registry.example.com": "RefusedByAdmission",
    'admission webhook "validate.kyverno.svc-fail" denied the request: require-labels': "RefusedByAdmission",
    'pods "probe" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true': "RefusedByAdmission",
    'pods is forbidden: User "audit" cannot create resource "pods" in API group "" in the namespace "x"': "RightMissing",
}


@pytest.mark.parametrize("message", REFUSALS)
def test_what_admission_refuses_is_no_missing_right_and_no_silent_server(tmp_path: Path, message: str) -> None:
    with served(tmp_path, troubles=[Trouble("create", "pods", 403, 99, message=message)], admissions=chain()) as (cluster, _):
        workspace = Workspace(cluster, RUN)
        with pytest.raises(Inconclusive) as refused:
            workspace.create("pods", POD, workspace.namespace())
        assert cause_of(refused.value.code) == REFUSALS[message]
        assert message in str(refused.value)
        workspace.close()


def test_a_dry_run_creates_no_class(tmp_path: Path) -> None:
    with served(tmp_path, admissions=chain()) as (cluster, _):
        workspace = Workspace(cluster, RUN)
        assert workspace.ask("pods", POD, "default").ok
        assert classes(cluster) == []


def test_an_api_server_that_does_not_know_the_class_yet_is_asked_again(tmp_path: Path) -> None:
    with served(tmp_path, admissions=chain()) as (cluster, _):
        workspace = Workspace(cluster, RUN)
        name = workspace.priority_class()
        plain, refusals = cluster.create, [2]
        late = f'pods "p" is forbidden: no PriorityClass with name {name} was found'

        def create(key: str, obj: dict[str, Any], **more: Any) -> Any:
            answer = plain(key, obj, **more)
            if key == "pods" and refusals[0]:
                refusals[0] -= 1
                cluster.delete("pods", "p", more["namespace"], grace_seconds=0)
                return type(answer)(status=403, body=b'{"reason": "Forbidden", "message": "%s"}' % late.replace('"', '\\"').encode())
            return answer

        cluster.create = create  # type: ignore[method-assign]
        assert workspace.create("pods", POD, workspace.namespace())["spec"]["priority"] == PRIORITY


UNCOUNTED = 'pods "p" is forbidden: status unknown for quota: gpu-conformance-limits, resources: pods'


def test_a_new_namespace_that_nobody_has_counted_yet_is_waited_for(tmp_path: Path) -> None:
    with served(tmp_path, troubles=[Trouble("create", "pods", 403, 4, message=UNCOUNTED)], admissions=chain()) as (cluster, _):
        workspace = Workspace(cluster, RUN)
        assert workspace.create("pods", POD, workspace.namespace())["metadata"]["name"] == "p"


def test_a_namespace_that_nobody_counts_costs_its_patience_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fixtures.probes.workspace._LATE_SECONDS", 0.0)
    with served(tmp_path, troubles=[Trouble("create", "pods", 403, 99, message=UNCOUNTED)], admissions=chain()) as (cluster, _):
        workspace = Workspace(cluster, RUN)
        namespace = workspace.namespace()
        for _ in range(3):
            with pytest.raises(Inconclusive, match="status unknown for quota"):
                workspace.create("pods", POD, namespace)
        assert cluster.requests().by_verb_and_resource["create pods"] == 3


def test_meshes_are_asked_to_keep_out(tmp_path: Path) -> None:
    with served(tmp_path) as (cluster, _):
        workspace = Workspace(cluster, RUN)
        metadata = cluster.get("namespaces", workspace.namespace()).json()["metadata"]
        assert metadata["labels"]["istio-injection"] == "disabled"
        assert metadata["annotations"]["linkerd.io/inject"] == "disabled"
