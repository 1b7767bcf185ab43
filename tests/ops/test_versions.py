"""OPS-05 and 11: drivers, floors of versions, and the dates of the tables that they rest on."""

import msgspec
import pytest

from conformance.cli.main import main
from conformance.ops.versions import check_driver_sources, check_floors
from fixtures.model.cluster import Scope
from fixtures.model.platform.versions import version_of
from fixtures.tables.dated import FOLDER, Table
from fixtures.tables.rows import ALL, FLOORS, SUPPORT
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_container, a_daemonset, a_node, a_pod, a_policy, a_scope
from tests.findings import causes
from tests.tables import each_row

READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def judged(labelled: str, loaded: str, image: str, *, ready: bool, template: str = "") -> Outcome:
    labels = {"nvidia.com/gpu.deploy.driver": labelled, "nvidia.com/cuda.driver-version.full": loaded}
    agent = a_daemonset("nvidia-driver-daemonset", containers=[{"name": "driver", "image": template or image or "x"}])
    container, status = a_container("driver", image=image), READY if ready else {}
    pod = a_pod("driver-0", agent.namespace, node="gpu-0", owner=f"DaemonSet/{agent.name}", containers=[container], status=status)
    pod.metadata.owners[0].uid = agent.metadata.uid
    (finding,) = check_driver_sources(a_scope(nodes=[a_node(labels=labels)], daemonsets=[agent], pods=[pod] if image else []))
    return finding.outcome


@each_row
def test_one_node(labelled: str, loaded: str, image: str, ready: bool, outcome: Outcome) -> None:
    assert judged(labelled, loaded, image, ready=ready) is outcome


def test_a_node_that_waits_for_its_upgrade_has_the_driver_of_its_pod() -> None:
    old, new = (f"nvcr.io/nvidia/driver:{version}-ubuntu24.04" for version in ("570.86.15", "580.95.05"))
    assert judged("true", "570.86.15", old, ready=True, template=new) is Outcome.OK


def test_a_driver_of_which_nothing_says_where_it_comes_from_is_not_judged() -> None:
    with pytest.raises(NotApplicable):
        list(check_driver_sources(a_scope(nodes=[a_node()])))


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


def test_every_file_of_the_folder_is_a_table_that_somebody_reads() -> None:
    assert {file.stem for file in FOLDER.glob("*.yaml")} == {one.name for one in ALL}
    assert all(one.rows and one.table.about for one in ALL)


def test_every_version_can_be_read_and_first_versions_without_a_fault_are_in_order() -> None:
    for row in FLOORS.rows:
        fixed = [version_of(text) for text in row.fixed]
        assert None not in fixed
        assert fixed == sorted(one for one in fixed if one)
    assert all(version_of(row.below) for row in SUPPORT.rows)


@pytest.mark.parametrize(("date", "months"), [("2026-11", 0), ("2026-05", 6), ("2025-12", 11), ("2024-11", 24)])
def test_months(date: str, months: int) -> None:
    assert Table(date=date, about="", sources=["here"], rows=[]).months_old(2026, 11) == months


def test_the_command_names_each_table_with_its_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tables"]) == 0
    text = capsys.readouterr().out
    assert all(one.name in text and one.table.date in text and one.table.sources[0] in text for one in ALL)
