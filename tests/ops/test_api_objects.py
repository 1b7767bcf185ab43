"""OPS-07 to 10 and 14: webhooks, definitions, deliveries, RuntimeClasses, and admission of agents."""

import base64
from typing import Any

import msgspec
import pytest

from conformance.ops.api_objects import check_admission, check_definitions, check_deliveries, check_runtime_classes, check_webhooks
from fixtures.kubernetes.models import Json, Node, ResourceQuota
from fixtures.model.platform.webhooks import validity
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_container, a_daemonset, a_namespace, a_node, a_pod, a_scope, a_workload
from tests.findings import by_name, causes
from tests.tables import each_row, table

TABLE = table(__file__)
BUNDLES = {name: base64.b64encode(text.encode()).decode() for name, text in TABLE["certificates"].items()}
BUNDLES |= {"none": "", "junk": "anVuaw==", "both": base64.b64encode("".join(TABLE["certificates"].values()).encode()).decode()}
SERVICE = {"metadata": {"name": "hook", "namespace": "gpu-operator"}, "spec": {"selector": {"app": "hook"}}}


def a_hook(bundle: str = "valid", service: str = "hook", resource: str = "nodes", **more: Any) -> Json:
    config = {"caBundle": BUNDLES[bundle], "service": {"namespace": "gpu-operator", "name": service}}
    rules = [{"apiGroups": [""], "resources": [resource], "operations": ["CREATE"]}]
    return {"metadata": {"name": "hooks"}, "webhooks": [{"name": "a", "clientConfig": config, "rules": rules, **more}]}


def a_piece(*ready: bool | None) -> Json:
    labels = {"kubernetes.io/service-name": "hook"}
    return {"metadata": {"namespace": "gpu-operator", "labels": labels}, "endpoints": [{"conditions": {"ready": one}} for one in ready]}


def judged(hook: Json, *ready: bool | None, pods: list[Any] | None = None) -> tuple[Outcome, str]:
    server = a_pod("hook-0", "gpu-operator", labels={"app": "hook"}) if pods is None else None
    world: dict[str, Any] = {
        "nodes": [a_node()],
        "pods": [server] if server else pods,
        "namespaces": [a_namespace("gpu-operator")],
        "services": [SERVICE],
    }
    scope = a_scope(**world, endpointslices=[a_piece(*ready)], validatingwebhookconfigurations=[hook])
    (finding,) = check_webhooks(scope)
    return finding.outcome, finding.cause


@each_row
def test_webhooks(hook: dict[str, Any], ready: list[bool | None], outcome: Outcome, cause: str) -> None:
    assert judged(a_hook(**hook), *ready) == (outcome, cause)


@each_row
def test_what_the_cluster_lives_on(hook: dict[str, Any], rule: Json, cause: str) -> None:
    """Beside its own server there is a pod of kube-proxy."""
    one = a_hook(**hook)
    one["webhooks"][0]["rules"] = [{"operations": ["CREATE", "UPDATE"], "scope": "*", "apiGroups": [""], **rule}]
    pods = [a_pod("hook-0", "gpu-operator", labels={"app": "hook"}), a_pod("kube-proxy-x", "kube-system", labels={"k8s-app": "kube-proxy"})]
    assert judged(one, True, pods=pods)[1] == cause


def test_one_that_starts_is_not_yet_missing() -> None:
    young = a_pod("hook-0", "gpu-operator", labels={"app": "hook"})
    young.metadata.creation_timestamp = "2026-09-21T14:12:00Z"
    assert judged(a_hook(), pods=[young]) == (Outcome.UNDECIDED, "ChangeUnderWay")


def test_a_webhook_of_others_is_none_of_the_stack() -> None:
    hook = a_hook(resource="widgets")
    hook["webhooks"][0]["rules"][0]["apiGroups"] = ["*"]
    hook["webhooks"][0]["clientConfig"]["service"]["namespace"] = "team-a"
    assert causes(check_webhooks(a_scope(nodes=[a_node()], validatingwebhookconfigurations=[hook]))) == {}


@pytest.mark.parametrize(("group", "kind"), [("*", "*"), ("", "*"), ("*", "pods"), ("apps", "*/*")])
def test_a_webhook_of_others_that_guards_every_kind_guards_pods_too(group: str, kind: str) -> None:
    hook = a_hook(resource=kind)
    hook["webhooks"][0]["clientConfig"]["service"] = {"namespace": "gatekeeper-system", "name": "gatekeeper-webhook-service"}
    hook["webhooks"][0]["rules"][0]["apiGroups"] = [group]
    assert judged(hook) == (Outcome.BAD, "WebhookWithoutEndpoint")


def test_dates_are_those_that_openssl_prints() -> None:
    assert [list(one) for one in validity("".join(TABLE["certificates"].values()).encode())] == TABLE["dates"]


@pytest.mark.parametrize("cut", range(0, 200, 7))
def test_a_broken_certificate_is_no_certificate(cut: int) -> None:
    text = TABLE["certificates"]["valid"].replace("\n", "")
    body = base64.b64decode(text.partition("CERTIFICATE-----")[2].partition("-----END")[0])[:cut]
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(body) + b"\n-----END CERTIFICATE-----\n"
    with pytest.raises(ValueError, match="it "):
        validity(pem if body else pem.replace(b"\n\n", b"\nAAAA\n"))


def a_definition(group: str, served: list[str], stored: list[str], established: str, since: str) -> Json:
    versions = [{"name": "v1", "served": "v1" in served}, {"name": "v1beta1", "served": "v1beta1" in served}]
    conditions = [{"type": kind, "status": established, "lastTransitionTime": since} for kind in ("NamesAccepted", "Established")]
    status = {"storedVersions": stored, "conditions": conditions}
    return {"metadata": {"name": f"things.{group}"}, "spec": {"group": group, "versions": versions}, "status": status}


@each_row
def test_definitions(served: list[str], stored: list[str], established: str, since: str, outcome: Outcome, cause: str) -> None:
    made = a_definition("kueue.x-k8s.io", served, stored, established, since)
    others = a_definition("example.com", [], ["v1"], "False", "2020-01-01T00:00:00Z")
    (finding,) = check_definitions(a_scope(customresourcedefinitions=[made, others]))
    assert (finding.outcome, finding.cause) == (outcome, cause)


def found(**world: Any) -> tuple[Outcome, str]:
    (finding,) = check_deliveries(a_scope(nodes=[a_node()], daemonsets=[a_daemonset()], **world))
    return finding.outcome, finding.cause


def an_application(sync: str, health: str, since: str = "2026-09-01T00:00:00Z", *, group: str = "nvidia.com", **spec: Any) -> Json:
    status = {"sync": {"status": sync}, "health": {"status": health, "lastTransitionTime": since}, "resources": [{"group": group}]}
    return {"metadata": {"name": "stack", "namespace": "argocd"}, "spec": {"destination": {"namespace": "x"}, **spec}, "status": status}


@each_row
def test_applications(sync: str, health: str, since: str, outcome: Outcome, cause: str) -> None:
    assert found(applications=[an_application(sync, health, since)]) == (outcome, cause)


@each_row
def test_versions_of_sources(source: Json, outcome: Outcome, cause: str) -> None:
    assert found(applications=[an_application("Synced", "Healthy", source=source)]) == (outcome, cause)
    several = [{"repoURL": "https://git.example.com/values", "targetRevision": "main", "ref": "values"}, source]
    assert found(applications=[an_application("Synced", "Healthy", sources=several)]) == (outcome, cause)


@each_row
def test_versions_of_charts(chart: Json, outcome: Outcome, cause: str) -> None:
    condition = {"type": "Ready", "status": "True", "reason": "r", "lastTransitionTime": "2026-09-01T00:00:00Z"}
    release = {
        "metadata": {"name": "stack", "namespace": "kube-system", "generation": 2},
        "spec": {"chart": {"spec": chart}},
        "status": {"observedGeneration": 2, "conditions": [condition]},
    }
    assert found(helmreleases=[release]) == (outcome, cause)


@pytest.mark.parametrize(("started", "outcome"), [("2026-09-21T14:13:00Z", Outcome.UNDECIDED), ("2026-09-01T00:00:00Z", Outcome.BAD)])
def test_a_sync_that_runs_is_a_change_under_way_until_it_is_late(started: str, outcome: Outcome) -> None:
    one = an_application("OutOfSync", "Healthy")
    one["status"]["operationState"] = {"phase": "Running", "startedAt": started}
    assert found(applications=[one])[0] is outcome


def test_what_tenants_deliver_to_themselves_is_not_judged() -> None:
    one = an_application("OutOfSync", "Degraded", destination={"namespace": "team-a"})
    one["status"]["resources"] = [{"group": "serving.kserve.io", "namespace": "team-a"}]
    with pytest.raises(NotApplicable):
        found(applications=[one])


@each_row
def test_helm_releases(ready: str, observed: int, suspend: bool, outcome: Outcome, cause: str) -> None:
    condition = {"type": "Ready", "status": ready, "reason": "r", "lastTransitionTime": "2026-09-21T14:13:00Z"}
    entries = [{"id": "_p_nvidia.com_ClusterPolicy"}]
    release = {
        "metadata": {"name": "gpu-operator", "namespace": "flux-system", "generation": 2},
        "spec": {"suspend": suspend},
        "status": {
            "observedGeneration": observed,
            "conditions": [condition],
            "inventory": {"entries": entries},
        },
    }
    assert found(helmreleases=[release]) == (outcome, cause)


def test_a_delivery_of_something_else_is_not_judged() -> None:
    with pytest.raises(NotApplicable):
        found(applications=[an_application("OutOfSync", "Degraded", group="apps")])


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


ENFORCE = "pod-security.kubernetes.io/enforce"
HOST = {"volumes": [{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]}


@pytest.mark.parametrize(
    ("level", "spec", "outcome"),
    [
        ("privileged", HOST, Outcome.OK),
        ("", HOST, Outcome.OK),
        ("baseline", HOST, Outcome.BAD),
        ("baseline", {"volumes": []}, Outcome.OK),
        ("privileged", {**HOST, "priorityClassName": "gone"}, Outcome.BAD),
        ("privileged", {**HOST, "priorityClassName": "agents"}, Outcome.OK),
        ("privileged", {**HOST, "priorityClassName": "system-node-critical"}, Outcome.OK),
    ],
)
def test_one_agent(level: str, spec: dict[str, Any], outcome: Outcome) -> None:
    agent = a_daemonset(**spec)
    space = a_namespace(agent.namespace, {ENFORCE: level} if level else {})
    classes = [{"metadata": {"name": "agents"}}]
    (finding,) = check_admission(a_scope(nodes=[a_node()], daemonsets=[agent], namespaces=[space], priorityclasses=classes))
    assert finding.outcome is outcome


@pytest.mark.parametrize(
    ("quota", "used", "scopes", "outcome"),
    [
        ({"pods": "8"}, {"pods": "8"}, None, Outcome.BAD),
        ({"pods": "8"}, {"pods": "7"}, None, Outcome.OK),
        ({"count/pods": "8"}, {"count/pods": "8"}, None, Outcome.BAD),
        ({"requests.cpu": "1"}, {"requests.cpu": "950m"}, None, Outcome.BAD),
        ({"requests.cpu": "1"}, {"requests.cpu": "900m"}, None, Outcome.OK),
        ({"requests.memory": "1Gi"}, {"requests.memory": "1Gi"}, None, Outcome.OK),  # it asks for none
        ({"pods": "8"}, {}, None, Outcome.OK),  # nobody has counted
        ({"pods": "8"}, {"pods": "8"}, ["Terminating"], Outcome.OK),
    ],
)
def test_quotas(quota: dict[str, str], used: dict[str, str], scopes: list[str] | None, outcome: Outcome) -> None:
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "100m"}}}
    agent = a_daemonset(containers=[container])
    one = {"metadata": {"name": "all", "namespace": agent.namespace}, "spec": {"hard": quota, "scopes": scopes}, "status": {"used": used}}
    quotas = [msgspec.convert(one, ResourceQuota)]
    spaces = [a_namespace(agent.namespace)]
    (finding,) = check_admission(
        a_scope(nodes=[a_node()], daemonsets=[agent], namespaces=spaces, resourcequotas=quotas, priorityclasses=[])
    )
    assert finding.outcome is outcome
