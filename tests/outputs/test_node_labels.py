import json

import pytest

from conformance.cli.inspect import inspect
from conformance.outputs import node_text
from conformance.outputs.captured_text import Unreadable
from fixtures.model.devices import node_labels
from fixtures.model.devices.node_advertisement import Inconsistency, advertisement, parse_product
from tests.tables import each_row

GPU = "nvidia.com/gpu"
SHARED = "nvidia.com/gpu.shared"


def labels(**parts: str) -> dict[str, str]:
    base = {"gpu.count": "4", "gpu.product": "NVIDIA-A10", "gpu.replicas": "1", "gpu.sharing-strategy": "none"}
    return {
        f"nvidia.com/{name}": value
        for name, value in (base | {key.replace("__", "."): value for key, value in parts.items()}).items()
        if value
    }


def mixed(**parts: str) -> dict[str, str]:
    base = {
        "gpu__count": "2",
        "gpu__product": "NVIDIA-H100-80GB-HBM3",
        "gpu__replicas": "0",
        "mig__strategy": "mixed",
        "mig-1g.10gb__count": "14",
        "mig-1g.10gb__replicas": "1",
        "mig-1g.10gb__product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
    }
    return labels(**(base | parts))


def what(found: list[Inconsistency]) -> list[str]:
    return [item.what for item in found]


@each_row
def test_product_grammar(text: str, expected: tuple[str, str, bool, bool]) -> None:
    product = parse_product(text)
    assert (product.model, product.mig_profile, product.mig_invalid, product.shared) == expected


@each_row
def test_expectations(node: dict[str, str], expected: dict[str, int]) -> None:
    assert node_labels.expectations(advertisement(node)) == expected


@pytest.mark.parametrize(
    "node", [labels(), labels(gpu__replicas="3", **{"gpu__sharing-strategy": "mps"}), mixed(), mixed(**{"mig-1g.10gb__replicas": "2"})]
)
def test_what_is_expected_is_consistent_and_one_less_is_not(node: dict[str, str]) -> None:
    expected = {name: str(units) for name, units in node_labels.expectations(advertisement(node)).items()}
    assert node_labels.capacity_inconsistencies(advertisement(node, expected)) == []
    for name, units in expected.items():
        if units != "0":
            short = expected | {name: str(int(units) - 1)}
            assert what(node_labels.inconsistencies(advertisement(node, short, short))) == [f"capacity {name}"]


def test_capacity_disagreements_name_their_source() -> None:
    (found,) = node_labels.capacity_inconsistencies(advertisement(labels(), {GPU: "3"}))
    assert (found.observed, found.expected, found.source) == ("3", "4", "nvidia.com/gpu.count 4 x replicas 1")
    assert what(node_labels.capacity_inconsistencies(advertisement(labels(), {GPU: "4", "nvidia.com/mig-1g.5gb": "1"}))) == [
        "capacity nvidia.com/mig-1g.5gb"
    ]
    assert what(node_labels.capacity_inconsistencies(advertisement(labels(), {GPU: "4", SHARED: "8"}))) == [f"capacity {SHARED}"]
    assert what(node_labels.capacity_inconsistencies(advertisement(labels(), {GPU: "4.5"}))) == [f"capacity {GPU}", f"capacity {GPU}"]


def test_partly_mig_node_is_bounded() -> None:
    node = mixed(**{"mig-1g.10gb__count": "7", "gpu__replicas": "1"})
    assert node_labels.capacity_inconsistencies(advertisement(node, {GPU: "1", "nvidia.com/mig-1g.10gb": "7"})) == []
    assert what(node_labels.capacity_inconsistencies(advertisement(node, {GPU: "2", "nvidia.com/mig-1g.10gb": "7"}))) == [f"capacity {GPU}"]
    full = mixed(**{"mig-1g.10gb__count": "8", "gpu__replicas": "1"})
    assert what(node_labels.capacity_inconsistencies(advertisement(full, {GPU: "1", "nvidia.com/mig-1g.10gb": "8"}))) == [f"capacity {GPU}"]


@each_row
def test_labels_against_each_other(node: dict[str, str], expected: list[str]) -> None:
    assert what(node_labels.label_inconsistencies(advertisement(node))) == expected


def test_single_strategy_and_its_config() -> None:
    node = labels(
        mig__strategy="single",
        gpu__count="13",
        gpu__product="NVIDIA-H100-80GB-HBM3-MIG-1g.10gb",
        mig__config="all-1g.10gb",
        mig__config__state="success",
    )
    assert what(node_labels.label_inconsistencies(advertisement(node))) == ["label nvidia.com/gpu.count"]
    assert what(node_labels.label_inconsistencies(advertisement(node | {"nvidia.com/mig.config": "all-2g.20gb"}))) == [
        "label nvidia.com/gpu.product"
    ]


def node_object(name: str, units: str, state: str = "") -> dict[str, object]:
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels(mig__config__state=state)},
        "status": {"capacity": {GPU: units}, "allocatable": {GPU: units}},
    }


@each_row
def test_objects(document: object, verdict: str, code: str) -> None:
    result = inspect("node", json.dumps(document))
    assert (result.verdict, result.reason_code) == (verdict, code)


@pytest.mark.parametrize(("units", "verdict"), [("8", "undecidable"), ("7", "bad")])
def test_a_table_without_count_is_checked_for_divisibility(units: str, verdict: str) -> None:
    text = f"NAME   GPU   REPLICAS   PRODUCT\nn-1    {units}     4          NVIDIA-L4-SHARED\n"
    assert inspect("node", text).verdict == verdict


@pytest.mark.parametrize("text", ["", "nothing here", "{", "[]", '{"a": 1}', "kind: Node\n  bad: [", "Capacity:\n  cpu: 4"])
def test_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        node_text.parse_nodes(text)
