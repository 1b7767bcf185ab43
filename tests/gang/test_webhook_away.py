"""A gang scheduler whose webhook is away: every pod creation fails, which says nothing about gangs or pods.

Facts: docs/facts/local-control-plane.md#absent-webhooks.
"""

import pytest
import yaml

from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json
from fixtures.simulator.process.embedded import EmbeddedCluster
from fixtures.verdict.record import Verdict
from tests.endtoend.runs import Finished, run_suite

CREATES_PODS = ("REQ-01", "PSA-03", "FENCE-05", "FENCE-06", "PSA-04", "ISO-01", "GANG-02", "GANG-03", "GANG-04", "OBS-06")
PACE = {"probes": {"windowSeconds": 0.5, "startSeconds": 10.0}}


def webhook(url: str = "https://127.0.0.1:9/mutate--v1-pod") -> Json:
    """A webhook on all pods that nobody serves."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "kueue-away"},
        "webhooks": [
            {
                "name": "mpod.kb.io",
                "clientConfig": {"url": url},
                "rules": [rule],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 2,
            }
        ],
    }


@pytest.fixture(scope="module")
def without_it(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("away")
    with EmbeddedCluster.start("kueue-inference", folder) as embedded:
        admin = Cluster.from_kubeconfig(embedded.kubeconfig, "admin")
        assert admin.create("admissionregistration.k8s.io/mutatingwebhookconfigurations", webhook()).ok
        policy = folder / "policy.yaml"
        policy.write_text(yaml.safe_dump({**embedded.policy, **PACE}))
        return run_suite(folder, "--kubeconfig", str(embedded.kubeconfig), "--policy", str(policy))


@pytest.mark.parametrize("id_", CREATES_PODS)
def test_what_creates_pods_is_undecided_and_says_why(without_it: Finished, id_: str) -> None:
    result = without_it.result(id_)
    assert result.verdict is Verdict.INCONCLUSIVE, result.message
    assert "failed calling webhook" in " ".join([result.message, *(subject.message for subject in result.subjects)])
