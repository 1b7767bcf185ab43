"""PSA-05: claims with admin access, which get devices that others hold."""

from typing import Any

import pytest

from conformance.psa.bypass import check_bypass
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_pod, a_scope, a_spec, a_workload
from tests.dra import a_claim, a_class, a_template, claim_spec

WAY = {"name": "whole", "deviceClassName": "gpu.nvidia.com", "count": 1}
PODS_CLAIM = [{"name": "gpu", "resourceClaimName": "adm"}]


def judged(pod: Any, **more: Any) -> Finding:
    [finding] = check_bypass(a_scope(pods=[pod], **more))
    return finding


def admin(**more: Any) -> dict[str, Any]:
    claim = a_claim("adm", **more)
    claim["spec"] = claim_spec(adminAccess=True)
    return claim


@pytest.mark.parametrize(
    "claim",
    [
        admin(),
        admin(device="gpu-0", adminAccess=True),
        {**a_claim("adm"), "spec": {"devices": {"requests": [{**WAY, "adminAccess": True}]}}},
        {**a_claim("adm"), "spec": {"devices": {"requests": [{"name": "g", "firstAvailable": [WAY, {**WAY, "adminAccess": True}]}]}}},
    ],
    ids=["asked for", "given", "v1beta1", "the last way"],
)
def test_a_claim_with_admin_access_reaches_devices_of_others(claim: Any) -> None:
    finding = judged(a_pod(resourceClaims=PODS_CLAIM), resourceclaims=[claim], deviceclasses=[a_class()])
    assert finding.outcome is Outcome.BAD
    assert "claim gpu has adminAccess=true" in finding.message


def test_a_template_with_admin_access_is_found_before_its_pods_start() -> None:
    template = a_template("adm")
    template["spec"]["spec"] = claim_spec(adminAccess=True)
    entries = [{"name": "gpu", "resourceClaimTemplateName": "adm"}]
    workload = a_workload("Deployment", "web", {"template": {"spec": a_spec(resourceClaims=entries)}})
    [finding] = check_bypass(a_scope(resourceclaimtemplates=[template], deployments=[workload]))
    assert finding.outcome is Outcome.BAD
    assert "claim gpu has adminAccess=true" in finding.message


def test_claims_that_were_refused_leave_their_pods_undecided() -> None:
    pod = a_pod(resourceClaims=PODS_CLAIM)
    finding = judged(pod, trouble={"resource.k8s.io/resourceclaims": "Forbidden"})
    assert finding.outcome is Outcome.UNDECIDED
    assert "whether its claim gpu has admin access to devices is not known" in finding.message
