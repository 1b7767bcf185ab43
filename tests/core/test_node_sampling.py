from collections.abc import Iterator
from typing import Any

import pytest

from conformance.probes.node_sampling import PlaceFinding, choose_places, in_batches, per_node
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope
from fixtures.model.devices.counts import device_type
from fixtures.model.devices.node_advertisement import advertisement
from fixtures.model.placement.free_devices import Place, listable_places, usable_places, why_unlistable
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Evidence, Finding, Outcome, bad, ok
from fixtures.verdict.record import Level, Verdict
from fixtures.verdict.subjects import Inconclusive, Subject
from tests.builders import FENCE, a_cpu_node, a_node, a_pod, a_policy, a_scope
from tests.tables import each_row

L4, T4 = "NVIDIA-L4", "Tesla-T4"


class Emptied(Workspace):
    """A workspace that only counts how often it was cleared."""

    def __init__(self) -> None:
        self.cleared = 0

    def clear(self, *, seconds: float = 0.0) -> dict[str, str]:
        self.cleared += 1
        return {}


def names(places: list[Place]) -> list[str]:
    return [place.node.name for place in places]


def asking(scope: Scope, outcome: Outcome = Outcome.OK, **batches: int) -> list[Finding]:
    """The findings of a probe that finds the same everywhere."""

    def ask(turn: list[tuple[int, Place]]) -> Iterator[PlaceFinding]:
        for number, place in turn:
            yield place, Finding(Subject("Pod", f"probe-{number}"), outcome, message="said")

    asked = in_batches(scope, Emptied(), choose_places(scope, listable_places(scope)), batches.get("pods", 1), ask)
    return list(per_node(scope, asked, why_unlistable))


# -- sorts ---------------------------------------------------------------------------------------------


def _type(node: Node, resource: str) -> tuple[str, ...]:
    return device_type(node, advertisement(node.metadata.label), resource)


@each_row
def test_nodes_of_two_sorts(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert _type(a_node(**one), "nvidia.com/gpu") != _type(a_node(**other), "nvidia.com/gpu")


# -- choice --------------------------------------------------------------------------------------------

THREE = [a_node("h-0"), a_node("h-1"), a_node("l-0", product=L4), a_node("l-1", product=L4), a_node("t-0", product=T4)]


def test_one_node_of_every_product_is_asked_or_every_free_one() -> None:
    held = [a_pod("p", devices=4, node="h-0"), a_pod("q", devices=8, node="l-1")]
    scope = a_scope(nodes=THREE, pods=held)
    assert sorted(names(choose_places(scope, usable_places(scope)))) == ["h-1", "l-0", "t-0"]
    every = a_scope(a_policy(probes={"everyNode": True}), nodes=THREE, pods=held)
    assert sorted(names(choose_places(every, usable_places(every)))) == ["h-0", "h-1", "l-0", "t-0"]


def test_a_full_cluster_is_inconclusive_and_says_who_is_full() -> None:
    scope = a_scope(nodes=[a_node("gpu-0")], pods=[a_pod(devices=8, node="gpu-0")])
    with pytest.raises(Inconclusive, match=r"gpu-0 \(0 of 8 nvidia.com/gpu free\)"):
        choose_places(scope, listable_places(scope))


def test_a_node_that_taints_keep_probes_from_is_not_chosen() -> None:
    away = a_node("away", taints=[FENCE, "team=ml:NoSchedule"])
    scope = a_scope(nodes=[away, a_node("gpu-1", gpus=4)])
    assert names(choose_places(scope, usable_places(scope))) == ["gpu-1"]
    alone = a_scope(nodes=[away])
    with pytest.raises(Inconclusive, match="taints keep probes from away"):
        choose_places(alone, usable_places(alone))


# -- one finding for every node --------------------------------------------------------------------------


def test_judged_counts_the_nodes_that_were_asked_and_total_all() -> None:
    nodes = [*THREE, a_node("h-2", cordoned=True), a_node("h-3"), a_node("amd", resource="amd.com/gpu"), a_cpu_node("c")]
    nodes.append(a_cpu_node("gone", labels={"nvidia.com/gpu.product": L4}))
    findings = asking(a_scope(nodes=nodes, pods=[a_pod(devices=8, node="h-3")]))
    assert {finding.subject.name: finding.outcome for finding in findings} == {
        **dict.fromkeys(("h-0", "l-0", "t-0"), Outcome.OK),
        **dict.fromkeys(("h-1", "h-2", "h-3", "l-1", "amd", "gone"), Outcome.NOT_JUDGED),
    }
    reported = {finding.subject.name: finding.message for finding in findings}
    assert reported["h-1"] == "not chosen; h-0 of the same product was probed"
    assert reported["h-2"] == "cordoned; h-0 of the same product was probed"
    assert reported["h-3"] == "busy (nvidia.com/gpu 8 of 8); h-0 of the same product was probed"
    assert "amd.com/gpu" in reported["amd"]
    assert "no device" in reported["gone"]


@pytest.mark.parametrize("allow", [[], ["t-*"]])
@pytest.mark.parametrize("reason", ["busy", "cordoned", "taint"])
def test_a_product_that_nobody_asked_is_undecided_unless_the_policy_lets_its_nodes_go(reason: str, allow: list[str]) -> None:
    taints = [FENCE, "team=ml:NoSchedule"] if reason == "taint" else [FENCE]
    nodes = [a_node("h-0"), a_node("t-0", product=T4, cordoned=reason == "cordoned", taints=taints)]
    pods = [a_pod(devices=8, node="t-0")] if reason == "busy" else []
    findings = asking(a_scope(a_policy(accelerators={"allowNotJudged": allow}), nodes=nodes, pods=pods))
    assert [finding.outcome for finding in findings] == [Outcome.OK, Outcome.NOT_JUDGED if allow else Outcome.UNDECIDED]
    assert reason in findings[1].message


def test_the_worst_of_a_node_decides_and_names_its_pod() -> None:
    scope = a_scope(nodes=[a_node()])
    place = usable_places(scope)[0]
    found = [
        (place, ok(Subject("Pod", "a"), observed="fine")),
        (
            place,
            bad(
                Subject("Pod", "b"),
                cause="NodeNotFenced",
                observed="two",
                expected="one",
                source="log",
                message="sees too much",
            ),
        ),
    ]
    (finding,) = per_node(scope, found)
    assert (finding.subject, finding.outcome) == (Subject("Node", "gpu-0"), Outcome.BAD)
    assert (finding.observed, finding.message) == ("two", "Pod b: sees too much")


def test_what_was_found_before_trouble_stays_found() -> None:
    scope = a_scope(nodes=[a_node("a"), a_node("b", product=L4)])

    def asked() -> Iterator[PlaceFinding]:
        yield usable_places(scope)[0], bad(Subject("Pod", "p"), cause="NodeNotFenced", observed="x", expected="y")
        raise Inconclusive("Forbidden", "no more pods")

    evidence = Evidence()
    with pytest.raises(Inconclusive):
        evidence(per_node(scope, asked()))
    assert evidence.judgement(Level.MUST).verdict is Verdict.FAILED


# -- batches -----------------------------------------------------------------------------------------------


def test_turns_are_bounded_in_pods_and_cleared_between() -> None:
    nodes = [a_node(f"n-{index:02}") for index in range(10)]
    scope = a_scope(a_policy(probes={"everyNode": True, "atOnce": 8}), nodes=nodes)
    batches: list[list[int]] = []

    def ask(turn: list[tuple[int, Place]]) -> Iterator[PlaceFinding]:
        batches.append([number for number, _ in turn])
        yield from ((place, ok(Subject("Pod", str(number)))) for number, place in turn)

    workspace = Emptied()
    findings = list(in_batches(scope, workspace, choose_places(scope, usable_places(scope)), 2, ask))
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert (len(findings), workspace.cleared) == (10, 2)


def test_turns_end_with_the_time_and_what_is_left_is_undecided() -> None:
    nodes = [a_node(f"n-{index:02}") for index in range(4)]
    scope = a_scope(a_policy(probes={"everyNode": True, "atOnce": 1, "everyNodeSeconds": 0}), nodes=nodes)
    outcomes = [finding.outcome for finding in asking(scope)]
    assert outcomes == [Outcome.OK, *[Outcome.UNDECIDED] * 3]
