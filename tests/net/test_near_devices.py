"""NET-09: what stands between devices and RDMA adapters, on machines of several kinds."""

from typing import Any

import pytest

from conformance.net.near_devices import check_near_devices, near_devices
from fixtures.nodeprobe import host
from fixtures.nodeprobe.document import DirectAccess, Driver, Host, PciBridge, PciFunction, RdmaPort, Way
from fixtures.verdict.findings import Outcome
from tests.builders import a_scope
from tests.hw.documents import of_driver
from tests.tables import each_row

OFF: list[str] = ["source validation"]
ON = ["request redirect", "completion redirect", "upstream forwarding"]
PEERMEM, NOTHING = DirectAccess(peermem=True), DirectAccess(peermem=False, dma_buf=False)


def a_host(
    pairs: int = 2,
    *,
    acs: list[str] | None = OFF,
    access: DirectAccess | None = PEERMEM,
    far: int = 0,
    bridges: bool = True,
    more: int = 0,
    **fields: Any,
) -> Host:
    """Devices and adapters in pairs below a switch each; the adapters of the first ``far`` hang at the host. ``more`` devices have none."""
    functions, above, ports = [], [], []
    for at in range(pairs + more):
        root, down, up = f"0000:00:{at + 1:02x}.0", f"0000:{16 + 8 * at:02x}:00.0", f"0000:{16 + 8 * at:02x}:01.0"
        device, adapter = f"0000:{18 + 8 * at:02x}:00.0", f"0000:{20 + 8 * at:02x}:00.0"
        above += [PciBridge(address=address, first_bus=1, last_bus=2, acs=acs) for address in (root, down, up)]
        functions.append(
            PciFunction(address=device, vendor="10de", device="2330", kind="accelerator", path=[root, down] if bridges else [])
        )
        if at < pairs:
            path = [f"0000:00:{at + 9:02x}.0"] if at < far else [root, up]
            functions.append(PciFunction(address=adapter, vendor="15b3", device="1021", kind="infiniband", path=path if bridges else []))
            ports.append(RdmaPort(adapter=f"mlx5_{at}", port=1, pci_address=adapter))
    distances = list(host.distances(functions))
    return Host(pci=functions, bridges=above if bridges else [], distances=distances, rdma=ports, direct_access=access, **fields)


@each_row
def test_what_stands_between_device_and_adapter_is_found(host: Host, outcome: Outcome, cause: str, words: str) -> None:
    [found] = check_near_devices(of_driver(Driver(vendor="nvidia", way=Way.NVML), host=host))
    assert (found.outcome, found.cause) == (outcome, cause), found
    assert words in found.message


@pytest.mark.parametrize(("layer", "outcome"), [("Ethernet", Outcome.NOT_JUDGED), ("InfiniBand", Outcome.BAD)])
def test_an_ethernet_card_that_no_job_can_ask_for_is_no_fabric(layer: str, outcome: Outcome) -> None:
    host = a_host(access=NOTHING)
    for port in host.rdma:
        port.layer = layer
    one = of_driver(Driver(vendor="nvidia", way=Way.NVML), host=host)
    assert [found.outcome for found in near_devices(a_scope(nodes=[one.node]))(one)] == [outcome]
