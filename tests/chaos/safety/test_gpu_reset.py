"""Which GPU may be reset without its peers, as far as the labels of its node tell."""

from pathlib import Path

import msgspec
import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.activities import devices
from chaos.cluster.injector import HostResult
from chaos.ledger.file import Ledger
from chaos.safety.admission import node_states
from fixtures.cluster.client import Cluster
from fixtures.model.devices.reset_alone import CLIQUE, COUNT, FAMILY, PRODUCT, reset_obstacle
from tests.chaos.ledger.simulated_cluster import acting, node
from tests.chaos.tables import table

LABELS = table("safety/gpu_labels")


def labels(family: str = "", product: str = "", count: str = "8") -> dict[str, str]:
    return {key: value for key, value in ((COUNT, count), (FAMILY, family), (PRODUCT, product)) if value}


@pytest.mark.parametrize("given", LABELS["one by one"], ids=str)
def test_these_are_reset_one_by_one(given: dict[str, str]) -> None:
    assert reset_obstacle(given) == ""


@pytest.mark.parametrize(("given", "why"), LABELS["refused"], ids=str)
def test_what_is_joined_or_not_known_is_refused(given: dict[str, str], why: str) -> None:
    assert why in reset_obstacle(given)


def test_gpus_that_nvlink_joins_across_nodes_are_not_reset() -> None:
    real, none = "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1", "00000000-0000-0000-0000-000000000000.0"
    hopper = labels("hopper", "x")
    assert "those of other nodes" in reset_obstacle({**hopper, CLIQUE: real}, [real])
    assert reset_obstacle({**hopper, CLIQUE: real}, ["", "other.1"]) == ""
    assert reset_obstacle({**hopper, CLIQUE: none}, [none]) == ""


def test_the_gates_are_told_of_every_node() -> None:
    alone, linked = node("gpu-1", **labels("hopper", "H100")), node("gpu-2", **labels("volta", "Tesla-V100-SXM2-32GB"))
    found = node_states([alone, linked, node("gpu-3")], [], ("nvidia.com/gpu",))
    assert found["gpu-1"].reset_obstacle == ""
    assert "reset together" in found["gpu-2"].reset_obstacle
    assert "not known" in found["gpu-3"].reset_obstacle


def test_a_refusal_because_of_peers_is_not_asked_again(
    tmp_path: Path, cluster: Cluster, book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "GPU Reset couldn't run because GPU 00000000:1B:00.0 is linked to other GPUs by NVLink."
    asked: list[object] = []

    def run(argv: object, **_: object) -> HostResult:
        asked.append(argv)
        return HostResult(exit_code=3, output=said)

    monkeypatch.setattr(devices, "run", run)
    acts = acting(tmp_path, cluster, book)
    acts.plan = msgspec.structs.replace(acts.plan, seconds={"clients": 60.0})
    with acts.as_current(), pytest.raises(ActivityFailed, match="without its peers"):
        devices._reset_when_free("GPU-7")
    assert len(asked) == 1


@pytest.mark.parametrize(("clients", "attempted"), [("GPU-7, 4711", True), ("No running processes found", False)])
def test_on_hardware_a_reset_is_asked_for_only_while_a_process_is_on_the_gpu(
    clients: str, attempted: bool, tmp_path: Path, cluster: Cluster, book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def run(argv: tuple[str, ...], **_: object) -> HostResult:
        asked.append(" ".join(argv))
        if "--gpu-reset" in asked[-1]:
            return HostResult(exit_code=1, output="GPU 00000000:1B:00.0 is currently in use by another process.")
        return HostResult(exit_code=0, output=clients if "--query-compute-apps" in asked[-1] else "")

    monkeypatch.setattr(devices, "run", run)
    monkeypatch.setattr(devices, "worker_device", lambda: "GPU-7")
    with acting(tmp_path, cluster, book).as_current():
        found = devices.reset_in_use()
    assert any("--gpu-reset" in line for line in asked) is attempted
    assert (found["attempted"], found["refused"]) == (attempted, attempted)
