"""AI platform, control plane and namespaces."""

from __future__ import annotations

from conformance.plat.gateways import check_gateways
from conformance.plat.namespaces import check_namespaces
from conformance.requirement import requirement
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Evidence


@requirement("PLAT-02")
def test_gateways_that_lead_to_models_are_accepted_and_programmed(judge: Evidence, scope: Scope) -> None:
    """Gateways that lead to models are accepted and programmed."""
    judge(check_gateways(scope))


@requirement("PLAT-05")
def test_no_namespace_with_devices_claims_or_agents_stays_in_its_deletion(judge: Evidence, scope: Scope) -> None:
    """No namespace with devices, claims or agents stays in its deletion."""
    judge(check_namespaces(scope))
