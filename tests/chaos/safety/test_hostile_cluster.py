"""What a cluster says is not believed further than it is needed: names, labels, pages and kubeconfigs of others change nothing."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.act import canary_pods
from chaos.activities.ranks import marker, pattern
from chaos.cluster import injector, namespaces
from chaos.engine.child import _acting
from chaos.ledger.undos.agents import AgentRestarted, RestartedArgs
from chaos.ledger.undos.host import DeviceArgs, HostReset, Means
from chaos.model.plan import PlanFacts
from chaos.model.records import Aborted
from chaos.observe.view import View
from chaos.plan.planning import devices_by_node, plan_facts
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.model.platform.installed import Components, InstalledComponent, find_components, pods_of
from fixtures.policy.model import Policy, Probes
from tests.chaos.ledger.simulated_cluster import RUN, acting, daemon_pod, ledger, plan, soon, world
from tests.chaos.observe.made_up_cluster import World, pod, standing, workload
from tests.tables import each_row

EXPORTER = {"app": "nvidia-dcgm-exporter"}


def there(*pods: dict[str, Any], selector: dict[str, Any] | None = None, pages: dict[str, str] | None = None) -> View:
    """A cluster with the exporter's DaemonSet."""
    agent = workload("agent", EXPORTER, selector=selector or {"matchLabels": EXPORTER})
    return World(pages, nodes=[], apps__daemonsets=[agent], apps__deployments=[], pods=list(pods)).view()


def owned(name: str, uid: str, **more: Any) -> dict[str, Any]:
    refs = [{"kind": "DaemonSet", "name": "agent", "uid": uid, "controller": True}]
    return pod(name, "a", gpus=0, namespace="gpu", labels=EXPORTER, meta={"ownerReferences": refs}, **more)


@each_row
def test_devices_are_named_by_words_that_no_shell_reads(uuid: str, pci: str, known: list[tuple[str, str]]) -> None:
    page = f'DCGM_FI_DEV_GPU_TEMP{{gpu="7",UUID="{uuid}",pci_bus_id="{pci}"}} 30\n'
    view = there(owned("x", "uid-agent"), pages={"proxy": page})
    found = devices_by_node(view, find_components(view, standing()))
    assert [(one.uuid, one.pci) for one in found.get("a", ())] == known


def test_pods_of_a_component_are_those_of_its_own_workload() -> None:
    view = there(owned("mine", "uid-agent"), owned("tenants", "uid-other"), pod("plain", "a", namespace="gpu"))
    found = find_components(view, standing()).found["exporter"]
    assert [item["metadata"]["name"] for item in pods_of(view, found)] == ["mine"]
    nothing = InstalledComponent(component="exporter", key=found.key, namespace="gpu", name="agent", uid="uid-agent", selector="")
    assert pods_of(view, nothing) == []


def test_a_selector_of_expressions_is_not_lost() -> None:
    wanted = {
        "matchLabels": EXPORTER,
        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["x", "y"]}, {"key": "gpu", "operator": "Exists"}],
    }
    assert find_components(there(selector=wanted), standing()).found["exporter"].selector == "app=nvidia-dcgm-exporter,zone in (x,y),gpu"


def going(cluster: Cluster, name: str) -> bool:
    answer = cluster.get("pods", name, "gpu-operator")
    return answer.status == 404 or "deletionTimestamp" in answer.json()["metadata"]


def test_restarting_an_agent_spares_pods_that_use_its_labels(tmp_path: Path) -> None:
    foreign = daemon_pod("tenants", "gpu-1")
    foreign["metadata"]["ownerReferences"][0].update(name="training", uid="uid-training")
    args = RestartedArgs(
        namespace="gpu-operator",
        owner="plugin",
        owner_uid="uid-plugin",
        selector="app=plugin",
        node="gpu-1",
        uids=("uid-plugin-1",),
        allocatable={"nvidia.com/gpu": "9"},
    )
    with world(tmp_path, extra=[foreign]) as (cluster, _):
        AgentRestarted().undo(cluster, args, soon())  # the node offers less than recorded: every ready pod of the agent has to go
        assert going(cluster, "plugin-1")
        assert not going(cluster, "tenants")


def test_a_child_whose_kubeconfig_leads_elsewhere_writes_nothing(tmp_path: Path, cluster: Cluster) -> None:
    elsewhere: Any = SimpleNamespace(access=SimpleNamespace(open=lambda: cluster))
    other = plan()
    before = {str(item["metadata"]["name"]) for item in cluster.get("namespaces", "").json()["items"]}
    for uid in ("another", ""):
        wrong: Any = SimpleNamespace(cluster_uid=uid, run_id=other.run_id, experiment=other.experiment, origin=other.origin)
        with pytest.raises(Aborted, match="nothing was done"):
            _acting(tmp_path, wrong, elsewhere)
    assert {str(item["metadata"]["name"]) for item in cluster.get("namespaces", "").json()["items"]} == before
    assert not (tmp_path / "ledger.jsonl").exists()


def test_signalling_a_rank_does_not_hit_the_programs_that_do_it(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _), acting(tmp_path, cluster, ledger(tmp_path)).as_current():
        text, wanted = marker("0"), pattern("0")
        assert re.search(wanted, f"/bin/sh -c script {text}")
        assert not re.search(wanted, f"nsenter --target 1 -- pkill -STOP -f {wanted}")
        assert not re.search(wanted, f"/bin/sh -c script {marker('1')}")


def test_an_injector_that_has_not_started_does_not_act_after_the_undo(cluster: Cluster) -> None:
    inside = namespaces.ensure_run(cluster, RUN)
    for name, run, on in (("late", RUN, "gpu-1"), ("elsewhere", RUN, "gpu-2"), ("others", "20261121-120000-ffff", "gpu-1")):
        body = injector.injector_pod(name=name, node=on, image="i", argv=["true"], run_id=run)
        assert cluster.create("pods", body, namespace=inside).ok
    args = DeviceArgs(name="gpu-1", uid="uid-gpu-1", uuid="GPU-1")
    with pytest.raises(ApiTrouble):  # nobody runs pods here
        HostReset(Means(run_id=RUN, image="i")).undo(cluster, args, soon(0.2))
    left = {item["metadata"]["name"] for item in cluster.request("GET", cluster.path("pods", inside)).json()["items"]}
    assert left == {"elsewhere", "others"}


def test_canaries_have_the_priority_that_the_policy_gives_probes_and_else_their_experiments_own() -> None:
    known = plan_facts(
        World(nodes=[], apps__daemonsets=[], apps__deployments=[], pods=[]).view(),
        Components(),
        Policy(probes=Probes(priority_class="last")),
    )
    made = [canary_pods.worker(plan(), known, "w"), canary_pods.probe(plan(), known, "p")]
    assert [pod["spec"]["priorityClassName"] for pod in made] == ["last", "last"]
    assert canary_pods.worker(plan(), PlanFacts(), "w")["spec"]["priorityClassName"] == canary_pods.own_class(plan())["metadata"]["name"]
