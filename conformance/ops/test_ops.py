"""Operator and agents."""

from conformance.ops.agent_coverage import check_coverage
from conformance.ops.api_objects import check_admission, check_definitions, check_deliveries, check_runtime_classes, check_webhooks
from conformance.ops.custom_resources import check_configured, check_ready
from conformance.ops.driver_upgrades import check_upgrades, maybe_upgrading
from conformance.ops.restarts import check_restarts
from conformance.ops.rollout import check_one_plugin, check_rolled_out
from conformance.ops.versions import check_driver_sources, check_floors, check_pinned
from conformance.requirement import requirement
from fixtures.model.cluster import Scope
from fixtures.snapshot.managed_fields import ReadFields
from fixtures.verdict.findings import Evidence


@requirement("OPS-01")
def test_the_stack_s_custom_resources_are_ready_for_a_real_reason(judge: Evidence, scope: Scope) -> None:
    """The stack's custom resources are ready, and not merely because they found no GPU node."""
    judge(check_ready(scope))


@requirement("OPS-02")
def test_every_agent_is_rolled_out_on_every_node_that_expects_it(judge: Evidence, scope: Scope) -> None:
    """Every agent is rolled out and Ready on every node that expects it."""
    judge(check_rolled_out(scope))


@requirement("OPS-03")
def test_no_agent_or_controller_crash_loops_or_keeps_restarting(judge: Evidence, scope: Scope) -> None:
    """No agent and no controller of the stack crash-loops or keeps restarting."""
    judge(check_restarts(scope))


@requirement("OPS-04")
def test_images_of_the_stack_are_pinned_and_the_same_on_every_node(judge: Evidence, scope: Scope) -> None:
    """Images of the stack are pinned and the same on every node."""
    judge(check_pinned(scope))


@requirement("OPS-05")
def test_each_gpu_node_has_its_driver_from_one_source(judge: Evidence, scope: Scope) -> None:
    """Each GPU node has its driver from its machine or from a container, and never from both."""
    judge(check_driver_sources(scope))


@requirement("OPS-06")
def test_no_driver_upgrade_failed_or_is_stuck(judge: Evidence, scope: Scope, node_fields: ReadFields) -> None:
    """No driver upgrade failed, is stuck, or has left its node cordoned."""
    judge(check_upgrades(scope, node_fields(maybe_upgrading(scope))))


@requirement("OPS-07")
def test_somebody_answers_for_each_admission_webhook_of_the_stack(judge: Evidence, scope: Scope) -> None:
    """Somebody answers for each admission webhook that device workloads and the stack depend on."""
    judge(check_webhooks(scope))


@requirement("OPS-08")
def test_definitions_are_established_and_every_stored_version_is_served(judge: Evidence, scope: Scope) -> None:
    """Definitions of the stack's kinds are established, and every stored version is served."""
    judge(check_definitions(scope))


@requirement("OPS-09")
def test_what_is_delivered_of_the_stack_is_in_the_cluster_as_its_source_says(judge: Evidence, scope: Scope) -> None:
    """What Argo CD or Flux delivers of the stack is in the cluster as its source says."""
    judge(check_deliveries(scope))


@requirement("OPS-10")
def test_runtime_classes_in_use_exist_and_their_nodes_have_the_handler(judge: Evidence, scope: Scope) -> None:
    """RuntimeClasses that device pods and agents name exist, and their nodes have the handler."""
    judge(check_runtime_classes(scope))


@requirement("OPS-11")
def test_no_part_of_the_stack_has_a_published_escape_or_loss_of_data(judge: Evidence, scope: Scope) -> None:
    """No part of the stack has a published container escape or loss of data, or is below the policy's floor."""
    judge(check_floors(scope))


@requirement("OPS-12")
def test_each_node_has_one_device_plugin_per_vendor(judge: Evidence, scope: Scope) -> None:
    """Each node has one device plugin per vendor."""
    judge(check_one_plugin(scope))


@requirement("OPS-13")
def test_installed_operators_are_configured_and_their_agents_run_on_every_gpu_node(judge: Evidence, scope: Scope) -> None:
    """Each installed operator has its configuration object, and its agents run on every GPU node."""
    judge(check_configured(scope))
    judge(check_coverage(scope))


@requirement("OPS-14")
def test_pods_of_agents_would_be_admitted_again(judge: Evidence, scope: Scope) -> None:
    """Pods of agents would be admitted again by their namespace."""
    judge(check_admission(scope))
