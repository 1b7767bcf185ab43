from collections.abc import Mapping
from typing import Any

import pytest

from conformance.probes.running import PendingPod, ProbeResult
from conformance.share.checks import check_isolated, check_mps, check_replicas
from conformance.share.probes import FillableNode, fillable_nodes, judge_extra, judge_filled, judge_several
from fixtures.kubernetes.models import Node, Pod
from fixtures.model.cluster import Scope
from fixtures.model.devices.counts import TIMES
from fixtures.model.placement.free_devices import places_of
from fixtures.model.placement.shared_devices import shared_resources
from fixtures.policy.platforms import presets
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject
from tests.adv.built import outcomes, scope_of, verdict
from tests.builders import a_container, a_node, a_pod, a_policy, a_scope
from tests.findings import by_name
from tests.tables import each_row


def shared(
    units: int = 16,
    count: int = 4,
    replicas: int = 4,
    strategy: str = "time-slicing",
    product: str = "Tesla-T4-SHARED",
    resource: str = "nvidia.com/gpu",
    name: str = "gpu-0",
    allocatable: int | None = None,
) -> Node:
    labels = {
        "nvidia.com/gpu.count": str(count),
        "nvidia.com/gpu.replicas": str(replicas),
        "nvidia.com/gpu.sharing-strategy": strategy,
    }
    can = {} if allocatable is None else {resource: str(allocatable)}
    return a_node(name, gpus=units, resource=resource, labels=labels, product=product, allocatable=can)


RENAMED = {"resource": "nvidia.com/gpu.shared", "product": "Tesla-T4"}


# -- SHARE-01


@each_row
def test_units_labels_and_names_agree(node: Node, wanted: str) -> None:
    assert verdict(check_replicas(a_scope(nodes=[node]))) == wanted


def test_the_arithmetic_is_shown() -> None:
    (finding,) = check_replicas(a_scope(nodes=[shared()]))
    assert finding.expected.startswith(f"16 = 4 {TIMES} 4")


def test_units_by_both_names_are_a_fault() -> None:
    node = shared()
    node.status.capacity["nvidia.com/gpu.shared"] = "4"
    assert verdict(check_replicas(a_scope(nodes=[node]))) == "failed"


def test_gke_shares_by_labels_of_its_own() -> None:
    gke = {
        "cloud.google.com/gke-accelerator": "nvidia-l4",
        "cloud.google.com/gke-accelerator-count": "4",
        "cloud.google.com/gke-max-shared-clients-per-gpu": "3",
        "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
    }
    assert verdict(check_replicas(a_scope(nodes=[a_node(gpus=12, labels=gke)]))) == "passed"
    assert verdict(check_replicas(a_scope(nodes=[a_node(gpus=4, labels=gke)]))) == "failed"


# -- SHARE-02


def test_isolated_tenants_hold_whole_devices() -> None:
    policy = a_policy(tenants={"isolated": ["bank-*"]})
    nodes = [shared(), a_node("gpu-1")]
    pods = [
        a_pod("a", "bank-1", devices=1, node="gpu-0"),
        a_pod("b", "bank-1", devices=1, node="gpu-1"),
        a_pod("c", "team-a", devices=1, node="gpu-0"),
        a_pod("d", "bank-1", devices=1, node="gpu-0", phase="Succeeded"),
        a_pod("e", "bank-1", devices=1),
    ]
    assert outcomes(check_isolated(a_scope(policy, nodes=nodes, pods=pods))) == {"gpu-0 nvidia.com/gpu": "ok", "a": "bad", "b": "ok"}
    assert verdict(check_isolated(a_scope(nodes=[a_node()], pods=pods))) == "not_applicable"


def test_replicas_are_limited_by_the_policy() -> None:
    assert verdict(check_isolated(a_scope(nodes=[shared()]))) == "passed"
    assert verdict(check_isolated(a_scope(a_policy(advertisement={"maxReplicas": 3}), nodes=[shared()]))) == "failed"
    unlabelled = a_node(gpus=16, resource="nvidia.com/gpu.shared")
    assert verdict(check_isolated(a_scope(nodes=[unlabelled]))) == "inconclusive"


# -- SHARE-03


def scope(*nodes: Node, held: int = 0) -> Scope:
    return a_scope(nodes=nodes, pods=[a_pod(devices=held, node=nodes[0].name)] if held else [])


def test_the_cheapest_node_that_decides_is_filled() -> None:
    small, large = shared(units=4, count=1, name="small"), shared(name="large")
    assert [field.shared.node.name for field in fillable_nodes(scope(large, small))] == ["small", "large"]
    (field,) = fillable_nodes(scope(shared(), held=3))
    assert (field.free, field.decides) == (13, True)
    (field,) = fillable_nodes(scope(shared(), held=4))
    assert (field.free, field.decides) == (12, False)
    with pytest.raises(Inconclusive, match="fewer free"):
        fillable_nodes(scope(shared(), held=13))
    with pytest.raises(Inconclusive, match="more than 64"):
        fillable_nodes(scope(shared(units=128, count=8, replicas=16)))
    with pytest.raises(NotApplicable):
        fillable_nodes(scope(a_node()))


def filled(*uuids: int, held: int = 0, trouble: str = "") -> list[Outcome]:
    node = shared(units=8, count=2)
    scope = a_scope(nodes=[node])
    (item,), (place,) = shared_resources(scope, node), places_of(scope, node)
    field = FillableNode(offered=place, shared=item, devices=2, factor=4, free=8 - held)
    pods = {}
    for number, uuid in enumerate(uuids):
        line = f"GPU 0: Tesla T4 (UUID: GPU-11111111-2222-3333-4444-{uuid:012d})"
        log = "\n".join(["## uid", "1000", "## smi", line, "## dev", "nvidia0", "## end"])
        pods[f"p{number}"] = ProbeResult(subject=Subject("Pod", f"p{number}", "ns"), node="gpu-0", logs={"probe": log})
    if trouble:
        pods["late"] = ProbeResult(subject=Subject("Pod", "late", "ns"), trouble=trouble)
    return [finding.outcome for finding in judge_filled(field, pods)]


def test_replicas_share_one_device() -> None:
    assert filled(0, 0, 0, 0, 1, 1, 1, 1) == [Outcome.OK]
    assert filled(0, 0, 0, 0, 0, 1, 1, 1) == [Outcome.BAD]
    assert filled(0, 1, 2, 3, 4, 5, 6, 7) == [Outcome.BAD]
    assert filled(0, 0, 0, 1, 1, 1, held=2) == [Outcome.UNDECIDED]
    assert filled(0, 0, 0, 1, 1, 1, 1, held=1) == [Outcome.OK]
    assert filled(0, 0, 0, 1, 1, 1, trouble="it did not run") == [Outcome.UNDECIDED, Outcome.UNDECIDED]


def test_every_scenario_that_shares_can_be_asked() -> None:
    assert {field.shared.resource for field in fillable_nodes(scope_of("time-slicing"))} == {"nvidia.com/gpu", "nvidia.com/gpu.shared"}
    assert all(field.decides for field in fillable_nodes(scope_of("mps")))


def test_one_unit_too_many_is_judged_only_where_no_pod_could_give_one_back() -> None:
    node = shared(units=8, count=2)
    scope = a_scope(nodes=[node])
    (item,), (place,) = shared_resources(scope, node), places_of(scope, node)
    bound = PendingPod(subject=Subject("Pod", "extra", "ns"), seconds=3.0, node="gpu-0", phase="Running")
    stays = PendingPod(subject=bound.subject, seconds=30.0, reason="Unschedulable", message=f"0/1 nodes: 1 Insufficient {item.resource}.")
    alone, beside = (FillableNode(offered=place, shared=item, devices=2, factor=4, free=8 - others, others=others) for others in (0, 1))
    assert judge_extra(alone, bound, "").outcome is Outcome.BAD
    assert judge_extra(beside, bound, "").outcome is Outcome.UNDECIDED
    assert judge_extra(beside, stays, "").outcome is Outcome.OK


READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def mps_daemon(node: str = "gpu-0", **status: object) -> Pod:
    return a_pod(f"mps-{node}", "gpu-operator", node=node, containers=[a_container("mps-control-daemon-ctr")], status={**READY, **status})


def test_each_node_that_shares_by_mps_needs_a_ready_daemon_of_its_own() -> None:
    nodes = [shared(strategy="mps", name=name) for name in ("gpu-0", "gpu-1", "gpu-2")]
    waits = {"conditions": [], "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}
    scope = a_scope(nodes=nodes, pods=[mps_daemon("gpu-0"), mps_daemon("gpu-1", **waits)])
    assert by_name(check_mps(scope)) == {"gpu-0": Outcome.OK, "gpu-1": Outcome.BAD, "gpu-2": Outcome.BAD}


def test_mps_of_gke_and_time_slicing_need_no_daemon_that_a_pod_shows() -> None:
    gke = {"accelerator-count": "1", "gpu-sharing-strategy": "mps", "max-shared-clients-per-gpu": "4", "accelerator": "nvidia-l4"}
    node = a_node("gke-0", gpus=4, labels={f"cloud.google.com/gke-{key}": value for key, value in gke.items()})
    assert by_name(check_mps(a_scope(nodes=[node]))) == {"gke-0": Outcome.NOT_JUDGED}
    with pytest.raises(NotApplicable):
        list(check_mps(a_scope(nodes=[shared()])))


def several(one: str = "", two: str = "") -> tuple[str, str]:
    (place,) = places_of(a_scope(nodes=[shared()]), shared())
    ran = [ProbeResult(subject=Subject("Pod", name, "probe"), node="gpu-0", trouble=trouble) for name, trouble in (("1", one), ("2", two))]
    finding = judge_several(place, *ran)
    return finding.outcome.value, finding.cause


def test_two_shared_units_are_refused_in_the_words_of_the_plugin() -> None:
    refusal = "it failed on gpu-0: UnexpectedAdmissionError ... maximum request size for shared resources is 1; found 2"
    assert several(two=refusal) == ("ok", "")
    assert several() == ("bad", "SeveralSharesGranted")
    assert several(two="it failed on gpu-0: OutOfnvidia.com/gpu") == ("undecided", "RefusedForAnotherReason")
    assert several(one="its image cannot be pulled", two=refusal) == ("undecided", "PositiveControlFailed")


# -- parts that KAI and Run:ai give


GROUP = {"runai-gpu-group": "g1"}


def a_part(name: str, namespace: str = "team-a", *, labels: Mapping[str, str] = GROUP, **spec: Any) -> Pod:
    asked: dict[str, Any] = {"annotations": {"gpu-fraction": "0.05"}, "schedulerName": "kai-scheduler", "node": "gpu-0"}
    return a_pod(name, namespace, labels=labels, **{**asked, **spec})


def with_parts(*pods: Pod, **policy: Any) -> Scope:
    annotations = {"run.ai/reserve_for_gpu_index": "GPU-1"}
    reservation = a_pod("reservation", "kai-resource-reservation", node="gpu-0", devices=1, labels=GROUP, annotations=annotations)
    return a_scope(a_policy(**policy), nodes=[a_node()], pods=[reservation, *pods])


def test_parts_that_a_scheduler_gives_share_a_device() -> None:
    """KAI-Scheduler#45, #49, #708: nothing holds a pod to its part, and one that takes more memory ends the others."""
    stranger = a_part("stranger")
    for pod, outcome in (
        (a_part("mine", "vault"), Outcome.BAD),
        (a_part("mine", "vault", node=""), None),
        (a_part("mine", "vault", labels={}, status={"conditions": [{"type": "PodBound", "status": "True"}]}), Outcome.UNDECIDED),
        (a_pod("mine", "vault", node="gpu-0", devices=1), Outcome.OK),
    ):
        found = by_name(check_isolated(with_parts(pod, stranger, tenants={"isolated": ["vault"]})))
        assert found.get("mine") is outcome
        assert "stranger" not in found


@pytest.mark.parametrize(("most", "outcome"), [(16, Outcome.BAD), (20, Outcome.OK)])
def test_a_device_of_many_parts_is_shared_as_often_as_the_policy_allows(most: int, outcome: Outcome) -> None:
    scope = with_parts(*(a_part(f"part-{number}") for number in range(20)), advertisement={"maxReplicas": most})
    assert by_name(check_isolated(scope)) == {"gpu-0 gpu-fraction": outcome}


def test_the_preset_of_kai_allows_many_small_parts() -> None:
    assert presets()["kai"].policy["advertisement"] == {"maxReplicas": 100}
