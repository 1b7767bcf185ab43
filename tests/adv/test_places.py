"""Where probes can ask for devices on nodes with a device plugin and a DRA driver."""

from __future__ import annotations

import pytest

from conformance.devices.free_devices import places_of
from tests.builders import a_node, a_scope
from tests.dra import a_class, a_slice


@pytest.mark.parametrize(
    ("driver", "places"),
    [
        ("gpu.amd.com", ["nvidia.com/gpu", "deviceclass.resource.kubernetes.io/gpu.amd.com"]),
        ("gpu.nvidia.com", ["nvidia.com/gpu"]),  # the plugin may have given the same devices away
        ("hami-core-gpu.project-hami.io", ["nvidia.com/gpu"]),  # another name, and perhaps the same devices
    ],
)
def test_devices_of_another_vendor_than_the_plugins_are_asked_for_too(driver: str, places: list[str]) -> None:
    node = a_node()
    scope = a_scope(nodes=[node], resourceslices=[a_slice("gpu-0", driver)], deviceclasses=[a_class(driver, driver)])
    assert [place.resource for place in places_of(scope, node)] == places
