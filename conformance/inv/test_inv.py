"""Inventory and scope of the run."""

from __future__ import annotations

from conformance.inv.agreement import check_agreement
from conformance.inv.judged import check_judged
from conformance.inv.rights import ask_rights, check_rights, rights
from conformance.needs import Needs
from conformance.requirement import requirement
from conformance.scope import Scope
from fixtures.cluster import Cluster
from fixtures.evidence import Evidence
from fixtures.snapshot import Snapshot


@requirement("INV-01")
def test_independent_sources_name_the_same_accelerator_nodes(judge: Evidence, scope: Scope) -> None:
    """Independent sources name the same accelerator nodes."""
    judge(check_agreement(scope))


@requirement("INV-02")
def test_every_accelerator_node_was_judged(judge: Evidence, scope: Scope, may_probe: bool) -> None:
    """Every accelerator node was judged."""
    judge(check_judged(scope, probing=may_probe))


@requirement("INV-03")
def test_the_caller_may_do_what_the_selected_requirements_need(judge: Evidence, cluster: Cluster, needs: Needs, snapshot: Snapshot) -> None:
    """The caller may do all that the selected requirements need."""
    judge(check_rights(ask_rights(cluster, rights(needs, snapshot))))
