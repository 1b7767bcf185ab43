"""The nodes that a run is about: who is meant, which subjects are theirs, and how they are read."""

import pytest

from fixtures.model.cluster import Scope
from fixtures.model.nodes.chosen import NoSuchNode, is_returning, named_nodes
from fixtures.simulator.config.scenario import load_scenario
from fixtures.verdict.findings import OF_OTHER_NODES, Evidence, bad, ok
from fixtures.verdict.record import Level, Verdict
from fixtures.verdict.subjects import REST, Subject
from tests.builders import FENCE, a_node, a_pod, a_policy, a_snapshot
from tests.judging import CATALOGUE, READ, judge
from tests.requirements_offline import scope_of
from tests.tables import each_row

NODES = [a_node("gpu-0", labels={"pool": "a"}), a_node("gpu-1", labels={"pool": "a", "zone": "x"}), a_node("cpu-0", labels={"pool": "b"})]


@each_row
def test_names_add_nodes_and_all_terms_of_a_selector_must_match(asked: list[str], names: set[str]) -> None:
    assert named_nodes(asked, NODES) == names


@each_row
def test_what_matches_nothing_is_named_with_what_is_nearest(asked: list[str], words: str) -> None:
    with pytest.raises(NoSuchNode) as caught:
        named_nodes(asked, NODES)
    assert str(caught.value) == words


def about(*names: str, tolerate: tuple[str, ...] = ()) -> Scope:
    nodes = [a_node("gpu-0", cordoned=True, taints=(FENCE, "repair:NoSchedule")), a_node("gpu-1")]
    pods = [a_pod("here", node="gpu-0"), a_pod("there", node="gpu-1")]
    return Scope(a_snapshot(nodes=nodes, pods=pods), a_policy(**{"return": {"tolerate": tolerate}}), frozenset(names))


@each_row
def test_a_subject_of_another_node_is_not_theirs(kind: str, name: str, theirs: bool) -> None:
    subject = Subject(kind, name, "team-a" if kind == "Pod" else "")
    assert about("gpu-0").concerns(subject) is theirs
    assert about().concerns(subject)
    assert about("gpu-0").concerns(REST)


def test_what_is_found_of_other_nodes_counts_for_nothing() -> None:
    judge_here = Evidence(concerns=about("gpu-0").concerns)
    judge_here([ok(Subject("Node", "gpu-0")), bad(Subject("Node", "gpu-1"), observed="x", expected="y", cause="NodeNotReady")])
    found = judge_here.judgement(Level.MUST)
    assert (found.verdict, found.judged, found.total) == (Verdict.PASSED, 1, 1)
    elsewhere = Evidence(concerns=about("gpu-0").concerns)
    elsewhere(ok(Subject("Node", "gpu-1")))
    found = elsewhere.judgement(Level.MUST)
    assert (found.verdict, found.reason_code) == (Verdict.NOT_APPLICABLE, OF_OTHER_NODES)


@each_row
def test_only_what_the_policy_tolerates_is_read_as_taken_away(
    tolerate: tuple[str, ...], taints: list[str], why_not: str, returning: bool
) -> None:
    scope = about("gpu-0", tolerate=tolerate)
    node, other = scope.snapshot.nodes
    assert [taint.key for taint in node.spec.taints] == taints
    assert scope.why_not_judged(node) == why_not
    assert (is_returning(scope, node), is_returning(scope, other)) == (returning, False)
    assert scope.as_read.nodes[0].spec.unschedulable, "what was read stays what was read"
    assert [item["key"] for item in scope.policy.probes.tolerations] == list(tolerate)


def test_another_node_stays_as_it_is() -> None:
    scope = about("gpu-1", tolerate=("node.kubernetes.io/unschedulable", "repair"))
    assert scope.why_not_judged(scope.snapshot.nodes[0]) == "cordoned"


def test_the_catalogue_says_which_requirements_judge_nodes() -> None:
    scope = scope_of(load_scenario("showcase"))
    for id_, result in judge(scope.snapshot, scope.policy, READ, may_probe=True).items():
        kinds = {subject.kind for subject in result.subjects}
        if kinds:
            told = bool(kinds & {"Node", "Agent"}) or id_ in OF_PODS
            assert CATALOGUE.by_id[id_].of_nodes is told or id_ in (*OF_AGENTS, *AHEAD), f"{id_}: {kinds}"


OF_PODS = ("FENCE-02", "REQ-13", "REQ-14")
"""Requirements about pods, of which one on a node says something of the node."""

OF_AGENTS = ("OPS-02", "OPS-03", "OPS-11", "OPS-13")
"""Requirements about the stack as a whole: the first two judge agents of single nodes where a run is about these."""

AHEAD = ("UPG-04",)
"""Requirements that look ahead to an upgrade of the cluster: what they find keeps no node from work today."""
