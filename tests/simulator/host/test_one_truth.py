"""A fault is set once in a machine's device table, and its probe, nvidia-smi, exporter and plugin say the same of it."""

import asyncio
import re

import pytest

from fixtures.nodeprobe import smi
from fixtures.nodeprobe.document import Device, Document, decode
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.hardware import PRODUCTS, Hardware, Value, gpus
from fixtures.simulator.nodes.devices import ContainerView, DeviceManager, all_devices
from fixtures.simulator.nodes.machine.host import Host
from fixtures.simulator.nodes.plugins.device_plugins import listed
from fixtures.simulator.nodes.programs.nvidia_smi import nvidia_smi
from fixtures.simulator.nodes.programs.suite import node_probe
from fixtures.simulator.nodes.shell import Invocation, Program, Streams
from fixtures.simulator.nodes.telemetry import Exporter

NODE = {"H100": None, "A100-40": {"1g.5gb": 7}, "L40S": None, "GB200": None}
FAULTS: list[tuple[dict[str, Value], str, float]] = [
    ({"lost": 1}, "", 0),
    ({"absent": 1}, "", 0),
    ({"ecc.uncorrected": 3}, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 3),
    ({"remap.uncorrected": 2}, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 2),
    ({"temperature": 91}, "DCGM_FI_DEV_GPU_TEMP", 91),
    ({"power": 250_000}, "DCGM_FI_DEV_POWER_USAGE", 250),
    ({"memory.used": 7 << 30}, "DCGM_FI_DEV_FB_USED", 7 << 10),
]
READ = {
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": lambda device: device.ecc.uncorrected,
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": lambda device: device.remapping.uncorrected,
    "DCGM_FI_DEV_GPU_TEMP": lambda device: device.temperature,
    "DCGM_FI_DEV_POWER_USAGE": lambda device: device.power,
    "DCGM_FI_DEV_FB_USED": lambda device: device.memory_used >> 20,
}


class Machine:
    """A machine with one fault of its second device, before anybody heard of it."""

    def __init__(self, product: str, fault: dict[str, Value]) -> None:
        built = gpus("gpu-1", PRODUCTS[product], 4, NODE[product])
        values = {f"1.{name}": value for name, value in fault.items()}
        self.hardware = Hardware(node="gpu-1", gpus=built, mig_strategy="mixed", driver="580.95.05", cuda="13.0", values=values)
        self.host = Host("gpu-1", self.hardware)
        self.faulty = built[1].uuid

    def printed(self, program: Program, *arguments: str) -> str:
        out: list[bytes] = []
        asyncio.run(program(Invocation("x", list(arguments), {}, Streams(out.append, out.append))))  # type: ignore[arg-type]
        return b"".join(out).decode()

    @property
    def view(self) -> ContainerView:
        pod = {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {}}
        seen, host = all_devices(self.hardware), self.host
        return ContainerView(pod, {"name": "c"}, self.hardware, Behaviour(), host, 0, "gpu-1", "", seen, (), {}, on_host=True)

    @property
    def documents(self) -> list[Document]:
        by_nvml = decode(self.printed(lambda call: node_probe(self.view, call), "probe", "--json").encode())
        return [by_nvml, smi.document(self.printed(lambda call: nvidia_smi(self.view, call), "-q", "-x"))]

    @property
    def measured(self) -> dict[str, dict[str, float]]:
        """What the exporter serves of each device, without its MIG devices: series and value by UUID."""
        text = Exporter(DeviceManager(self.hardware, Behaviour()), Behaviour(), self.host, 1.0).text([])
        found: dict[str, dict[str, float]] = {}
        for name, labels, value in re.findall(r"^(\w+)\{(.*)\} (.*)$", text, re.MULTILINE):
            if "GPU_I_ID" not in labels:
                found.setdefault(re.findall(r'UUID="([^"]*)"', labels)[0], {})[name] = float(value)
        return found


def answering(document: Document) -> dict[str, Device]:
    return {device.uuid: device for driver in document.drivers for device in driver.devices if not device.lost}


@pytest.mark.parametrize(("fault", "series", "value"), FAULTS, ids=[next(iter(fault)) for fault, *_ in FAULTS])
@pytest.mark.parametrize("product", NODE)
def test_probe_nvidia_smi_exporter_and_plugin_tell_of_one_fault(product: str, fault: dict[str, Value], series: str, value: float) -> None:
    machine = Machine(product, fault)
    documents, measured = machine.documents, machine.measured
    offered = {unit.gpu for units in listed(machine.host, "", Behaviour()).values() for unit in units}
    healthy = {gpu.uuid for gpu in machine.hardware.gpus} - ({machine.faulty} if not series else set())
    assert offered == {gpu.index for gpu in machine.hardware.gpus if gpu.uuid in healthy}
    assert measured.keys() == healthy
    for document in documents:
        devices = answering(document)
        assert devices.keys() == healthy
        lost = [device for driver in document.drivers for device in driver.devices if device.lost]
        assert len(lost) == ("lost" in fault)
        if series:
            read = {uuid: READ[series](device) for uuid, device in devices.items()}
            assert read[machine.faulty] == measured[machine.faulty][series] == value
            assert all(other != value for uuid, other in read.items() if uuid != machine.faulty)


def test_a_device_in_use_is_warm_for_everybody() -> None:
    machine = Machine("H100", {})
    machine.host.busy = lambda: {machine.faulty}
    measured = machine.measured
    for document in machine.documents:
        device = answering(document)[machine.faulty]
        assert device.power is not None
        assert device.temperature is not None
        assert abs(device.power - measured[machine.faulty]["DCGM_FI_DEV_POWER_USAGE"]) < 10 < device.power - 500
        assert abs(device.temperature - measured[machine.faulty]["DCGM_FI_DEV_GPU_TEMP"]) < 7 < device.temperature - 45
        assert (device.memory_used or 0) >> 20 == measured[machine.faulty]["DCGM_FI_DEV_FB_USED"]
