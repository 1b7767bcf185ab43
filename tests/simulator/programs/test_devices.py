from typing import Any

import msgspec
import pytest

from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.hardware import Sharing
from fixtures.simulator.nodes.devices import AdmissionFailure, DeviceManager
from tests.simulator.programs.small_cluster import RDMA, hardware

GPU = "nvidia.com/gpu"
HEALTHY = Behaviour()


def pod(uid: str, devices: dict[str, int], init: dict[str, int] | None = None) -> dict[str, Any]:
    main, first = (
        {"name": name, "resources": {"limits": {key: str(value) for key, value in (wanted or {}).items()}}}
        for name, wanted in (("main", devices), ("init", init))
    )
    return {"metadata": {"uid": uid, "name": uid}, "spec": {"containers": [main], "initContainers": [first] if init else []}}


def uuids(manager: DeviceManager, uid: str) -> list[str]:
    return [uuid for grant in manager.allocation(uid).of("main") for uuid in manager.seen(grant)]


def test_units_are_given_once_and_are_free_after_the_end() -> None:
    manager = DeviceManager(hardware("a", 4), HEALTHY)
    manager.allocate(pod("one", {GPU: 2}))
    manager.allocate(pod("two", {GPU: 2}))
    assert not set(uuids(manager, "one")) & set(uuids(manager, "two"))
    with pytest.raises(AdmissionFailure) as refusal:
        manager.allocate(pod("three", {GPU: 1}))
    assert refusal.value.reason == "UnexpectedAdmissionError"
    assert "requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0," in refusal.value.message
    freed = uuids(manager, "one")
    manager.free("one")
    manager.allocate(pod("three", {GPU: 2}))
    assert uuids(manager, "three") == freed


def test_init_containers_share_with_the_containers() -> None:
    manager = DeviceManager(hardware("a", 2), HEALTHY)
    manager.allocate(pod("one", {GPU: 2}, init={GPU: 2}))
    assert len(uuids(manager, "one")) == 2
    assert {unit.id for unit in manager.allocation("one").units} == {unit.id for unit in hardware("a", 2).units()[GPU]}


def test_a_refused_pod_holds_nothing() -> None:
    manager = DeviceManager(hardware("a", 2, hcas=1), HEALTHY)
    with pytest.raises(AdmissionFailure):
        manager.allocate(pod("one", {RDMA: 1, GPU: 3}))
    assert manager.holders() == {}


SHARED = Sharing(strategy="time-slicing", replicas=2)


def test_replicas_share_their_device_and_spread_over_devices() -> None:
    manager = DeviceManager(hardware("a", 2, sharing=SHARED), HEALTHY)
    for name in ("one", "two", "three", "four"):
        manager.allocate(pod(name, {GPU: 1}))
    seen = [uuids(manager, name)[0] for name in ("one", "two", "three", "four")]
    assert sorted(map(seen.count, set(seen))) == [2, 2]
    assert seen[0] != seen[1]  # the plugin's default policy: the least shared device first


def test_more_than_one_replica_is_refused_where_the_plugin_says_so() -> None:
    strict = hardware("a", 1, sharing=msgspec.structs.replace(SHARED, fail_requests_greater_than_one=True))
    with pytest.raises(AdmissionFailure) as refusal:
        DeviceManager(strict, HEALTHY).allocate(pod("one", {GPU: 2}))
    assert refusal.value.reason == "UnexpectedAdmissionError"
    assert "maximum request size for shared resources is 1; found 2" in refusal.value.message
