"""Choosing targets: never nothing, never a sick node, never the last healthy one."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from chaos.model.experiment import needs_cordoned
from chaos.model.plan import Device, PlanFacts
from chaos.plan.planning import _activities, _narrowed, _untouched
from chaos.plan.selectors import SELECTORS, Choice, NoPlan, NotApplicable, PlanningView, PlanRefused, TargetQuery
from fixtures.kubernetes.models import Json
from fixtures.model.platform.installed import Components, find_components
from fixtures.verdict.record import TargetKind
from tests.chaos.observe.made_up_cluster import World, installed, made_by, node, pod, standing, workload
from tests.chaos.shipped import EXPERIMENTS
from tests.tables import each_row

PLUGIN = installed()
DEVICES = tuple(Device(uuid=f"GPU-{index}", index=index, pci=f"00000000:0{index}:00.0") for index in range(8))


def field(world: World, named: str = "", components: Components | None = None, cordoned: bool = False, **target: Any) -> PlanningView:
    facts = PlanFacts(devices={"a": DEVICES, "b": DEVICES})
    wanted = msgspec.convert({"select": "node", **target}, TargetQuery)
    return PlanningView(
        view=world.view(), components=components or Components(), facts=facts, wanted=wanted, named=named, cordoned=cordoned
    )


def choose(found: PlanningView) -> Choice:
    return SELECTORS[found.wanted.select](found)


def three(*pods: Json) -> World:
    return World(nodes=[node("a"), node("b"), node("c"), node("cpu", gpus=0)], pods=list(pods))


def test_the_node_with_most_free_devices_is_chosen() -> None:
    choice = choose(field(three(pod("x", "a", gpus=4), pod("y", "b"))))
    assert choice.nodes == ("c",)
    assert choice.eligible == 3
    assert choice.targets[0].uid == "uid-c"


def test_so_many_nodes_are_chosen_or_none() -> None:
    assert choose(field(three(pod("x", "a", gpus=4)), count=2)).nodes == ("b", "c")
    with pytest.raises(PlanRefused, match="4 GPU nodes are needed, and 3 can be targets"):
        choose(field(three(), count=4))


@each_row
def test_an_unhealthy_node_is_never_chosen(sick: Json) -> None:
    world = World(nodes=[node(**sick), node("b")], pods=[pod("x", "b", gpus=8)])
    assert choose(field(world)).nodes == ("b",)
    with pytest.raises(PlanRefused, match="--chaos-target a"):
        choose(field(world, named="a"))


def test_one_healthy_gpu_node_is_left_alone() -> None:
    found = field(three())
    assert _untouched(found, choose(found)) not in choose(found).nodes
    alone = field(World(nodes=[node("a"), node("b", ready="False")], pods=[]))
    with pytest.raises(PlanRefused, match="left untouched"):
        _untouched(alone, choose(alone))


def test_no_gpu_node_is_no_object_and_no_healthy_one_a_refusal() -> None:
    with pytest.raises(NotApplicable) as absent:
        choose(field(World(nodes=[node("cpu", gpus=0)], pods=[])))
    assert absent.value.code == "NoGpuNode"
    with pytest.raises(PlanRefused) as refused:
        choose(field(World(nodes=[node("a", ready="False")], pods=[])))
    assert "NotReady" in refused.value.message


def served(*, names: Sequence[str] = ("coredns",), ready: bool = True, label: str = "kube-dns", namespace: str = "kube-system") -> World:
    """A cluster with these Deployments, each with one pod."""
    about = {"namespace": namespace, "phase": "Running" if ready else "Pending"}
    return World(
        nodes=[node("a"), node("b")],
        apps__deployments=[workload(name, {"k8s-app": label}, namespace) for name in names],
        apps__replicasets=[
            {"metadata": {"name": f"{name}-1", "namespace": namespace, "uid": f"rs-{name}", **made_by(f"uid-{name}")}} for name in names
        ],
        pods=[pod(f"{name}-1-x", "cpu", gpus=0, labels={"k8s-app": label}, meta=made_by(f"rs-{name}"), **about) for name in names],
    )


def test_the_name_servers_of_a_cluster_are_a_deployment_of_kube_system() -> None:
    choice = choose(field(served(), select="name-server"))
    assert [(str(one), one.facts["owner"], one.facts["owner_uid"]) for one in choice.targets] == [
        ("pods kube-system/coredns-1-x", "coredns", "uid-coredns")
    ]


@each_row
def test_what_serves_no_names_for_sure_is_left_alone(world: World, code: str) -> None:
    with pytest.raises(NoPlan) as refused:
        choose(field(world, select="name-server"))
    assert refused.value.code == code


CLAIMING = pod("x", "a", gpus=0)
CLAIMING["spec"]["resourceClaims"] = [{"name": "gpu"}]
BUSY = three(pod("x", "a"), pod("y", "b"), pod("web", "c", gpus=0), pod("done", "c", phase="Succeeded"))
SHARED = World(nodes=[node("a", labels={"nvidia.com/gpu.replicas": "4"}), node("b")], pods=[])


@each_row
def test_a_node_is_chosen_by_what_is_wanted(found: PlanningView, chosen: str) -> None:
    assert choose(found).nodes == (chosen,)


def test_where_no_node_is_as_wanted_it_is_reported_why() -> None:
    with pytest.raises(PlanRefused, match="no such node; GPU nodes are a, b, c"):
        choose(field(three(), named="d"))
    with pytest.raises(PlanRefused, match="has no devices"):
        choose(field(three(), named="cpu"))
    with pytest.raises(PlanRefused, match="has pods that hold devices"):
        choose(field(three(pod("x", "a"), pod("y", "b"), pod("z", "c")), idle=True))
    with pytest.raises(NotApplicable):
        choose(field(World(nodes=[node("b")], pods=[]), shared=True))


def test_a_device_is_named_by_what_its_exporter_tells() -> None:
    choice = choose(field(three(pod("x", "c")), select="gpu"))
    assert choice.targets[0].facts["uuid"] == "GPU-7"
    assert choice.targets[0].facts["units"] == 1
    assert choice.eligible == 16
    with pytest.raises(NotApplicable) as unknown:
        choose(field(World(nodes=[node("c"), node("d")], pods=[]), select="gpu"))
    assert unknown.value.code == "DevicesUnknown"


def test_an_agents_pod_is_chosen_on_a_healthy_node_and_only_where_it_is_ready() -> None:
    pods = [pod(f"p-{name}", name, gpus=0, namespace="gpu", labels={"app": "plugin"}, meta=made_by("u")) for name in ("a", "b")]
    components = Components(found={"device-plugin": PLUGIN})
    world = three(*pods, pod("x", "a"))
    choice = choose(field(world, components=components, select="daemon-pod", component="device-plugin"))
    assert [(target.kind, target.name, target.node) for target in choice.targets] == [("pods", "p-b", "b")]
    waiting = [pod("p-a", "a", gpus=0, namespace="gpu", labels={"app": "plugin"}, meta=made_by("u"), phase="Pending")]
    with pytest.raises(PlanRefused, match="no healthy GPU node has a ready pod"):
        choose(field(three(*waiting), components=components, select="daemon-pod", component="device-plugin"))
    with pytest.raises(NotApplicable):
        choose(field(three(), select="daemon-pod", component="device-plugin"))


def test_canaries_may_go_to_healthy_nodes_with_whole_devices_only() -> None:
    world = World(
        nodes=[node("a", taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]), node("b", labels={"nvidia.com/gpu.replicas": "2"})],
        pods=[pod("x", "a", gpus=3)],
    )
    found = field(world)
    facts = _narrowed(found, choose(found))
    assert facts.free == {"a": 5}
    assert facts.tolerations == ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},)


def given(name: str = "a", manager: str = "kubectl-cordon", **more: Any) -> Json:
    """A node that an administrator took out of service."""
    found = node(name, cordoned=True, **more)
    found["metadata"]["managedFields"] = [{"manager": manager, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]
    return found


def test_what_is_destructive_takes_a_node_that_an_administrator_cordoned_and_emptied() -> None:
    world = World(nodes=[given(), node("b"), node("c")], pods=[pod("x", "b")])
    found = field(world, cordoned=True, select="gpu")
    choice = choose(found)
    assert choice.nodes == ("a",)
    assert choice.targets[0].facts["unschedulable"] is True
    assert choice.eligible == 16  # devices of a and b, c tells none
    assert _untouched(found, choice) in ("b", "c")
    facts = _narrowed(found, choice)
    assert (set(facts.free), set(facts.devices)) == ({"b", "c"}, {"a"})
    assert choose(field(world, select="gpu")).nodes == ("b",)  # every other experiment leaves it alone


@each_row
def test_a_node_that_nobody_gave_for_it_or_that_is_not_well_is_refused(candidate: Json, pods: list[Json], why: str) -> None:
    world = World(nodes=[candidate, node("b")], pods=pods)
    for named in ("", "a"):
        with pytest.raises(PlanRefused) as refused:
            choose(field(world, named=named, cordoned=True, select="gpu"))
        assert why in refused.value.message


def test_a_node_that_an_autoscaler_is_about_to_remove_is_nobodys_gift() -> None:
    leaving = given()
    leaving["spec"]["taints"] = [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]
    with pytest.raises(PlanRefused, match="a: has the taint ToBeDeletedByClusterAutoscaler"):
        choose(field(World(nodes=[leaving, node("b")], pods=[]), cordoned=True, select="gpu"))


@each_row
def test_who_cordons(level: int, kind: TargetKind, cordons: bool, needed: bool) -> None:
    assert needs_cordoned(level, kind, cordons=cordons) is needed


def test_a_plan_says_in_words_what_it_does() -> None:
    for experiment in EXPERIMENTS.values():
        assert not [line for line in _activities(experiment.document) if "{'" in line or "['" in line], experiment.id
    assert _activities(EXPERIMENTS["R1"].document)[-2:] == [
        "the node is back (until node.unschedulable is false and remediation.state equals empty, within loop)",
        "it stays so (duration watch)",
    ]


def test_components_are_known_by_labels_then_images_and_absent_for_a_reason() -> None:
    daemons = [
        workload("plugin", {"app": "nvidia-device-plugin-daemonset"}),
        workload("fabric", {"app": "mine"}, image="nvcr.io/nvidia/k8s-rdma-shared-dev-plugin@sha256:0"),
        workload("gfd", {"app": "gpu-feature-discovery"}, desired=0),
    ]
    operator = [workload("gpu-operator", {"app": "gpu-operator"})]
    found = find_components(World(nodes=[], apps__daemonsets=daemons, apps__deployments=operator).view(), standing())
    assert found.found["device-plugin"].selector == "app=nvidia-device-plugin-daemonset"
    assert found.found["rdma-plugin"].name == "fabric"
    assert found.absent["gfd"] == "gfd is not installed"  # it wants no node
    assert "operator" in found.absent  # its kind is not served
    assert found.missing(("device-plugin", "gfd")) == "gfd is not installed"


def test_the_policy_says_which_workload_is_which() -> None:
    world = World(nodes=[], apps__daemonsets=[workload("mine", {"app": "mine"})], apps__deployments=[])
    assert find_components(world.view(), standing(), {"device-plugin": "gpu/mine"}).found["device-plugin"].name == "mine"
    assert (
        "where the policy says it is" in find_components(world.view(), standing(), {"device-plugin": "gpu/other"}).absent["device-plugin"]
    )


def test_a_workload_that_the_policy_names_and_that_is_called_otherwise_by_now_is_not_absent() -> None:
    plugin = {"app": "nvidia-device-plugin-daemonset"}
    world = World(nodes=[], apps__daemonsets=[workload("renamed", plugin)], apps__deployments=[])
    found = find_components(world.view(), standing(), {"device-plugin": "gpu/old"})
    says = "chaos.components says that device-plugin is gpu/old, which is not there: DaemonSet gpu/renamed looks like it"
    assert says in found.unclear["device-plugin"]
    assert not {*found.found, *found.absent} & {"device-plugin"}
    assert find_components(world.view(), standing("other"), {"device-plugin": "gpu/old"}).unclear  # in the namespace that it names
    assert find_components(world.view(), standing("other"), {"device-plugin": "other/old"}).absent["device-plugin"]  # a tenant's copy
