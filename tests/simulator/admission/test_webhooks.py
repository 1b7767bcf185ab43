"""A webhook that nothing answers for (facts of the local control plane: 500 for every request it matches)."""

import pytest

from fixtures.simulator.admission.webhooks import MUTATING, VALIDATING
from fixtures.simulator.api.objects import Json
from tests.simulator.admission.cluster import DEPLOYMENTS, Objects, admit, container, deployment, namespace, pod, refusal, request
from tests.tables import each_row


def webhook(**fields: object) -> Json:
    entry = {
        "name": "devices.policy.example",
        "clientConfig": {"service": {"name": "policy", "namespace": "policy-system", "path": "/validate"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        **fields,
    }
    return {"metadata": {"name": "policy"}, "webhooks": [entry]}


SERVICE = {"metadata": {"name": "policy", "namespace": "policy-system"}}


def cluster(configuration: Json, kind: str = VALIDATING) -> Objects:
    return Objects().put(kind, configuration).put("services", SERVICE)


@pytest.mark.parametrize("kind", [VALIDATING, MUTATING])
def test_no_backend_is_an_internal_error(kind: str) -> None:
    error = refusal(pod(), cluster(webhook(), kind))
    assert (error.code, error.reason) == (500, "InternalError")
    assert error.message == (
        'Internal error occurred: failed calling webhook "devices.policy.example": failed to call webhook: '
        'Post "https://policy.policy-system.svc:443/validate?timeout=10s": no endpoints available for service "policy"'
    )


@each_row
def test_what_does_not_match_passes(fields: dict[str, object]) -> None:
    admit(pod(), cluster(webhook(**fields)))


def test_other_resources_pass_and_matching_selectors_block() -> None:
    admit(request(deployment({"containers": [container()]}), DEPLOYMENTS), cluster(webhook()))
    labelled = {**namespace("team"), "metadata": {"name": "team", "labels": {"tenant": "yes"}}}
    objects = cluster(webhook(namespaceSelector={"matchLabels": {"tenant": "yes"}})).put("namespaces", labelled)
    assert refusal(pod(), objects).code == 500


def test_dry_run_needs_a_webhook_without_side_effects() -> None:
    error = refusal(request(pod(), dry_run=True), cluster(webhook(sideEffects="Unknown")))
    assert (error.code, error.message) == (400, 'admission webhook "devices.policy.example" does not support dry run')
