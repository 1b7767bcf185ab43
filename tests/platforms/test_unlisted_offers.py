"""Nodes whose accelerators have names that the policy lacks: nothing untrue is said of them, and they never pass."""

from collections.abc import Mapping

import pytest

from fixtures.kubernetes.models import Json
from fixtures.policy.model import Policy
from fixtures.verdict.record import Result, Verdict
from tests.judging import judge
from tests.platforms.clusters import H100, NFD, PRESENT, gfd
from tests.platforms.judged import snapshot_as_served
from tests.platforms.objects import base, node
from tests.requirements_offline import policy_over
from tests.tables import each_row

FENCE = ["nvidia.com/gpu:NoSchedule"]
DEVICES = ("INV-01", "INV-02", "ADV-01", "ADV-03")
VOLCANO = {"volcano.sh/vgpu-number": 20, "volcano.sh/vgpu-memory": 163118, "volcano.sh/vgpu-cores": 200}


def judged(*nodes: Json, policy: Mapping[str, object] | None = None) -> dict[str, Result]:
    snapshot = snapshot_as_served([*base(), *nodes])
    return judge(snapshot, policy_over(snapshot, dict(policy)) if policy is not None else Policy(), DEVICES)


@each_row
def test_accelerators_under_a_name_that_the_policy_lacks_are_undecided(devices: dict[str, int], labels: dict[str, str]) -> None:
    found = judged(node("gpu-0", devices, labels, FENCE))
    name = next(iter(devices))
    assert {id_: one.verdict for id_, one in found.items() if id_ != "ADV-03"} == dict.fromkeys(DEVICES[:3], Verdict.INCONCLUSIVE)
    assert found["ADV-03"].verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE)
    assert all(name in found[id_].message and "accelerators.resources" in found[id_].message for id_ in DEVICES[:3])


def test_a_cluster_that_only_has_accelerators_which_the_policy_lacks_is_undecided() -> None:
    assert judged(node("npu-0", {"huawei.com/Ascend910": 8}))["INV-01"].verdict is Verdict.INCONCLUSIVE
    assert judged(node("cpu-1"))["INV-01"].verdict is Verdict.FAILED


def test_it_passes_where_the_policy_lists_them() -> None:
    policy = {"accelerators": {"resources": ["volcano.sh/vgpu-number"]}}
    labels = {NFD: "true", PRESENT: "true"}
    found = judged(node("gpu-0", VOLCANO, labels, FENCE), policy=policy)
    assert {id_: found[id_].verdict for id_ in DEVICES[:3]} == dict.fromkeys(DEVICES[:3], Verdict.PASSED)


ANNOTATION = "volcano.sh/node-vgpu-register"
TWO = "GPU-0,10,81559,100,NVIDIA-H100,0,true:GPU-1,10,81559,100,NVIDIA-H100,0,true:"
REPORTED = {
    "HAMi#1376, NVIDIA's name is left at 0, and memory is too large to be listed": {
        **VOLCANO,
        "nvidia.com/gpu": 0,
        "volcano.sh/vgpu-memory": 0,
    },
    "volcano-vgpu-device-plugin#56, without memory": {**VOLCANO, "volcano.sh/vgpu-memory": 0},
    "an older plugin lists parts alone": {"volcano.sh/vgpu-number": 20},
}


@pytest.mark.parametrize("report", REPORTED)
def test_parts_of_devices_are_devices_by_the_annotation_of_their_plugin(report: str) -> None:
    labels = {**gfd(H100, 2), NFD: "true"}
    found = judged(
        node("gpu-0", REPORTED[report], labels, FENCE, annotations={ANNOTATION: TWO}), node("cpu-0", {"volcano.sh/vgpu-number": 0})
    )
    assert {id_: found[id_].verdict for id_ in DEVICES} == dict.fromkeys(DEVICES, Verdict.PASSED)


def test_parts_that_went_are_no_devices_and_those_of_a_plugin_that_is_registered_are_missed() -> None:
    """volcano-vgpu-device-plugin#18: the name stays after its plugin was removed, beside the devices of another."""
    labels = {**gfd(H100, 2), NFD: "true"}
    gone = judged(node("gpu-0", {"nvidia.com/gpu": 2, "volcano.sh/vgpu-number": 0}, labels, FENCE))
    assert gone["ADV-01"].verdict is Verdict.PASSED
    lost = judged(node("gpu-0", {"volcano.sh/vgpu-number": 0}, labels, FENCE, annotations={ANNOTATION: TWO}))
    assert lost["ADV-01"].verdict is Verdict.FAILED


@each_row
def test_what_is_certainly_no_device_of_the_node_excuses_nothing(devices: dict[str, int]) -> None:
    found = judged(node("gpu-0", devices, gfd(H100, 8), FENCE))
    assert {id_: found[id_].verdict for id_ in ("INV-01", "ADV-01", "ADV-03")} == dict.fromkeys(
        ("INV-01", "ADV-01", "ADV-03"), Verdict.FAILED
    )


def test_the_vendor_s_own_labels_tell_whose_devices_a_node_has() -> None:
    """Without NFD's: a card beside the GPUs excuses nothing."""
    labels = {name: value for name, value in gfd(H100, 8).items() if name.startswith("nvidia.com/")}
    found = judged(node("gpu-0", {"xilinx.com/fpga-u250": 2}, labels, FENCE))
    assert {found[id_].verdict for id_ in ("INV-01", "ADV-01")} == {Verdict.FAILED}


@each_row
def test_a_taint_that_goes_with_the_state_of_the_node_is_no_fence(taint: str, verdict: Verdict) -> None:
    snapshot = snapshot_as_served([*base(), node("npu-0", {"acme.example.com/npu": 8}, {NFD: "true"}, [taint])])
    assert judge(snapshot, Policy(), ("FENCE-01",))["FENCE-01"].verdict is verdict
