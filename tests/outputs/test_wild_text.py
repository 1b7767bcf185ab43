"""No text makes a reader raise anything but ``Unreadable``, and no text makes it slow."""

import contextlib
import time

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from conformance.cli.inspect import KINDS, inspect, to_json, to_text
from conformance.outputs import events, job_logs, nccl_lines, nccl_tests_rows
from conformance.outputs.captured_text import Unreadable, unwrapped
from conformance.outputs.inspection import Inspection
from fixtures.model.devices import node_labels
from fixtures.model.devices.node_advertisement import advertisement
from tests.outputs.lookalikes import lookalike
from tests.tables import table

pytestmark = pytest.mark.test_all

TABLE = table(__file__)
CORPUS = TABLE["CORPUS"]
SETTINGS = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def judge(kind: str, text: str) -> Inspection | None:
    """What is made of a text; None where it is unreadable."""
    try:
        result = inspect(kind, text)
    except Unreadable:
        return None
    assert result.reason_code
    to_json(result)
    to_text(result)
    return result


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


STRANGE = st.one_of(
    st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=80),
    st.sampled_from(
        [
            "h9:1:2 [0] NCCL INFO Channel 31/0 : 0[0] -> 1[0] [send] via WARP/0/GDRDMA",
            "h9:1:2 [0] NCCL INFO Channel 31/0 : 0[0] -> 1[0]",
            "h9:1:2 [0] NCCL INFO a line of the next release",
            "h9:1:2 [0] new.cc:1 NCCL WARN something failed that nobody knows",
            "# A comment that nobody knows : 7",
            'DCGM_FI_NEW_FIELD{gpu="0",UUID="GPU-a"} 1',
            'DCGM_FI_DEV_GPU_TEMP{gpu="77",UUID="GPU-z"} 1',
            "    New Section",
            "        New Field                         : New Value",
            "  Warning  NewReason  3s  new-controller  nobody knows what this means",
            "3s  Warning  NewReason  pod/new-0  nobody knows what this means",
            "x.example/device: 3",
            "new-pod-0   1/2   NewState   0   5m",
            '{"log": "a line", "stream": "stdout"}',
            "2026-01-01T00:00:00Z stdout F a line",
            "[   99.000001] NVRM: a line of the next driver",
        ]
    ),
)
RANK = {"bad": 0, "undecidable": 1, "good": 2}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in sorted(CORPUS.items()) for name in names])
@settings(SETTINGS, max_examples=60)
@given(data=st.data())
def test_a_line_that_is_not_understood_never_makes_a_verdict_better(kind: str, name: str, data: st.DataObject) -> None:
    lines = lookalike(name).splitlines()
    begin = data.draw(st.integers(0, len(lines) - 1))
    kept = lines[begin : data.draw(st.integers(begin + 1, len(lines)))]
    before = judge(kind, "\n".join([*kept, ""]))
    at = data.draw(st.integers(0, len(kept)))
    strange = data.draw(STRANGE)
    assume(not strange.startswith("GPU "))  # where the next GPU begins: that is understood
    after = judge(kind, "\n".join([*kept[:at], strange, *kept[at:], ""]))
    if before is not None and after is not None and after.kind == before.kind:
        assert RANK[after.verdict] <= RANK[before.verdict]


@pytest.mark.parametrize("name", ["nccl-gdr", "nccl-mnnvl"])
@SETTINGS
@given(data=st.data())
def test_no_channel_of_a_log_is_lost_by_what_stands_behind_it(name: str, data: st.DataObject) -> None:
    lines = lookalike(name).splitlines()
    number = data.draw(st.sampled_from([index for index, line in enumerate(lines) if "Channel" in line]))
    behind = data.draw(st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), max_size=30))
    damaged = nccl_lines.parse("\n".join([*lines[:number], lines[number] + behind, *lines[number + 1 :]]))
    whole = nccl_lines.parse("\n".join(lines))
    assert len(damaged.channels) >= len(whole.channels)
    assert sum(line.gdr for line in damaged.channels) <= sum(line.gdr for line in whole.channels)


@SETTINGS
@given(text=st.text(max_size=300))
def test_any_text_is_unwrapped_without_loss_of_plain_lines(text: str) -> None:
    plain = [line for line in text.split("\n") if "{" not in line and " std" not in line]
    left = unwrapped(text).split("\n")
    assert all(line in left for line in plain)


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
    "host:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA" * 3_000,
    "h:1:2 [0] " * 30_000,
    '{"log":"x","stream":"stdout"}' * 8_000,
    '{"log":"' + "x" * 100_000 + '"}\n' + '{"log":"' * 20_000,
    "2026-01-01T00:00:00Z stdout P a\n" * 10_000,
    "8 2 float sum -1 " * 12_000,
    "Fabric\n" * 20_000,
    "Capacity:\n" + "  x.y/z:  1\n" * 8_000,
    'The Pod "a" is invalid: ' + "a.b: Invalid value: " * 8_000,
    "NAME READY STATUS RESTARTS\n" + "a 1/1 Running 0\n" * 8_000,
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
            *("gpu.count", "gpu.replicas", "gpu.product", "gpu.sharing-strategy", "mig.strategy", "mig.config", "mig.config.state"),
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
    expected = {name: str(units) for name, units in node_labels.expectations(advertisement(labels)).items()}
    found = node_labels.inconsistencies(advertisement(labels, expected, expected))
    bounded = [item for item in found if item.what.startswith(("capacity", "allocatable")) and item.what.partition(" ")[2] in expected]
    assert bounded == [], "what the labels predict is consistent with them"


@given(st.text(max_size=120))
def test_any_row_or_message(text: str) -> None:
    nccl_tests_rows.parse_row(text)
    events.classify(text)
    events.gang_shortage(text)
    with contextlib.suppress(Unreadable):
        job_logs.parse_perftest("RDMA_Write BW Test\n" + text)
    with contextlib.suppress(Unreadable):
        events.parse_unschedulable("0/3 nodes are available: " + text)
