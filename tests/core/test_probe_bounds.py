"""What probes may do to others: every pod is bounded on the node's side, and none can take the place of a tenant's."""

from pathlib import Path
from typing import Any

import pytest

from fixtures.cluster.client import Cluster
from fixtures.ownership import owned
from fixtures.ownership.proof import PRIORITY
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.simulator.admission import chain
from fixtures.verdict.findings import Inconclusive
from tests.served import served
from tests.troubles import Trouble

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
