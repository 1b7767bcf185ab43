"""Nodes that lost all their devices and of which only a cloud's or vendor's own mark is left, beside nodes that are well."""

from collections.abc import Mapping

import pytest

from conformance.catalogue import load_catalogue
from conformance.coverage.run import coverage_of_run
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.policy.model import Policy
from fixtures.verdict.coverage import Floor
from fixtures.verdict.record import Access, Result, Verdict
from tests.judging import judge
from tests.platforms.clusters import CLUSTERS
from tests.platforms.judged import snapshot_as_served
from tests.platforms.objects import SECURE, container, node, pod
from tests.requirements_offline import policy_over
from tests.tables import each_row

TYPE = "node.kubernetes.io/instance-type"


def judged(
    *more: Json, policy: Mapping[str, object] | None = None, ids: tuple[str, ...] = ("INV-01", "INV-02", "ADV-01")
) -> dict[str, Result]:
    snapshot = snapshot_as_served([*CLUSTERS["eks-p5"]().objects, *more])
    return judge(snapshot, policy_over(snapshot, dict(policy or {})), ids)


@each_row
def test_a_node_that_its_cloud_calls_an_accelerator_node_and_that_offers_nothing_is_named(labels: dict[str, str]) -> None:
    _is_lost(judged(node("lost-0", None, labels)))


@each_row
def test_a_node_without_accelerators_is_left_alone(labels: dict[str, str]) -> None:
    assert {one.verdict for one in judged(node("cpu-1", None, labels)).values()} == {Verdict.PASSED}


READ = tuple(id_ for id_, one in load_catalogue().by_id.items() if one.access is Access.READ)
PCI = "feature.node.kubernetes.io/pci-"
GRAPHICS = (
    {f"{PCI}1002.present": "true"},  # as the GPU operator sets feature discovery up
    {f"{PCI}0300_1002.present": "true"},
    {f"{PCI}0380_1002_164e.present": "true"},
    {f"{PCI}0380_8086.present": "true"},
)


def card_of(labels: dict[str, str], **more: str) -> Json:
    """A node with a card of the maker of such graphics, which is well and has labels of its own."""
    resource = "amd.com/gpu" if "1002" in str(labels) else "gpu.intel.com/i915"
    return node("card-0", {resource: 1}, {key.replace("__", "/"): value for key, value in more.items()}, [f"{resource}:NoSchedule"])


@pytest.mark.parametrize("labels", GRAPHICS)
def test_graphics_of_a_cpu_make_no_accelerator_node(labels: dict[str, str]) -> None:
    """Ryzen machines without cards beside NVIDIA's nodes: before, they and every pod on them failed."""
    ryzen = [node("ryzen-0", None, labels), pod("web-0", "research", "ryzen-0", container(securityContext=SECURE))]
    found = {id_: one for id_, one in judged(*ryzen, ids=READ).items() if "ryzen-0" in one.message}
    assert {id_: one.verdict for id_, one in found.items()} == {"INV-02": Verdict.INCONCLUSIVE}, "it may be a card that nobody offers"
    allowed = judged(*ryzen, policy={"accelerators": {"allowNotJudged": ["ryzen-*"]}}, ids=("INV-02",))
    assert allowed["INV-02"].verdict is Verdict.WAIVED
    unmarked = judged(*ryzen, policy={"accelerators": {"marks": ["nvidia.com/gpu.product=?*"]}}, ids=("INV-02",))
    assert unmarked["INV-02"].verdict is Verdict.PASSED, "the owner's marks leave such labels out"


@pytest.mark.parametrize("labels", GRAPHICS)
def test_a_lost_card_is_named_where_others_of_its_maker_are_served(labels: dict[str, str]) -> None:
    """One type of machine, or nothing that tells the two apart: Strix Halo's graphics are served by this label alone."""
    for lost, well in ((labels | {TYPE: "big"}, {TYPE: "big", "gpu.intel.com/product": "x", "amd.com/gpu": "true"}), (labels, labels)):
        _is_lost(judged(node("lost-0", None, lost), card_of(labels, **well)))


def _is_lost(found: dict[str, Result]) -> None:
    assert {id_: one.verdict for id_, one in found.items()} == {
        "INV-01": Verdict.FAILED,
        "INV-02": Verdict.INCONCLUSIVE,
        "ADV-01": Verdict.FAILED,
    }
    assert all("lost-0" in one.message for one in found.values())


@each_row
def test_graphics_of_a_cpu_make_no_accelerator_node_beside_cards(label: dict[str, str], own: dict[str, str], card: dict[str, str]) -> None:
    """Ryzen as a control plane beside nodes with cards of AMD: before, INV-01 said that its devices are lost."""
    found = judged(node("ryzen-0", None, own | label), card_of(label, **(label | card)))
    assert {id_: one.verdict for id_, one in found.items()} == {
        "INV-01": Verdict.PASSED,
        "INV-02": Verdict.INCONCLUSIVE,
        "ADV-01": Verdict.PASSED,
    }
    assert "no node like it offers a card of that maker" in found["INV-02"].message


def test_a_plugin_that_went_tells_that_cards_are_served() -> None:
    found = judged(node("lost-0", None, GRAPHICS[0]), node("lost-1", {"amd.com/gpu": 0}, GRAPHICS[0]), ids=("INV-01",))["INV-01"]
    assert found.verdict is Verdict.FAILED
    assert "lost-0" in found.message


@each_row
def test_a_node_that_has_a_label_of_cards_has_a_card(left: dict[str, str]) -> None:
    """An Instinct node that lost its plugin, beside others that are well."""
    _is_lost(judged(node("lost-0", None, {f"{PCI}1002.present": "true"} | left), card_of({f"{PCI}1002.present": "true"}, **left)))


def test_a_lost_node_of_devices_that_the_owner_listed_is_named() -> None:
    """Ascend's plugin went on one of two nodes: before, a policy that lists the devices was no help."""
    policy = {"accelerators": {"resources": ["+huawei.com/Ascend*"]}}
    label = {"accelerator": "huawei-Ascend910"}
    well = node("npu-0", {"huawei.com/Ascend910": 8}, label, ["huawei.com/Ascend910:NoSchedule"])
    assert {one.verdict for one in judged(well, policy=policy).values()} == {Verdict.PASSED}
    assert "npu-1" in judged(well, node("npu-1", None, label), policy=policy)["INV-01"].message


def test_a_healthy_node_of_devices_that_nobody_listed_fails_nothing() -> None:
    well = node("npu-0", {"huawei.com/Ascend910": 8}, {"accelerator": "huawei-Ascend910"}, ["huawei.com/Ascend910:NoSchedule"])
    found = judged(well, ids=READ)
    assert [id_ for id_, one in found.items() if one.verdict is Verdict.FAILED] == []
    assert {id_ for id_, one in found.items() if one.verdict is Verdict.INCONCLUSIVE} == {"INV-01", "INV-02", "FENCE-01", "ADV-01"}
    bare = node("npu-0", {"huawei.com/Ascend910": 8}, {"accelerator": "huawei-Ascend910"})
    assert judged(bare, ids=("FENCE-01",))["FENCE-01"].verdict is Verdict.FAILED


def shortfalls(*more: Json) -> list[str]:
    catalogue = load_catalogue()
    snapshot = snapshot_as_served([*CLUSTERS["eks-p5"]().objects, *more])
    results = list(judge(snapshot, Policy(), catalogue.by_id).values())
    scope = Scope(snapshot, Policy())
    return coverage_of_run(catalogue, results, {}, access=Access.READ, floor=Floor(), scope=scope).shortfalls


def test_a_resource_that_nobody_listed_and_that_fell_to_0_is_a_shortfall() -> None:
    reported = "no requirement judged huawei.com/Ascend910, which is 0 on npu-0 (accelerators.resources of the policy lacks it)"
    assert shortfalls(node("npu-0", {"huawei.com/Ascend910": 0})) == [reported]


@each_row
def test_what_stays_at_0_beside_devices_or_is_none_is_no_shortfall(devices: dict[str, int]) -> None:
    assert shortfalls(node("other-0", devices)) == []
