import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from conformance.gang import probes
from conformance.gang.adapters import Gang
from conformance.gang.judging import Attempt, Competition, judge_competition, judge_fit, judge_misfit
from conformance.gang.plan import Plan, gang_of, make_plan
from conformance.gang.probes import BoundWatch, Misfit, _watch_misfits
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject
from tests.builders import FENCE, a_node, a_pod, a_scope
from tests.tables import each_row

SUBJECT = Subject("GangScheduler", "volcano")


def scope_with(*free: int, **more: Any) -> Scope:
    nodes = [a_node(f"gpu-{index}", **more) for index in range(len(free))]
    pods = [a_pod(f"busy-{index}", devices=8 - count, node=f"gpu-{index}") for index, count in enumerate(free) if count < 8]
    return a_scope(nodes=nodes, pods=pods)


# -- capacity arithmetic --


@each_row
def test_slots_are_counted_node_by_node(free: tuple[int, ...], nodes: int, unit: int, slots: int) -> None:
    plan = make_plan(scope_with(*free))
    assert (len(plan.nodes), plan.unit, plan.slots) == (nodes, unit, slots)
    by_name = dict(enumerate(free))
    assert sum(by_name[int(node.name[-1])] // plan.unit for node in plan.nodes) == plan.slots


def test_too_little_free_is_inconclusive_and_names_who_holds() -> None:
    with pytest.raises(Inconclusive, match=r"gpu-0 \(1 of 8"):
        make_plan(scope_with(1))


def test_shared_devices_and_no_devices_are_not_applicable() -> None:
    with pytest.raises(NotApplicable, match="shared"):
        make_plan(scope_with(8, labels={"nvidia.com/gpu.replicas": "4"}))
    with pytest.raises(NotApplicable):
        make_plan(a_scope(nodes=[]))


def test_nodes_that_taints_keep_probes_from_are_not_planned() -> None:
    away = [a_node("a-0", taints=[FENCE, "team=ml:NoSchedule"]), a_node("a-1", taints=[FENCE, "team=ml:NoSchedule"])]
    plan = make_plan(a_scope(nodes=[*away, a_node("b-0", gpus=2)]))
    assert [node.name for node in plan.nodes] == ["b-0"]
    with pytest.raises(Inconclusive, match="taints keep probes"):
        make_plan(a_scope(nodes=away))


def test_gang_pods_are_confined_to_the_planned_nodes_and_tolerate_their_fence() -> None:
    scope = scope_with(8, 8)
    gang = gang_of(scope, make_plan(scope), "g", 3)
    assert gang.names == ["g-0", "g-1", "g-2"]
    spec = gang.pods[0]["spec"]
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-0", "gpu-1"]}]
    assert len(spec["tolerations"]) == 1
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"


# -- counting --


class Scripted:
    """An observation that plays states: each a list of bound pod names."""

    def __init__(self, *states: list[str]) -> None:
        self._states = list(states)
        self.objects: dict[str, Json] = {}

    def until(self, deadline: float) -> Iterator[Mapping[str, Json]]:
        yield self.objects
        while self._states and time.monotonic() < deadline:
            bound = self._states.pop(0)
            names = [f"{gang}-{index}" for gang in "ab" for index in range(2)]
            self.objects = {f"ns/{name}": {"spec": {"nodeName": "n"} if name in bound else {}} for name in names}
            yield self.objects


def watch_of(*states: list[str]) -> BoundWatch:
    plan = Plan(nodes=(a_node(),), resource="nvidia.com/gpu", unit=4, slots=2)
    gangs = [gang_of(a_scope(), plan, name, 2) for name in "ab"]
    return BoundWatch(Scripted(*states), "ns", gangs)  # type: ignore[arg-type]


def test_a_bind_that_does_not_last_is_still_seen() -> None:
    watch = watch_of([], ["a-0"], [])
    assert not watch.until(5, lambda counts: False)
    assert watch.most == (1, 0)
    assert [counts for _, counts in watch.history] == [(0, 0), (1, 0), (0, 0)]


def test_pods_of_others_do_not_count() -> None:
    assert watch_of(["c-0"]).now == (0, 0)


# -- verdicts --


PLAN = Plan(nodes=(a_node(),), resource="nvidia.com/gpu", unit=4, slots=2)


def attempt(bound: int, size: int = 2, most: int | None = None) -> Attempt:
    return Attempt(size=size, bound=bound, most=bound if most is None else most, seconds=0.5, spread=0.0, trace="trace")


@each_row
def test_a_gang_that_fits_is_judged_beside_the_load_without_it(seen: Attempt, control: Attempt | None, outcome: Outcome) -> None:
    assert judge_fit(SUBJECT, PLAN, seen, control).outcome is outcome


@each_row
def test_a_gang_that_does_not_fit_binds_nothing_ever(misfit: dict[str, Any], lowered: dict[str, Any], outcome: Outcome) -> None:
    assert judge_misfit(SUBJECT, PLAN, attempt(**misfit), lambda: attempt(**lowered), 30.0, "promise").outcome is outcome


class Stuck:
    """An adapter whose gangs do not go away."""

    name = "volcano"

    def submit(self, workspace: object, gang: Gang) -> None:
        pass

    def release(self, workspace: object, gang: Gang) -> None:
        raise Inconclusive("GangStays", f"gang {gang.name} did not go away")


def test_gangs_that_do_not_go_away_stay_judged_by_what_was_bound_of_them() -> None:
    workspace: Any = SimpleNamespace(observe=lambda: nullcontext(Scripted(["a-0", "b-0"])), namespace=lambda: "ns")
    adapter: Any = Stuck()
    gangs = [gang_of(a_scope(), PLAN, name, 2) for name in "abc"]
    seen = _watch_misfits(workspace, [Misfit(adapter=adapter, gang=gang, by_nodes=True, promise="", window=0.1) for gang in gangs])
    assert [one.code if isinstance(one, Inconclusive) else one.most for one in seen] == [1, 1, "GangStays"]


def test_the_seconds_of_an_attempt_end_before_its_claims_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    late = SimpleNamespace(monotonic=lambda: time.monotonic() + 3600)
    monkeypatch.setattr(probes, "claims_there", lambda _: monkeypatch.setattr(probes, "time", late) or {})
    workspace: Any = SimpleNamespace(observe=lambda: nullcontext(Scripted(["a-0", "a-1"])), namespace=lambda: "ns")
    adapter: Any = SimpleNamespace(submit=lambda *_: None, release=lambda *_: None)
    gang = msgspec.structs.replace(gang_of(a_scope(), PLAN, "a", 2), by_dra=True)
    assert probes._attempt(a_scope(), workspace, adapter, gang).seconds < 60


@each_row
def test_two_gangs_run_one_after_the_other(first: tuple[int, int], started: bool, followed: bool, outcome: Outcome, words: str) -> None:
    seen = Competition(size=2, first=first, started=started, followed=followed, trace="trace")
    finding = judge_competition(SUBJECT, PLAN, seen)
    assert finding.outcome is outcome
    assert words in finding.message


def test_members_that_are_gone_may_have_been_bound_unseen() -> None:
    observation = Scripted([])
    plan = Plan(nodes=(a_node(),), resource="nvidia.com/gpu", unit=4, slots=2)
    watch = BoundWatch(observation, "ns", [gang_of(a_scope(), plan, "a", 3)])  # type: ignore[arg-type]
    watch.until(5, lambda counts: False)
    assert watch.attempt().missing == 1  # a-2 is not among the objects
    gone = msgspec.structs.replace(attempt(0, 3), missing=1)
    for most, outcome in ((0, Outcome.UNDECIDED), (1, Outcome.BAD)):
        seen = msgspec.structs.replace(gone, most=most)
        assert judge_misfit(SUBJECT, PLAN, seen, lambda: attempt(2), 30.0, "promise").outcome is outcome


@pytest.mark.parametrize(("first", "started"), [((0, 0), False), ((2, 0), True)])
def test_a_gang_that_does_not_start_is_judged_beside_the_load_without_it(first: tuple[int, int], started: bool) -> None:
    seen = Competition(size=2, first=first, started=started, followed=False, trace="trace")
    assert judge_competition(SUBJECT, PLAN, seen, attempt(2)).outcome is Outcome.BAD
    assert judge_competition(SUBJECT, PLAN, seen, attempt(1)).outcome is Outcome.UNDECIDED
