"""MIG: Multi-Instance GPU."""

from conformance.common_findings import unless_settling
from conformance.mig.checks import check_applied, check_geometry, check_mixed, check_off, check_single
from conformance.mig.managers import check_managers, unsettled
from conformance.mig.probes import probe_slices
from conformance.requirement import requirement
from fixtures.model.cluster import Scope
from fixtures.probes.workspace import Workspace
from fixtures.snapshot.managed_fields import ReadFields
from fixtures.verdict.findings import Evidence


@requirement("MIG-01")
def test_requested_mig_configs_are_applied(judge: Evidence, scope: Scope, now: float, node_fields: ReadFields) -> None:
    """The requested layout of devices (MIG, vGPU, partitions) is applied, and no change of it is stuck or half done."""
    judge(check_managers(scope, now, node_fields(unsettled(scope))))


@requirement("MIG-02")
def test_strategy_single_offers_one_profile(judge: Evidence, scope: Scope) -> None:
    """With MIG strategy single, all devices of a node have one profile, and product label and count match it."""
    judge(unless_settling(scope, check_single(scope)))


@requirement("MIG-03")
def test_strategy_mixed_offers_profiles_of_the_product(judge: Evidence, scope: Scope) -> None:
    """With MIG strategy mixed, every MIG resource is a profile of the product, in the configured number."""
    judge(unless_settling(scope, check_mixed(scope)))


@requirement("MIG-04")
def test_the_geometry_is_possible(judge: Evidence, scope: Scope) -> None:
    """A node's MIG instances fit into the compute and memory slices of its devices."""
    judge(unless_settling(scope, check_geometry(scope)))


@requirement("MIG-05")
def test_the_applied_layout_is_the_requested_one(judge: Evidence, scope: Scope) -> None:
    """Devices have the MIG layout that the node's mig.config label names in the mig-parted ConfigMap."""
    judge(unless_settling(scope, check_applied(scope)))


@requirement("MIG-06")
def test_no_mig_resource_where_mig_is_off(judge: Evidence, scope: Scope) -> None:
    """A node with MIG off, or with strategy none, has no MIG resource, label or product name."""
    judge(unless_settling(scope, check_off(scope)))


@requirement("MIG-07")
def test_a_pod_gets_the_slice_it_asked_for(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A pod that asks for one MIG slice sees exactly that slice, and a profile that no node offers is not given out."""
    judge(probe_slices(scope, workspace))
