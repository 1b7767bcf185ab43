"""PLAT-01, 02, 04 and 05: operators, the way of requests to models, etcd, and namespaces that go."""

import math
from typing import Any

import msgspec
import pytest

from conformance.outputs.dcgm import Sample
from conformance.plat.checks import (
    buckets_of,
    check_controllers,
    check_definition,
    check_namespaces,
    check_storage,
    judge_answer,
    operators,
    own_webhooks,
    probe_operators,
    read_checks,
)
from conformance.plat.models import check_models
from conformance.probes.server_metrics import ETCD, ServerMetrics, parse
from fixtures.cluster.answer import Answer
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import KINDS
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json, Namespace
from fixtures.model.platform.definitions import definitions
from fixtures.model.platform.webhooks import webhooks
from fixtures.probes.workspace import Workspace
from fixtures.simulator.admission.webhooks import MISTAKES
from fixtures.verdict.findings import About, Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject
from tests.builders import a_namespace, a_node, a_pod, a_policy, a_scope
from tests.findings import by_name, causes, messages
from tests.tables import each_row

OLD, NEW = "2026-09-01T00:00:00Z", "2026-09-21T14:13:00Z"


def conditions(since: str = OLD, **states: str) -> list[Json]:
    return [{"type": kind, "status": state, "lastTransitionTime": since} for kind, state in states.items()]


def world(
    *, parent: Json | None = None, pool: list[Json] | None = None, gateway: list[Json] | None = None, named: str = "g"
) -> dict[str, Any]:
    of_pool = pool if pool is not None else conditions(Accepted="True", ResolvedRefs="True")
    shown = {"conditions": gateway if gateway is not None else conditions(Accepted="True", Programmed="True")}
    parents = [{"parentRef": parent or {"name": named}, "conditions": of_pool}]
    return {
        "inferencepools": [{"metadata": {"name": "models", "namespace": "a"}, "status": {"parents": parents}}],
        "gateways": [{"metadata": {"name": "g", "namespace": "a"}, "spec": {"gatewayClassName": "c"}, "status": shown}],
        "gatewayclasses": [{"metadata": {"name": "c"}, "status": {"conditions": conditions(Accepted="True")}}],
    }


@each_row
def test_what_is_on_the_way(changed: dict[str, Any], name: str, outcome: Outcome) -> None:
    found = list(check_models(a_scope(**world(**changed))))
    assert by_name(found)[name] is outcome
    assert set(causes(found).values()) <= {"GatewayNotProgrammed", "ChangeUnderWay"}


@pytest.mark.parametrize("changed", [{"parent": {"kind": "Status", "name": "default"}}], ids=["a pool that no Gateway leads to"])
def test_without_a_gateway_there_is_nothing_to_judge(changed: dict[str, Any]) -> None:
    with pytest.raises(NotApplicable):
        list(check_models(a_scope(**world(**changed))))


@each_row
def test_what_a_controller_says_of_a_service(kind: str, spec: Json, status: Json, meta: Json, outcome: str) -> None:
    item = {"metadata": {"name": "m", "namespace": "a", "creationTimestamp": OLD, **meta}, "spec": spec, "status": status}
    made: dict[str, Any] = {kind: [item]}
    (finding,) = check_models(a_scope(**made))
    assert (finding.cause or finding.outcome.value) == outcome


def test_a_service_without_devices_is_its_owners_business() -> None:
    item = {"metadata": {"name": "m", "namespace": "a"}, "spec": {"predictor": {"model": {"resources": {"limits": {"cpu": "1"}}}}}}
    with pytest.raises(NotApplicable):
        list(check_models(a_scope(inferenceservices=[item])))


@each_row
def test_a_server_that_runs_and_is_not_ready(owner: str, since: str, state: Json, outcome: str) -> None:
    status = {"conditions": conditions(since, Ready="False"), "containerStatuses": [{"name": "triton", "state": state}]}
    pod = a_pod("t-7d9c-x", devices=1, node="gpu-0", owner=owner, labels={"pod-template-hash": "7d9c"}, status=status)
    found = [one.cause or one.outcome.value for one in check_models(a_scope(nodes=[a_node()], pods=[pod], **world()))]
    assert found[3:] == ([outcome] if outcome else [])


def a_going(since: str, kind: str = "", message: str = "") -> Namespace:
    made = a_namespace("team-a")
    made.metadata.deletion_timestamp = since or None
    made.status = {"phase": "Terminating", "conditions": [{"type": kind, "status": "True", "message": message}] if kind else []}
    return made


@each_row
def test_a_namespace_with_devices(since: str, kind: str, message: str, outcome: Outcome, cause: str) -> None:
    scope = a_scope(nodes=[a_node()], pods=[a_pod(devices=1, node="gpu-0")], namespaces=[a_going(since, kind, message)])
    (finding,) = found = list(check_namespaces(scope))
    assert (finding.outcome, finding.cause) == (outcome, cause)
    if outcome is Outcome.BAD:
        assert message in messages(found)


def test_one_that_only_an_object_of_the_stack_keeps_is_named() -> None:
    message = "Some resources are remaining: rayclusters.ray.io has 1 resource instances"
    kept = a_going("2026-09-20T00:00:00Z", "NamespaceContentRemaining", message)
    (finding,) = check_namespaces(a_scope(nodes=[a_node()], namespaces=[kept]))
    assert finding.cause == "NamespaceStuck"


def test_one_that_has_nothing_to_do_with_devices_is_not_judged() -> None:
    with pytest.raises(NotApplicable):
        list(check_namespaces(a_scope(nodes=[a_node()], namespaces=[a_going("2026-09-20T00:00:00Z")])))


PAGE = """\
apiserver_request_total{verb="GET"} 1
etcd_request_duration_seconds_bucket{group="",operation="get",resource="pods",le="0.005"} 900
etcd_request_duration_seconds_bucket{group="",operation="get",resource="pods",le="+Inf"} 1000
etcd_request_duration_seconds_bucket{operation="list",type="*core.Pod",le="0.005"} 1e+03
etcd_request_duration_seconds_bucket{operation="list",type="*core.Pod",le="+Inf"} 1001
etcd_request_duration_seconds_sum{operation="list",type="*core.Pod"} 7
apiserver_request_duration_seconds_bucket{le="0.005"} 5
etcd_request_duration_seconds_bucket{operation="list",le="no number"} 5
"""


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """Checks, buckets by their upper bound, and what is found: the checks' outcome, then that of the requests."""

    found: list[str]
    checks: dict[str, bool] = {}
    buckets: dict[str, float] = {}
    trouble: str = ""
    seconds: float = 0.6


class Said(Cluster):
    """A cluster whose readiness is an answer, or what went wrong."""

    def __init__(self, answer: Answer | ApiTrouble) -> None:
        self._answer = answer

    def request(self, *_: object, **__: object) -> Answer:
        if isinstance(self._answer, ApiTrouble):
            raise self._answer
        return self._answer


@each_row
def test_what_the_api_server_says(row: Row) -> None:
    samples = [Sample(ETCD, {"le": bound}, number) for bound, number in row.buckets.items()]
    metrics = ServerMetrics(samples=samples, trouble=row.trouble, code="RightMissing" if row.trouble else "")
    findings = check_storage(row.checks, metrics, a_policy(operators={"etcdSeconds": row.seconds}))
    assert [one.cause or one.outcome.value for one in findings] == row.found


def test_buckets_are_added_whatever_they_are_about() -> None:
    assert buckets_of(parse(PAGE)) == {0.005: 1900, math.inf: 2001}


def test_failed_checks_are_read_from_the_error_that_they_make() -> None:
    failed = ApiTrouble("InternalError", "GET /readyz: 500 [+]ping ok [-]etcd failed: reason withheld [+]etcd-readiness ok")
    assert read_checks(Said(failed)) == {"etcd": False, "etcd-readiness": True}


def test_another_error_is_not_one_of_etcd() -> None:
    with pytest.raises(ApiTrouble):
        read_checks(Said(ApiTrouble("Timeout", "GET /readyz: no answer within 60 s")))


def test_without_the_right_nothing_is_known() -> None:
    with pytest.raises(Inconclusive):
        read_checks(Said(Answer(status=403, body=b"forbidden")))


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
