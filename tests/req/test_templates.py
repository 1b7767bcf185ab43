import pytest

from conformance.scope.pod_templates import templates, templates_in
from conformance.scope.scope import Scope
from conformance.scope.spec_walk import MAX_DEPTH
from conformance.scope.template import unread
from fixtures.kubernetes.models import Json
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.findings import Inconclusive, NotApplicable, Outcome
from tests.builders import a_container, a_daemonset, a_pod, a_policy, a_scope, a_spec, a_workload

TEMPLATE = {"metadata": {"annotations": {"a": "b"}}, "spec": a_spec(devices=1)}

SHAPES: dict[str, tuple[Json, list[str]]] = {
    "apps/deployments": ({"template": TEMPLATE}, ["spec.template.spec"]),
    "batch/cronjobs": ({"jobTemplate": {"spec": {"template": TEMPLATE}}}, ["spec.jobTemplate.spec.template.spec"]),
    "jobset.x-k8s.io/jobsets": (
        {"replicatedJobs": [{"name": "workers", "template": {"spec": {"template": TEMPLATE}}}]},
        ["spec.replicatedJobs[workers].template.spec.template.spec"],
    ),
    "leaderworkerset.x-k8s.io/leaderworkersets": (
        {"leaderWorkerTemplate": {"leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE}},
        ["spec.leaderWorkerTemplate.leaderTemplate.spec", "spec.leaderWorkerTemplate.workerTemplate.spec"],
    ),
    "kubeflow.org/mpijobs": (
        {"mpiReplicaSpecs": {"Launcher": {"template": TEMPLATE}, "Worker": {"template": TEMPLATE}}},
        ["spec.mpiReplicaSpecs.Launcher.template.spec", "spec.mpiReplicaSpecs.Worker.template.spec"],
    ),
    "kubeflow.org/pytorchjobs": (
        {"pytorchReplicaSpecs": {"Master": {"template": TEMPLATE}}},
        ["spec.pytorchReplicaSpecs.Master.template.spec"],
    ),
    "kubeflow.org/jaxjobs": ({"jaxReplicaSpecs": {"Worker": {"template": TEMPLATE}}}, ["spec.jaxReplicaSpecs.Worker.template.spec"]),
    "grove.io/podcliques": ({"roleName": "decode", "podSpec": TEMPLATE["spec"]}, ["spec.podSpec"]),
    "trainer.kubeflow.org/trainjobs": ({"trainer": {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}}}, ["spec.trainer"]),
    "ray.io/rayclusters": (
        {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [{"groupName": "gpu", "template": TEMPLATE}]},
        ["spec.headGroupSpec.template.spec", "spec.workerGroupSpecs[gpu].template.spec"],
    ),
    "ray.io/rayservices": (
        {"rayClusterConfig": {"headGroupSpec": {"template": TEMPLATE}}},
        ["spec.rayClusterConfig.headGroupSpec.template.spec"],
    ),
    "batch.volcano.sh/jobs": ({"tasks": [{"name": "main", "template": TEMPLATE}]}, ["spec.tasks[main].template.spec"]),
    "serving.kserve.io/inferenceservices": (
        {
            "predictor": {
                "tolerations": [{"key": "a", "operator": "Exists"}],
                "model": {"modelFormat": {"name": "vllm"}, "resources": {"limits": {"nvidia.com/gpu": "1"}}},
                "workerSpec": {"containers": [a_container()]},
            }
        },
        ["spec.predictor", "spec.predictor.workerSpec"],
    ),
}


@pytest.mark.parametrize("key", SHAPES)
def test_templates_of_a_kind_are_found_where_they_are(key: str) -> None:
    spec, paths = SHAPES[key]
    found = list(templates_in(key, a_workload("K", "w", spec)))
    assert [template.path for template in found] == paths
    assert not any(template.trouble for template in found)
    assert all(template.namespace == "team-a" for template in found)
    devices = [c for template in found for c in template.spec.containers if "nvidia.com/gpu" in (c.resources.limits or {})]
    assert devices
    if paths[0].endswith("template.spec"):
        assert found[0].annotations == {"a": "b"}


def test_one_finding_s_place_tells_templates_of_one_object_apart() -> None:
    head, worker = templates_in("ray.io/rayclusters", a_workload("RayCluster", "r", SHAPES["ray.io/rayclusters"][0]))
    assert head.place != worker.place
    (plain,) = templates_in("apps/deployments", a_workload("Deployment", "d", {"template": TEMPLATE}))
    assert plain.place == plain.subject


def test_a_refused_list_is_trouble_and_an_uncollected_one_is_inconclusive() -> None:
    refused = list(templates(a_scope(trouble={"ray.io/rayclusters": "Forbidden"})))
    assert [template.trouble for template in refused] == ["ray.io/rayclusters could not be listed: refused"]
    assert unread(refused[0]).outcome is Outcome.UNDECIDED
    with pytest.raises(Inconclusive):
        list(templates(Scope(Snapshot([], taken_at=0), a_policy())))


def test_a_saved_snapshot_is_judged_by_what_it_holds() -> None:
    assert [template.path for template in templates(a_scope(offline=True, pods=[a_pod()]))] == ["spec"]
    with pytest.raises(NotApplicable):
        list(templates(a_scope(offline=True, nodes=[])))


def test_what_cannot_be_read_is_said_and_the_rest_is_found() -> None:
    spec = {"a": {"containers": [{"name": 3, "resources": "lots"}]}, "b": {"spec": a_spec(devices=1)}}
    found = list(templates_in("apps/deployments", a_workload("Deployment", "d", spec)))
    assert [bool(template.trouble) for template in found] == [True, False]
    assert list(templates_in("batch/jobs", {"metadata": None, "spec": "no"}))[0].trouble  # noqa: RUF015


def test_depth_is_bounded_and_said() -> None:
    spec: Json = {"containers": [a_container()]}
    for _ in range(MAX_DEPTH + 5):
        spec = {"deeper": spec}
    (template,) = templates_in("apps/deployments", a_workload("Deployment", "d", spec))
    assert "too deep" in template.trouble


def test_width_is_bounded_and_said() -> None:
    wide = {"many": [{"x": {}} for _ in range(30_000)], "template": TEMPLATE}
    assert any(template.trouble for template in templates_in("apps/deployments", a_workload("Deployment", "d", wide)))


def test_live_pods_and_daemonsets_come_too_and_finished_pods_do_not() -> None:
    scope = a_scope(pods=[a_pod("runs", node="gpu-0"), a_pod("done", phase="Succeeded")], daemonsets=[a_daemonset("agent")])
    assert [template.subject.name for template in templates(scope)] == ["agent", "runs"]
