"""Conditions as monitors and clouds write them. Each case is from a public report or from the monitor's own source."""

from typing import Any

import pytest

from fixtures.kubernetes.models import Condition
from fixtures.model.facts import Since, reported
from fixtures.model.nodes.health import Health, read_condition, wrong_status
from tests.builders import a_node
from tests.model.nodes.reported import a_condition, stated
from tests.tables import each_row

IMEX = "ErrorCode:DCGM_FR_IMEX_UNHEALTHY GPU:0 IMEX daemon status is -3 (not READY) Recommended Action=CONTACT_SUPPORT;"
NVLINK = "ErrorCode:DCGM_FR_NVLINK_DOWN GPU:0 NvLink link 0 is currently down Recommended Action=COMPONENT_RESET;"


def health(condition: Condition, **node: str) -> Health:
    return read_condition(condition, a_node(labels=node.pop("labels", None), **node)).health  # type: ignore[arg-type]


@each_row
def test_known_conditions_have_the_polarity_of_who_writes_them(kind: str, status: str, wanted: Health) -> None:
    assert health(a_condition(kind, status)) is wanted


@each_row
def test_a_condition_of_nobody_known_is_read_by_its_shape_or_left_open(condition: dict[str, Any], wanted: Health) -> None:
    assert health(a_condition(**condition)) is wanted


@each_row
def test_the_findings_of_a_message_decide(kind: str, message: str, wanted: Health) -> None:
    assert health(a_condition(kind, reason=f"{kind}IsNotHealthy", message=message)) is wanted


def test_imex_matters_on_a_node_of_a_compute_domain() -> None:
    node = a_node(labels={"resource.nvidia.com/computeDomain": "9f3e"})
    assert read_condition(a_condition("GpuNvlinkWatch", message=IMEX), node).health is Health.FAULT


def test_nvlink_of_a_pcie_board_cannot_be_judged_without_knowing_its_bridge() -> None:
    for product in ("NVIDIA-A100-80GB-PCIe", "NVIDIA-A100-PCIE-40GB"):
        assert read_condition(a_condition("GpuNvlinkWatch", message=NVLINK), a_node(product=product)).health is Health.UNSURE


@each_row
def test_gke_tells_the_boot_and_the_xids(boot: str, reason: str, wanted: Health) -> None:
    condition = a_condition("XidCriticalError", reason=reason, message="6e43a052-e544-467b-a972-63d7cd2ce80a")
    assert read_condition(condition, stated(condition, boot=boot)).health is wanted


@each_row
def test_experiments_ask_the_same_table(kind: str, wanted: str) -> None:
    assert wrong_status(kind) == wanted


def test_a_long_message_is_read_in_no_time() -> None:
    condition = a_condition("SysLogsXIDError", message="ErrorCode:" * 30_000 + "Recommended Action=" * 30_000)
    assert read_condition(condition, a_node()).health is Health.FAULT


LIFECYCLE = ("DrainInProgress", "Drained", "MaintenancePlanned", "MaintenanceInProgress", "GracefulNodeShutdownInProgress")


@pytest.mark.parametrize("kind", LIFECYCLE)
@each_row
def test_a_condition_of_the_nodes_life_says_nothing_of_its_health(kind: str, status: str, message: str) -> None:
    assert health(a_condition(kind, status, reason="MaintenanceWindow", message=message)) is Health.OTHER


@each_row
def test_one_that_tells_a_fault_of_a_device_as_its_cause_is_unsure(reason: str, message: str) -> None:
    reading = read_condition(a_condition("MaintenancePlanned", "True", reason=reason, message=message), a_node())
    assert (reading.health, reading.devices) == (Health.UNSURE, True)
    assert reading.why == "work on the node is announced, and its text names a fault"


# -- since


def test_an_age_counts_from_the_latest_moment_and_is_never_negative() -> None:
    assert Since(latest=100.0).age(160.0) == 60.0
    assert Since(latest=200.0).age(160.0) == 0.0
    assert Since().age(160.0) is None


def test_text_of_the_cluster_is_short_and_harmless() -> None:
    assert reported("a\x1b[2J\n b") == "a\\x1b[2J b"
    assert len(reported("x" * 100_000)) == 161
