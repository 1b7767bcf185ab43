import pytest

from conformance.probes.running import ended, pinned_pod, pod_trouble
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.podsecurity import Level, evaluate
from tests.builders import a_node, a_pod, a_policy, a_scope


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
