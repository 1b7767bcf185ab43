"""FENCE-12: nodes that came back from a quarantine. Reports: docs/facts/device-health.md#returns."""

import time
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from conformance.fence.births import check_birth_fences
from conformance.fence.holds import check_validated
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.cluster import Scope
from fixtures.model.nodes.readiness_rules import RULES
from fixtures.snapshot.state import Listing
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_node, a_pod, a_policy, a_scope, a_snapshot, a_taint
from tests.findings import by_name
from tests.tables import each_row

NOW = 1_790_000_000.0
PREFIX = "k8saas.nvidia.com/"


def ago(hours: float, *, label: bool = False) -> str:
    return datetime.fromtimestamp(NOW - hours * 3600, UTC).strftime("%Y-%m-%dT%H-%M-%SZ" if label else "%Y-%m-%dT%H:%M:%SZ")


def validator(hours: float, namespace: str = "gpu-operator", name: str = "nvidia-operator-validator") -> Pod:
    done = {"type": "Initialized", "status": "True", "lastTransitionTime": ago(hours)}
    ended = [{"name": "main", "state": {"terminated": {"finishedAt": ago(hours)}}}]
    status: Json = {"phase": "Succeeded", "containerStatuses": ended} if "cuda" in name else {"conditions": [done]}
    return a_pod(name, namespace, node="gpu-0", labels={"app": name}, status=status)


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """A node by how many hours ago it was cordoned, put back and found good, and by its validations; and what is found of it."""

    outcome: str
    cordon: float | None = None
    uncordon: float | None = None
    good: float | None = None
    validator: float | None = None
    cuda: float | None = None
    look_alike: float | None = None
    condition: float | None = None
    by: str = "NVSentinel"
    labels: dict[str, str] = {}


@each_row
def test_a_node_that_was_in_quarantine(row: Row) -> None:
    labels = dict(row.labels)
    for word, hours in (("cordon", row.cordon), ("uncordon", row.uncordon)):
        if hours is not None:
            labels |= {f"{PREFIX}{word}-timestamp": ago(hours, label=True), f"{PREFIX}{word}-by": row.by}
    pods = [validator(hours) for hours in (row.validator,) if hours is not None]
    pods += [validator(hours, name="nvidia-cuda-validator") for hours in (row.cuda,) if hours is not None]
    pods += [validator(hours, "team-a") for hours in (row.look_alike,) if hours is not None]
    conditions = {"SysLogsXIDError": ("False", row.good), "GPUConformant": ("True", row.condition)}
    assert outcomes(labels, pods, conditions) == {"gpu-0": Outcome(row.outcome)}


def outcomes(labels: dict[str, str], pods: list[Pod], conditions: dict[str, tuple[str, float | None]], **policy: Any) -> dict[str, Outcome]:
    node = msgspec.to_builtins(a_node(labels=labels))
    for kind, (status, hours) in conditions.items():
        if hours is not None:
            node["status"]["conditions"].append({"type": kind, "status": status, "reason": "x", "lastTransitionTime": ago(hours)})
    scope = a_scope(a_policy(tenants={"moreInfrastructure": ["gpu-operator"]}, **policy), nodes=[node_of(node)], pods=pods)
    return by_name(check_validated(scope))


def node_of(obj: Json) -> Any:
    return msgspec.convert(obj, type(a_node()), strict=False)


@pytest.mark.parametrize("by", ["kured", "jane"])
def test_a_cordon_for_another_reason_is_no_quarantine(by: str) -> None:
    with pytest.raises(NotApplicable):
        outcomes({f"{PREFIX}cordon-timestamp": ago(2, label=True), f"{PREFIX}cordon-by": by}, [], {})


def test_the_policy_names_what_else_validates() -> None:
    labels = {"example.com/quarantined-at": ago(5, label=True), "example.com/burn-in-passed": ago(1, label=True)}
    assert outcomes(labels, [], {}) == {"gpu-0": Outcome.BAD}
    assert outcomes(labels, [], {}, nodes={"validations": ["example.com/burn-in*"]}) == {"gpu-0": Outcome.OK}


def test_validators_of_a_large_cluster_are_looked_up_once() -> None:
    labels = {f"{PREFIX}cordon-timestamp": ago(5, label=True), f"{PREFIX}cordon-by": "NVSentinel"}
    nodes, pods = [a_node(f"gpu-{at}", labels=labels) for at in range(300)], [validator(1, "kube-system"), *[a_pod()] * 30_000]
    scope, started = a_scope(nodes=nodes, pods=pods), time.monotonic()
    found = by_name(check_validated(scope))
    assert [name for name, outcome in found.items() if outcome is Outcome.OK] == ["gpu-0"]
    assert time.monotonic() - started < 2


GPU_POOL = {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "Gt", "values": ["0"]}


ASKED = a_policy(fence={"birthTaints": ["readiness.k8s.io/*"]})
FENCE = "readiness.k8s.io/gpu:NoSchedule"


class Born(msgspec.Struct, forbid_unknown_fields=True):
    """Taints of a NodePool, and what is found of it where the policy asks for ``readiness.k8s.io/*``; no outcome: it is not asked."""

    outcome: str
    startup: list[str] = []
    taints: list[str] = []


@each_row
def test_a_pool_and_its_birth_fence(born: Born) -> None:
    made = {
        field: [msgspec.to_builtins(a_taint(text)) for text in taints]
        for field, taints in (("startupTaints", born.startup), ("taints", born.taints))
    }
    pool = {"metadata": {"name": "gpu"}, "spec": {"template": {"spec": {**made, "requirements": [GPU_POOL]}}}}
    snapshot = a_snapshot(nodes=[a_node()], nodepools=[pool]).with_listing(Listing(key=RULES, served=False))
    (finding,) = check_birth_fences(Scope(snapshot, ASKED), {})
    assert (finding.outcome.value, finding.cause) == (born.outcome, "BirthFenceMissing" if born.outcome == "bad" else "")


def test_without_a_taint_in_the_policy_or_a_pool_nothing_is_asked() -> None:
    for policy in (a_policy(), a_policy(fence={"birthTaints": ["x/*"]})):
        with pytest.raises(NotApplicable):
            list(check_birth_fences(a_scope(policy, nodes=[a_node()], nodepools=[]), {}))


class Ruled(msgspec.Struct, forbid_unknown_fields=True):
    """A rule's spec beside its taint and selector, a node by hours, labels, conditions, taints and marks, and what is found of each."""

    found: dict[str, str]
    spec: dict[str, Any] = {}
    wants: list[dict[str, str]] = []
    selects: str = "gpu"
    conditions: dict[str, str] = {}
    taints: list[str] = []
    taint_hours: float = 50
    node_hours: float = 100
    marks: list[str] = []
    startup: list[str] = []


@each_row
def test_a_rule_of_the_node_readiness_controller(ruled: Ruled) -> None:
    node = msgspec.to_builtins(a_node(labels={"pool": "gpu"}, taints=ruled.taints))
    node["metadata"] |= {"creationTimestamp": ago(ruled.node_hours), "annotations": dict.fromkeys(ruled.marks, "true")}
    node["status"]["conditions"] += [{"type": kind, "status": status} for kind, status in ruled.conditions.items()]
    for taint in node["spec"].get("taints", ()):
        taint["timeAdded"] = ago(ruled.taint_hours)
    key, effect = FENCE.split(":")
    wants = ruled.wants or [{"type": "nvidia.com/GPUReady", "requiredStatus": "True"}]
    selector = {"matchLabels": {"pool": ruled.selects}}
    spec = {"taint": {"key": key, "effect": effect}, "nodeSelector": selector, "conditions": wants, **ruled.spec}
    rule = {"metadata": {"name": "rule", "uid": "u", "creationTimestamp": ago(200)}, "spec": spec}
    startup = [msgspec.to_builtins(a_taint(text)) for text in ruled.startup]
    pool = {"metadata": {"name": "pool"}, "spec": {"template": {"spec": {"startupTaints": startup, "requirements": [GPU_POOL]}}}}
    pools = [pool] if startup else []
    scope = a_scope(ASKED, nodes=[node_of(node)], nodepools=pools, nodereadinessrules=[rule])
    found = {one.subject.name: one.cause or one.outcome.value for one in check_birth_fences(scope, {})}
    assert found == ruled.found


def test_rules_of_other_nodes_are_not_looked_at() -> None:
    spec = {"nodeSelector": {"matchLabels": {"pool": "web"}}, "taint": {"key": "readiness.k8s.io/web"}}
    rule = {"metadata": {"name": "web"}, "spec": spec}
    with pytest.raises(NotApplicable):
        list(check_birth_fences(a_scope(nodes=[a_node()], nodereadinessrules=[rule]), {}))
