"""No text makes a reader raise anything but ``Unreadable``, and no text makes it slow."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.cli.inspect import KINDS, inspect, to_json, to_text
from conformance.outputs import events, mig_geometry, nccl_tests, node_labels, perftest
from conformance.outputs.unreadable import Unreadable
from tests.outputs.lookalikes import lookalike

CORPUS = {
    "nccl-log": ["nccl-gdr", "nccl-socket", "nccl-mnnvl"],
    "nccl-tests": ["nccl-tests-new"],
    "nvidia-smi": ["smi-list", "smi-query", "smi-query.xml"],
    "dcgm-metrics": ["dcgm"],
    "node": ["node-describe"],
    "events": ["events-get"],
    "resourceslice": ["slices.yaml"],
    "podgroup": ["podgroup.yaml"],
    "psa-rejection": ["psa-rejection"],
    "kernel-log": ["kernel"],
    "ib-write-bw": ["ib-write-bw-cuda"],
    "mig-manager-log": ["kernel"],
    "vectoradd": ["kernel"],
}
SETTINGS = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def judge(kind: str, text: str) -> None:
    with contextlib.suppress(Unreadable):
        result = inspect(kind, text)
        assert result.reason_code
        to_json(result)
        to_text(result)


@pytest.mark.parametrize("kind", sorted(KINDS))
@SETTINGS
@given(text=st.text(max_size=400))
def test_any_text(kind: str, text: str) -> None:
    judge(kind, text)


@pytest.mark.parametrize("kind", sorted(KINDS))
@SETTINGS
@given(data=st.data())
def test_damaged_captures(kind: str, data: st.DataObject) -> None:
    text = lookalike(data.draw(st.sampled_from(CORPUS[kind])))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 60)))
        text = (
            text[:start]
            + data.draw(st.one_of(st.text(max_size=8), st.sampled_from(["0", "9" * 30, "-1", "N/A", "{", "}", "\n", ": ", "&a *a"])))
            + text[end:]
        )
    judge(kind, text)


HOSTILE = [
    " " * 200_000,
    "a" * 200_000,
    "0/3 nodes are available: " + "1 x, " * 40_000,
    "NCCL INFO Channel 00/0 : " * 8_000,
    "a.b-" * 50_000,
    "1 " * 100_000,
    "GPU 0: " * 30_000,
    "x:" * 100_000,
    "{" * 100_000,
    "[" * 100_000,
    '{"a":' * 20_000,
    "- " * 50_000,
    'DCGM_FI_DEV_GPU_UTIL{a="' * 9_000,
    "\\" * 200_000,
    "nvidia.com/" * 20_000,
    "Warning  FailedScheduling  " * 8_000,
    "NVRM: Xid (" * 20_000,
    "kind: List\nitems:\n" + "- kind: Event\n" * 3_000,
    "a: &a [x,x]\n" + "".join(f"b{n}: &b{n} [*{'a' if not n else f'b{n - 1}'}, *{'a' if not n else f'b{n - 1}'}]\n" for n in range(40)),
    "<nvidia_smi_log>" + "<gpu>" * 20_000,
    "  key" * 20_000 + " : value\n" + (" " * 63 + "k : v\n") * 2_000,
    "NAME" + "   X" * 1_000 + "\n" + "x " * 50_000,
    "\n" * 200_000,
    'violates PodSecurity "restricted:latest": ' + "a (b), " * 20_000,
]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"psa-rejection"}))
def test_hostile_text_is_judged_quickly(kind: str) -> None:
    for number, text in enumerate(HOSTILE):
        started = time.process_time()
        judge(kind, text)
        assert time.process_time() - started < 2.0, f"{kind}: text {number}"


KEYS = [
    f"nvidia.com/{name}"
    for name in (
        *(
            "gpu.count",
            "gpu.replicas",
            "gpu.product",
            "gpu.sharing-strategy",
            "mig.strategy",
            "mig.config",
            "mig.config.state",
            "mig.capable",
        ),
        *("mig-1g.10gb.count", "mig-3g.40gb.count", "mig-1g.10gb.replicas", "mig-1g.10gb.product"),
    )
]
PRODUCTS = ["NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "NVIDIA-A30-SHARED"]
VALUES = st.one_of(
    st.text(max_size=6),
    st.integers(-2, 10**9).map(str),
    st.sampled_from(["mixed", "single", "none", "all-balanced", "success", *PRODUCTS]),
)


@SETTINGS
@given(st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_any_labels(labels: dict[str, str]) -> None:
    expected = {name: str(units) for name, units in node_labels.expectations(labels).items()}
    found = node_labels.inconsistencies(labels, expected, expected)
    bounded = [item for item in found if item.what.startswith(("capacity", "allocatable")) and item.what.partition(" ")[2] in expected]
    assert bounded == [], "what the labels predict is consistent with them"


@given(st.text(max_size=60))
def test_any_product_and_profile(text: str) -> None:
    assert node_labels.parse_product(text).text == text
    mig_geometry.geometry_of(text)
    assert mig_geometry.fits("NVIDIA-H100-80GB-HBM3", {text: 1})[0] is (text in mig_geometry.H100_80.maxima)
    mig_geometry.config_layout("NVIDIA-H100-80GB-HBM3", f"all-{text}")
    mig_geometry.profile_of(text)


@given(st.text(max_size=120))
def test_any_row_or_message(text: str) -> None:
    nccl_tests.parse_row(text)
    events.classify(text)
    events.gang_shortage(text)
    events.quota_shortage(text)
    with contextlib.suppress(Unreadable):
        perftest.parse("RDMA_Write BW Test\n" + text)
    with contextlib.suppress(Unreadable):
        events.parse_unschedulable("0/3 nodes are available: " + text)
