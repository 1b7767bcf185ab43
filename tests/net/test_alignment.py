"""NET-08: policies of topology managers on nodes with a fabric."""

import json

import msgspec
import pytest

from conformance.net.near_devices import check_alignment, kubelets_of
from fixtures.cluster.answer import Answer
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_node, a_policy, a_scope
from tests.tables import each_row


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
    (finding,) = check_alignment(scope, kubelets_of(lambda: Kubelets({"gpu-0": answer})))
    assert (finding.subject.name, finding.cause or finding.outcome.value) == ("gpu-0", row.found)


def test_a_right_that_is_missing_for_one_kubelet_is_missing_for_all() -> None:
    nodes = [a_node(f"gpu-{number}", capacity={"rdma/a": "63"}) for number in range(3)]
    kubelets = Kubelets(dict.fromkeys(("gpu-0", "gpu-1", "gpu-2"), Answer(status=403, body=b"forbidden")))
    findings = list(check_alignment(a_scope(nodes=nodes), kubelets_of(lambda: kubelets)))
    assert ([one.outcome.value for one in findings], kubelets.asked) == (["not_judged"] * 3, ["gpu-0"])


def test_without_a_fabric_nothing_is_judged() -> None:
    with pytest.raises(NotApplicable):
        list(check_alignment(a_scope(nodes=[a_node()]), kubelets_of(lambda: Kubelets({}))))
