"""Every gate is open for a good case, closed by the one thing that is wrong, and closed by what is not known."""

from typing import Any

import msgspec
import pytest

from chaos.model.levels import DEFAULT_MAX_LEVEL, Level
from chaos.model.plan import Target
from chaos.safety.gate_input import ClusterState, GateInput, NodeState, RequestedFault
from chaos.safety.gates import GATES, closed_gates
from chaos.safety.remediators import Remediator
from chaos.safety.settings import SettingsError, settings_of
from conformance.policy.model import Chaos, Policy
from conformance.policy.policy_file import build_policy
from fixtures.verdict.record import TargetKind
from tests.chaos.ledger.simulated_cluster import KUBE_SYSTEM, Json, plan
from tests.chaos.tables import table

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


WRONG: list[dict[str, Any]] = table("safety/closed_gates")


def pod(name: str) -> Target:
    return msgspec.structs.replace(POD, name=name, uid=f"uid-{name}")


def decoded(plan: Json | None = None, request: Json | None = None, settings: Json | None = None, state: Json | None = None) -> Json:
    """Changes of a row for :func:`good`: nodes, targets and levels are written short there."""
    plan, request, settings, state = ({**(part or {})} for part in (plan, request, settings, state))
    if "targets" in plan:
        plan["targets"] = tuple(map(pod, plan["targets"]))
    if "level" in request:
        request["level"] = Level(request["level"])
    if "clusters" in settings:
        settings = allowed(*settings.pop("clusters"), **settings)
    if "uids" in state:
        state["uids"] = {str(pod(name)): uid for name, uid in state["uids"].items()}
    if "nodes" in state:
        state["nodes"] = {name: good_node(**changes) for name, changes in state["nodes"].items()}
    if "remediators" in state:
        state["remediators"] = (KARPENTER,)
    return {"plan": plan, "request": request, "settings": settings, "state": state}


@pytest.mark.parametrize("wrong", WRONG, ids=[f"{row['gate']}-{number}" for number, row in enumerate(WRONG)])
def test_one_thing_wrong_closes_its_gate_alone_and_says_what_was_expected(wrong: dict[str, Any]) -> None:
    gate, says = wrong["gate"], wrong["says"]
    refusals = closed(**decoded(**{part: changes for part, changes in wrong.items() if part not in ("gate", "says")}))
    assert list(refusals) == [gate]
    assert says in refusals[gate]


def test_every_gate_is_closed_by_something() -> None:
    assert {row["gate"] for row in WRONG} == {name for name, _ in GATES}


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
    assert settings_of(Policy(chaos=Chaos(max_level=3)), max_level=2).max_level == 2
    assert settings_of(Policy()).max_level == DEFAULT_MAX_LEVEL
    assert settings_of(Policy(), max_level=4).max_level == 4
    with pytest.raises(SettingsError, match="expected one of 0"):
        settings_of(Policy(), max_level=7)
    named = settings_of(Policy(chaos=Chaos(clusters=("a",))), clusters=("b",), confirm="b", nodes=("n",))
    assert (named.allowed, named.confirmed, named.named_nodes) == (("a", "b"), "b", ("n",))
