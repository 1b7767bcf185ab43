"""Device taints in the simulated cluster: which devices a rule means."""

from typing import Any

import pytest

from fixtures.simulator.dra.allocator import choose
from fixtures.simulator.dra.taint_rules import taints_by_rules

DEVICE = ("gpu.nvidia.com", "node-1", "gpu-0")


def rule(effect: str = "NoSchedule", **selector: str) -> dict[str, Any]:
    return {"spec": {"deviceSelector": selector, "taint": {"key": "k", "effect": effect}}}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({}, True),
        ({"driver": "gpu.nvidia.com"}, True),
        ({"pool": "node-1", "device": "gpu-0"}, True),
        ({"driver": "gpu.nvidia.com", "pool": "node-1", "device": "gpu-1"}, False),
        ({"driver": "dra.net"}, False),
    ],
)
def test_what_a_selector_leaves_out_matches_any(selector: dict[str, str], matches: bool) -> None:
    assert bool(list(taints_by_rules([rule(**selector)], DEVICE))) is matches


def test_a_rule_without_a_selector_taints_nothing() -> None:
    assert list(taints_by_rules([{"spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}], DEVICE)) == []


@pytest.mark.parametrize(("effect", "device"), [("NoSchedule", "gpu-1"), ("NoExecute", "gpu-1"), ("None", "gpu-0")])
def test_a_claim_gets_the_first_device_that_no_rule_keeps_from_it(effect: str, device: str) -> None:
    classes = {"gpus": {"spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]}}}
    claim = {"spec": {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "gpus"}}]}}}
    published = {"driver": DEVICE[0], "pool": {"name": DEVICE[1]}, "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}
    chosen = choose(claim, classes, [{"spec": published}], [], [rule(effect, device="gpu-0")])
    assert [result["device"] for result in chosen or ()] == [device]
