"""What experiments start for themselves takes nobody's place, and ends without us."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.act import canary_pods
from chaos.act.context import ActivityContext
from chaos.activities import base, canaries
from chaos.model.plan import Plan, PlanFacts, Target, canary_namespace
from chaos.observe.view import View
from chaos.plan.planning import plan_facts as facts_of
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.model.platform.installed import Components
from fixtures.ownership import owned
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.policy.policy_file import build_policy
from fixtures.simulator.process.child import EmbeddedCluster
from tests.chaos.ledger.simulated_cluster import RUN, Json, acting, fetch, ledger, plan, recover, replay, soon, world
from tests.troubles import Trouble
from tests.watching import PATIENCE

NAMESPACE = f"gpu-conformance-chaos-{RUN}-canaries"
OWNER: Json = {"apiVersion": "batch/v1", "kind": "Job", "name": "expiry", "uid": "u"}
KNOWN = PlanFacts(image="i", injector_image="i", free={"gpu-1": 4, "gpu-2": 4})


def specs(facts: PlanFacts) -> dict[str, Json]:
    """Every pod spec that experiments create for themselves."""
    where = plan()
    service = canary_pods.deployment(where, facts, "service", count=2, devices=1, prefer="gpu-1", owner=OWNER)
    return {
        "worker": canary_pods.worker(where, facts, "w")["spec"],
        "probe": canary_pods.probe(where, facts, "p")["spec"],
        "reader": canary_pods.reader(where, facts, "r", "gpu-1")["spec"],
        "gang": canary_pods.gang_member(where, facts, "g", 0, 2, 1)["spec"],
        "deployment": service["spec"]["template"]["spec"],
    }


def test_the_class_preempts_nobody_yields_to_everybody_and_is_no_default() -> None:
    own = canary_pods.own_class(plan())
    assert (own["preemptionPolicy"], own["globalDefault"]) == ("Never", False)
    assert own["value"] < -10  # the cluster autoscaler's cutoff: a pending canary makes no pool grow


@pytest.mark.parametrize("what", specs(KNOWN))
def test_every_pod_has_the_runs_class_or_the_policys_its_secrets_and_a_deadline(what: str) -> None:
    found = specs(KNOWN)[what]
    assert found["priorityClassName"] == canary_pods.own_class(plan())["metadata"]["name"] == NAMESPACE
    assert "imagePullSecrets" not in found
    assert found.get("activeDeadlineSeconds") == (None if what == "deployment" else canary_pods.lifetime(plan()))
    given = specs(msgspec.structs.replace(KNOWN, priority_class="theirs", pull_secrets=("registry",)))[what]
    assert (given["priorityClassName"], given["imagePullSecrets"]) == ("theirs", [{"name": "registry"}])


def test_a_deployment_is_owned_by_a_job_that_ends_it() -> None:
    """Its pods may have no deadline: the API server refuses one in the template of pods that are always restarted."""
    made = canary_pods.deployment(plan(), KNOWN, "service", count=2, devices=1, prefer="gpu-1", owner=OWNER)
    assert made["metadata"]["ownerReferences"] == [OWNER]
    job = canary_pods.expiry(plan(), KNOWN, "expiry")["spec"]
    assert (job["parallelism"], job["activeDeadlineSeconds"], job["ttlSecondsAfterFinished"]) == (0, canary_pods.lifetime(plan()), 0)


# -- on a cluster ----------------------------------------------------------------------------------------


@contextmanager
def experiment(folder: Path, cluster: Cluster, known: PlanFacts = KNOWN, **seconds: float) -> Iterator[ActivityContext]:
    """An experiment's process, without its children and its deadline."""
    made = acting(folder, cluster, ledger(folder, cluster))
    made.plan = msgspec.structs.replace(made.plan, facts=msgspec.to_builtins(known), seconds={"sample": 0.05, "start": 1.0, **seconds})
    with made.as_current():
        yield made


def test_the_class_is_the_runs_and_goes_with_the_experiment(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _), experiment(tmp_path, cluster) as made:
        assert base.own_namespace() == base.own_namespace() == NAMESPACE
        found = fetch(cluster, PRIORITY_CLASSES, NAMESPACE)
        assert found["metadata"]["labels"].items() >= owned.labels(RUN).items()
        assert [entry.args["key"] for entry in made.ledger.open_entries()] == ["namespaces", PRIORITY_CLASSES]
        assert replay(made.ledger, cluster, soon()) == []
        assert cluster.get(PRIORITY_CLASSES, NAMESPACE).status == 404


def test_a_class_that_one_api_server_does_not_know_yet_is_waited_for(tmp_path: Path) -> None:
    late = Trouble(
        verb="create", resource="pods", status=403, times=2, message=f"pods is forbidden: no PriorityClass with name {NAMESPACE} was found"
    )
    with world(tmp_path, late) as (cluster, _), experiment(tmp_path, cluster) as made:
        namespace = base.own_namespace()
        created = base.create("pods", canary_pods.worker(made.plan, base.plan_facts(), "worker-0"), namespace)
        assert created["spec"]["priorityClassName"] == NAMESPACE


def test_any_other_refusal_is_one_at_once(tmp_path: Path) -> None:
    denied = Trouble(verb="create", resource="pods", status=403, times=1, message="quota exceeded")
    with world(tmp_path, denied) as (cluster, _), experiment(tmp_path, cluster) as made:
        namespace = base.own_namespace()
        with pytest.raises(ActivityFailed, match="quota exceeded"):
            base.create("pods", canary_pods.worker(made.plan, base.plan_facts(), "worker-0"), namespace)


def test_nothing_is_created_that_nobody_would_end(tmp_path: Path) -> None:
    """No controller has started the Job's clock: the served store has none."""
    with world(tmp_path) as (cluster, _), experiment(tmp_path, cluster, start=0.2):
        with pytest.raises(ActivityFailed, match="nothing would end what it is to end"):
            canaries.start_deployment(count=1)
        assert cluster.get("apps/deployments", "service", NAMESPACE).status == 404


@pytest.mark.test_all
def test_a_deployment_that_nobody_deletes_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runner and child are gone for good: nothing is undone, and no pod holds a device for longer than the lifetime."""
    monkeypatch.setattr(canary_pods, "LIFETIME_MARGIN", 3)
    embedded = EmbeddedCluster.start("healthy", tmp_path)
    try:
        cluster = Cluster.from_kubeconfig(embedded.kubeconfig)
        with experiment(tmp_path, cluster, of(cluster, embedded.policy), start=20.0, deadline=1.0) as made:
            made.plan = on_a_gpu_node(made.plan, cluster)
            assert len(canaries.start_deployment(count=2)) == 2
        namespace = canary_namespace(made.plan)
        assert gone(cluster, "apps/deployments", namespace)
        assert gone(cluster, "pods", namespace)
        assert gone(cluster, base.JOBS, namespace)
        assert recover(cluster, seconds=PATIENCE).clean
    finally:
        embedded.stop()


def of(cluster: Cluster, policy: dict[str, Any]) -> PlanFacts:
    """What planning would know of the cluster."""
    nodes = cluster.request("GET", cluster.path("nodes")).json()["items"]
    free = {node["metadata"]["name"]: 4 for node in nodes if "nvidia.com/gpu" in node["status"]["capacity"]}
    known = facts_of(View.of(cluster), Components(found={}), build_policy(policy))
    tolerations = ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},)
    return msgspec.structs.replace(known, free=free, tolerations=tolerations)


def on_a_gpu_node(planned: Plan, cluster: Cluster) -> Plan:
    name = sorted(PlanFacts.of(planned).free)[0]
    uid = fetch(cluster, "nodes", name)["metadata"]["uid"]
    return msgspec.structs.replace(planned, targets=(Target(kind="nodes", name=name, uid=uid, node=name),), untouched="")


def gone(cluster: Cluster, key: str, namespace: str) -> bool:
    with Observation(cluster, key, namespace) as observation:
        return any(not found for found in observation.until(time.monotonic() + PATIENCE))
