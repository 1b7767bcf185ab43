"""Parts of one device, which pods share with a pod of the platform that reserves it."""

from collections.abc import Mapping
from typing import Any

import pytest

from conformance.fence.checks import check_intruders
from conformance.psa.bypass import check_bypass
from fixtures.kubernetes.models import ConfigMap, Pod
from fixtures.verdict.findings import Outcome
from tests.builders import a_container, a_node, a_pod, a_scope
from tests.findings import about
from tests.tables import each_row

GROUP = {"runai-gpu-group": "g1"}
GIVEN = {"run.ai/reserve_for_gpu_index": "GPU-1"}
FENCE = ("nvidia.com/gpu:NoSchedule",)


OF_KAI: Mapping[str, Any] = {"annotations": {"gpu-fraction": "0.5"}, "schedulerName": "kai-scheduler"}


def half(device: str = "GPU-1", node: str = "gpu-0", **more: Any) -> tuple[Pod, ConfigMap]:
    source = {"configMapKeyRef": {"name": "shared", "key": "NVIDIA_VISIBLE_DEVICES"}}
    made = a_container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": source}])
    config = ConfigMap(data={"NVIDIA_VISIBLE_DEVICES": device})
    config.metadata.name, config.metadata.namespace = "shared", "team-a"
    whole = {"labels": GROUP, **OF_KAI, **more}
    return a_pod(whole.pop("name", "half"), node=node, tolerations=FENCE, containers=[made], **whole), config


def reservation(**more: Any) -> Pod:
    name, namespace = more.pop("name", "reservation"), more.pop("namespace", "kai-resource-reservation")
    return a_pod(name, namespace, **{"labels": GROUP, "annotations": GIVEN, "node": "gpu-0", "devices": 1, **more})


@each_row
def test_who_shares_a_reserved_device(
    pod: dict[str, Any], others: list[dict[str, Any]], snapshot: dict[str, Any], intruder: Outcome | None, bypass: Outcome
) -> None:
    """``intruder``: as FENCE-02 finds it on its node, where it has one; ``bypass``: as PSA-05 does."""
    mine, config = half(**pod)
    config.metadata.name = snapshot.get("config", "shared")
    lists = {"configmaps": [config], **snapshot, "config": None}
    lists = {name: value for name, value in lists.items() if value is not None}
    scope = a_scope(nodes=[a_node(), a_node("gpu-1")], pods=[mine, *(reservation(**other) for other in others)], **lists)
    assert about(check_bypass(scope), "half").outcome is bypass
    if intruder is not None:
        assert about(check_intruders(scope), "half").outcome is intruder


MEMORY = {"nvidia.com/gpu.memory": "81559"}


def beside(*asked: Mapping[str, str], labels: Mapping[str, str] = MEMORY) -> tuple[Outcome, Outcome]:
    """How half a device is judged beside pods with these annotations, which share it."""
    pod, config = half()
    others = [half(name=f"other-{n}", annotations=annotations)[0] for n, annotations in enumerate(asked)]
    scope = a_scope(nodes=[a_node(labels=labels)], pods=[pod, *others, reservation()], configmaps=[config])
    return about(check_intruders(scope), "half").outcome, about(check_bypass(scope), "half").outcome


@each_row
def test_more_parts_than_a_device_has_leave_open_who_was_given_one(parts: list[str], expected: Outcome, labels: Mapping[str, str]) -> None:
    assert beside(*({"gpu-fraction": part} for part in parts), labels=labels) == (expected, expected)


@each_row
def test_parts_in_memory_are_parts_of_the_memory_that_a_device_has(amounts: list[str], expected: Outcome) -> None:
    assert beside(*({"gpu-memory": amount} for amount in amounts)) == (expected, expected)


def test_parts_in_memory_alone_are_healthy_up_to_the_whole_device() -> None:
    for amounts, expected in ((["40000", "41500"], Outcome.OK), (["40000", "41501"], Outcome.UNDECIDED)):
        pods = [half(name=f"pod-{n}", annotations={"gpu-memory": amount})[0] for n, amount in enumerate(amounts)]
        scope = a_scope(nodes=[a_node(labels=MEMORY)], pods=[*pods, reservation()], configmaps=[half()[1]])
        assert {about(check(scope), pod.name).outcome for check in (check_intruders, check_bypass) for pod in pods} == {expected}


def test_parts_in_memory_of_a_device_whose_memory_nobody_tells_are_undecided() -> None:
    assert beside({"gpu-memory": "1"}, labels={}) == (Outcome.UNDECIDED, Outcome.UNDECIDED)


@pytest.mark.parametrize(("asked", "expected"), [("0.5", Outcome.OK), ("0.6", Outcome.UNDECIDED)])
def test_parts_are_added_up_where_nobody_could_read_nodes(asked: str, expected: Outcome) -> None:
    pod, config = half()
    other = half(name="other", annotations={"gpu-fraction": asked})[0]
    scope = a_scope(pods=[pod, other, reservation()], configmaps=[config], trouble={"nodes": "Forbidden"})
    assert about(check_bypass(scope), "half").outcome is expected


@pytest.mark.parametrize("part", ["x", "0", "-0.1", "1.5", "nan", "inf", "1e400", "0.5 ", "50%", "½", "0x1p-2", "1e-999999999"])
def test_a_fraction_that_nobody_understands_leaves_open_who_was_given_one(part: str) -> None:
    assert beside({"gpu-fraction": part}) == (Outcome.UNDECIDED, Outcome.UNDECIDED)


@pytest.mark.parametrize("amount", ["x", "0", "-1", "1G", "1.5", "5e1", "²", "9" * 5_000])
def test_a_memory_that_nobody_understands_leaves_open_who_was_given_one(amount: str) -> None:
    assert beside({"gpu-memory": amount}) == (Outcome.UNDECIDED, Outcome.UNDECIDED)
    assert beside({"gpu-memory": "100", "gpu-fraction": "0.1"}) == (Outcome.UNDECIDED, Outcome.UNDECIDED)


BOUND: Mapping[str, Any] = {"status": {"conditions": [{"type": "PodBound", "status": "True", "reason": "Bound"}]}}


def sharing(*pods: Pod) -> dict[str, Outcome]:
    found = {one.subject.name: one.outcome for one in check_intruders(a_scope(nodes=[a_node()], pods=[*pods, reservation()]))}
    return {name: outcome for name, outcome in found.items() if name != "reservation"}


def quarter(name: str, namespace: str = "team-a", part: str = "0.25", **more: Any) -> Pod:
    asked = {"annotations": {"gpu-fraction": part}, "schedulerName": "kai-scheduler", "tolerations": FENCE}
    return a_pod(name, namespace, node="gpu-0", labels=GROUP, **{**asked, **more})


def test_a_copied_label_never_passes_although_the_device_has_room() -> None:
    given = [quarter("one", **BOUND), quarter("two", **BOUND)]
    assert sharing(*given) == {"one": Outcome.OK, "two": Outcome.OK}
    assert sharing(*given, quarter("thief", "team-x")) == {"one": Outcome.OK, "two": Outcome.OK, "thief": Outcome.UNDECIDED}


@pytest.mark.parametrize("part", ["0.9", "half"])
def test_who_was_not_bound_by_the_binder_puts_no_part_of_others_in_doubt(part: str) -> None:
    assert sharing(quarter("one", **BOUND), quarter("thief", "team-x", part)) == {"one": Outcome.OK, "thief": Outcome.UNDECIDED}


def test_more_parts_than_a_device_has_are_in_doubt_whoever_bound_them() -> None:
    pods = [quarter("one", part="0.6", **BOUND), quarter("two", part="0.6", **BOUND)]
    assert sharing(*pods) == {"one": Outcome.UNDECIDED, "two": Outcome.UNDECIDED}


def test_a_binding_that_failed_is_none() -> None:
    failed: Mapping[str, Any] = {"status": {"conditions": [{"type": "PodBound", "status": "False", "reason": "BindingError"}]}}
    assert sharing(quarter("one", **BOUND), quarter("thief", "team-x", **failed))["thief"] is Outcome.UNDECIDED


def test_a_condition_of_a_pod_of_another_scheduler_says_nothing_of_this_one() -> None:
    other = a_pod("other", node="gpu-0", devices=1, schedulerName="default-scheduler", **BOUND)
    assert sharing(quarter("one"), quarter("two"), other) == {"one": Outcome.OK, "two": Outcome.OK, "other": Outcome.OK}


def test_where_no_pod_shows_who_bound_it_parts_are_added_up_as_before() -> None:
    assert sharing(quarter("one"), quarter("two")) == {"one": Outcome.OK, "two": Outcome.OK}
