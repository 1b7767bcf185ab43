"""Mutants of pages of metrics: each is found and named by device, and no healthy page is. Reports: docs/facts/telemetry.md."""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from conformance.catalogue import load_catalogue
from conformance.obs.flaws import Flaw, dead_activity, flaws, movement
from conformance.obs.page import read_page
from conformance.outputs.captured_text import Unreadable
from conformance.outputs.dcgm import is_blank, parse_page
from fixtures.model.devices.measured_devices import NodeFacts
from fixtures.model.platform.exporters import metrics_page, metrics_port
from fixtures.policy.model import Metrics
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.hardware import PRODUCTS, Hardware, gpus
from fixtures.simulator.nodes.devices import DeviceManager
from fixtures.simulator.nodes.machine.host import Host
from fixtures.simulator.nodes.telemetry import Exporter
from tests.samples import sample
from tests.tables import each_row, filled, table

FAMILIES = Metrics().families
CAUSES = {cause for id_ in ("OBS-01", "OBS-03") for cause in load_catalogue().get(id_).causes}
WHOLE, SLICED, AMD = "h100", "a100", "mi300x"
_LAYOUT = {"1g.10gb": 2, "3g.40gb": 1}
_PRODUCTS = {WHOLE: "H100", SLICED: "A100-80", AMD: "MI300X"}


@cache
def hardware(node: str) -> Hardware:
    return Hardware(node=node, gpus=gpus(node, PRODUCTS[_PRODUCTS[node]], 4, _LAYOUT if node == SLICED else None), driver="580.95.05")


def page(node: str = WHOLE) -> str:
    return Exporter(DeviceManager(hardware(node), Behaviour()), Behaviour(), Host(node, hardware(node)), 1.0).text([])


def uuid(number: int, node: str = WHOLE) -> str:
    return hardware(node).gpus[number].uuid


def facts(node: str = WHOLE, **more: object) -> NodeFacts:
    layout = {name: 4 * count for name, count in _LAYOUT.items()} if node == SLICED else None
    memory = None if node == AMD else PRODUCTS[_PRODUCTS[node]].memory_mib
    known = NodeFacts(name=node, others=frozenset({"h100-9"}), counts=((4, "label"),), instances=layout, memory_mib=memory)
    return msgspec.structs.replace(known, **more)


def found(text: str, node: str = WHOLE, families: tuple[str, ...] = FAMILIES, **more: object) -> list[Flaw]:
    """What a page is found to have, unreadable ones included."""
    try:
        read = read_page(text)
    except Unreadable as error:
        return [Flaw("MetricsUnreadable", str(error))]
    return [*flaws(read, facts(node, **more), families), *dead_activity(read)]


def change(find: str, put: str) -> Callable[[str], str]:
    def changed(text: str) -> str:
        new = re.sub(find, put, text, flags=re.MULTILINE)
        assert new != text, "the mutant changes nothing"
        return new

    return changed


def later(text: str) -> str:
    """A page of dcgm-exporter 4.8 as 4.9 serves it, by its documented names and units."""

    def line(found: re.Match[str]) -> str:
        now, times = LATER[found[1]]
        value = float(found[3])
        return f"{now}{found[2]} {value if is_blank(value) else value * times:.15g}"

    text = re.sub(rf"^({'|'.join(LATER)})(\{{.*}}) (\S+)$", line, text, flags=re.MULTILINE)
    return text.replace("DCGM_FI_DRIVER_VERSION=", "DCGM_FI_SYSTEM_DRIVER_VERSION=")


def swap(one: str, other: str, lines: str = "") -> Callable[[str], str]:
    """Two texts in each other's place, in the lines that hold a word."""
    return lambda text: "".join(
        line.replace(one, "\0").replace(other, one).replace("\0", other) if lines in line else line
        for line in text.splitlines(keepends=True)
    )


UTIL = "DCGM_FI_DEV_GPU_UTIL"
FIRST = r'\{gpu="0"[^}]*\} '
TABLE = table(__file__)
MUTANTS, LATER, LATER_MUTANTS = TABLE["MUTANTS"], TABLE["LATER"], TABLE["LATER_MUTANTS"]


def changed(how: Any) -> Callable[[str], str]:
    match how:
        case [find, put]:
            return change(find, put)
        case {"swap": texts}:
            return swap(*texts)
        case {"cut": number}:
            return lambda text: text[:-number]
        case {"text": whole}:
            return lambda _: str(whole)
    return str


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_of_a_healthy_page_is_found_and_named(name: str) -> None:
    node = MUTANTS[name][0]
    words = {"@FIRST@": FIRST}
    for number, gpu in enumerate(hardware(node).gpus):
        words |= {f"@{number}@": gpu.uuid, f"@pci {number}@": gpu.pci_bus_id[4:]}
    _, how, cause, named, *more = filled(MUTANTS[name], words)
    texts = [flaw.text for flaw in found(changed(how)(page(node)), node, **(more[0] if more else {})) if flaw.cause == cause]
    assert any(named in text for text in texts), texts


@pytest.mark.parametrize("name", LATER_MUTANTS)
def test_a_wrong_value_of_a_renamed_series_is_found_by_the_name_on_the_page(name: str) -> None:
    node, how, cause, named = filled(LATER_MUTANTS[name], {"@FIRST@": FIRST})
    texts = [flaw.text for flaw in found(changed(how)(later(page(node))), node) if flaw.cause == cause]
    assert any(named in text for text in texts), texts


@pytest.mark.parametrize("node", [WHOLE, SLICED])
def test_a_healthy_page_of_renamed_series_has_no_flaw_and_says_the_same(node: str) -> None:
    old = page(node)
    new = later(old)
    assert not re.search(rf"^({'|'.join(LATER)})\{{", new, re.MULTILINE)
    assert found(new, node) == []
    parts = [read_page(text).parts for text in (old, new)]
    for before, now in zip(*parts, strict=True):
        assert all(now.all(name) == pytest.approx(values) for name, values in before.values.items())


@pytest.mark.parametrize("name", LATER)
def test_a_series_has_the_same_value_by_either_name(name: str) -> None:
    pages = [f'{name}{{gpu="0",UUID="GPU-1"}} 60\n', later(f'{name}{{gpu="0",UUID="GPU-1"}} 60\n')]
    (before,), (now,) = (read_page(text).parts for text in pages)
    assert now.values.keys() == {LATER[name][0]}
    assert now.value(name) == pytest.approx(before.value(name)) == 60


def test_the_energy_of_a_device_grows_under_its_new_name() -> None:
    first = read_page(later(page()))
    assert [flaw.cause for flaw in movement(first, first, 60).flaws] == ["SamplesFrozen"] * 4
    assert all("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL" in flaw.text for flaw in movement(first, first, 60).flaws)


def test_a_device_that_the_node_does_not_offer_is_no_fault_of_the_exporter() -> None:
    assert found(page(), counts=((3, "label"),)) == []
    assert found(page(), counts=((9, "label"), (4, "capacity"))) == []


@pytest.mark.parametrize("node", _PRODUCTS)
@pytest.mark.parametrize(
    "renamed", [{}, {"Hostname=": "hostname="}, {'Hostname="': 'Hostname="dcgm-exporter-sn5rp-'}, {"UUID=": "gpu_uuid="}]
)
def test_a_healthy_page_has_no_flaw(node: str, renamed: dict[str, str]) -> None:
    text = page(node)
    for old, new in renamed.items():
        text = text.replace(old, new)
    assert found(text, node) == []


@pytest.mark.parametrize(
    ("number", "families"), [(2, FAMILIES), (3, FAMILIES), (4, FAMILIES), (1, ("utilisation",)), (5, ("utilisation", "xid"))]
)
def test_a_captured_page_has_no_flaw(number: int, families: tuple[str, ...]) -> None:
    """Excerpts lack what was cut out of them; whole pages have all, but no Xid before the first one, and vGPUs have no sensors."""
    read = read_page(sample(f"dcgm-metrics-{number}"), whole=False)
    assert flaws(read, NodeFacts(name="n", counts=((1, "label"),)), families) == []


FORMS = 'a{x="1,}",y="\\"\\\\n",z="\\n"} 1e-3 1700000000000\nb 2\nb{} +Inf\nc{x="#"}  -0.5\n'


@pytest.mark.parametrize("node", [*_PRODUCTS, ""])
def test_a_page_is_read_as_prometheus_reads_it(node: str) -> None:
    """By the parser of its client, which renames counters by their types, and says nothing of the lines that it refuses."""
    text = re.sub(r"^#.*\n", "", page(node) if node else FORMS, flags=re.MULTILINE)
    theirs = [one for family in text_string_to_metric_families(text) for one in family.samples]
    ours, broken = parse_page(text)
    compared = [sorted((one.name, sorted(one.labels.items()), float(one.value)) for one in samples) for samples in (theirs, ours)]
    assert compared[0] == compared[1]
    assert not broken


ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
without_energy = change(rf"^{ENERGY}.*\n", "")


def at_work(text: str) -> str:
    return change(rf"^({UTIL}.*}} ).*", r"\g<1>80")(without_energy(text))


@pytest.mark.parametrize(
    ("first", "last", "causes", "still"),
    [
        (str, str, {"SamplesFrozen"}, 0),  # the same page again: gpu-monitoring-tools#188
        (
            str,
            change(rf"^({ENERGY}{{gpu=\"[0-2]\".*}} )(\d+)", r"\g<1>\g<2>9"),
            {"SamplesFrozen"},
            0,
        ),  # one device hangs: dcgm-exporter#164
        (str, change(rf"^({ENERGY}.*}} )(\d+)", r"\g<1>\g<2>9"), set(), 0),
        (str, change(rf"^({ENERGY}.*}} ).*", r"\g<1>17"), {"CounterBackwards"}, 0),
        (without_energy, without_energy, set(), 4),  # idle, and nothing tells
        (without_energy, lambda text: change(r"^(DCGM_FI_DEV_POWER_USAGE.*)", r"\g<1>7")(without_energy(text)), set(), 0),
        (at_work, at_work, {"SamplesFrozen"}, 0),
    ],
)
def test_samples_that_stand_still_are_reported_from_devices_that_do(
    first: Callable[[str], str], last: Callable[[str], str], causes: set[str], still: int
) -> None:
    text = page()
    seen = movement(read_page(first(text)), read_page(last(text)), 60.0)
    assert ({flaw.cause for flaw in seen.flaws}, len(seen.still)) == (causes, still)
    assert all("GPU-" in flaw.text for flaw in seen.flaws)


@given(st.data())
def test_a_wild_page_is_read_or_refused_and_never_more(data: st.DataObject) -> None:
    lines = page(SLICED).splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(lines) - 1))
        cut = data.draw(st.integers(0, len(lines[at])))
        lines[at] = lines[at][:cut] + data.draw(st.text(max_size=12)) + data.draw(st.sampled_from(["", lines[at][cut:], "\n", "} 9e999\n"]))
    text = "".join(lines)
    for flaw in found(text, SLICED):
        assert flaw.cause in CAUSES
    with suppress(Unreadable):
        movement(read_page(text, whole=False), read_page(page(SLICED)), 60.0)


@each_row
def test_the_page_of_a_pod_is_where_its_ports_say_and_nowhere_else(ports: list[Any], annotations: dict[str, str], path: str) -> None:
    assert metrics_page("n", "p", metrics_port(ports), annotations) == f"/api/v1/namespaces/n/pods/{path}"
