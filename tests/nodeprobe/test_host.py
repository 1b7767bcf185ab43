"""What sysfs, /proc and device files say, from a tree of files."""

from pathlib import Path

from fixtures.nodeprobe import host
from fixtures.nodeprobe.document import DirectAccess, Distance, PciFunction, RdmaPort
from tests.tables import table

TABLE = table(__file__)
FILES = TABLE["FILES"]


def test_a_machine_is_described_by_its_files(tmp_path: Path) -> None:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = host.collect(tmp_path)
    assert (found.kernel, found.boot_id) == ("6.8.0-1021-nvidia", "b00t")
    assert found.modules == {"nvidia": "580.95.05", "nvidia_uvm": ""}
    assert found.device_files == ["nvidia-caps/nvidia-cap1", "nvidia-uvm", "nvidia0"]
    device, adapter = found.pci
    assert adapter == PciFunction(address="0000:2a:00.0", vendor="", device="", kind="infiniband")
    assert found.distances == [Distance(device="0000:1b:00.0", adapter="0000:2a:00.0", level="")], "a machine without bridges says nothing"
    assert found.direct_access == DirectAccess(peermem=False, dma_buf=True)
    assert device == PciFunction(
        address="0000:1b:00.0",
        vendor="10de",
        device="2330",
        kind="accelerator",
        driver="nvidia",
        numa=1,
        link="32.0 GT/s PCIe x8",
        max_link="32.0 GT/s PCIe x16",
    )
    counters = {"port_xmit_data": 17, "out_of_sequence": 3}
    card = {"adapter": "mlx5_0", "firmware": "28.43.1014", "board": "MT_0000000838", "layer": "InfiniBand", "pci_address": "0000:2a:00.0"}
    assert found.rdma == [RdmaPort(port=1, state="ACTIVE", rate="400 Gb/sec (4X NDR)", counters=counters, **card)]
    assert found.kernel_log == ["[1.500000] NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."]
    assert found.uptime == 3600.25


def test_what_is_not_there_or_may_not_be_read_is_left_out(tmp_path: Path) -> None:
    found = host.collect(tmp_path)
    assert (found.kernel, found.modules, found.pci, found.rdma) == ("", {}, [], [])
    assert found.kernel_log is None


BUS = TABLE["BUS"]


def test_the_way_between_devices_and_adapters_is_measured_in_bridges() -> None:
    files: dict[str, str] = {}
    for address, (kind, first, last, numa) in BUS.items():
        names = {"class": kind, "numa_node": numa, **({"secondary_bus_number": first, "subordinate_bus_number": last} if first else {})}
        files |= {f"{host.PCI}/{address}/{name}": str(value) for name, value in names.items()}
    found = host.described(files, [], None)
    levels = {(one.device, one.adapter): one.level for one in found.distances}
    assert {adapter: level for (device, adapter), level in levels.items() if device == "0000:03:00.0"} == {
        "0000:04:00.0": "PIX",
        "0000:06:00.0": "PHB",
        "0000:80:00.0": "NODE",
        "0000:90:00.0": "SYS",
    }
    assert levels["0000:04:00.1", "0000:04:00.0"] == "PIX"
    assert levels["0000:07:00.0", "0000:06:00.0"] == "PIX"
    [device] = [one for one in found.pci if one.address == "0000:03:00.0"]
    assert device.path == ["0000:00:01.0", "0000:01:00.0", "0000:02:00.0"]
    assert [one.acs for one in found.bridges] == [None] * 7, "their configuration may not be read here"


def test_controls_of_acs_are_read_from_the_extended_configuration() -> None:
    other, acs = bytes([0x01, 0, 0x01, 0x14]), bytes([0x0D, 0, 0x01, 0, 0xFF, 0, 0x1D, 0])
    space = bytes(256) + other + bytes(0x140 - 0x104) + acs
    assert host.acs_of(space) == ["source validation", "request redirect", "completion redirect", "upstream forwarding"]
    assert host.acs_of(space[:-8]) == host.acs_of(bytes(4096)) == []
    assert host.acs_of(bytes(64)) is host.acs_of(b"") is None
    assert host.acs_of(bytes(256) + bytes([0x01, 0, 0x01, 0x10]) + bytes(60)) == [], "a list that leads to itself ends"
