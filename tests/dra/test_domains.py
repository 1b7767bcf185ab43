"""DRA-09: ComputeDomains, their members, cliques and IMEX daemons."""

from typing import Any

import pytest

from conformance.dra.domains import check_domains
from fixtures.kubernetes.models import Json, Node, Pod
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_cpu_node, a_node, a_pod, a_scope

NOW = 1_790_000_000.0
UID, CLIQUE, OF = "uid-d", "c1.0", "resource.nvidia.com/computeDomain"


def a_domain(
    status: str = "Ready", members: tuple[str, ...] = ("gpu-0", "gpu-1"), created: str = "2026-09-01T00:00:00Z", **more: Any
) -> Json:
    nodes = [{"name": name, "status": "Ready", "cliqueID": CLIQUE, **more} for name in members]
    return {
        "metadata": {"name": "d", "namespace": "team-a", "uid": UID, "creationTimestamp": created},
        "spec": {"numNodes": 2},
        "status": {"status": status, "nodes": nodes},
    }


def member(name: str, clique: str = CLIQUE) -> Node:
    return a_node(name, labels={OF: UID, "nvidia.com/gpu.clique": clique})


def a_daemon(node: str, namespace: str = "nvidia-dra-driver-gpu", *, ready: bool = True) -> Pod:
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    return a_pod(f"daemon-{node}", namespace, node=node, owner="DaemonSet/daemon", labels={OF: UID}, status=status)


def judged(domain: Json, *, nodes: list[Node] | None = None, pods: list[Pod] | None = None) -> Finding:
    scope = a_scope(nodes=nodes or [member("gpu-0"), member("gpu-1")], pods=pods or [], computedomains=[domain])
    (finding,) = check_domains(scope, NOW)
    return finding


def deleted(at: str) -> Json:
    domain = a_domain()
    domain["metadata"] |= {"deletionTimestamp": at, "finalizers": [OF]}
    return domain


@pytest.mark.parametrize(("ended", "outcome"), [
    ("2026-09-20T14:13:20Z", {("Node", "gpu-0"): Outcome.ADVISED, ("Pod", "daemon-gpu-0"): Outcome.BAD}),
    ("2026-09-21T14:13:00Z", {("Node", "gpu-0"): Outcome.ADVISED}),  # it is just ending
])  # fmt: skip
def test_what_a_domain_leaves_behind_is_a_finding(ended: str, outcome: dict[tuple[str, str], Outcome]) -> None:
    pod = a_daemon("gpu-0", ready=False)
    pod.metadata.deletion_timestamp = ended
    found = check_domains(a_scope(nodes=[member("gpu-0"), a_node("gpu-1")], pods=[pod]), NOW)
    assert {(one.subject.kind, one.subject.name): one.outcome for one in found} == outcome


def test_a_tenant_s_pod_with_the_label_of_a_daemon_is_none() -> None:
    """The label holds the UID of a domain, which its owner can read and copy."""
    copy, broken = a_daemon("gpu-1", "team-a"), a_daemon("gpu-1", "team-a", ready=False)
    assert judged(a_domain(), pods=[a_daemon("gpu-0"), a_daemon("gpu-1", ready=False), copy]).outcome is Outcome.BAD
    assert "no IMEX daemon runs on gpu-1" in judged(a_domain(), pods=[a_daemon("gpu-0"), copy]).message
    assert judged(a_domain(), pods=[a_daemon("gpu-0"), a_daemon("gpu-1"), broken]).outcome is Outcome.OK
    broken.metadata.deletion_timestamp = "2026-09-20T14:13:20Z"
    with pytest.raises(NotApplicable):
        list(check_domains(a_scope(nodes=[a_node()], pods=[broken]), NOW))


@pytest.mark.parametrize(("finding", "word"), [
    (judged(a_domain("NotReady")), "NotReady although all its nodes are Ready"),
    (judged(a_domain("")), "without a status"),
    (judged(a_domain(members=("gpu-0",))), "not joined, though labelled for it: gpu-1"),
    (judged(a_domain("NotReady", members=())), "labelled for it: gpu-0, gpu-1"),
    (judged(a_domain(), nodes=[member("gpu-0"), member("gpu-1", "c2.0")]), "says clique c1.0, and the node's label"),
    (judged(a_domain(cliqueID="")), "says clique none"),
    (judged(a_domain(status="NotReady") | {"status": {"status": "NotReady", "nodes": []}}, nodes=[member("gpu-0")]), "NotReady"),
    (judged(a_domain(members=("gpu-0", "gpu-1", "gpu-9"))), "gpu-9 is no node"),
    (judged(a_domain(), pods=[a_daemon("gpu-0"), a_daemon("gpu-1", ready=False)]), "daemon-gpu-1 on gpu-1 is not Ready"),
    (judged(a_domain(), pods=[a_daemon("gpu-0")]), "no IMEX daemon runs on gpu-1"),
    (judged(a_domain(), nodes=[a_node("gpu-0"), a_node("gpu-1")]), "gpu-0 has no label"),
    (judged(deleted("2026-09-20T14:13:20Z")), "it was deleted 24 h ago and is kept by resource.nvidia.com/computeDomain"),
])  # fmt: skip
def test_what_is_wrong_with_a_domain_is_bad(finding: Finding, word: str) -> None:
    assert finding.outcome is Outcome.BAD
    assert word in finding.message


@pytest.mark.parametrize("state", ["NotReady", "Ready", ""])
@pytest.mark.parametrize("spec", [{"numNodes": 2}, {"numNodes": 0}, {}])
def test_a_domain_that_no_node_has_joined_is_not_judged(state: str, spec: Json) -> None:
    """With numNodes 0, its default, it is Ready from the start. Where the hosts run IMEX it stays Ready without members."""
    domain = a_domain(state, members=()) | {"spec": spec}
    assert judged(domain, nodes=[a_node()]).outcome is Outcome.NOT_JUDGED


@pytest.mark.parametrize("state", ["NotReady", "Ready"])
def test_a_deleted_domain_is_gone_also_where_no_node_has_joined_it(state: str) -> None:
    domain = deleted("2026-09-20T14:13:20Z") | {"status": {"status": state}}
    finding = judged(domain, nodes=[a_node()])
    assert finding.outcome is Outcome.BAD
    assert "it was deleted 24 h ago and is kept by resource.nvidia.com/computeDomain, although no node belongs to it" in finding.message
    assert "wait for IMEX" not in finding.message
    domain["metadata"]["deletionTimestamp"] = "2026-09-21T14:13:00Z"
    assert judged(domain, nodes=[a_node()]).outcome is Outcome.NOT_JUDGED


def test_a_young_domain_is_undecided() -> None:
    assert judged(a_domain("NotReady", created="2026-09-21T14:10:00Z")).outcome is Outcome.UNDECIDED


SECONDS_AGO, OLD = "2026-09-21T14:13:00Z", "2026-09-20T14:13:20Z"


def born(pod: Pod, created: str) -> Pod:
    pod.metadata.creation_timestamp = created
    return pod


def a_worker(node: str, bound: str, template: str = "channel", namespace: str = "team-a") -> Pod:
    """A pod that asks for a channel of the domain, a day old and bound at some moment."""
    claims = [{"name": "channel", "resourceClaimTemplateName": template}]
    status = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}]}
    return born(a_pod(f"train-{node}", namespace, node=node, resourceClaims=claims, status=status, phase="Pending"), OLD)


def served(*members: str, status: str = "NotReady", numNodes: int = 2) -> Json:
    channel = {"resourceClaimTemplate": {"name": "channel"}}
    return a_domain(status, members) | {"spec": {"numNodes": numNodes, "channel": channel}}


@pytest.mark.parametrize(("domain", "pods", "outcome"), [
    (served(), [a_worker("gpu-0", SECONDS_AGO), a_worker("gpu-1", SECONDS_AGO)], Outcome.UNDECIDED),  # no daemon runs yet
    (served(), [born(a_daemon(name, ready=False), SECONDS_AGO) for name in ("gpu-0", "gpu-1")], Outcome.UNDECIDED),
    (served("gpu-0"), [born(a_daemon("gpu-0"), OLD), born(a_daemon("gpu-1", ready=False), SECONDS_AGO)], Outcome.UNDECIDED),
    (served("gpu-0", status="Ready", numNodes=0), [born(a_daemon("gpu-0"), OLD), a_worker("gpu-1", SECONDS_AGO)], Outcome.UNDECIDED),
    (served(), [a_worker("gpu-0", SECONDS_AGO), a_worker("gpu-1", OLD)], Outcome.BAD),
    (served(), [a_worker("gpu-0", SECONDS_AGO)], Outcome.BAD),  # nothing tells why gpu-1 has the label
    (served(), [a_worker(name, SECONDS_AGO, "another") for name in ("gpu-0", "gpu-1")], Outcome.BAD),
    (served(), [a_worker(name, SECONDS_AGO, namespace="team-b") for name in ("gpu-0", "gpu-1")], Outcome.BAD),
    (served("gpu-1"), [born(a_daemon("gpu-0", ready=False), OLD), a_worker("gpu-0", SECONDS_AGO)], Outcome.BAD),  # its daemon is stuck
    (served("gpu-0", "gpu-1"), [born(a_daemon(name), SECONDS_AGO) for name in ("gpu-0", "gpu-1")], Outcome.UNDECIDED),
    (served("gpu-0", "gpu-1"), [born(a_daemon(name), OLD) for name in ("gpu-0", "gpu-1")], Outcome.BAD),
])  # fmt: skip
def test_a_node_has_time_to_join_an_old_domain(domain: Json, pods: list[Pod], outcome: Outcome) -> None:
    """A domain of weeks whose pods have just come: before, it was told at once that its nodes have not joined."""
    finding = judged(domain, pods=pods)
    assert finding.outcome is outcome
    assert ("unchanged for 20 s; ask again in 1 h" in finding.message) is (outcome is Outcome.UNDECIDED)


def test_a_member_that_is_being_changed_has_time_and_is_named() -> None:
    upgraded = member("gpu-1")
    upgraded.metadata.labels = {**upgraded.metadata.label, "nvidia.com/gpu-driver-upgrade-state": "drain-required"}
    for late, outcome in (("gpu-1", Outcome.UNDECIDED), ("gpu-0", Outcome.BAD)):
        pods = [born(a_daemon(name, ready=name != late), OLD) for name in ("gpu-0", "gpu-1")]
        finding = judged(a_domain(), nodes=[member("gpu-0"), upgraded], pods=pods)
        assert finding.outcome is outcome
        assert ("; gpu-1: its driver is being upgraded" in finding.message) is (outcome is Outcome.UNDECIDED)
        assert "unchanged for" not in finding.message


@pytest.mark.parametrize(("bound", "outcome"), [("", Outcome.NOT_JUDGED), (SECONDS_AGO, Outcome.UNDECIDED), (OLD, Outcome.BAD)])
def test_a_domain_whose_pods_wait_and_that_no_node_has_joined_is_bad_after_the_age(bound: str, outcome: Outcome) -> None:
    pods = [a_worker("gpu-0", bound)] if bound else []
    finding = judged(served(), nodes=[a_cpu_node("gpu-0")], pods=pods)
    assert finding.outcome is outcome
    assert ("ask again" in finding.message) is (outcome is Outcome.UNDECIDED)


def test_a_young_pod_hides_no_wrong_clique() -> None:
    nodes = [member("gpu-0", "c2.0"), member("gpu-1")]
    assert judged(served("gpu-0"), nodes=nodes, pods=[a_worker("gpu-1", SECONDS_AGO)]).outcome is Outcome.BAD
