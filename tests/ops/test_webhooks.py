"""OPS-07: webhooks and whoever answers for them."""

import base64
from typing import Any

import pytest

from conformance.ops.api_objects import check_webhooks
from fixtures.kubernetes.models import Json
from fixtures.model.platform.webhooks import validity
from fixtures.verdict.findings import Outcome
from tests.builders import a_namespace, a_node, a_pod, a_scope
from tests.findings import causes
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
