"""PSA: Pod Security of device pods."""

from conformance.psa.bypass import check_bypass
from conformance.psa.namespaces import check_enforcement
from conformance.psa.probes import probe_nonroot, probe_refusal
from conformance.psa.rights import check_controllers, check_tenants_rights
from conformance.psa.standards import check_standards
from conformance.requirement import requirement
from fixtures.model.cluster import Scope
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Evidence


@requirement("PSA-01")
def test_tenant_namespaces_enforce_the_pod_security_level(judge: Evidence, scope: Scope) -> None:
    """Every tenant namespace enforces the policy's Pod Security level."""
    judge(check_enforcement(scope))


@requirement("PSA-02")
def test_device_pods_satisfy_the_pod_security_standards(judge: Evidence, scope: Scope) -> None:
    """Every device pod and device template of a tenant satisfies the tenant's Pod Security level."""
    judge(check_standards(scope))


@requirement("PSA-03")
def test_the_api_refuses_a_root_device_pod_for_the_predicted_reasons(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """The API refuses a root device pod where Pod Security is enforced, for exactly the predicted reasons."""
    judge(probe_refusal(scope, workspace))


@requirement("PSA-04", devices=0, holders=1)
def test_a_compliant_pod_runs_as_a_user_and_sees_its_device(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A pod that satisfies the restricted level runs as non-root and sees its device."""
    judge(probe_nonroot(scope, workspace))


@requirement("PSA-05")
def test_no_tenant_pod_goes_around_the_device_plugin(judge: Evidence, scope: Scope) -> None:
    """No tenant pod bypasses the device plugin to reach devices."""
    judge(check_bypass(scope))


@requirement("PSA-06")
def test_no_tenant_may_make_pods_where_they_may_be_privileged(judge: Evidence, scope: Scope) -> None:
    """No tenant may make or enter pods in a namespace of the platform that admits privileged pods."""
    judge(check_tenants_rights(scope))


@requirement("PSA-07")
def test_no_controller_of_the_stack_has_rights_on_its_node(judge: Evidence, scope: Scope) -> None:
    """Controllers of the device stack have no rights on their node."""
    judge(check_controllers(scope))
