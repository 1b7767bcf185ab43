"""OPS-10: RuntimeClasses in use, and the handlers of nodes."""

import pytest

from conformance.ops.api_objects import check_runtime_classes
from fixtures.kubernetes.models import Json, Node
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_container, a_node, a_pod, a_scope, a_workload
from tests.findings import by_name, causes

NVIDIA: Json = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
DEPLOYMENT = a_workload("Deployment", "web", {"template": {"spec": {"containers": [a_container(devices=1)], "runtimeClassName": "nvidia"}}})


def node(name: str, *handlers: str) -> Node:
    made = a_node(name)
    made.status.runtime_handlers = [{"name": one} for one in handlers]
    return made


def policy(nri: bool) -> Json:
    spec = {"operator": {"runtimeClass": "nvidia"}, "cdi": {"nriPluginEnabled": nri}}
    return {"metadata": {"name": "cluster-policy"}, "spec": spec, "status": {"state": "ready"}}


def test_a_class_that_a_template_names_must_be_there_because_no_pod_of_it_can_be() -> None:
    assert causes(check_runtime_classes(a_scope(nodes=[a_node()], deployments=[DEPLOYMENT]))) == {"nvidia": "RuntimeClassMissing"}
    found = check_runtime_classes(a_scope(nodes=[a_node()], deployments=[DEPLOYMENT], runtimeclasses=[NVIDIA]))
    assert by_name(found) == {"nvidia": Outcome.OK}


def test_a_node_with_a_pod_needs_the_handler_and_one_that_does_not_say_is_not_accused() -> None:
    pods = [a_pod(str(number), devices=1, node=f"gpu-{number}", runtimeClassName="nvidia") for number in range(3)]
    nodes = [node("gpu-0", "", "nvidia"), node("gpu-1"), node("gpu-2", "", "runc")]
    (finding,) = check_runtime_classes(a_scope(nodes=nodes, pods=pods, runtimeclasses=[NVIDIA]))
    assert (finding.outcome, finding.cause, "gpu-2" in finding.message) == (Outcome.BAD, "RuntimeHandlerMissing", True)
    (finding,) = check_runtime_classes(a_scope(nodes=nodes[:2], pods=pods[:2], runtimeclasses=[NVIDIA]))
    assert finding.outcome is Outcome.OK


def test_a_node_that_joins_gets_its_handler_from_an_agent() -> None:
    young = node("gpu-0", "", "runc")
    young.metadata.creation_timestamp = "2026-09-21T14:12:00Z"
    pod = a_pod(devices=1, node="gpu-0", runtimeClassName="nvidia")
    (finding,) = check_runtime_classes(a_scope(nodes=[young], pods=[pod], runtimeclasses=[NVIDIA]))
    assert (finding.outcome, finding.cause) == (Outcome.UNDECIDED, "ChangeUnderWay")


def test_an_operator_that_goes_through_nri_makes_no_class() -> None:
    assert causes(check_runtime_classes(a_scope(nodes=[a_node()], clusterpolicies=[policy(nri=False)]))) == {
        "nvidia": "RuntimeClassMissing"
    }
    with pytest.raises(NotApplicable):
        list(check_runtime_classes(a_scope(nodes=[a_node()], clusterpolicies=[policy(nri=True)])))


def test_without_a_handler_on_crio_nothing_that_names_no_class_is_accused() -> None:
    """CRI-O injects devices by hooks (https://github.com/NVIDIA/gpu-operator/issues/1298)."""
    nodes, pods = [node("gpu-0", "runc", "crun")], [a_pod(devices=1, node="gpu-0")]
    (finding,) = check_runtime_classes(a_scope(nodes=nodes, pods=pods, runtimeclasses=[NVIDIA], clusterpolicies=[policy(nri=False)]))
    assert finding.outcome is Outcome.OK
