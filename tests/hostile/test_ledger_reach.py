"""An edited report whose run's proof is gone, as after every clean run: its ledgers reach nothing that the cluster does not show to be the

experiments'. What a proof lists is undone all the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.act.context import ActivityContext
from chaos.engine.recover import RecoveryResult, preview
from chaos.ledger.bounds import Terms
from chaos.ledger.undos.agents import RestartedArgs
from chaos.ledger.undos.nodes import cleared_args, identity
from chaos.ledger.undos.objects import NodeExists, ObjectPresent
from chaos.ledger.undos.workloads import WorkloadReplicas
from chaos.model.plan import PlanFacts, Target
from chaos.safety.lease import AbortFlag
from fixtures.cluster.client import Cluster
from fixtures.model.platform.installed import InstalledComponent
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX
from fixtures.ownership.read_proofs import read_proofs
from fixtures.policy.model import Chaos, Policy, Tenants
from fixtures.simulator.api.resources import Resource
from tests.chaos.ledger.simulated_cluster import RUN, config_map, fetch, ledger, namespace, node, plan, recover, world
from tests.chaos.shipped import EXPERIMENTS
from tests.tables import each_row, filled, table
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

Json = dict[str, Any]
TABLE = table(__file__)
KNOWN = list(EXPERIMENTS.values())
TERMS = Terms.of(KNOWN, Policy())
POLICY_UID = "uid-cluster-policy"
EVIL = {"key": "evil", "value": "x", "effect": "NoExecute"}
OWNER = {"owner": "train", "owner_uid": "uid-train", "selector": "job=train", "node": "gpu-1"}
RESTARTED = {**OWNER, "uids": ["uid-train-0"]}


def agent_pod(where: str) -> Json:
    found: Json = filled(TABLE["agent"], {"WHERE": where})
    return found


def scaled(where: str, replicas: int) -> Json:
    found: Json = filled(TABLE["scaled"], {"WHERE": where})
    found["spec"]["replicas"] = found["status"]["replicas"] = found["status"]["readyReplicas"] = replicas
    return found


CLUSTER_POLICIES = Resource("nvidia.com", "v1", "clusterpolicies", "ClusterPolicy", namespaced=False)


@contextmanager
def operated(folder: Path, *extra: Json, home: str = "gpu-operator") -> Iterator[Cluster]:
    """The cluster, with a ClusterPolicy whose operator runs in ``home``."""
    with world(folder, extra=extra) as (cluster, store):
        store.registry.add(CLUSTER_POLICIES)
        store.put_initial(filled(TABLE["policy"], {"WHERE": home}))
        yield cluster


def owned_by(uid: str) -> list[Json]:
    return [{"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "cluster-policy", "uid": uid, "controller": True}]


def service(where: str, owner: str = POLICY_UID, **spec: Any) -> Json:
    meta = {"name": "evil", "namespace": where, "ownerReferences": owned_by(owner)}
    saved = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [{"port": 443}], **spec}}
    return {"key": "services", "namespace": where, "name": "evil", "uid": "u", "saved": saved}


def written(tmp_path: Path, experiment: str, undo: str, args: Json, cluster: Cluster | None = None) -> Path:
    """A folder with a ledger of one open entry: with ``cluster``, one that a run has written, else an edited one."""
    ledger(tmp_path / "unpacked", cluster, experiment=experiment).arm(undo, args)
    return tmp_path / "unpacked"


def recovered(cluster: Cluster, folder: Path, terms: Terms = TERMS) -> RecoveryResult:
    return recover(cluster, folder, seconds=PATIENCE, terms=terms)


def why(done: RecoveryResult) -> str:
    (left,) = done.residue
    assert left.command == "", "whoever wrote the entry would say what to run"
    return left.message


def pods_of(cluster: Cluster, where: str) -> int:
    """How many pods nobody has deleted."""
    return sum("deletionTimestamp" not in pod["metadata"] for pod in cluster.request("GET", cluster.path("pods", where)).json()["items"])


# -- namespaces ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("experiment", "undo", "args"), [*filled(TABLE["in_a_namespace"], {"WHERE": "team-a"}), ("A5", "object.present", service("team-a"))]
)
def test_an_edited_report_changes_nothing_in_a_tenants_namespace(tmp_path: Path, experiment: str, undo: str, args: Json) -> None:
    with operated(tmp_path, namespace("team-a"), agent_pod("team-a"), scaled("team-a", 0)) as cluster:
        stated = why(recovered(cluster, written(tmp_path, experiment, undo, args)))
        assert "namespace team-a, which is neither the platform's nor an operator's" in stated
        assert pods_of(cluster, "team-a") == 1
        assert fetch(cluster, "apps/deployments", "shop", "team-a")["spec"]["replicas"] == 0
        assert not cluster.get("services", "evil", "team-a").ok


@pytest.mark.parametrize("by", ["the proof", "an operator", "chaos.components", "tenants.moreInfrastructure", "its name", "nothing"])
def test_an_agent_in_a_namespace_of_its_own_name_is_restarted_where_something_shows_it_to_be_the_platforms(tmp_path: Path, by: str) -> None:
    where = "gpu-operator-resources" if by == "its name" else "accelerated"
    terms = {
        "chaos.components": Terms.of(KNOWN, Policy(chaos=Chaos(components={"device-plugin": f"{where}/gone-by-now"}))),
        "tenants.moreInfrastructure": Terms.of(KNOWN, Policy(tenants=Tenants(more_infrastructure=("accel*",)))),
    }
    home = where if by == "an operator" else "gpu-operator"
    with operated(tmp_path, namespace(where), agent_pod(where), home=home) as cluster:
        args = {"namespace": where, **RESTARTED}
        done = recover(
            cluster,
            written(tmp_path, "D1", "agent.restarted", args, cluster if by == "the proof" else None),
            seconds=1,
            terms=terms.get(by, TERMS),
        )
        assert pods_of(cluster, where) == (1 if by in ("nothing", "its name") else 0)
        assert ("neither the platform's" in done.residue[0].message) is (by in ("nothing", "its name"))


def test_what_a_true_run_scaled_is_scaled_back_after_its_operators_resource_is_gone(tmp_path: Path) -> None:
    with world(tmp_path, extra=[namespace("accelerated"), scaled("accelerated", 2)]) as (cluster, _):
        args = WorkloadReplicas().args("apps/deployments", fetch(cluster, "apps/deployments", "shop", "accelerated"), 0)
        folder = written(tmp_path, "A4", "workload.replicas", msgspec.to_builtins(args), cluster)
        assert cluster.patch("apps/deployments", "shop", {"spec": {"replicas": 0}}, "accelerated").ok
        assert recovered(cluster, folder).clean
        assert fetch(cluster, "apps/deployments", "shop", "accelerated")["spec"]["replicas"] == 2


def test_what_is_refused_is_not_listed_by_a_class_that_an_undo_makes_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An undo on a host needs a namespace of the run, so its proof. Listed there, the other entry would be carried out the next time."""
    with world(tmp_path, extra=[namespace("team-a"), agent_pod("team-a")]) as (cluster, _):
        folder = written(tmp_path, "D1", "agent.restarted", {"namespace": "team-a", **RESTARTED})

        def replayed(*_: Any, **__: Any) -> list[Any]:
            Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False)
            return []

        monkeypatch.setattr("chaos.engine.recover.replay", replayed)
        recovered(cluster, folder)
        monkeypatch.undo()
        assert not any(view.digests for view in read_proofs(cluster).values())
        recovered(cluster, folder)
        assert pods_of(cluster, "team-a") == 1


@pytest.mark.parametrize("where", ["gpu-operator", "kube-system"])
def test_a_run_arms_nothing_in_a_namespace_that_its_plan_does_not_name(tmp_path: Path, where: str) -> None:
    with world(tmp_path) as (cluster, _):
        plugin = InstalledComponent(
            component="device-plugin", key="apps/daemonsets", namespace="gpu-operator", name="p", uid="u", selector="a=b"
        )
        facts = msgspec.to_builtins(PlanFacts(components={"device-plugin": plugin}))
        made = msgspec.structs.replace(plan(experiment="D1"), facts=facts)
        book = ledger(tmp_path, cluster, experiment="D1")
        terms = TERMS.of_plan(made)
        acting = ActivityContext(cluster, made, book, AbortFlag(tmp_path), allowed=lambda: None, terms=terms)
        draft = book.draft("agent.restarted", {"namespace": where, **RESTARTED})
        assert ("is not in its plan" in terms.outside(draft)) is (where == "kube-system")
        if where == "kube-system":
            args = msgspec.convert(draft.args, RestartedArgs)
            with pytest.raises(ActivityFailed, match="would not be undone"), acting.fault("agent.restarted", args):
                pytest.fail("the body ran")


def test_a_file_alone_still_puts_back_the_labels_that_its_experiment_names(tmp_path: Path) -> None:
    with world(tmp_path, extra=[node("gpu-3")]) as (cluster, _):
        prior = {"nvidia.com/gpu.product": "H100"}
        args = {"name": "gpu-3", "uid": "uid-gpu-3", "prior": prior, "ours": dict.fromkeys(prior)}
        folder = written(tmp_path, "A9", "node.labels", args, cluster)
        assert cluster.delete(PRIORITY_CLASSES, f"{CHAOS_PREFIX}-{RUN}").ok
        assert cluster.patch("nodes", "gpu-3", {"metadata": {"labels": dict.fromkeys(prior)}}).ok
        assert recovered(cluster, folder).clean


# -- operands --------------------------------------------------------------------------------------------


@each_row
def test_only_an_operand_of_a_living_policy_is_made_anew_from_an_unlisted_entry(
    tmp_path: Path, args: dict[str, Any], reported: str
) -> None:
    made = service(**args)
    with operated(tmp_path) as cluster:
        done = recovered(cluster, written(tmp_path, "A5", "object.present", made))
        assert cluster.get("services", "evil", made["namespace"]).ok is not bool(reported)
        assert reported in why(done) if reported else done.clean


@pytest.mark.parametrize("owner", ["uid-operand-policy", ""])
def test_a_listed_operand_comes_back_although_its_policy_is_gone(tmp_path: Path, owner: str) -> None:
    """With the policy its kind may be gone, as here."""
    operand = config_map("operands", key="value")
    operand["metadata"] |= {"namespace": "accelerated", **({"ownerReferences": owned_by(owner)} if owner else {})}
    with world(tmp_path, extra=[namespace("accelerated"), operand]) as (cluster, _):
        args = ObjectPresent().args("configmaps", fetch(cluster, "configmaps", "operands", "accelerated"))
        folder = written(tmp_path, "A5", "object.present", msgspec.to_builtins(args), cluster)
        assert cluster.delete("configmaps", "operands", "accelerated").ok
        assert recovered(cluster, folder).clean
        assert fetch(cluster, "configmaps", "operands", "accelerated")["data"] == {"key": "value"}


def test_a_run_arms_no_operand_but_the_targets_of_its_plan(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _):
        found = ObjectPresent().args("configmaps", fetch(cluster, "configmaps", "operand", "gpu-operator"))
        target = Target(kind="configmaps", name="operand", namespace="gpu-operator", uid=found.uid)
        other = msgspec.structs.replace(target, uid="uid-of-another")
        for one, reported in ((target, ""), (other, "which is no target of its plan")):
            terms = TERMS.of_plan(plan(one, experiment="A5"))
            draft = ledger(tmp_path / one.uid, cluster, experiment="A5").draft("object.present", found)
            assert reported in terms.outside(draft)
            assert bool(reported) is bool(terms.outside(draft))


# -- nodes -----------------------------------------------------------------------------------------------


def node_exists(uid: str = "another", machine: str = "machine-gpu-1") -> Json:
    saved = {"metadata": {"labels": {}, "annotations": {}}, "spec": {"taints": [EVIL]}}
    return {"name": "gpu-1", "uid": uid, "machine": machine, "ready": True, "wait_seconds": 0.2, "saved": saved}


def taints(cluster: Cluster) -> list[Json]:
    return list(fetch(cluster, "nodes", "gpu-1")["spec"].get("taints") or ())


@pytest.mark.parametrize("machine", ["machine-gpu-1", "", "another"])
def test_a_node_gets_no_taint_that_nothing_but_an_unlisted_entry_tells_of(tmp_path: Path, machine: str) -> None:
    with world(tmp_path) as (cluster, _):
        stated = why(recovered(cluster, written(tmp_path, "N9", "node.exists", node_exists(machine=machine))))
        assert "labels and taints of node gpu-1: no proof in the cluster lists the entry" in stated
        assert EVIL not in taints(cluster)


@pytest.mark.parametrize(("machine", "same"), [("machine-gpu-1", True), ("", True), ("another", False)])
def test_a_listed_node_gets_back_what_it_had_on_the_same_machine_only(tmp_path: Path, machine: str, same: bool) -> None:
    with world(tmp_path) as (cluster, _):
        done = recovered(cluster, written(tmp_path, "N9", "node.exists", node_exists(machine=machine), cluster))
        assert (EVIL in taints(cluster)) is same
        assert done.clean is same
        if not same:
            assert "node gpu-1 is another machine now" in done.residue[0].message


def test_a_run_deletes_the_nodes_of_its_plan(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _):
        draft = ledger(tmp_path, cluster, experiment="N9").draft("node.exists", NodeExists().args(fetch(cluster, "nodes", "gpu-1"), 1.0))
        assert TERMS.of_plan(plan(experiment="N9")).outside(draft) == ""
        other = Target(kind="nodes", name="gpu-1", uid="uid-of-another", node="gpu-1")
        assert "node gpu-1, which is no target of its plan" in TERMS.of_plan(plan(other, experiment="N9")).outside(draft)


DEPLOY, LAYOUT = "nvidia.com/gpu.deploy.device-plugin", "nvidia.com/mig.config"


@pytest.mark.parametrize(("experiment", "undo", "values", "says"), TABLE["on_a_node"].values(), ids=TABLE["on_a_node"])
def test_an_edited_report_changes_no_node_that_does_not_show_the_fault(
    tmp_path: Path, experiment: str, undo: str, values: Json, says: str
) -> None:
    """It named what the node shows as the fault, and a layout or a product of its author's as what was there before."""
    with operated(tmp_path) as cluster:
        assert cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {LAYOUT: "all-balanced", DEPLOY: "true"}}}).ok
        before = fetch(cluster, "nodes", "gpu-1")
        done = recovered(cluster, written(tmp_path, experiment, undo, {**identity(before), **values}))
        assert says in why(done)
        assert fetch(cluster, "nodes", "gpu-1") == before


def test_a_fault_that_the_node_shows_is_put_back_by_the_run_s_folder_alone(tmp_path: Path) -> None:
    with operated(tmp_path) as cluster:
        assert cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {DEPLOY: "false"}}}).ok
        values = {"prior": {DEPLOY: "true"}, "ours": {DEPLOY: "false"}}
        args = {**identity(fetch(cluster, "nodes", "gpu-1")), **values}
        assert recovered(cluster, written(tmp_path, "A2", "node.labels", args)).clean
        assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"][DEPLOY] == "true"


STATE, NOTE = "dgxc.nvidia.com/nvsentinel-state", "quarantineHealthEvent"


def noted(cluster: Cluster, state: str | None, note: str | None) -> None:
    metadata = {"labels": {STATE: state}, "annotations": {NOTE: note, "owner": "me"}}
    assert cluster.patch("nodes", "gpu-1", {"metadata": metadata, "spec": {"unschedulable": bool(state) or None}}).ok


def of_remediation(cluster: Cluster) -> tuple[str | None, str | None, bool]:
    found = fetch(cluster, "nodes", "gpu-1")
    labels, notes = found["metadata"]["labels"], found["metadata"].get("annotations") or {}
    return labels.get(STATE), notes.get(NOTE), bool(found["spec"].get("unschedulable"))


@each_row
def test_an_edited_report_writes_nothing_of_remediation_on_a_node(tmp_path: Path, given: Json, reported: str) -> None:
    with world(tmp_path) as (cluster, _):
        before = fetch(cluster, "nodes", "gpu-1")
        args = {**identity(before), "unschedulable": False, "labels": {STATE: None}, "conditions": {}, **given}
        folder = written(tmp_path, "D9", "node.cleared", args)
        (line,) = preview(cluster, folder, terms=TERMS)[0]
        assert line.startswith("leave, and tell")
        assert reported in why(recovered(cluster, folder))
        assert fetch(cluster, "nodes", "gpu-1") == before


@pytest.mark.parametrize("listed", [True, False])
def test_what_remediation_did_since_is_taken_away_and_the_plan_says_what_the_node_is_to_show(tmp_path: Path, listed: bool) -> None:
    with world(tmp_path) as (cluster, _):
        args = msgspec.to_builtins(cleared_args(cluster, "gpu-1", ("GPU-1",)))
        folder = written(tmp_path, "D9", "node.cleared", args, cluster if listed else None)
        noted(cluster, "quarantined", "[]")
        (line,) = preview(cluster, folder, terms=TERMS)[0][:1]
        shown = f'unschedulable: false, annotations: none, conditions: none, devices[0]: "GPU-1", labels.{STATE}: none'
        assert f"put back: node gpu-1 (node.cleared, entry {RUN}/D9/1), with {shown}; by hand: " in line
        assert recovered(cluster, folder).clean
        assert of_remediation(cluster) == (None, None, False)
        assert fetch(cluster, "nodes", "gpu-1")["metadata"]["annotations"] == {"owner": "me"}


@pytest.mark.parametrize("listed", [True, False])
def test_a_node_that_was_opened_since_is_not_cordoned_again(tmp_path: Path, listed: bool) -> None:
    with world(tmp_path) as (cluster, _):
        assert cluster.patch("nodes", "gpu-1", {"spec": {"unschedulable": True}}).ok
        args = msgspec.to_builtins(cleared_args(cluster, "gpu-1"))
        assert cluster.patch("nodes", "gpu-1", {"spec": {"unschedulable": None}}).ok
        done = recovered(cluster, written(tmp_path, "R5", "node.cleared", args, cluster if listed else None))
        assert of_remediation(cluster) == (None, None, False)
        assert done.clean


def test_what_remediation_had_written_before_the_fault_comes_back_where_the_proof_lists_it(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _):
        noted(cluster, "remediation-succeeded", "[1]")
        folder = written(tmp_path, "D9", "node.cleared", msgspec.to_builtins(cleared_args(cluster, "gpu-1")), cluster)
        noted(cluster, "draining", "[2]")
        (line,) = preview(cluster, folder, terms=TERMS)[0][:1]
        assert f'with unschedulable: true, annotations.{NOTE}: "[1]", conditions: none' in line
        assert f'labels.{STATE}: "remediation-succeeded"; by hand: ' in line
        assert recovered(cluster, folder).clean
        assert of_remediation(cluster) == ("remediation-succeeded", "[1]", True)
