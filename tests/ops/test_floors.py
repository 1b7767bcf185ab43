"""OPS-11: versions with published faults."""

import msgspec
import pytest

from conformance.ops.versions import check_floors
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_daemonset, a_node, a_policy, a_scope
from tests.findings import causes
from tests.tables import each_row


def scope_with(image: str = "", runtime: str = "", driver: str = "", floors: dict[str, str] | None = None) -> Scope:
    node = a_node(labels={"nvidia.com/cuda.driver-version.full": driver} if driver else {})
    node.status.node_info.container_runtime_version = runtime
    agents = [a_daemonset(containers=[{"name": "main", "image": image}])] if image else []
    return a_scope(a_policy(operators={"versionFloors": floors or {}}), nodes=[node], daemonsets=agents)


@each_row
def test_tags_of_images(image: str, outcome: Outcome) -> None:
    (finding,) = check_floors(scope_with(image))
    assert finding.outcome is outcome


@each_row
def test_runtimes_of_nodes(runtime: str, outcome: Outcome) -> None:
    (finding,) = check_floors(scope_with(runtime=runtime))
    assert finding.outcome is outcome


@pytest.mark.parametrize(("driver", "expected"), [("580.95.05", {"gpu-0 driver": "BelowFloor"}), ("580.159.03", {}), ("590.1", {})])
def test_the_policy_may_ask_for_more_than_the_table(driver: str, expected: dict[str, str]) -> None:
    assert causes(check_floors(scope_with(driver=driver, floors={"driver": "580.159.03"}))) == expected


@pytest.mark.parametrize("runtime", ["docker://20.10.7", ""])
def test_a_part_of_which_no_fault_is_known_is_not_judged(runtime: str) -> None:
    with pytest.raises(NotApplicable):
        list(check_floors(scope_with("docker.io/rocm/gpu-operator:v1.5.0", runtime)))


def test_a_floor_that_is_no_version_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="versionFloors"):
        a_policy(operators={"versionFloors": {"driver": "580"}})
