"""Every gate is open for a good case, closed by the one thing that is wrong and by what is not known; it is told what the cluster says."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.activities import devices
from chaos.cluster import namespaces
from chaos.cluster.injector import HostResult
from chaos.cluster.requests import Reviewer
from chaos.ledger.file import Ledger
from chaos.model.experiment import DEFAULT_MAX_LEVEL, Level
from chaos.model.plan import Target
from chaos.safety.admission import node_states, read_cluster_state
from chaos.safety.gates import GATES, ClusterState, GateInput, NodeState, RequestedFault, SettingsError, closed_gates, settings_of
from chaos.safety.lease import halt
from fixtures.cluster.access import Right
from fixtures.cluster.client import Cluster
from fixtures.model.devices.reset_alone import CLIQUE, COUNT, FAMILY, PRODUCT, reset_obstacle
from fixtures.model.platform.installed import InstalledComponent
from fixtures.model.platform.remediators import Remediator, find_remediators
from fixtures.policy.model import Chaos, Policy
from fixtures.policy.policy_file import build_policy
from fixtures.verdict.record import TargetKind
from tests.chaos.ledger.simulated_cluster import KUBE_SYSTEM, Denied, Json, acting, daemon_pod, deployment, ledger, node, plan, world
from tests.chaos.tables import table
from tests.troubles import Trouble

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


ROWS = table("safety/objects")
ON_GPU_1 = Target(kind="nodes", name="gpu-1", uid="uid-gpu-1", node="gpu-1")
DEVICES = ("nvidia.com/gpu",)


def facts(cluster: Cluster, target: Target = POD, *, rights: tuple[str, ...] = ("patch nodes",), **more: Any) -> ClusterState:
    asked = [Right.parse(text) for text in rights]
    return read_cluster_state(cluster, plan(target), devices=DEVICES, rights=asked, ours=False, steady="", **more)


def budget(allowed: Any, selector: Json, *, counted: Any = 1, generation: Any = 1) -> Json:
    status = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "gpu-operator", "generation": generation},
        "spec": {"selector": selector, "minAvailable": 1},
        "status": status | ({} if counted is None else {"observedGeneration": counted}),
    }


def test_a_healthy_cluster_gives_every_fact(cluster: Cluster) -> None:
    found = facts(cluster)
    assert (found.cluster_uid, found.cluster_names, found.uids) == (KUBE_SYSTEM, ("served",), {str(POD): POD.uid})
    assert (found.denied, found.remediators, found.budgets, found.open_entries, found.halted) == ((), (), (), 0, "")
    assert found.nodes is not None
    assert found.nodes["gpu-1"].obstacle == ""
    assert found.nodes["gpu-2"].gpu


@pytest.mark.parametrize(("verb", "resource", "unknown"), ROWS["refused"])
def test_what_is_refused_is_not_known(tmp_path: Path, verb: str, resource: str, unknown: list[str]) -> None:
    with world(tmp_path, Trouble(verb, resource, 403, 100)) as (cluster, _):
        if resource in ("configmaps", "coordination.k8s.io/leases"):
            namespaces.ensure_shared(cluster)  # without a namespace that is proven to be ours there is nothing to ask for
        found = facts(cluster)
        assert [name for name in ClusterState.__struct_fields__ if getattr(found, name) is None] == unknown


def test_open_entries_and_a_halt_are_seen(tmp_path: Path, cluster: Cluster) -> None:
    ledger(tmp_path, cluster, run_id="20261121-110000-dead").arm("node.labels", {"name": "gpu-1"})
    halt(cluster, on=False)  # nothing to lift
    halt(cluster)
    found = facts(cluster)
    assert (found.open_entries, bool(found.halted)) == (1, True)


@pytest.mark.parametrize(("selector", "covers"), ROWS["budget selectors"])
def test_a_spent_budget_counts_where_it_covers_a_target(tmp_path: Path, selector: Json, covers: bool) -> None:
    with world(tmp_path, extra=[budget(0, selector)]) as (cluster, _):
        assert facts(cluster).budgets == (("gpu-operator/keep",) if covers else ())


@pytest.mark.parametrize(("allowed", "spent"), [(1, ("gpu-operator/keep",)), (2, ())])
def test_a_budget_counts_every_pod_that_would_be_ended(allowed: int, spent: tuple[str, ...], tmp_path: Path) -> None:
    """Two faults at once end a pod each: a budget that allows one of them does not allow both."""
    second = daemon_pod("second", "gpu-1")
    with world(tmp_path, extra=[budget(allowed, {}), second]) as (cluster, _):
        both = (POD, Target(kind="pods", name="second", namespace="gpu-operator", uid=second["metadata"]["uid"], node="gpu-1"))
        planned = msgspec.structs.replace(plan(POD), targets=both)
        found = read_cluster_state(cluster, planned, devices=DEVICES, rights=(), ours=False, steady="")
        assert found.budgets == spent


@pytest.mark.parametrize(("uid", "namespace", "counts"), [("uid-plugin", "gpu-operator", True), ("x", "gpu-operator", False)])
def test_a_spent_budget_counts_where_it_covers_an_agent_that_is_restarted(tmp_path: Path, uid: str, namespace: str, counts: bool) -> None:
    agent = InstalledComponent(
        component="device-plugin", key="apps/daemonsets", namespace=namespace, name="dp", uid=uid, selector="app=plugin"
    )
    with world(tmp_path, extra=[budget(0, {"matchLabels": {"app": "plugin"}})]) as (cluster, _):
        found = facts(cluster, ON_GPU_1, agents=[agent])
        assert found.budgets == (("gpu-operator/keep",) if counts else ())
        away = facts(cluster, Target(kind="nodes", name="x", uid="x", node="x"), agents=[agent])
        assert away.budgets == ()


@pytest.mark.parametrize(("allowed", "owner", "spent"), [(0, "uid-drainer", True), (1, "uid-drainer", False), (0, "uid-other", False)])
def test_a_budget_counts_where_it_covers_a_controller_that_is_killed_wherever_it_runs(
    allowed: int, owner: str, spent: bool, tmp_path: Path
) -> None:
    def owned(obj: Json, kind: str, uid: str) -> Json:
        refs = [{"apiVersion": "apps/v1", "kind": kind, "name": kind, "uid": uid, "controller": True}]
        return {**obj, "metadata": {**obj["metadata"], "labels": {"app": "drainer"}, "ownerReferences": refs}}

    metadata = {"name": "drainer", "namespace": "gpu-operator", "uid": "uid-set"}
    replicas = owned({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {}}, "Deployment", owner)
    pod = owned(daemon_pod("drainer", "gpu-2"), "ReplicaSet", "uid-set")
    found = InstalledComponent(
        component="drainer", key="apps/deployments", namespace="gpu-operator", name="drainer", uid="uid-drainer", selector="app=drainer"
    )
    with world(tmp_path, extra=[budget(allowed, {"matchLabels": {"app": "drainer"}}), replicas, pod]) as (cluster, _):
        assert facts(cluster, ON_GPU_1, controllers=[found]).budgets == (("gpu-operator/keep",) if spent else ())


@pytest.mark.parametrize("allowed", ["0", "1", -1, True, [0], None, 1.0])
def test_a_budget_is_spent_unless_a_whole_number_says_otherwise(tmp_path: Path, allowed: object) -> None:
    with world(tmp_path, extra=[budget(allowed, {})]) as (cluster, _):
        assert facts(cluster).budgets == ("gpu-operator/keep",)


@pytest.mark.parametrize(("counted", "generation"), [(0, 1), (None, 1), ("1", None), (1, "x"), (1, True)])
def test_a_budget_that_was_changed_and_not_counted_since_is_spent(tmp_path: Path, counted: object, generation: object) -> None:
    """As for the eviction subresource, which refuses then."""
    with world(tmp_path, extra=[budget(1, {}, counted=counted, generation=generation)]) as (cluster, _):
        assert facts(cluster).budgets == ("gpu-operator/keep",)


def test_missing_rights_are_named(tmp_path: Path) -> None:
    with world(tmp_path, authorizer=Denied([("patch", "", "nodes", ""), ("get", "", "pods", "log")])) as (cluster, _):
        assert facts(cluster, rights=("get nodes", "patch nodes", "get pods/log in x", "patch apps/deployments")).denied == (
            "patch nodes",
            "get pods/log in x",
        )
        sent = cluster.requests().count
        reviewer = Reviewer(cluster)
        for _ in range(3):
            assert [str(right) for right in reviewer.denied([Right.parse("patch nodes")])] == ["patch nodes"]
        assert cluster.requests().count == sent + 1


def test_nodes_are_judged_by_what_they_offer_and_who_uses_them() -> None:
    def changed(name: str, **status: Any) -> Json:
        found = node(name)
        found["status"].update(status)
        return found

    busy = daemon_pod("train", "gpu-1")
    busy["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    mine = daemon_pod("canary", "gpu-2")
    mine["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    mine["metadata"]["namespace"] = "gpu-conformance-chaos-run"
    busy["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "gpu-conformance"}  # any tenant may write it
    done = daemon_pod("done", "gpu-2")
    done["spec"]["resourceClaims"], done["status"]["phase"] = [{"name": "x"}], "Succeeded"
    nodes = [
        node("gpu-1"),
        node("gpu-2", **{"gpu-conformance.io/chaos": "allowed"}),
        changed("lost", allocatable={"nvidia.com/gpu": "7"}),
        changed("unready", conditions=[{"type": "Ready", "status": "Unknown"}]),
        changed("cpu", capacity={"cpu": "4"}, allocatable={"cpu": "4"}),
        node("control", **{"node-role.kubernetes.io/control-plane": ""}),
    ]
    found = node_states(nodes, [busy, mine, done], DEVICES, own=("gpu-conformance-chaos-run",))
    assert {name: (fact.gpu, not fact.obstacle) for name, fact in found.items()} == {
        "gpu-1": (True, True),
        "gpu-2": (True, True),
        "lost": (True, False),
        "unready": (True, False),
        "cpu": (False, True),
        "control": (True, True),
    }
    assert (found["gpu-1"].busy, found["gpu-2"].busy) == (("gpu-operator/train",), ())
    assert (found["gpu-2"].opted_in, found["gpu-1"].opted_in) == (True, False)
    assert [name for name, fact in found.items() if fact.control_plane] == ["control"]


@pytest.mark.parametrize(("name", "labels", "seen"), ROWS["remediators"])
def test_who_repairs_nodes_is_known_by_name_and_may_be_opted_out_of(name: str, labels: dict[str, str], seen: list[str]) -> None:
    found = find_remediators([deployment(name)], [node("gpu-1", **labels)], ["gpu-1"])
    assert [actor.name for actor in found] == seen


@pytest.mark.parametrize(("fields", "off"), ROWS["switched off"])
def test_a_remediator_that_was_switched_off_reacts_to_nothing(fields: dict[str, Any], off: bool) -> None:
    workload = {"metadata": {"name": "cluster-autoscaler", "namespace": "kube-system", "generation": 3}, **fields}
    assert [one.name for one in find_remediators([workload], [node("gpu-1")], ["gpu-1"])] == ([] if off else ["cluster-autoscaler"])


LABELS = table("safety/gpu_labels")


def labels(family: str = "", product: str = "", count: str = "8") -> dict[str, str]:
    return {key: value for key, value in ((COUNT, count), (FAMILY, family), (PRODUCT, product)) if value}


@pytest.mark.parametrize("given", LABELS["one by one"], ids=str)
def test_these_are_reset_one_by_one(given: dict[str, str]) -> None:
    assert reset_obstacle(given) == ""


@pytest.mark.parametrize(("given", "why"), LABELS["refused"], ids=str)
def test_what_is_joined_or_not_known_is_refused(given: dict[str, str], why: str) -> None:
    assert why in reset_obstacle(given)


def test_gpus_that_nvlink_joins_across_nodes_are_not_reset() -> None:
    real, none = "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.1", "00000000-0000-0000-0000-000000000000.0"
    hopper = labels("hopper", "x")
    assert "those of other nodes" in reset_obstacle({**hopper, CLIQUE: real}, [real])
    assert reset_obstacle({**hopper, CLIQUE: real}, ["", "other.1"]) == ""
    assert reset_obstacle({**hopper, CLIQUE: none}, [none]) == ""


def test_the_gates_are_reported_of_every_node() -> None:
    alone, linked = node("gpu-1", **labels("hopper", "H100")), node("gpu-2", **labels("volta", "Tesla-V100-SXM2-32GB"))
    found = node_states([alone, linked, node("gpu-3")], [], ("nvidia.com/gpu",))
    assert found["gpu-1"].reset_obstacle == ""
    assert "reset together" in found["gpu-2"].reset_obstacle
    assert "not known" in found["gpu-3"].reset_obstacle


def test_a_refusal_because_of_peers_is_not_asked_again(
    tmp_path: Path, cluster: Cluster, book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = "GPU Reset couldn't run because GPU 00000000:1B:00.0 is linked to other GPUs by NVLink."
    asked: list[object] = []

    def run(argv: object, **_: object) -> HostResult:
        asked.append(argv)
        return HostResult(exit_code=3, output=reported)

    monkeypatch.setattr(devices, "run", run)
    acts = acting(tmp_path, cluster, book)
    acts.plan = msgspec.structs.replace(acts.plan, seconds={"clients": 60.0})
    with acts.as_current(), pytest.raises(ActivityFailed, match="without its peers"):
        devices._reset_when_free("GPU-7")
    assert len(asked) == 1


@pytest.mark.parametrize(("clients", "attempted"), [("GPU-7, 4711", True), ("No running processes found", False)])
def test_on_hardware_a_reset_is_asked_for_only_while_a_process_is_on_the_gpu(
    clients: str, attempted: bool, tmp_path: Path, cluster: Cluster, book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def run(argv: tuple[str, ...], **_: object) -> HostResult:
        asked.append(" ".join(argv))
        if "--gpu-reset" in asked[-1]:
            return HostResult(exit_code=1, output="GPU 00000000:1B:00.0 is currently in use by another process.")
        return HostResult(exit_code=0, output=clients if "--query-compute-apps" in asked[-1] else "")

    monkeypatch.setattr(devices, "run", run)
    monkeypatch.setattr(devices, "worker_device", lambda: "GPU-7")
    with acting(tmp_path, cluster, book).as_current():
        found = devices.reset_in_use()
    assert any("--gpu-reset" in line for line in asked) is attempted
    assert (found["attempted"], found["refused"]) == (attempted, attempted)
