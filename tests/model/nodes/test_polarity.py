"""Conditions as monitors and clouds write them. Each case is from a public report or from the monitor's own source."""

from functools import partial
from typing import Any

import pytest

from fixtures.cluster.client import Answer
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Condition
from fixtures.model.facts import Since, reported
from fixtures.model.nodes.health import Health, read_condition, wrong_status
from fixtures.model.nodes.holds import SPEC_TAINTS, SPEC_UNSCHEDULABLE, label, last_write
from fixtures.snapshot.managed_fields import MOST_ASKED, fields_of, read_fields
from tests.builders import a_node, a_snapshot
from tests.model.nodes.reported import DAY, HOUR, NOW, a_condition, stated, written
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


class Api:
    """A cluster that answers for single nodes, and is slow for one of them."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, key: str, name: str, namespace: str) -> Answer:
        self.asked.append(f"{key}/{name}")
        if name == "slow":
            raise ApiTrouble("Timeout", "no answer")
        return Answer(status=200, body=b'{"metadata": {"managedFields": []}}')


def test_the_newest_write_of_a_field_is_found_with_its_manager() -> None:
    fields = [
        *written(SPEC_TAINTS, "karpenter", 2 * DAY),
        *written(SPEC_TAINTS, "kubectl-taint", HOUR),
        *written(SPEC_UNSCHEDULABLE, "x", 1),
    ]
    found = last_write(fields, SPEC_TAINTS)
    assert found is not None
    assert (found.manager, found.at) == ("kubectl-taint", NOW - HOUR)
    assert last_write(fields, label("a")) is None


def test_what_the_snapshot_holds_is_not_asked_for_and_nothing_is_asked_twice() -> None:
    snapshot, api = a_snapshot(), Api()
    snapshot.managed_fields = {"kept": ["entry"]}
    nodes = [a_node(name) for name in ("kept", "asked", "slow")]
    found = fields_of(snapshot, nodes, partial(read_fields, api, "nodes"))  # type: ignore[arg-type]
    assert found == {"kept": ["entry"], "asked": []}
    fields_of(snapshot, nodes[:2], partial(read_fields, api, "nodes"))  # type: ignore[arg-type]
    assert api.asked == ["nodes/asked", "nodes/slow"]


def test_requests_do_not_grow_with_the_cluster() -> None:
    api = Api()
    fields_of(a_snapshot(), [a_node(f"n{number}") for number in range(500)], partial(read_fields, api, "nodes"))  # type: ignore[arg-type]
    assert len(api.asked) == MOST_ASKED
