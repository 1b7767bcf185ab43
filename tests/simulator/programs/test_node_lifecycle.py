import msgspec

from fixtures.simulator.api.objects import Json
from fixtures.simulator.controllers.nodes import patience
from tests.simulator.programs.plugin_pods import QUICK, SYSTEM, plugin_pod
from tests.simulator.programs.small_cluster import PODS, TAINT, MakesTest, SmallCluster, hardware, in_cluster, node, pod
from tests.tables import each_row

NODE = "/api/v1/nodes/a"
UNREACHABLE = "node.kubernetes.io/unreachable"


def ready(obj: Json) -> str:
    return next((c["status"] for c in obj["status"].get("conditions", []) if c["type"] == "Ready"), "")


async def until_ready(cluster: SmallCluster) -> None:
    await cluster.until(NODE, lambda obj: ready(obj) == "True")


def on_nodes(*objects: Json, registers: bool = True) -> MakesTest:
    tempo = msgspec.structs.replace(QUICK, node_monitor_grace=2.0, **({} if registers else {"node_registration": -1.0}))
    return in_cluster(hardware("a", 4), hardware("b", 4), objects=[plugin_pod("a"), *objects], tempo=tempo, before=until_ready)


def taints(obj: Json) -> list[tuple[str, str]]:
    return sorted((taint["key"], taint["effect"]) for taint in obj["spec"].get("taints") or ())


def toleration(seconds: int | None) -> Json:
    more = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", **more}


async def unreachable(cluster: SmallCluster) -> Json:
    cluster.hosts["a"].stop_kubelet()
    return await cluster.until(NODE, lambda obj: (UNREACHABLE, "NoExecute") in taints(obj))


@each_row
def test_patience(tolerations: list[Json], expected: float | None) -> None:
    assert patience({"spec": {"tolerations": tolerations}}, [{"key": UNREACHABLE, "effect": "NoExecute"}]) == expected


@on_nodes()
async def test_a_cordon_is_a_taint_too(cluster: SmallCluster) -> None:
    cordon = ("node.kubernetes.io/unschedulable", "NoSchedule")
    await cluster.client.patch(NODE, {"spec": {"unschedulable": True}})
    await cluster.until(NODE, lambda obj: cordon in taints(obj))
    await cluster.client.patch(NODE, {"spec": {"unschedulable": None}})
    await cluster.until(NODE, lambda obj: cordon not in taints(obj))


DEAD = node(hardware("dead"), 9)
DEAD["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]


@on_nodes(DEAD)
async def test_a_node_that_was_dead_from_the_start_stays_as_it_is(cluster: SmallCluster) -> None:
    before = await cluster.client.get("/api/v1/nodes/dead")
    await unreachable(cluster)  # as long as it takes for another node
    assert await cluster.client.get("/api/v1/nodes/dead") == before


@on_nodes(registers=False)
async def test_pods_of_a_deleted_node_are_collected(cluster: SmallCluster) -> None:
    await cluster.start(pod("p", spec={"nodeName": "a"}))
    await cluster.phase("p", "Running")
    await cluster.client.delete(NODE)
    await cluster.gone(f"{PODS}/p")
    await cluster.gone(f"{SYSTEM}/plugin")
    assert cluster.kubelets.machines["a"].manager.holders() == {}
    cluster.hosts["a"].restart_kubelet()
    back = await cluster.until(NODE, lambda obj: ready(obj) == "True")
    assert taints(back) == [(TAINT["key"], TAINT["effect"])]
