"""Every gate is open for a good case, closed by the one thing that is wrong, and closed by what is not known."""

from typing import Any

import msgspec
import pytest

from chaos.model.levels import DEFAULT_MAX_LEVEL, Level
from chaos.model.plan import Target
from chaos.safety.gate_input import ClusterState, GateInput, NodeState, RequestedFault
from chaos.safety.gates import GATES, closed_gates
from chaos.safety.remediators import Remediator
from chaos.safety.settings import Settings, SettingsError, settings_of
from conformance.policy.model import Chaos, Policy
from conformance.policy.policy_file import build_policy
from fixtures.verdict.record import TargetKind
from tests.chaos.ledger.simulated_cluster import KUBE_SYSTEM, plan

KARPENTER = Remediator(name="karpenter", found_by="node label karpenter.sh/nodepool", words="Karpenter replaces nodes")
POD = Target(kind="pods", namespace="gpu-operator", name="plugin-1", uid="uid-plugin-1", node="gpu-1")


def good_node(**changes: Any) -> NodeState:
    return NodeState(**{"uid": "u", "gpu": True, "obstacle": "", "opted_in": True, **changes})


def good(**changes: Any) -> GateInput:
    """A case that every gate lets through. ``plan``, ``request``, ``settings`` and ``state`` are changes to these parts."""
    parts: dict[str, Any] = {
        "plan": plan(POD),
        "request": RequestedFault(level=Level.AGENTS, scope="pod", count=1),
        "settings": settings_of(Policy(chaos=Chaos(clusters=(KUBE_SYSTEM,)))),
        "state": ClusterState(
            cluster_uid=KUBE_SYSTEM,
            cluster_names=("prod",),
            uids={str(POD): POD.uid},
            nodes={"gpu-1": good_node(), "gpu-2": good_node()},
            steady="",
            denied=(),
            remediators=(),
            budgets=(),
            open_entries=0,
            halted="",
        ),
    }
    return GateInput(**{name: msgspec.structs.replace(part, **changes.get(name, {})) for name, part in parts.items()})


def closed(**changes: Any) -> dict[str, str]:
    return {refusal.gate: refusal.message for refusal in closed_gates(good(**changes))}


def allowed(*clusters: str, **chaos: Any) -> dict[str, Any]:
    return msgspec.structs.asdict(settings_of(Policy(chaos=Chaos(clusters=clusters, **chaos))))


def test_a_good_case_passes_every_gate() -> None:
    assert closed() == {}


def level(number: int, **more: Any) -> dict[str, Any]:
    return {"request": {"level": Level(number)}, "settings": {"max_level": Level(4), **more}}


two = {"targets": (POD, msgspec.structs.replace(POD, name="plugin-2", uid="uid-plugin-2"))}

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("allow-list", {"settings": allowed()}, "expected --chaos-cluster"),
    ("allow-list", {"settings": allowed("prod")}, "prod is a context's name, which alone is not enough"),
    ("allow-list", {"settings": allowed("other")}, f"cluster {KUBE_SYSTEM} (prod) is not allow-listed"),
    ("allow-list", {"state": {"cluster_uid": "another"}}, "and this is another"),
    ("allow-list", {"plan": {"cluster_uid": ""}, "state": {"cluster_uid": ""}}, "(unknown)"),
    ("allow-list", {"settings": allowed(), "state": {"ours": True}}, "not allow-listed"),  # a live cluster is never ours
    ("halt", {"state": {"halted": "host at 12:00"}}, "halted by host at 12:00"),
    ("halt", {"settings": allowed(KUBE_SYSTEM, halt=True)}, "chaos.halt"),
    ("earlier run", {"state": {"open_entries": 3}}, "run `gpu-conformance chaos recover` first"),
    ("level", {"request": {"level": Level.NODE}}, "expected --chaos-max-level 3"),
    ("expiry", {"plan": {"expires_at": "2020-01-01T00:00:00+00:00"}}, "expired at 2020"),
    ("targets", {"plan": {"targets": ()}}, "no targets"),
    ("targets", {"state": {"uids": {str(POD): "new"}}}, "expected uid uid-plugin-1, found new"),
    ("targets", {"state": {"uids": {}}}, "found none"),
    ("radius", {"plan": two, "state": {"uids": {str(t): t.uid for t in two["targets"]}}}, "2 targets; expected 1 at most"),
    ("radius", {"plan": {"eligible": 1}}, "1 of 1 are 100 %; expected 50 %"),
    ("radius", {"plan": {"eligible": 0}}, "of 0 eligible"),
    ("protected namespaces", {"settings": allowed(KUBE_SYSTEM, protected_namespaces=("gpu-*",))}, "expected none of gpu-*"),
    ("untouched node", {"plan": {"untouched": ""}}, "expected one"),
    ("untouched node", {"plan": {"untouched": "gpu-1"}}, "both a target"),
    ("untouched node", {"state": {"nodes": {"gpu-1": good_node()}}}, "not a healthy, schedulable GPU node"),
    ("untouched node", {"state": {"nodes": {"gpu-1": good_node(), "gpu-2": good_node(obstacle="NotReady")}}}, "gpu-2"),
    ("untouched node", {"state": {"nodes": {"gpu-1": good_node(), "gpu-2": good_node(gpu=False)}}}, "gpu-2"),
    ("untouched node", {"state": {"nodes": {"gpu-1": good_node(), "gpu-2": good_node(cordoned=True)}}}, "gpu-2"),
    ("target nodes", {"state": {"nodes": {"gpu-2": good_node()}}}, "gpu-1 is gone"),
    ("target nodes", {"state": {"nodes": {"gpu-1": good_node(cordoned=True), "gpu-2": good_node()}}}, "somebody is at work on it"),
    ("target nodes", {"state": {"nodes": {"gpu-1": good_node(control_plane=True), "gpu-2": good_node()}}}, "--chaos-target gpu-1"),
    (
        "target nodes",
        {**level(2), "state": {"nodes": {"gpu-1": good_node(opted_in=False), "gpu-2": good_node()}}},
        "expected its label gpu-conformance.io/chaos=allowed",
    ),
    (
        "target nodes",
        {"request": {"idle": True}, "state": {"nodes": {"gpu-1": good_node(busy=("ml/train",)), "gpu-2": good_node()}}},
        "pods with devices (ml/train); expected none",
    ),
    ("destructive", level(4), "expected --chaos-confirm"),
    ("destructive", level(4, confirmed="staging"), "one of"),
    ("destructive", level(4, confirmed=""), "typed"),
    ("destructive", level(4, confirmed="prod"), "in service; expected it cordoned"),
    (
        "destructive",
        {**level(4, confirmed="prod"), "state": {"nodes": {"gpu-1": good_node(cordoned=True, busy=("ml/train",)), "gpu-2": good_node()}}},
        "pods with devices (ml/train); expected it idle",
    ),
    ("reset alone", {"request": {"resets": True}}, "no GPU of node gpu-1 may be reset alone: it was not checked"),
    (
        "reset alone",
        {"request": {"resets": True}, "state": {"nodes": {"gpu-1": good_node(reset_obstacle="NVLink joins them"), "gpu-2": good_node()}}},
        "NVLink joins them; expected GPUs that the vendor resets one by one",
    ),
    ("rights", {"state": {"denied": ("patch nodes",)}}, "missing rights: patch nodes"),
    ("remediation", {"state": {"remediators": (KARPENTER,)}}, "expected karpenter in the policy's chaos.remediation"),
    ("remediation", {"settings": allowed(KUBE_SYSTEM, remediation=("karpentr",))}, "karpentr is not known"),
    ("disruption budgets", {"state": {"budgets": ("ml/train",)}}, "ml/train"),
    ("steady state", {"state": {"steady": "allocatable differs"}}, "not green: allocatable differs"),
]


@pytest.mark.parametrize(("gate", "changes", "said"), WRONG, ids=[f"{gate}-{number}" for number, (gate, _, _) in enumerate(WRONG)])
def test_one_thing_wrong_closes_its_gate_alone_and_says_what_was_expected(gate: str, changes: dict[str, Any], said: str) -> None:
    refusals = closed(**changes)
    assert list(refusals) == [gate]
    assert said in refusals[gate]


def test_every_gate_is_closed_by_something() -> None:
    assert {gate for gate, _, _ in WRONG} == {name for name, _ in GATES}


@pytest.mark.parametrize("unknown", ["uids", "nodes", "steady", "denied", "remediators", "budgets", "open_entries", "halted"])
def test_what_is_not_known_is_refused(unknown: str) -> None:
    assert closed(state={unknown: None}) != {}


def test_a_mistake_in_a_gate_closes_it() -> None:
    assert closed(plan={"expires_at": "not a time"})["expiry"].startswith("could not be judged (ValueError")


def test_a_cluster_that_this_run_started_needs_no_allow_list() -> None:
    assert closed(settings=allowed(), state={"ours": True}, plan={"target_kind": TargetKind.SIMULATED}) == {}
    assert "allow-list" in closed(settings=allowed(), state={"ours": False}, plan={"target_kind": TargetKind.SIMULATED})


@pytest.mark.parametrize("name", ["prod", KUBE_SYSTEM])
def test_a_cluster_is_allowed_by_its_uid_and_confirmed_by_either(name: str) -> None:
    cordoned = {"nodes": {"gpu-1": good_node(cordoned=True), "gpu-2": good_node()}}
    settings = {**allowed(KUBE_SYSTEM), "max_level": Level(4), "confirmed": name}
    assert closed(settings=settings, request={"level": Level(4)}, state=cordoned) == {}


def test_known_remediation_is_let_through_when_policy_or_experiment_reckons_with_it() -> None:
    assert closed(state={"remediators": (KARPENTER,)}, settings=allowed(KUBE_SYSTEM, remediation=("karpenter",))) == {}
    assert closed(state={"remediators": (KARPENTER,)}, request={"expects": ("karpenter",)}) == {}


def test_an_experiment_that_takes_no_capacity_needs_no_untouched_node() -> None:
    assert closed(plan={"untouched": ""}, request={"takes_capacity": False}) == {}


def test_one_of_one_is_no_share_of_many() -> None:
    assert closed(plan={"eligible": 1}, request={"scope": "control"}) == {}


@pytest.mark.parametrize("kind", [TargetKind.SIMULATED, TargetKind.LOCAL])
def test_what_a_server_says_of_itself_lifts_no_safety(kind: TargetKind) -> None:
    """A kubeconfig's server may call itself simulated. Only a cluster that this run has started is."""
    nodes = {"gpu-1": good_node(opted_in=False), "gpu-2": good_node()}
    changes = {**level(2), "plan": {"target_kind": kind}}
    assert "has not opted in" in closed(**changes, state={"nodes": nodes})["target nodes"]
    assert closed(**changes, state={"nodes": nodes, "ours": True}) == {}


def test_a_simulated_node_may_be_emptied_by_the_experiment_itself() -> None:
    changes = {**level(4, confirmed="prod"), "plan": {"target_kind": TargetKind.SIMULATED}}
    assert "destructive" in closed(**changes)
    changes["request"] = {**changes["request"], "cordons": True}
    assert closed(**changes) == {}
    changes["plan"] = {"target_kind": TargetKind.LIVE}
    assert "destructive" in closed(**changes)


@pytest.mark.parametrize("level", Level)
def test_a_ceiling_that_the_policy_states_is_exceeded_by_no_option(level: Level) -> None:
    """The level that a policy has if it states none is one like any other, once it is stated."""
    stated = build_policy({"chaos": {"maxLevel": level.value}})
    assert settings_of(stated, max_level=level).max_level == settings_of(stated).max_level == level
    for higher in range(level + 1, max(Level) + 1):
        with pytest.raises(SettingsError, match=f"the policy allows level {level.value} at most"):
            settings_of(stated, max_level=higher)


def test_options_lower_the_policys_ceiling_and_do_not_raise_it() -> None:
    stated = Policy(chaos=Chaos(max_level=3))
    assert settings_of(stated).max_level == 3
    assert settings_of(stated, max_level=2).max_level == 2
    assert settings_of(Policy()).max_level == DEFAULT_MAX_LEVEL
    assert settings_of(Policy(), max_level=4).max_level == 4
    with pytest.raises(SettingsError, match="the policy allows level 3 at most"):
        settings_of(stated, max_level=4)
    with pytest.raises(SettingsError, match="expected one of 0"):
        settings_of(Policy(), max_level=7)
    named = settings_of(Policy(chaos=Chaos(clusters=("a",))), clusters=("b",), confirm="b", nodes=("n",))
    assert (named.allowed, named.confirmed, named.named_nodes) == (("a", "b"), "b", ("n",))
    assert isinstance(named, Settings)
