from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.mig.state import ask_since, changing, check_state, written_at
from fixtures.cluster import Answer
from fixtures.evidence import Outcome
from fixtures.models import Json, Node
from fixtures.trouble import ApiTrouble
from tests.adv.built import NOW, verdict
from tests.builders import a_node, a_scope

STATE = "nvidia.com/mig.config.state"


def node(state: str = "success", config: str = "all-1g.10gb", **labels: str) -> Node:
    own = {"nvidia.com/mig.capable": "true", "nvidia.com/mig.config": config, STATE: state}
    return a_node(labels=own | {f"nvidia.com/{key.replace('__', '.').replace('_', '-')}": value for key, value in labels.items()})


def managed(label: str, time: object) -> Json:
    return {"manager": "nvidia-mig-manager", "time": time, "fieldsV1": {"f:metadata": {"f:labels": {f"f:{label}": {}}}}}


@pytest.mark.parametrize(
    ("subject", "minutes", "wanted"),
    [
        (node(), None, "passed"),
        (node("failed"), None, "failed"),
        (node("pending"), 120, "failed"),
        (node("rebooting"), 120, "failed"),
        (node("pending"), 5, "inconclusive"),
        (node("pending"), None, "inconclusive"),
        (node("done"), None, "failed"),
        (node(""), None, "failed"),
        (node("", mig__capable="false"), None, "not_applicable"),
        (node(gpu__deploy__device_plugin="paused-for-mig-change"), None, "failed"),
        (node("", "", gpu__deploy__dcgm="paused-for-mig-change"), None, "failed"),
        (a_node(), None, "not_applicable"),
    ],
)
def test_state(subject: Node, minutes: int | None, wanted: str) -> None:
    since = {} if minutes is None else {subject.name: NOW - minutes * 60}
    assert verdict(check_state(a_scope(nodes=[subject]), NOW, since)) == wanted


def test_pausing_is_part_of_a_change_under_way() -> None:
    paused = node("pending", gpu__deploy__device_plugin="paused-for-mig-change")
    (finding,) = check_state(a_scope(nodes=[paused]), NOW, {"gpu-0": NOW - 60})
    assert finding.outcome is Outcome.UNDECIDED


def test_the_age_is_that_of_the_writer_of_the_state() -> None:
    fields = [managed("nvidia.com/gpu.present", "2026-11-20T11:00:00Z"), managed(STATE, "2026-11-20T09:00:00Z")]
    assert written_at({"metadata": {"managedFields": fields}}) == NOW - 3 * 3600
    assert written_at({"metadata": {"managedFields": [managed(STATE, "soon")]}}) is None
    assert written_at({}) is None


@given(
    st.recursive(st.none() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))
)
def test_wild_managed_fields_are_survived(value: object) -> None:
    assert written_at({"metadata": {"managedFields": value}}) is None


def test_only_nodes_under_way_are_asked_for() -> None:
    class Api:
        def __init__(self) -> None:
            self.asked: list[str] = []

        def get(self, key: str, name: str) -> Answer:
            self.asked.append(f"{key}/{name}")
            if len(self.asked) > 1:
                raise ApiTrouble("Timeout", "no answer")
            return Answer(status=200, body=b'{"metadata": {}}')

    names = ("a", "b")
    nodes = [a_node(name, labels={STATE: "pending"}) for name in names] + [a_node("c", labels={STATE: "success"})]
    api = Api()
    assert ask_since(api, changing(a_scope(nodes=nodes))) == {}  # type: ignore[arg-type]
    assert api.asked == ["nodes/a", "nodes/b"]
