"""NET-08 and 09: devices and adapters of one NUMA node, and what stands between them, on machines of several kinds."""

import json
from functools import partial
from typing import Any

import msgspec
import pytest

from conformance.net.near_devices import check_alignment, check_near_devices, near_devices, policies_of_kubelets
from fixtures.cluster.answer import Answer
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.nodeprobe import host
from fixtures.nodeprobe.document import DirectAccess, Driver, Host, PciBridge, PciFunction, RdmaPort, Way
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_node, a_policy, a_scope
from tests.hw.documents import of_driver
from tests.judging import asking
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


class Kubelets(Cluster):
    """Kubelets behind the API server's proxy, each with its answer to /configz."""

    def __init__(self, answers: dict[str, Answer | None]) -> None:
        self._answers, self.asked = answers, list[str]()

    def request(self, method: str, path: str, **_: object) -> Answer:
        self.asked.append(name := path.split("/")[4])
        if (answer := self._answers[name]) is None:
            raise ApiTrouble("Timeout", f"GET {path}: no answer within 15 s")
        return answer


def configz(policy: str) -> Answer:
    kept = {"topologyManagerPolicy": policy} if policy else {}
    return Answer(status=200, body=json.dumps({"kubeletconfig": kept}).encode())


def a_topology(node: str, zones: int, **attributes: str) -> Json:
    named = [{"name": name, "value": value} for name, value in attributes.items()]
    return {"metadata": {"name": node}, "attributes": named, "zones": [{"name": f"node-{n}", "type": "Node"} for n in range(zones)]}


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """What the topology updater published of the node, or what its kubelet answers, and what is found."""

    found: str
    published: dict[str, str] | None = None
    zones: int = 2
    kubelet: str = ""
    status: int = 200
    silent: bool = False
    allowed: list[str] = msgspec.field(default_factory=lambda: ["restricted", "single-numa-node"])


@each_row
def test_a_node(row: Row) -> None:
    refused = Answer(status=row.status, body=b"no")
    answer = None if row.silent else configz(row.kubelet) if row.status == 200 else refused
    topologies = [] if row.published is None else [a_topology("gpu-0", row.zones, **row.published)]
    nodes = [a_node("gpu-0", capacity={"rdma/a": "63"}), a_node("gpu-1"), a_node("storage-0", gpus=0, capacity={"rdma/a": "63"})]
    scope = a_scope(a_policy(network={"topologyPolicies": row.allowed}), nodes=nodes, noderesourcetopologies=topologies)
    (finding,) = check_alignment(scope, partial(policies_of_kubelets, asking(Kubelets({"gpu-0": answer}))))
    assert (finding.subject.name, finding.cause or finding.outcome.value) == ("gpu-0", row.found)


def test_a_right_that_is_missing_for_one_kubelet_is_missing_for_all() -> None:
    nodes = [a_node(f"gpu-{number}", capacity={"rdma/a": "63"}) for number in range(3)]
    kubelets = Kubelets(dict.fromkeys(("gpu-0", "gpu-1", "gpu-2"), Answer(status=403, body=b"forbidden")))
    findings = list(check_alignment(a_scope(nodes=nodes), partial(policies_of_kubelets, asking(kubelets))))
    assert ([one.outcome.value for one in findings], kubelets.asked) == (["not_judged"] * 3, ["gpu-0"])


def test_without_a_fabric_nothing_is_judged() -> None:
    with pytest.raises(NotApplicable):
        list(check_alignment(a_scope(nodes=[a_node()]), partial(policies_of_kubelets, asking(Kubelets({})))))
