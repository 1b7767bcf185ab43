"""HW: health of devices."""

from conformance.health.judging import fabric, host_link, memory, recovery, slowdown
from conformance.hw.figures import probe_figures
from conformance.hw.firmware import firmware_judge
from conformance.hw.judging import check_answers, check_refused, per_device, use
from conformance.hw.kernel_errors import kernel_errors
from conformance.probes.node_documents import NodeDocuments, judged
from conformance.requirement import requirement
from fixtures.model.cluster import Scope
from fixtures.model.nodes.peers import pools_of_peers
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Evidence


@requirement("HW-01")
def test_no_kernel_log_has_an_error_that_asks_for_a_repair(judge: Evidence, scope: Scope, documents: NodeDocuments) -> None:
    """No kernel log of a node has an error of late that asks for a device's repair."""
    judge(judged(scope, documents, kernel_errors(scope.policy.hardware.xid_hours)))


@requirement("HW-02")
def test_the_memory_of_every_device_is_sound(judge: Evidence, scope: Scope, documents: NodeDocuments) -> None:
    """The memory of every device has no uncorrectable error, and waits for no reset."""
    judge(judged(scope, documents, per_device(memory, "no uncorrectable error, nothing that waits for a reset")))


@requirement("HW-03")
def test_the_library_is_of_the_drivers_version_and_every_device_answers(judge: Evidence, scope: Scope, documents: NodeDocuments) -> None:
    """The driver's library is of the driver's version, and every device answers."""
    judge(judged(scope, documents, check_answers, check_refused))


@requirement("HW-04")
def test_the_link_of_every_device_to_its_host_is_as_wide_and_fast_as_it_can_be(
    judge: Evidence, scope: Scope, documents: NodeDocuments
) -> None:
    """The link of every device to its host is as wide as it can be, and as fast while it computes."""
    judge(judged(scope, documents, per_device(host_link, "all lanes, and under load the highest generation")))


@requirement("HW-05")
def test_no_device_is_slowed_down_by_its_hardware(judge: Evidence, scope: Scope, documents: NodeDocuments) -> None:
    """No device is slowed down by its hardware, for heat or for power."""
    judge(judged(scope, documents, per_device(slowdown, "no slowdown by the hardware")))


@requirement("HW-06")
def test_every_nvlink_is_up_and_every_device_is_in_its_fabric(judge: Evidence, scope: Scope, documents: NodeDocuments) -> None:
    """Every NVLink is up, and every device has joined its fabric."""
    judge(judged(scope, documents, per_device(fabric, "all links up, fabric completed with success")))


@requirement("HW-07")
def test_nothing_computes_on_a_device_that_no_pod_holds(judge: Evidence, scope: Scope, documents: NodeDocuments) -> None:
    """Nothing computes on a device that no pod holds, and persistence mode is as the policy wants it."""
    judge(judged(scope, documents, per_device(use(scope.policy.hardware.persistence), "no process, persistence mode of the policy")))


@requirement("HW-08")
def test_the_driver_advises_no_recovery_of_any_device(judge: Evidence, scope: Scope, documents: NodeDocuments) -> None:
    """The driver advises no recovery of any device."""
    judge(judged(scope, documents, per_device(recovery, "none")))


@requirement("HW-09")
def test_devices_and_adapters_of_one_board_run_the_same_firmware(judge: Evidence, scope: Scope, documents: NodeDocuments) -> None:
    """Devices and adapters of one board run the same firmware in a pool."""
    judge(judged(scope, documents, firmware_judge(documents.by_node.values(), pools_of_peers(scope))))


@requirement("HW-10")
def test_a_device_that_a_pod_was_given_reaches_its_products_figures(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A device that a pod was given reaches its product's figures, and gives the same values each time."""
    judge(probe_figures(scope, workspace))
