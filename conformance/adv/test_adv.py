"""ADV: advertisement by the device plugin."""

from conformance.adv.checks import check_advertised, check_allocatable, check_arithmetic, check_health_of_held, check_one_route
from conformance.adv.enumerated import check_unknown, enumerated
from conformance.adv.labels import check_labels
from conformance.adv.node_configs import check_configs
from conformance.common_findings import unless_settling
from conformance.probes.node_documents import NodeDocuments, judged
from conformance.requirement import requirement
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Evidence


@requirement("ADV-01")
def test_every_accelerator_node_advertises_its_devices(judge: Evidence, scope: Scope) -> None:
    """Every accelerator node advertises its device resource, greater than zero."""
    judge(unless_settling(scope, check_advertised(scope)))


@requirement("ADV-02")
def test_all_advertised_devices_are_allocatable(judge: Evidence, scope: Scope) -> None:
    """Allocatable equals capacity for every device resource."""
    judge(unless_settling(scope, check_allocatable(scope)))


@requirement("ADV-03")
def test_capacity_is_what_the_devices_give(judge: Evidence, scope: Scope) -> None:
    """Capacity equals physical devices × units per device, for each node and resource."""
    judge(unless_settling(scope, check_arithmetic(scope)))


@requirement("ADV-04")
def test_feature_labels_are_complete_and_agree(judge: Evidence, scope: Scope, now: float) -> None:
    """Feature labels are complete, well-formed, fresh, and agree with each other and with capacity."""
    judge(unless_settling(scope, check_labels(scope, now)))


@requirement("ADV-05")
def test_devices_are_offered_by_one_route(judge: Evidence, scope: Scope) -> None:
    """No node offers the same devices through the device plugin and through DRA."""
    judge(check_one_route(scope))


@requirement("ADV-06")
def test_the_plugin_config_exists_and_predicts_the_node(judge: Evidence, scope: Scope) -> None:
    """The device-plugin configuration that a node names exists, parses, and matches what the node advertises."""
    judge(unless_settling(scope, check_configs(scope)))


@requirement("ADV-07")
def test_no_device_under_a_running_pod_is_unhealthy(judge: Evidence, scope: Scope) -> None:
    """No kubelet reports a device as unhealthy under a running pod."""
    judge(check_health_of_held(scope))


@requirement("ADV-08")
def test_the_driver_enumerates_what_the_node_advertises(judge: Evidence, scope: Scope, documents: NodeDocuments) -> None:
    """The driver of a node enumerates the devices that the node advertises."""
    judge(judged(scope, documents, enumerated(scope), check_unknown))
