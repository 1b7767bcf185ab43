"""The reset of a GPU on hardware, planned: on a node that an administrator gave for it, and on no other.

The cluster is the embedded one, told to be live: it is planned and its gates are asked, and nothing is carried out.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from chaos.engine.campaign import CampaignSetup, plan_now
from chaos.model.experiment import Experiment
from chaos.model.plan import Plan
from chaos.plan.selectors import PlanRefused
from chaos.safety.admission import gate_results
from chaos.safety.gates import settings_of
from fixtures.kubernetes.models import Json
from fixtures.verdict.record import TargetKind
from tests.chaos.engine.stage import Stage, stage
from tests.chaos.ledger.simulated_cluster import shape
from tests.chaos.shipped import EXPERIMENTS

IDLE = "h100-1"
UNKNOWN = "adv-incomplete-labels"
"""A defect of the embedded cluster: one node, h100-2, does not say of which family its GPUs are."""

D18, N10, A3 = (EXPERIMENTS[name] for name in ("D18", "N10", "A3"))


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("cluster"), f"healthy,{UNKNOWN}") as found:
        yield found


def live(on: Stage, folder: Path, node: str = "") -> CampaignSetup:
    where = on.where(folder)
    target = msgspec.structs.replace(where.target, kind=TargetKind.LIVE)
    uid = target.cluster_uid
    settings = settings_of(on.policy, clusters=(uid,), max_level=4, confirm=uid, nodes=(node,) if node else ())
    return msgspec.structs.replace(where, target=target, settings=settings, ours=False, node=node)


def closed(where: CampaignSetup, plan: Plan, experiment: Experiment = D18) -> dict[str, str]:
    gates = gate_results(where.cluster, where.policy, where.settings, experiment, plan, ours=False, steady="")
    return {gate.name: gate.message for gate in gates if not gate.ok}


@contextmanager
def given(on: Stage, node: str) -> Iterator[None]:
    """The node as its administrator gives it: opted in, and cordoned by kubectl."""

    def write(body: Json) -> None:
        query = {"fieldManager": "kubectl-cordon"}
        path = on.cluster.path("nodes", "", node)
        assert on.cluster.request("PATCH", path, query=query, body=body, content_type="application/merge-patch+json").ok

    write({"metadata": {"labels": {"gpu-conformance.io/chaos": "allowed"}}, "spec": {"unschedulable": True}})
    try:
        yield
    finally:
        write({"metadata": {"labels": {"gpu-conformance.io/chaos": None}}, "spec": {"unschedulable": None}})


@contextmanager
def tenant(on: Stage, node: str) -> Iterator[None]:
    body = shape("GpuPod", "tenant", namespace="default")
    body["spec"] |= {"nodeName": node, "terminationGracePeriodSeconds": 0}
    created = on.cluster.create("pods", body, namespace="default")
    assert created.ok, created.message
    try:
        yield
    finally:
        on.cluster.delete("pods", "tenant", "default", grace_seconds=0)


def test_a_node_that_is_cordoned_idle_and_opted_in_is_planned_and_every_gate_is_open(on: Stage, tmp_path: Path) -> None:
    with given(on, IDLE):
        where = live(on, tmp_path)
        plan = plan_now(where, D18)
        assert plan.target_kind is TargetKind.LIVE
        assert plan.nodes == (IDLE,)
        assert plan.targets[0].facts["uuid"].startswith("GPU-")
        assert plan.targets[0].facts["unschedulable"] is True
        assert plan.untouched not in ("", IDLE)
        assert closed(where, plan) == {}
        assert IDLE not in plan_now(where, A3).nodes


def test_the_same_node_is_planned_for_a_reboot(on: Stage, tmp_path: Path) -> None:
    with given(on, IDLE):
        where = live(on, tmp_path)
        plan = plan_now(where, N10)
        assert plan.nodes == (IDLE,)
        assert closed(where, plan, N10) == {}
    with pytest.raises(PlanRefused):
        plan_now(where, N10)


def test_a_tenant_who_came_closes_plan_and_gate(on: Stage, tmp_path: Path) -> None:
    with given(on, IDLE):
        where = live(on, tmp_path, IDLE)
        plan = plan_now(where, D18)
        with tenant(on, IDLE):
            assert "default/tenant" in closed(where, plan)["destructive"]
            with pytest.raises(PlanRefused, match="has pods that hold devices"):
                plan_now(where, D18)


def test_an_administrator_who_wants_the_node_back_closes_the_gate(on: Stage, tmp_path: Path) -> None:
    with given(on, IDLE):
        where = live(on, tmp_path, IDLE)
        plan = plan_now(where, D18)
    assert {"destructive", "target nodes"} == set(closed(where, plan))


def test_gpus_whose_links_are_not_known_are_not_reset_one_by_one(on: Stage, tmp_path: Path) -> None:
    with given(on, "h100-2"):
        where = live(on, tmp_path, "h100-2")
        found = closed(where, plan_now(where, D18))
        assert list(found) == ["reset alone"]
        assert "how NVLink joins its 8 GPUs is not known" in found["reset alone"]
