"""AI platform, control plane and namespaces."""

from conformance.plat.checks import check_namespaces, check_storage, etcd_checks, probe_operators
from conformance.plat.models import check_models
from conformance.plat.sandboxes import probe_sandboxes
from conformance.probes.server_metrics import server_metrics
from conformance.requirement import Asks, requirement
from fixtures.model.cluster import Scope
from fixtures.policy.model import Policy
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Evidence


@requirement("PLAT-01")
def test_each_ai_operator_runs_and_refuses_what_is_invalid(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """Each AI operator that is installed runs, and its webhook refuses an invalid object in its own words."""
    judge(probe_operators(scope, workspace))


@requirement("PLAT-02")
def test_services_of_models_are_ready_and_gateways_to_them_are_programmed(judge: Evidence, scope: Scope) -> None:
    """Services of models that ask for devices are ready, and Gateways that lead to models are programmed."""
    judge(check_models(scope))


@requirement("PLAT-03", devices=0)
def test_untrusted_workloads_run_under_a_kernel_of_their_own(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """Untrusted workloads run in a sandbox under a kernel of their own."""
    judge(probe_sandboxes(scope, workspace))


@requirement("PLAT-04")
def test_etcd_keeps_up(judge: Evidence, policy: Policy, asks: Asks) -> None:
    """The API server's checks of etcd pass, and its requests to etcd are fast enough."""
    judge(check_storage(etcd_checks(asks), server_metrics(asks), policy))


@requirement("PLAT-05")
def test_no_namespace_with_devices_claims_or_agents_stays_in_its_deletion(judge: Evidence, scope: Scope) -> None:
    """No namespace with devices, claims or agents stays in its deletion."""
    judge(check_namespaces(scope))
