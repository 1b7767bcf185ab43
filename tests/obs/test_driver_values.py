"""Pages held against a document of the driver that was read between them. Reports: docs/facts/telemetry.md#a-page-and-the-driver."""

import math
import random
import re
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from conformance.obs.flaws import Bracket, against_driver, compared
from conformance.obs.page import read_page
from fixtures.nodeprobe.document import Device, Ecc, Remapping
from fixtures.nodeprobe.nvml import collect
from fixtures.nodeprobe.tabled import TabledLibrary
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.hardware import Gpu, Value
from fixtures.simulator.nodes.devices import DeviceManager
from fixtures.simulator.nodes.machine import device_table
from fixtures.simulator.nodes.machine.host import Host
from fixtures.simulator.nodes.telemetry import Exporter
from tests.obs.test_pages import FIRST, WHOLE, change, hardware, later, page, swap, uuid


class Machine:
    """Four devices in motion: which of them work changes at moments of chance, and time passes as somebody says.

    Heat takes seconds to come and go, and the driver shows the mean power of a second.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int = 0) -> None:
        self.now, self.chance, self.busy = 0.0, random.Random(seed), set[str]()
        monkeypatch.setattr(device_table, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.host = Host(WHOLE, hardware(WHOLE))
        monkeypatch.setattr(self.host, "busy", lambda: self.busy)
        self.reading, self.late = self.host.table.reading, dict[str, dict[str, float]]()
        monkeypatch.setattr(self.host.table, "reading", self.read)
        self.exporter = Exporter(DeviceManager(hardware(WHOLE), Behaviour()), Behaviour(), self.host, 1.0)

    def read(self, gpu: Gpu, *, busy: bool) -> dict[str, Value]:
        now = self.reading(gpu, busy=busy)
        late = self.late.setdefault(gpu.uuid, {"at": self.now, "temperature": 33.0, "power": 71_000.0})
        for name, slow in (("temperature", 4.0), ("power", 0.5)):
            late[name] += (float(now[name]) - late[name]) * (1 - math.exp((late["at"] - self.now) / slow))
            now[name] = int(late[name])
        late["at"] = self.now
        return now

    def wait(self, seconds: float, *, load: float) -> None:
        """Let time pass, in which devices begin and end to work; the energy of each is counted all the while."""
        for _ in range(6):
            self.now += self.chance.uniform(0, seconds / 3)
            for gpu in hardware(WHOLE).gpus:
                self.host.table.reading(gpu, busy=gpu.uuid in self.busy)
            if self.chance.random() < load:
                self.busy ^= {uuid(self.chance.randrange(4))}

    def page(self) -> str:
        return self.exporter.text([])

    def devices(self) -> tuple[Device, ...]:
        table = self.host.table.flat(((gpu, gpu.instances) for gpu in hardware(WHOLE).gpus), self.busy)
        return tuple(collect(partial(TabledLibrary, table)).devices)

    def bracket(self, *, load: float, edit: Callable[[str], str] = str) -> Bracket:
        self.wait(self.chance.uniform(0.1, 40), load=load)
        before = edit(self.page())
        self.wait(self.chance.uniform(0.1, 30), load=load)  # so old is what an exporter serves
        began = self.now
        self.wait(self.chance.uniform(0.1, 10), load=load)
        devices = self.devices()
        after = []
        for _ in range(2):
            self.wait(self.chance.uniform(1, 30), load=load)
            after.append(read_page(edit(self.page())))
        return Bracket(before=read_page(before), devices=devices, after=tuple(after), seconds=self.now - began)


@pytest.mark.parametrize("form", [str, later])
@pytest.mark.parametrize("polls", [100, pytest.param(1000, marks=pytest.mark.test_all)])
def test_a_device_under_changing_load_is_never_reported_to_differ(
    polls: int, form: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(monkeypatch)
    for poll in range(polls):
        flaws = list(against_driver(machine.bracket(load=(0.0, 0.05, 0.5, 1.0)[poll % 4], edit=form)))
        assert flaws == [], poll


def frozen(find: str) -> Callable[[str], str]:
    """An edit that keeps what a series of the first device showed on the first page, while it worked."""
    held: dict[str, str] = {}
    return lambda text: re.sub(
        rf"^{find}{FIRST}.*$", lambda found: held.setdefault(found[0].partition("{")[0], found[0]), text, flags=re.MULTILINE
    )


USED, FREE, POWER, HEAT = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_TEMP"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
times = {
    "MiB as bytes": (USED, lambda value: value * 2**20),
    "milliwatts": (POWER, lambda value: value * 1000),
    "joules": (ENERGY, lambda value: value / 1000),
    "half the memory": (f"(?:{USED}|{FREE})", lambda value: value / 2),
}


def scaled(find: str, by: Callable[[float], float]) -> Callable[[str], str]:
    return lambda text: re.sub(rf"^({find}{FIRST})(\S+)$", lambda found: f"{found[1]}{by(float(found[2])):.6f}", text, flags=re.MULTILINE)


DEFECTS: dict[str, tuple[Callable[[str], str], float]] = {
    # name: (what it makes of a page, the load under which it is found)
    **{name: (scaled(*how), 1.0) for name, how in times.items()},
    "another device's values": (swap(uuid(0), uuid(1), "DCGM"), 1.0),
    "another device's energy": (swap(uuid(0), uuid(1), ENERGY), 1.0),
    "a frozen counter": (frozen(ENERGY), 1.0),
    "a frozen temperature": (frozen(HEAT), 0.0),
    "a frozen power": (frozen(POWER), 0.0),
    "frozen memory": (frozen(f"(?:{USED}|{FREE})"), 0.0),
}


@pytest.mark.parametrize("form", [str, later])
@pytest.mark.parametrize("name", DEFECTS)
def test_an_exporter_that_shows_something_else_is_found(name: str, form: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    (edit, load), machine = DEFECTS[name], Machine(monkeypatch)
    machine.busy = {uuid(0)}
    machine.wait(60, load=0)
    machine.page()
    machine.wait(60, load=0)
    edit(machine.page())
    machine.busy = set()
    texts = [flaw.text for _ in range(5) for flaw in against_driver(machine.bracket(load=load, edit=lambda text: form(edit(text))))]
    assert any(uuid(0) in text for text in texts)


def driver(number: int = 0, **more: Any) -> Device:
    known = {"index": 0, "uuid": uuid(number), "pci_address": hardware(WHOLE).gpus[number].pci_bus_id[4:], "ecc": Ecc(uncorrected=0)}
    return Device(**{**known, **more})


def with_capacity(amount: int) -> Callable[[str], str]:
    """A page of dcgm-exporter 4.9 that shows so many bytes for the memory of the first device."""
    name = "DCGM_FI_DEV_FB_CAPACITY_BYTES"
    return lambda text: re.sub(
        r"^DCGM_FI_DEV_FB_USED_BYTES(\{gpu=\"0\".*}) .*\n", rf"\g<0>{name}\g<1> {amount}\n", later(text), flags=re.MULTILINE
    )


@pytest.mark.parametrize(
    ("device", "edit", "cause"),
    [
        (driver(), str, ""),
        (driver(3), str, ""),
        (driver(uuid="GPU-9"), str, "DeviceNotMeasured"),
        (driver(uuid="GPU-9", lost=True), str, ""),
        (driver(pci_address="0000:99:00.0"), str, "DevicesMixedUp"),
        (driver(ecc=Ecc(uncorrected=3)), str, "MetricDiffersFromDriver"),
        (driver(remapping=Remapping(failed=True)), str, "MetricDiffersFromDriver"),
        (driver(ecc=Ecc(uncorrected=3)), change(r"^(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL.*) 0$", r"\g<1> 4"), "MetricDiffersFromDriver"),
        (driver(memory_total=40 << 30), str, "MetricDiffersFromDriver"),
        (driver(energy=0.0), str, "MetricDiffersFromDriver"),
        (driver(energy=0.0), later, "MetricDiffersFromDriver"),
        (driver(memory_total=80 << 30), with_capacity(80 << 30), ""),
        (driver(memory_total=80 << 30), with_capacity(80 << 10), "MetricDiffersFromDriver"),
    ],
)
def test_a_page_is_held_against_the_driver_of_its_node(device: Device, edit: Callable[[str], str], cause: str) -> None:
    read = read_page(edit(page()))
    flaws = list(against_driver(Bracket(before=read, devices=(device,), after=(read, read), seconds=10.0)))
    assert [flaw.cause for flaw in flaws] == ([cause] if cause else [])


def test_without_a_second_page_no_counter_is_compared_and_after_a_reset_neither() -> None:
    read, device = read_page(page()), driver(energy=0.0, ecc=Ecc(uncorrected=3))
    reset = read_page(change(rf"^({ENERGY}.*}}) .*", r"\g<1> 7")(page()))
    assert list(against_driver(Bracket(before=read, devices=(device,)))) == []
    assert list(against_driver(Bracket(before=read, devices=(device,), after=(reset, reset), seconds=9.0))) == []


def test_each_comparison_names_a_field_of_the_document_and_a_reason() -> None:
    for one in compared():
        assert one.why
        kind: Any = Device
        for name in one.value.split("."):
            (field,) = (field for field in msgspec.structs.fields(kind) if field.name == name)
            kind = next((part for part in getattr(field.type, "__args__", (field.type,)) if part is not type(None)), None)
        assert kind in (int, float, bool), one
