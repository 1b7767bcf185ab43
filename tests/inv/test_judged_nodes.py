"""INV-01 and INV-02: sources that name a node, and nodes that were judged or not."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from conformance.fence.checks import check_fenced, check_intruders
from conformance.inv.judged_nodes import check_agreement, check_judged, check_stand_ins
from conformance.inv.versions import check_peers, check_skew
from conformance.probes.node_documents import NodeDocuments
from fixtures.kubernetes.models import Json, Node, Taint
from fixtures.model.cluster import Scope
from fixtures.model.devices.offers import foreign_taints
from fixtures.model.nodes.sources import sources_by_node
from fixtures.model.placement.free_devices import usable_places
from fixtures.verdict.findings import Evidence, Finding, Outcome
from fixtures.verdict.record import Level, Verdict
from fixtures.verdict.subjects import NotApplicable
from tests.builders import FENCE, NFD, a_cpu_node, a_daemonset, a_node, a_pod, a_policy, a_scope
from tests.dra import a_class, a_slice
from tests.findings import by_name, causes
from tests.model.nodes.reported import HOUR, MINUTE, ago, stated
from tests.tables import each_row

_SLICE: Json = a_slice("gpu-1")


def outcomes(**kwargs: Any) -> dict[str, Outcome]:
    return {finding.subject.name: finding.outcome for finding in check_agreement(a_scope(**kwargs))}


def test_devices_offered_by_slices_count_as_offered() -> None:
    by_slice = a_cpu_node("gpu-1", labels={NFD: "true", "nvidia.com/gpu.present": "true"})
    assert outcomes(nodes=[a_node(), by_slice], resourceslices=[_SLICE]) == {"gpu-0": Outcome.OK, "gpu-1": Outcome.OK}


def test_pci_class_labels_are_one_source() -> None:
    other = {NFD: "", "feature.node.kubernetes.io/pci-0302_10de.present": "true"}
    assert outcomes(nodes=[a_node("gpu-0"), a_node("gpu-1", labels=other)]) == {"gpu-0": Outcome.OK, "gpu-1": Outcome.OK}


def test_a_vendor_s_label_says_nothing_about_another_vendor_s_node() -> None:
    labels = {NFD: "", "nvidia.com/gpu.present": "", "nvidia.com/gpu.product": "", "feature.node.kubernetes.io/amd-gpu": "true"}
    amd = a_node("mi300x-0", resource="amd.com/gpu", labels=labels)
    assert outcomes(nodes=[a_node(), amd]) == {"gpu-0": Outcome.OK, "mi300x-0": Outcome.OK}
    assert "label nvidia.com/gpu.present" not in sources_by_node(a_scope(nodes=[a_node(), amd]))["mi300x-0"]


def test_one_source_alone_is_not_judged() -> None:
    bare = a_node(labels={NFD: "", "nvidia.com/gpu.present": ""})
    assert outcomes(nodes=[bare]) == {"gpu-0": Outcome.NOT_JUDGED}


@pytest.mark.parametrize("label", ["nvidia.com/gpu.deploy.operands=false", "nvidia.com/gpu.workload.config=vm-passthrough"])
def test_devices_withheld_on_purpose_are_not_judged(label: str) -> None:
    key, _, value = label.partition("=")
    withheld = a_cpu_node("vm-0", labels={NFD: "true", key: value})
    assert outcomes(nodes=[a_node(), withheld])["vm-0"] is Outcome.NOT_JUDGED


def test_devices_for_virtual_machines_are_withheld_from_containers() -> None:
    virtual = a_cpu_node("vm-0", labels={NFD: "true"}, capacity={"nvidia.com/GA102GL_A10": "2"})
    assert outcomes(nodes=[a_node(), virtual])["vm-0"] is Outcome.NOT_JUDGED
    for_them = {NFD: "true", "nvidia.com/gpu.workload.config": "vm-vgpu"}
    changed = a_cpu_node("vm-0", labels=for_them, capacity={"nvidia.com/GA102GL_A10": "0", "nvidia.com/NVIDIA_A10-4Q": "6"})
    assert outcomes(nodes=[a_node(), changed])["vm-0"] is Outcome.NOT_JUDGED
    none = a_cpu_node("vm-0", labels=for_them, capacity={"nvidia.com/GA102GL_A10": "0"})
    assert outcomes(nodes=[a_node(), none])["vm-0"] is Outcome.BAD


def test_no_accelerator_node_fails_instead_of_passing() -> None:
    findings = list(check_agreement(a_scope(nodes=[a_cpu_node()])))
    assert [finding.outcome for finding in findings] == [Outcome.BAD]
    assert next(check_agreement(a_scope(a_policy(accelerators={"expectedCount": 0}), nodes=[a_cpu_node()]))).outcome is Outcome.OK


def test_expected_nodes_and_counts() -> None:
    policy = a_policy(accelerators={"expectedNodes": ["gpu-0", "gpu-9"], "expectedCount": 1})
    found = {finding.subject.name: finding.outcome for finding in check_agreement(a_scope(policy, nodes=[a_node()]))}
    assert found == {"gpu-0": Outcome.OK, "gpu-9": Outcome.BAD, "accelerator nodes": Outcome.OK}
    policy = a_policy(accelerators={"expectedCount": 3})
    assert list(check_agreement(a_scope(policy, nodes=[a_node()])))[-1].outcome is Outcome.BAD


@pytest.mark.parametrize("label", ["nvidia.com/gpu.deploy.operands=false", "nvidia.com/gpu.workload.config=vm-passthrough"])
def test_a_label_is_no_excuse_for_a_node_that_the_policy_expects(label: str) -> None:
    key, _, value = label.partition("=")
    policy = a_policy(accelerators={"expectedNodes": ["gpu-0", "vm-0"]})
    withheld = a_cpu_node("vm-0", labels={NFD: "true", key: value})
    found = {finding.subject.name: finding.outcome for finding in check_agreement(a_scope(policy, nodes=[a_node(), withheld]))}
    assert found["vm-0"] is Outcome.BAD


@each_row
def test_a_node_that_only_marks_name_lost_its_devices(labels: dict[str, str], capacity: dict[str, str], outcome: Outcome) -> None:
    assert outcomes(nodes=[a_node(), a_cpu_node("lost", labels=labels, capacity=capacity)])["lost"] is outcome


def test_labels_of_discovery_tell_of_a_vendor_only_where_they_name_some_node_of_it() -> None:
    """AMD's label is that of a rule which AMD's operator brings; labels of NVIDIA's PCI devices come with discovery itself."""
    bare = {NFD: "", "nvidia.com/gpu.present": "", "nvidia.com/gpu.product": ""}
    labelled = {**bare, "feature.node.kubernetes.io/amd-gpu": "true"}
    without = a_node("mi300x-0", resource="amd.com/gpu", labels=bare)
    assert outcomes(nodes=[a_node(), without]) == {"gpu-0": Outcome.OK, "mi300x-0": Outcome.NOT_JUDGED}
    beside = a_node("mi300x-1", resource="amd.com/gpu", labels=labelled)
    assert outcomes(nodes=[a_node(), without, beside]) == {"gpu-0": Outcome.OK, "mi300x-0": Outcome.BAD, "mi300x-1": Outcome.OK}


UNSCHEDULABLE = "node.kubernetes.io/unschedulable:NoSchedule"


def only(**kwargs: Any) -> Finding:
    (finding,) = check_judged(a_scope(**kwargs))
    return finding


@each_row
def test_nodes_out_of_reach_make_the_run_incomplete(node: dict[str, Any], word: str) -> None:
    finding = only(nodes=[a_node(**node)])
    assert finding.outcome is Outcome.MISSED
    assert word in finding.message


def test_the_policy_may_allow_them() -> None:
    policy = a_policy(accelerators={"allowNotJudged": ["gpu-*"]})
    (finding,) = check_judged(a_scope(policy, nodes=[a_node(cordoned=True)]))
    assert finding.outcome is Outcome.ALLOWED


def test_tolerated_and_soft_taints_keep_nobody_away() -> None:
    node = a_node(taints=[FENCE, "team=ml:NoSchedule", "slow:PreferNoSchedule"])
    policy = a_policy(probes={"tolerations": [{"key": "team", "operator": "Exists"}]})
    assert foreign_taints(a_scope(policy, nodes=[node]), node) == []
    assert foreign_taints(a_scope(nodes=[node]), node) == ["team=ml:NoSchedule"]


def test_a_busy_node_is_listed_with_what_is_held() -> None:
    full = a_pod(devices=8, node="gpu-0")
    finding = only(nodes=[a_node()], pods=[full])
    assert finding.outcome is Outcome.ALLOWED
    held = "all its devices are in use (nvidia.com/gpu 8 of 8), so no probe ran"
    assert finding.message == f"{held}; accelerators.allowBusy of the policy allows that"
    (strict,) = check_judged(a_scope(a_policy(accelerators={"allowBusy": False}), nodes=[a_node()], pods=[full]))
    assert (strict.outcome, strict.message) == (Outcome.MISSED, f"{held} and the run's verdict does not cover it")


@each_row
def test_a_node_whose_last_mark_is_its_machine_or_a_label_still_counts(label: str) -> None:
    key, _, value = label.partition("=")
    assert concluded(a_scope(nodes=[a_node(), a_cpu_node("lost", labels={key: value})])) == (Verdict.INCONCLUSIVE, 1, 2)


@each_row
def test_machines_without_accelerators_are_no_subject(machine: str) -> None:
    scope = a_scope(nodes=[a_node(), a_cpu_node("cpu-1", labels={"node.kubernetes.io/instance-type": machine})])
    assert concluded(scope) == (Verdict.PASSED, 1, 1)


# -- the verdict over all nodes ------------------------------------------------------------------------


def concluded(scope: Scope, *, probing: bool = True) -> tuple[Verdict, int, int]:
    """Verdict, judged and total of INV-02."""
    evidence = Evidence()
    evidence(check_judged(scope, probing=probing))
    judgement = evidence.judgement(Level.MUST)
    return judgement.verdict, judgement.judged, judgement.total


def gone(
    name: str, *, labels: Mapping[str, str] | None = None, taints: tuple[str, ...] = (), capacity: Mapping[str, str] | None = None
) -> Node:
    """A node without devices that only the given things name."""
    bare = a_node(name, labels={NFD: "", "nvidia.com/gpu.present": "", "nvidia.com/gpu.product": "", **(labels or {})}, taints=taints)
    del bare.status.capacity["nvidia.com/gpu"], bare.status.allocatable["nvidia.com/gpu"]
    bare.status.capacity.update(capacity or {})
    bare.status.allocatable.update(capacity or {})
    return bare


REACHED = [a_node("a"), a_node("b")]
CORDONED = [a_node("c", cordoned=True), a_node("d", taints=[FENCE, UNSCHEDULABLE])]
HIDDEN = [
    gone("c", labels={NFD: "true", "nvidia.com/gpu.deploy.operands": "false"}),
    gone("d", labels={NFD: "true", "nvidia.com/gpu.workload.config": "vm-passthrough"}),
]


def test_busy_nodes_waive_it_and_do_not_pass_it() -> None:
    pods = [a_pod(name, devices=8, node=name) for name in "cd"]
    assert concluded(a_scope(nodes=[*REACHED, a_node("c"), a_node("d")], pods=pods)) == (Verdict.WAIVED, 2, 4)


@pytest.mark.parametrize("allow", [[], ["*"]])
def test_a_cluster_of_which_nothing_could_be_judged_is_inconclusive(allow: list[str]) -> None:
    policy = a_policy(accelerators={"allowNotJudged": allow})
    busy_everywhere = a_scope(policy, nodes=REACHED, pods=[a_pod(name, devices=8, node=name) for name in "ab"])
    assert concluded(busy_everywhere) == (Verdict.INCONCLUSIVE, 0, 2)
    hidden = concluded(a_scope(policy, nodes=HIDDEN))
    assert hidden == (Verdict.INCONCLUSIVE, 0, 2)
    if allow:
        assert concluded(a_scope(policy, nodes=CORDONED)) == (Verdict.INCONCLUSIVE, 0, 2)


@each_row
def test_a_node_that_lost_its_devices_stays_in_the_count(lost: Json) -> None:
    assert concluded(a_scope(nodes=[*REACHED, gone(**lost)])) == (Verdict.INCONCLUSIVE, 2, 3)


def test_a_plugin_that_is_away_leaves_nothing_to_ask_for() -> None:
    node = a_node("c", allocatable={"nvidia.com/gpu": "0"})
    assert concluded(a_scope(nodes=[*REACHED, node])) == (Verdict.INCONCLUSIVE, 2, 3)


def test_devices_for_virtual_machines_are_left_out_by_leave() -> None:
    assert concluded(a_scope(nodes=[*REACHED, gone("vm", capacity={"nvidia.com/GA102GL_A10": "2"}, labels={NFD: "true"})])) == (
        Verdict.WAIVED,
        2,
        3,
    )


@pytest.mark.parametrize(
    ("taints", "verdict"), [([], Verdict.PASSED), ([{"key": "gpu-lost", "effect": "NoSchedule"}], Verdict.INCONCLUSIVE)]
)
def test_devices_of_a_dra_driver_are_devices_unless_none_can_be_claimed(taints: list[dict[str, str]], verdict: Verdict) -> None:
    device = {"name": "gpu-0", "taints": taints}
    pool = {"name": "c", "generation": 1, "resourceSliceCount": 1}
    published = {"metadata": {"name": "s"}, "spec": {"driver": "gpu.nvidia.com", "nodeName": "c", "pool": pool, "devices": [device]}}
    nodes = [*REACHED, gone("c", labels={NFD: "true"})]
    assert concluded(a_scope(nodes=nodes, resourceslices=[published])) == (verdict, 3 if verdict is Verdict.PASSED else 2, 3)


@each_row
def test_where_no_probe_can_run_taints_keep_none_away(taint: str, probing: Verdict) -> None:
    scope = a_scope(nodes=[a_node(taints=[FENCE, taint])], pods=[a_pod(devices=8, node="gpu-0")])
    assert concluded(scope, probing=False) == (Verdict.PASSED, 1, 1)
    assert all("no probe ran" not in finding.message for finding in check_judged(scope, probing=False))
    assert concluded(scope)[0] is probing


def test_where_no_probe_can_run_a_cordon_is_no_failure_and_no_pass() -> None:
    scope = a_scope(nodes=[*REACHED, *CORDONED])
    assert concluded(scope, probing=False) == (Verdict.INCONCLUSIVE, 2, 4)
    assert all("no probe ran" not in finding.message for finding in check_judged(scope, probing=False))


# -- a cluster in motion


@each_row
def test_a_hold_that_is_a_change_under_way_is_undecided(node: Node) -> None:
    finding = only(nodes=[node])
    assert finding.outcome is Outcome.UNDECIDED
    assert "ask again" in finding.message


def test_an_owner_s_cordon_without_a_time_is_undecided() -> None:
    node = stated(annotations={"acme.example/cordoned-by": "jane"})
    node.spec.unschedulable = True
    finding = only(nodes=[node])
    assert finding.outcome is Outcome.UNDECIDED
    assert "owner jane: ask again when the owner is done" in finding.message


def test_a_cordon_of_nobody_without_a_time_fails() -> None:
    node = stated()
    node.spec.unschedulable = True
    assert only(nodes=[node]).outcome is Outcome.MISSED


def test_the_taint_of_a_cordon_without_the_cordon_is_never_passed() -> None:
    taint = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    finding = only(nodes=[stated(taints=[taint])])
    assert finding.outcome is Outcome.MISSED
    assert "taint node.kubernetes.io/unschedulable" in finding.observed


def test_one_temporary_taint_does_not_excuse_another_that_stays() -> None:
    node = stated(taints=["cloud.google.com/impending-node-termination:NoSchedule", "team-a/own=yes:NoSchedule"])
    assert only(nodes=[node]).outcome is Outcome.MISSED


@pytest.mark.parametrize(("age", "wanted"), [(2 * MINUTE, Outcome.UNDECIDED), (2 * HOUR, Outcome.MISSED)])
def test_a_node_that_has_just_become_not_ready_is_undecided(age: float, wanted: Outcome) -> None:
    node = a_node(ready=False)
    node.status.conditions[0].last_transition_time = ago(age)
    assert only(nodes=[node]).outcome is wanted


@each_row
def test_a_virtual_node_is_set_aside_and_named(label: dict[str, str]) -> None:
    """It stands for another cluster: no agent labels it, and its own taint keeps pods away."""
    taints = ["virtual-kubelet.io/provider=liqo:NoSchedule"]
    virtual = a_node("liqo-0", taints=taints, labels={**label, NFD: "", "nvidia.com/gpu.present": "", "nvidia.com/gpu.product": ""})
    cluster: dict[str, Any] = {"nodes": [a_node("gpu-0"), a_node("gpu-1"), virtual], "pods": [a_pod("burst", node="liqo-0")]}
    scope = a_scope(**cluster)
    assert concluded(scope) == (Verdict.INCONCLUSIVE, 2, 3)
    for check in (check_agreement, check_fenced, check_skew, partial(check_peers, documents=NodeDocuments())):
        assert not [
            finding.message for finding in check(scope) if finding.subject.name == "liqo-0" and finding.outcome is not Outcome.NOT_JUDGED
        ]
    assert not list(check_intruders(scope))
    assert {place.node.name for place in usable_places(scope)} == {"gpu-0", "gpu-1"}
    accepted = a_scope(a_policy(accelerators={"allowNotJudged": ["liqo-0"]}), **cluster)
    assert concluded(accepted)[0] is Verdict.WAIVED


_REGISTRY = [{"name": "registry", "hostPath": {"path": "/var/lib/kubelet/plugins_registry"}}]


@pytest.mark.parametrize(("selector", "named"), [({"gpu": "on"}, True), ({"kubernetes.io/os": "linux"}, False)])
def test_a_node_of_which_nothing_is_left_but_its_drivers_pod_is_not_passed_over(selector: dict[str, str], named: bool) -> None:
    """A driver for every node runs on nodes without devices too, and says nothing of them."""
    pods = [a_pod(f"gpu-nvidia-{n}", "kube-system", node=f"gpu-{n}", owner="DaemonSet/gpu-nvidia", volumes=_REGISTRY) for n in range(3)]
    scope = a_scope(
        nodes=[*(a_node(f"gpu-{n}", capacity={"nvidia.com/gpu": "0"}) for n in range(2)), a_cpu_node("gpu-2")],
        pods=pods,
        daemonsets=[a_daemonset("gpu-nvidia", "kube-system", volumes=_REGISTRY, node_selector=selector)],
        resourceslices=[a_slice("gpu-0"), a_slice("gpu-1")],
        deviceclasses=[a_class()],
    )
    assert concluded(scope) == ((Verdict.INCONCLUSIVE, 2, 3) if named else (Verdict.PASSED, 2, 2))


LABEL = "nfd.node.kubernetes.io/node-name"
NODES = [a_node(f"gpu-{index}") for index in range(3)]


def features(*nodes: str) -> list[Json]:
    return [{"metadata": {"name": node, "namespace": "nfd", "labels": {LABEL: node}}} for node in nodes]


def a_claim(registered: str, node: str = "", since: str = "2026-09-20T00:00:00Z", **meta: Any) -> Json:
    condition = {"type": "Registered", "status": registered, "lastTransitionTime": since}
    return {"metadata": {"name": "claim", **meta}, "status": {"nodeName": node, "conditions": [condition]}}


def found(**world: Any) -> dict[str, str]:
    return causes(check_stand_ins(a_scope(nodes=NODES, **world)))


def test_many_objects_of_nodes_that_are_gone_are_left_and_one_may_wait_for_its_collector() -> None:
    alive = features("gpu-0", "gpu-1", "gpu-2")
    assert found(nodefeatures=[*alive, *features("old-0", "old-1")]) == dict.fromkeys(("old-0", "old-1"), "LeftOfDeletedNode")
    assert by_name(check_stand_ins(a_scope(nodes=NODES, nodefeatures=[*alive, *features("old-0")])))["old-0"] is Outcome.NOT_JUDGED


def test_a_new_slice_may_be_of_a_node_that_joined_after_the_nodes_were_read() -> None:
    meta = {"name": "new-0-gpu", "creationTimestamp": "2026-09-21T14:13:00Z"}
    (finding,) = check_stand_ins(a_scope(nodes=NODES, resourceslices=[{"metadata": meta, "spec": {"nodeName": "new-0"}}]))
    assert (finding.outcome, finding.cause) == (Outcome.UNDECIDED, "ChangeUnderWay")


def test_one_slice_of_a_node_that_is_gone_is_left() -> None:
    slices = [{"metadata": {"name": "s"}, "spec": {"driver": "gpu.nvidia.com", "nodeName": "old", "pool": {"name": "old"}}}]
    assert found(resourceslices=slices) == {"s": "LeftOfDeletedNode"}


@each_row
def test_claims_of_karpenter(claim: Json, cause: str) -> None:
    assert found(nodeclaims=[claim]) == ({"claim": cause} if cause else {})


def test_a_node_without_the_features_of_its_pool_is_named() -> None:
    assert found(nodefeatures=features("gpu-0", "gpu-1")) == {"gpu-2": "StandInMissing"}
    assert found(nodefeatures=features("gpu-0")) == {}  # nobody can tell which of the nodes are as they should be


def test_features_of_no_single_node_are_left_out() -> None:
    with pytest.raises(NotApplicable):
        found(nodefeatures=[{"metadata": {"name": "rules", "namespace": "nfd"}}])
