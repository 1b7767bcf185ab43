"""Amounts that only a scheduler counts: what shows that scheduler, and that none of them is a device."""

from collections.abc import Iterable

import pytest

from conformance.fence.checks import check_intruders
from conformance.req.checks import check_approved_names, check_can_be_offered, check_not_overcommitted
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.policy.model import Requests
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_node, a_pod, a_policy, a_scope, a_spec, a_workload
from tests.dra import a_claim


def outcome(findings: Iterable[Finding], name: str) -> Outcome:
    (found,) = [finding.outcome for finding in findings if finding.subject.name == name]
    return found


def amounts_judged(scope: Scope) -> dict[str, Outcome]:
    found = {finding.subject.name: finding.outcome for finding in (*check_not_overcommitted(scope), *check_approved_names(scope))}
    return {name: outcome for name, outcome in found.items() if "gpumem" in name}


SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}


def marked(*marks: str) -> Node:
    """A node with annotations of a device plugin that tells its scheduler what it has."""
    node = a_node()
    node.metadata.annotations = dict.fromkeys(marks, "[]")
    return node


@pytest.mark.parametrize("mark", ["hami.io/node-nvidia-register", "4pd.io/node-nvidia-register"])
def test_amounts_that_only_a_scheduler_counts_are_never_overcommitted(mark: str) -> None:
    scope = a_scope(nodes=[marked(mark)], pods=[a_pod(node="gpu-0", devices=SHARE)])
    assert amounts_judged(scope) == {"gpu-0 nvidia.com/gpumem": Outcome.NOT_JUDGED, "nvidia.com/gpumem": Outcome.OK}
    assert outcome(check_intruders(scope), "train-0") is Outcome.OK


def test_the_first_pod_that_asks_for_an_amount_waits_for_nothing_impossible() -> None:
    scope = a_scope(nodes=[marked("hami.io/node-nvidia-register")], pods=[a_pod("waits", devices=SHARE)])
    assert outcome(check_can_be_offered(scope), "waits") is Outcome.OK
    assert amounts_judged(scope) == {"nvidia.com/gpumem": Outcome.OK}


@pytest.mark.parametrize("marks", [(), ("hami.io/node-handshake",), ("volcano.sh/node-vgpu-register",)])
def test_a_tenants_bound_pod_shows_no_scheduler(marks: tuple[str, ...]) -> None:
    """Anybody binds a pod by spec.nodeName, and no kubelet counts what its node lacks."""
    pods = [a_pod(node="gpu-0", devices=SHARE), a_pod("waits", devices=SHARE), a_pod("ten", devices={**SHARE, "nvidia.com/gpu": "10"})]
    scope = a_scope(nodes=[marked(*marks)], pods=pods)
    assert set(amounts_judged(scope).values()) == {Outcome.UNDECIDED}
    found = {finding.subject.name: finding.outcome for finding in check_can_be_offered(scope)}
    assert found == {"waits": Outcome.UNDECIDED, "ten": Outcome.BAD}


@pytest.mark.parametrize("listed", [["nvidia.com/gpumem"], ["nvidia.com/gpu*"], [*Requests().scheduler_amounts, "nvidia.com/gpumem*"]])
def test_the_owners_own_list_of_amounts_needs_no_mark(listed: list[str]) -> None:
    policy = a_policy(requests={"schedulerAmounts": listed})
    found = amounts_judged(a_scope(policy, nodes=[a_node()], pods=[a_pod(node="gpu-0", devices=SHARE)]))
    assert found == {"gpu-0 nvidia.com/gpumem": Outcome.NOT_JUDGED, "nvidia.com/gpumem": Outcome.OK}


def test_what_the_owner_adds_to_the_usual_amounts_says_nothing_of_these() -> None:
    policy = a_policy(requests={"schedulerAmounts": [*Requests().scheduler_amounts, "nvidia.com/slots"]})
    pod = a_pod(node="gpu-0", devices={**SHARE, "nvidia.com/slots": "2"})
    found = {finding.subject.name: finding.outcome for finding in check_approved_names(a_scope(policy, nodes=[a_node()], pods=[pod]))}
    assert found == {"nvidia.com/gpu": Outcome.OK, "nvidia.com/gpumem": Outcome.UNDECIDED, "nvidia.com/slots": Outcome.OK}


@pytest.mark.parametrize("unread", ["nodes", "pods"])
def test_whether_a_scheduler_counts_an_amount_is_not_known_where_nobody_could_look(unread: str) -> None:
    template = a_workload("Deployment", "chat", {"template": {"spec": a_spec(devices=SHARE)}})
    scope = a_scope(nodes=[a_node()], trouble={unread: "Forbidden"}, deployments=[template])
    assert outcome(check_approved_names(scope), "nvidia.com/gpumem") is Outcome.UNDECIDED


AMOUNTS = ("nvidia.com/priority", "nvidia.com/gpumem", "nvidia.com/gpucores", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores")


@pytest.mark.parametrize("marks", [(), ("hami.io/node-nvidia-register", "volcano.sh/node-vgpu-register")])
@pytest.mark.parametrize("amount", AMOUNTS)
def test_an_amount_alone_is_no_device(amount: str, marks: tuple[str, ...]) -> None:
    claims: list[Json] = [{"name": "nic", "resourceClaimName": "nic"}]
    pods = [
        a_pod("alone", node="gpu-0", devices={amount: "1"}),
        a_pod("claims", node="gpu-0", devices={amount: "1"}, resourceClaims=claims),
        a_pod("elsewhere", node="gpu-0", devices={amount: "1", "volcano.sh/vgpu-number": "1"}),
        a_pod("beside", node="gpu-0", devices={amount: "1", "nvidia.com/gpu": "1"}),
        a_pod("agent", "kube-system", node="gpu-0", devices={amount: "1"}),
    ]
    nic = a_claim("nic", results=[{"request": "nic", "driver": "dra.net", "pool": "gpu-0", "device": "nic-0"}])
    found = {one.subject.name: one.outcome for one in check_intruders(a_scope(nodes=[marked(*marks)], pods=pods, resourceclaims=[nic]))}
    alone = Outcome.UNDECIDED if marks and amount == "volcano.sh/vgpu-memory" else Outcome.BAD
    undecided = {"claims": Outcome.UNDECIDED, "elsewhere": Outcome.UNDECIDED}
    assert found == {"alone": alone, **undecided, "beside": Outcome.OK, "agent": Outcome.OK}


@pytest.mark.parametrize(
    ("made", "expected"),
    [("2026-01-02T00:00:00Z", Outcome.BAD), ("2025-12-31T00:00:00Z", Outcome.UNDECIDED), (None, Outcome.UNDECIDED)],
)
def test_a_pod_that_asks_for_what_its_node_never_had_was_bound_by_hand(made: str | None, expected: Outcome) -> None:
    node, pod = a_node(), a_pod(node="gpu-0", devices={"amd.com/gpu": "1"})
    node.metadata.creation_timestamp, pod.metadata.creation_timestamp = "2026-01-01T00:00:00Z", made
    assert outcome(check_intruders(a_scope(nodes=[node], pods=[pod])), "train-0") is expected


def test_shares_of_volcano_are_devices_where_its_plugin_offers_them() -> None:
    node = marked("volcano.sh/node-vgpu-register")
    node.status.capacity |= {"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "89424"}
    pods = [
        a_pod("share", node="gpu-0", devices={"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory-percentage": "50"}),
        a_pod("memory", node="gpu-0", devices={"volcano.sh/vgpu-memory": "4096"}),
        a_pod("percent", node="gpu-0", devices={"volcano.sh/vgpu-memory-percentage": "50"}),
    ]
    found = {one.subject.name: one.outcome for one in check_intruders(a_scope(nodes=[node], pods=pods))}
    assert found == {"share": Outcome.OK, "memory": Outcome.OK, "percent": Outcome.BAD}


def test_an_amount_that_the_owner_added_is_a_device_as_far_as_he_says() -> None:
    policy = a_policy(requests={"schedulerAmounts": [*Requests().scheduler_amounts, "nvidia.com/slots"]})
    pods = [
        a_pod("slots", node="gpu-0", devices={"nvidia.com/slots": "1"}),
        a_pod("memory", node="gpu-0", devices={"nvidia.com/gpumem": "1"}),
    ]
    found = {one.subject.name: one.outcome for one in check_intruders(a_scope(policy, nodes=[a_node()], pods=pods))}
    assert found == {"slots": Outcome.OK, "memory": Outcome.BAD}


def test_amounts_that_a_node_offers_are_counted() -> None:
    pod = a_pod(node="gpu-0", devices={"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"})
    node = a_node(capacity={"nvidia.com/gpumem": "1000"})
    assert amounts_judged(a_scope(nodes=[node], pods=[pod]))["gpu-0 nvidia.com/gpumem"] is Outcome.BAD


def test_a_misspelt_amount_and_one_that_no_scheduler_has_placed_are_bad() -> None:
    misspelt = a_pod(node="gpu-0", devices={"nvidia.com/gpumemory": "3000"})
    assert set(amounts_judged(a_scope(nodes=[a_node()], pods=[misspelt])).values()) == {Outcome.BAD}
    pending = a_pod("waits", devices={"nvidia.com/gpumem": "3000"})
    assert outcome(check_can_be_offered(a_scope(nodes=[a_node()], pods=[pending])), "waits") is Outcome.BAD


OFFERED = ("koordinator.sh/gpu", "koordinator.sh/gpu.shared", "koordinator.sh/gpu-memory", "tke.cloud.tencent.com/qgpu-core", "acme.ai/npu")


@pytest.mark.parametrize("name", OFFERED)
def test_a_share_that_nodes_offer_under_a_name_of_its_scheduler_is_a_device(name: str) -> None:
    node = a_node()
    node.status.capacity[name] = node.status.allocatable[name] = "800"
    assert outcome(check_intruders(a_scope(nodes=[node], pods=[a_pod(node="gpu-0", devices={name: "8"})])), "train-0") is Outcome.OK


@pytest.mark.parametrize("name", ["koordinator.sh/rdma", "acme.example.com/gpu-nic", "example.com/vgpu-license", "acme.ai/memory"])
def test_what_nodes_offer_beside_devices_is_no_share(name: str) -> None:
    node = a_node()
    node.status.capacity[name] = node.status.allocatable[name] = "800"
    assert outcome(check_intruders(a_scope(nodes=[node], pods=[a_pod(node="gpu-0", devices={name: "8"})])), "train-0") is Outcome.BAD


def test_a_share_that_its_node_has_lost_is_undecided() -> None:
    other = a_node("gpu-1")
    other.status.capacity["koordinator.sh/gpu"] = "800"
    pods = [
        a_pod("share", node="gpu-0", devices={"koordinator.sh/gpu": "100"}),
        a_pod("core", node="gpu-0", devices={"koordinator.sh/gpu-core": "100"}),
    ]
    found = {one.subject.name: one.outcome for one in check_intruders(a_scope(nodes=[a_node(), other], pods=pods))}
    assert found == {"share": Outcome.UNDECIDED, "core": Outcome.UNDECIDED}


def test_records_that_give_more_than_a_node_has_leave_open_who_has_a_share() -> None:
    node, name = a_node(), "koordinator.sh/gpu-core"
    node.status.capacity[name] = node.status.allocatable[name] = "100"
    record = {"scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":60}}]}'}
    one = a_pod("one", node="gpu-0", devices={name: "60"}, annotations=record)
    other = a_pod("other", node="gpu-0", devices={name: "60"}, annotations=record)
    assert outcome(check_intruders(a_scope(nodes=[node], pods=[one])), "one") is Outcome.OK
    found = {item.subject.name: item.outcome for item in check_intruders(a_scope(nodes=[node], pods=[one, other]))}
    assert found == {"one": Outcome.UNDECIDED, "other": Outcome.UNDECIDED}
