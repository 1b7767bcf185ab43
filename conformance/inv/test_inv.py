"""Inventory and scope of the run."""

from conformance.common_findings import unless_settling
from conformance.inv.judged_nodes import check_agreement, check_judged, check_stand_ins
from conformance.inv.rights import check_custom_kinds, check_rights, reviews, rights
from conformance.inv.versions import check_peers, check_skew, check_versions
from conformance.probes.node_documents import NodeDocuments
from conformance.requirement import Asks, Needs, requirement
from fixtures.model.cluster import Scope
from fixtures.model.nodes.work import maybe_held
from fixtures.snapshot.managed_fields import ReadFields
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.findings import Evidence


@requirement("INV-01")
def test_independent_sources_name_the_same_accelerator_nodes(judge: Evidence, scope: Scope) -> None:
    """Independent sources name the same accelerator nodes."""
    judge(unless_settling(scope, check_agreement(scope)))


@requirement("INV-02")
def test_every_accelerator_node_was_judged(judge: Evidence, scope: Scope, may_probe: bool, node_fields: ReadFields) -> None:
    """Every accelerator node was judged."""
    judge(check_judged(scope, node_fields(maybe_held(scope)), probing=may_probe))


@requirement("INV-03")
def test_the_caller_may_do_what_the_selected_requirements_need(judge: Evidence, asks: Asks, needs: Needs, snapshot: Snapshot) -> None:
    """The account that runs the suite has every right that the selected requirements need."""
    judge(check_rights(reviews(asks, rights(needs, snapshot))))
    judge(check_custom_kinds(snapshot, needs))


@requirement("INV-04")
def test_nodes_of_one_product_run_the_same_driver(judge: Evidence, scope: Scope, documents_too: NodeDocuments) -> None:
    """Nodes of one product run the same driver and programs, and sources of one node agree about them."""
    judge(unless_settling(scope, check_versions(scope, documents_too)))


@requirement("INV-05")
def test_kubelets_control_plane_runtimes_and_drivers_go_together(judge: Evidence, scope: Scope) -> None:
    """Kubelets, control plane, runtimes and drivers of accelerator nodes are of versions that go together."""
    judge(check_skew(scope))


@requirement("INV-06")
def test_nodes_of_one_pool_agree_in_what_they_offer_and_run(judge: Evidence, scope: Scope, documents_too: NodeDocuments) -> None:
    """Nodes of one pool agree in what they offer and run."""
    judge(unless_settling(scope, check_peers(scope, documents_too)))


@requirement("INV-07")
def test_objects_that_stand_for_a_node_have_their_node(judge: Evidence, scope: Scope) -> None:
    """Objects that stand for a node have their node, and each GPU node has those of its pool."""
    judge(check_stand_ins(scope))
