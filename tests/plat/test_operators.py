"""PLAT-01: what is found of an AI operator that is installed."""

from typing import Any

import msgspec
import pytest

from conformance.plat.checks import check_controllers, check_definition, judge_answer, operators, own_webhooks, probe_operators
from fixtures.cluster.answer import Answer
from fixtures.cluster.kinds import KINDS
from fixtures.cluster.trouble import ApiTrouble
from fixtures.model.platform.definitions import definitions
from fixtures.model.platform.webhooks import webhooks
from fixtures.probes.workspace import Workspace
from fixtures.simulator.admission.webhooks import MISTAKES
from fixtures.verdict.findings import About
from fixtures.verdict.subjects import NotApplicable, Subject
from tests.builders import a_pod, a_policy, a_scope
from tests.tables import each_row

KUEUE = next(one for one in operators() if one.name == "Kueue")


class Controller(msgspec.Struct, forbid_unknown_fields=True):
    """A Deployment by its name, how many of its pods are available, and since when none is."""

    found: str
    name: str = "kueue-controller-manager"
    namespace: str = "kueue"
    available: int = 1
    since: str = ""


@each_row
def test_controllers(row: Controller) -> None:
    gone = [{"type": "Available", "status": "False", "lastTransitionTime": row.since}] if row.since else []
    status: dict[str, Any] = {"availableReplicas": row.available, "conditions": gone}
    deployment = {"metadata": {"name": row.name, "namespace": row.namespace}, "spec": {"replicas": 1}, "status": status}
    finding = check_controllers(a_scope(a_policy(tenants={"moreInfrastructure": ["kueue"]}), deployments=[deployment]), KUEUE)
    assert (finding.cause or finding.outcome.value) == row.found


@pytest.mark.parametrize(("state", "cause"), [("True", ""), ("False", "DefinitionNotEstablished")])
def test_definitions(state: str, cause: str) -> None:
    item = {
        "metadata": {"name": "clusterqueues.kueue.x-k8s.io"},
        "spec": {"group": "kueue.x-k8s.io", "versions": []},
        "status": {"conditions": [{"type": "Established", "status": state}]},
    }
    (definition,) = definitions(a_scope(customresourcedefinitions=[item]))
    assert check_definition(KUEUE, definition).cause == cause


class Guard(msgspec.Struct, forbid_unknown_fields=True):
    """A webhook about RayClusters: where its server is, and the pod behind its Service, empty where there is none."""

    found: list[str]
    namespace: str = "kuberay"
    pod: str = ""
    kind: str = "validating"


@each_row
def test_webhooks_of_an_operator(row: Guard) -> None:
    hook = {
        "name": "vraycluster.kb.io",
        "clientConfig": {"service": {"namespace": row.namespace, "name": "webhook"}},
        "rules": [{"apiGroups": ["ray.io"], "resources": ["rayclusters"]}],
    }
    everything: dict[str, Any] = {
        f"{row.kind}webhookconfigurations": [{"metadata": {"name": "a"}, "webhooks": [hook]}],
        "services": [{"metadata": {"namespace": row.namespace, "name": "webhook"}, "spec": {"selector": {"app": "a"}}}],
        "deployments": [{"metadata": {"name": "kuberay-operator", "namespace": "kuberay"}}],
        "pods": [a_pod(row.pod, row.namespace, labels={"app": "a"})] if row.pod else [],
    }
    scope = a_scope(**everything)
    kuberay = next(one for one in operators() if one.name == "KubeRay")
    assert own_webhooks(scope, kuberay, list(webhooks(scope))) == row.found


@each_row
def test_answers(status: int, message: str, found: str) -> None:
    body = msgspec.json.encode({"kind": "Status", "apiVersion": "v1", "message": message})
    answer = ApiTrouble("InternalError", message) if status >= 500 else Answer(status=status, body=body)
    finding = judge_answer(About(Subject("Operator", "Kueue webhook"), "dry-run"), ["vclusterqueue.kb.io"], answer)
    assert (finding.cause or finding.outcome.value) == found


def test_nothing_is_asked_where_no_operator_is_installed() -> None:
    with pytest.raises(NotApplicable):
        list(probe_operators(a_scope(), Workspace.__new__(Workspace)))


@pytest.mark.parametrize("operator", operators(), ids=lambda one: one.name)
def test_each_object_is_in_a_version_that_is_served_and_is_refused_by_what_stands_for_its_webhook(operator: Any) -> None:
    kind = KINDS[operator.key]
    assert operator.invalid(kind.versions[-1:])["apiVersion"] == f"{kind.group}/{kind.versions[-1]}"
    assert operator.key not in MISTAKES or MISTAKES[operator.key](operator.object["spec"])
