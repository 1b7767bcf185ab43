"""Signals on look-alike objects: what they give, and when they give nothing."""

import itertools
import json
from typing import Any

import msgspec
import pytest

from chaos.model.allocations import Allocations, AllocationSnapshot, check_invariants
from chaos.model.conditions import signals_of
from chaos.model.plan import CANARY_LABEL, GANG_LABEL, Device, PlanFacts, Target
from chaos.observe.signals import SIGNALS
from chaos.observe.signals.gangs import SIZE_ANNOTATION
from chaos.observe.signals.metrics import pages
from chaos.observe.signals.nodes import OTHERS_SECONDS_SIMULATED
from chaos.observe.view import NoData, View
from fixtures.kubernetes.models import Json
from fixtures.model.dra.slices import CLAIMS, SLICES
from tests.chaos.observe.made_up_cluster import CANARIES, NAMESPACE, Read, World, canary, installed, made_by, node, plan, pod
from tests.chaos.shipped import EXPERIMENTS
from tests.tables import each_row

EXPORTER = installed("exporter", "exporter")


def value(name: str, world: World, read: Read | None = None, **more: Any) -> Any:
    return SIGNALS[name](read or Read(world, plan(**more)))  # type: ignore[arg-type]


@pytest.fixture
def always_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at what the experiment is not about is a new one."""
    monkeypatch.setattr("chaos.observe.signals.nodes.OTHERS_SECONDS_SIMULATED", 0.0)


def test_devices_of_the_target_only() -> None:
    world = World(nodes=[node("a", gpus=8, allocatable=7), node("b")])
    assert value("allocatable", world) == {"a": {"nvidia.com/gpu": 7}}
    assert value("capacity.devices", world) == 8
    assert value("gpus.out", world) == 1


def test_a_node_that_is_gone_is_no_data() -> None:
    with pytest.raises(NoData, match="not there"):
        value("allocatable", World(nodes=[node("b")]))
    assert value("node.present", World(nodes=[node("b")])) is False


def test_a_device_that_comes_back_is_noticed() -> None:
    read = Read(World(nodes=[node("a", allocatable=8)]), plan())
    assert value("gpus.returned", World(), read) is False
    read = read.again(World(nodes=[node("a", allocatable=7)]))
    assert value("gpus.returned", World(), read) is False
    assert value("gpus.returned", World(), read.again(World(nodes=[node("a", allocatable=8)]))) is True


def test_labels_are_compared_without_those_that_change_by_themselves() -> None:
    before = value("node.labels", World(nodes=[node("a", labels={"nvidia.com/gpu.product": "H100", "nvidia.com/gfd.timestamp": "1"})]))
    assert before == value(
        "node.labels", World(nodes=[node("a", labels={"nvidia.com/gpu.product": "H100", "nvidia.com/gfd.timestamp": "2"})])
    )
    assert before != value("node.labels", World(nodes=[node("a", labels={"nvidia.com/gfd.timestamp": "2"})]))


def test_usage_does_not_agree_without_a_queue() -> None:
    queue = {"metadata": {"name": "q", "labels": {GANG_LABEL: "run"}}, "status": {}}
    none: dict[str, Any] = {"kueue.x-k8s.io/workloads": [], "kueue.x-k8s.io/clusterqueues": []}
    one: dict[str, Any] = {**none, "kueue.x-k8s.io/clusterqueues": [queue]}
    assert value("queue.usage.agrees", World(**none)) is False
    assert value("queue.usage.agrees", World(**one)) is True


@pytest.mark.parametrize(("status", "kept"), [(None, False), ((2, 2), True), ((1, 2), False)])
def test_a_budget_is_kept_where_there_is_one(status: tuple[int, int] | None, kept: bool) -> None:
    counts = {"currentHealthy": status[0], "desiredHealthy": status[1]} if status else {}
    found = [{"metadata": {"name": "b", "namespace": CANARIES}, "status": counts}] if status else []
    assert value("budget.kept", World(policy__poddisruptionbudgets=found)) is kept


@pytest.mark.usefixtures("always_read")
def test_other_nodes_are_damaged_when_they_change_or_leave_not_when_they_join() -> None:
    read = Read(World(nodes=[node("a"), node("b"), node("c")]), plan())
    assert value("nodes.others", World(), read) == []
    read = read.again(World(nodes=[node("a", allocatable=0), node("b", cordoned=True), node("d")]))
    assert value("nodes.others", World(), read) == ["b: spec.unschedulable was absent and is true", "c: gone"]


@pytest.mark.parametrize("taken", [True, False])
def test_a_node_that_an_autoscaler_takes_away_is_no_damage(taken: bool) -> None:
    """It marks the node first, by the taint that it is known for."""
    leaving = {**node("b"), "spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}}
    read = Read(World(nodes=[node("a"), node("b")]), plan())
    for nodes in ([node("a"), leaving], [node("a"), *([] if taken else [leaving])]):
        assert value("nodes.others", World(), read) == []
        read = read.again(World(nodes=nodes))
        at, seen = read.memory["nodes.others"]
        read.memory["nodes.others"] = (at - OTHERS_SECONDS_SIMULATED, seen)
    assert value("nodes.others", World(), read) == []


def test_the_fleet_is_not_read_anew_with_every_sample() -> None:
    read = Read(World(nodes=[node("a"), node("b")]), plan())
    assert value("nodes.others", World(), read) == []
    read = read.again(World(nodes=[node("a"), node("b", cordoned=True)]))
    assert value("nodes.others", World(), read) == []
    at, seen = read.memory["nodes.others"]
    read.memory["nodes.others"] = (at - OTHERS_SECONDS_SIMULATED, seen)
    assert value("nodes.others", World(), read) == ["b: spec.unschedulable was absent and is true"]


def test_canaries_have_values_before_there_are_any() -> None:
    world = World(pods=[])
    assert value("canaries.progress", world) == -1
    assert value("canaries.running", world) == 0
    assert value("canaries.seen", world) == {}
    assert value("probe.phase", world) == ""
    assert value("allocations", world) is None  # nobody has asked yet, which is not that nobody holds a device
    assert value("devices.target", world) is None
    assert value("devices.others", world) is None


def test_the_slowest_heartbeat_counts() -> None:
    log = {f"{CANARIES}/pods/one/log": "beat 1\nbeat 12\n", f"{CANARIES}/pods/two/log": "GPU 0: X (UUID: GPU-1)\nbeat 3\n"}
    world = World(log, pods=[canary("one", "a"), canary("two", "a")])
    assert value("canaries.progress", world) == 3
    assert value("canaries.seen", world) == {"two": ["GPU-1"]}


def _member(name: str, on: str, phase: str = "Running", **more: Any) -> dict[str, Any]:
    return canary(name, on, phase=phase, labels={GANG_LABEL: "g"}, annotations={SIZE_ANNOTATION: "2"}, **more)


def test_a_gang_bound_in_part_becomes_overdue() -> None:
    half = World(pods=[_member("g-0", "a"), _member("g-1", "", "Pending")])
    read = Read(half, plan())
    assert value("gangs.bound", half, read) == {"g": 1}
    assert value("gangs.partial", half, read) == ["g"]
    value("gangs.partial.overdue", half, read)
    later = read.again(half)
    later.memory["gangs.partial"]["g"] -= 1.0
    assert value("gangs.partial.overdue", half, later) is True
    whole = read.again(World(pods=[_member("g-0", "a"), _member("g-1", "a")]))
    assert value("gangs.partial.overdue", half, whole) is False
    assert value("gangs.whole", half, whole) == ["g"]


def test_a_gang_is_started_anew_when_none_of_its_members_is_left() -> None:
    world = World(pods=[_member("g-0", "a"), _member("g-1", "a")])
    read = Read(world, plan())
    assert value("gangs.restarted", world, read) == []
    one = read.again(World(pods=[_member("g-0", "a"), _member("g-1", "a", uid="new")]))
    assert value("gangs.restarted", world, one) == []
    both = read.again(World(pods=[_member("g-0", "a", uid="new-0"), _member("g-1", "a", uid="new-1")]))
    assert value("gangs.restarted", world, both) == ["g"]


def _page(*rows: str) -> World:
    exporter = pod("e", "a", gpus=0, namespace="gpu", labels={"app": "exporter"}, meta=made_by("u"))
    return World({"/e:9400/proxy": "\n".join(rows) + "\n"}, pods=[exporter])


@pytest.mark.parametrize("xid", ["DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR"])
def test_metrics_of_the_nodes_own_devices_and_of_others(xid: str) -> None:
    facts = PlanFacts(components={"exporter": EXPORTER}, devices={"a": (Device(uuid="GPU-7", index=0),)})
    page = _page(xid + '{gpu="0",UUID="GPU-7"} 79', 'DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-9"} 40')
    assert value("metrics.uuids", page, facts=facts) == ["GPU-7", "GPU-9"]
    assert value("metrics.foreign", page, facts=facts) == ["GPU-9"]
    assert value("metrics.xids", page, facts=facts) == {"GPU-7": 79}
    assert value("metrics.xids.target", page, facts=facts) == 79
    assert value("metrics.xids.elsewhere", page, facts=facts) == {}
    other = Target(kind="nodes", name="a", uid="uid-a", node="a", facts={"uuid": "GPU-9"})
    assert value("metrics.xids.target", page, read=Read(page, plan(other, facts=facts))) == 0
    assert value("metrics.xids.elsewhere", page, read=Read(page, plan(other, facts=facts))) == {"GPU-7": 79}
    assert value("metrics.answering", World(pods=[]), facts=facts) is False


def test_a_family_or_a_label_that_a_page_lost_is_compared_and_what_comes_with_pods_is_not() -> None:
    facts = PlanFacts(components={"exporter": EXPORTER})

    def labels(row: str) -> dict[Any, Any]:
        found = pages(View.at(Read(_page(row), plan(facts=facts))), plan(facts=facts))  # type: ignore[arg-type]
        return next(iter(found.values())).rows

    before = labels('DCGM_FI_DEV_GPU_TEMP{UUID="GPU-7",Hostname="a"} 40')
    assert before == {("DCGM_FI_DEV_GPU_TEMP", "GPU-7", ""): ["Hostname", "UUID"]}
    assert labels('DCGM_FI_DEV_GPU_TEMP{UUID="GPU-7",Hostname="a",pod="p",namespace="n",container="c"} 50') == before
    assert labels('DCGM_FI_DEV_GPU_TEMP{UUID="GPU-7"} 40') != before
    assert labels('DCGM_FI_DEV_POWER_USAGE{UUID="GPU-7",Hostname="a"} 40') != before


def test_a_page_that_never_changes_is_frozen() -> None:
    facts = PlanFacts(components={"exporter": EXPORTER})
    page = _page('DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-7"} 40')
    read = Read(page, plan(facts=facts))
    assert value("metrics.frozen", page, read) is False
    digest, seen = read.memory["metrics.stale"]
    read.memory["metrics.stale"] = (digest, seen - 5.0)
    assert value("metrics.frozen", page, read.again(page)) is True
    moved = _page('DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-7"} 41')
    assert value("metrics.frozen", page, read.again(moved)) is False


HEALTHY = ["GPU-1", "GPU-2"]


def listing(pods: dict[str, list[str]] | None = None, healthy: list[str] | None = None, resource: str = "nvidia.com/gpu") -> str:
    """A line of the reader's log, as the API server stamps it. Without ``healthy`` the reader asks for held devices only."""
    found: dict[str, Any] = {
        "pods": [
            {"namespace": CANARIES, "name": name, "containers": [{"name": "probe", "devices": [{"resource": resource, "ids": ids}]}]}
            for name, ids in (pods or {}).items()
        ]
    }
    if healthy is not None:
        found["allocatable"] = [{"resource": resource, "ids": healthy}, {"resource": "rdma/x", "ids": ["mlx5_0"]}]
    return f"2026-01-01T00:00:00.{next(_STAMPS):09}Z {json.dumps(found)}\n"


_STAMPS = itertools.count()


def reader(phase: str = "Running", **more: Any) -> dict[str, Any]:
    return pod("r", "a", gpus=0, namespace=NAMESPACE, labels={CANARY_LABEL: "reader"}, phase=phase, **more)


def kubelet(reported: str, *pods: dict[str, Any], log: str = "GPU 0: X (UUID: GPU-1)\nbeat 1\n", **more: Any) -> World:
    """A node whose kubelet lists something, with the reader and a worker on it."""
    texts = {f"{CANARIES}/pods/w/log": log, f"{NAMESPACE}/pods/r/log": reported}
    return World(texts, pods=[canary("w", "a"), *(pods or (reader(),))], nodes=[node("a", **more)])


def known_for_long(read: Read) -> None:
    for uid in read.memory["allocations.first"]:
        read.memory["allocations.first"][uid] -= 10.0


def test_allocations_join_requests_ids_and_what_is_seen() -> None:
    world = kubelet(listing({"w": ["GPU-1"]}, HEALTHY), log="GPU 0: X (UUID: GPU-2)\nbeat 1\n")
    read = Read(world, plan())
    assert value("allocations", world, read)["pods"] == {}  # seen for too short a time
    known_for_long(read)
    found = value("allocations", world, read.again(world))
    assert found["pods"]["uid-w"]["ids"] == {"nvidia.com/gpu": ["GPU-1"]}
    assert found["pods"]["uid-w"]["seen"] == ["GPU-2"]
    assert (found["inventory"], found["counted"]) == ({"a": {"nvidia.com/gpu": HEALTHY}}, {})

    snapshot = AllocationSnapshot(t=0.0, phase="before", allocations=msgspec.convert(found, Allocations))
    assert [one.invariant for one in check_invariants([snapshot]) if one.breaches] == ["seen"]


def test_a_pod_that_the_kubelet_lists_no_more_counts_once_it_has_been_seen_running_for_long() -> None:
    listed, gone = kubelet(listing({"w": ["GPU-1"]}, HEALTHY)), kubelet(listing({}, HEALTHY))
    read = Read(listed, plan())
    value("allocations", listed, read)
    known_for_long(read)
    assert set(value("allocations", listed, read.again(listed))["pods"]) == {"uid-w"}
    assert value("allocations", gone, read.again(gone))["pods"] == {}
    read.memory["allocations.fewer"]["uid-w"] -= 10.0
    assert value("allocations", gone, read.again(gone))["pods"]["uid-w"]["ids"] == {}


def test_devices_are_counted_where_the_reader_tells_no_ids() -> None:
    world = kubelet(listing({"w": ["GPU-1"]}), gpus=8, allocatable=7)
    found = value("allocations", world)
    assert (found["inventory"], found["counted"]) == ({}, {"a": {"nvidia.com/gpu": 7}})
    with pytest.raises(NoData, match="does not tell the ids"):
        value("devices.others", world)


@pytest.mark.parametrize(
    ("reported", "pods", "why"),
    [
        (listing(healthy=HEALTHY), (canary("x", "b"),), "is gone"),
        (listing(healthy=HEALTHY), (reader("Failed"),), "no longer runs \\(phase Failed\\)"),
        (listing(healthy=HEALTHY), (reader(meta={"deletionTimestamp": "2026-01-01T00:00:00Z"}),), "no longer runs"),
        ("", (), "has not listed anything yet"),
        ("2026-01-01T00:00:00Z kubelet-podresources: dial unix: connection refused\n", (), "r: "),
    ],
    ids=["gone", "failed", "going", "silent", "refused"],
)
@pytest.mark.parametrize("name", ["allocations", "devices.target", "devices.others"])
def test_a_reader_that_dies_is_no_data_and_not_an_empty_ledger(name: str, reported: str, pods: tuple[Any, ...], why: str) -> None:
    healthy = kubelet(listing(healthy=["GPU-7"]))
    read = Read(healthy, plan())
    assert value(name, healthy, read) is not None
    with pytest.raises(NoData, match=why):
        value(name, healthy, read.again(kubelet(reported, *pods)))


def test_a_reader_that_says_nothing_new_is_no_data() -> None:
    world = kubelet(listing(healthy=HEALTHY))
    read = Read(world, plan())
    assert value("allocations", world, read)["inventory"]
    stamp, first = read.memory["podresources.last"]["uid-r"]
    read.memory["podresources.last"]["uid-r"] = (stamp, first - 60.0)
    with pytest.raises(NoData, match="nothing new for 60 s"):
        value("allocations", world, read.again(world))
    assert value("allocations", world, read.again(kubelet(listing(healthy=HEALTHY))))["inventory"]


def test_which_device_is_out_and_which_stay() -> None:
    full = kubelet(listing(healthy=["GPU-7::0", "GPU-7::1", "GPU-70", "GPU-2"]))
    read = Read(full, plan())
    assert value("devices.target", full, read) == ["GPU-7::0", "GPU-7::1"]
    assert value("devices.others", full, read) == ["GPU-2", "GPU-70"]
    one = kubelet(listing(healthy=["GPU-7::0", "GPU-70", "GPU-2"]))
    assert value("devices.target", full, read.again(one)) == ["GPU-7::0"]
    gone = kubelet(listing(healthy=["GPU-70", "GPU-2"]))
    assert value("devices.target", full, read.again(gone)) == []


def test_a_device_that_was_never_offered_cannot_be_seen_to_leave() -> None:
    world = kubelet(listing(healthy=["0", "1"]))
    with pytest.raises(NoData, match="no id of GPU-7 was ever offered, among 2"):
        value("devices.target", world)


@pytest.mark.parametrize("facts", [PlanFacts(), PlanFacts(device_class="gpu.nvidia.com")], ids=["counted", "claimed"])
@each_row
def test_every_signal_stands_hostile_objects(hostile: dict[str, Any], facts: PlanFacts) -> None:
    """Half-written objects give a value or no data; they never raise anything else."""
    item = {"metadata": {"name": "a", "uid": "u", "labels": None}, "spec": {"nodeName": "a"}, **hostile}
    keys = ("nodes", "pods", "apps/daemonsets", "nvidia.com/clusterpolicies", CLAIMS, SLICES)
    lists = {key.replace("/", "__"): [item] for key in keys}
    for name, signal in SIGNALS.items():
        try:
            stated = signal(Read(World(**lists), plan(facts=facts)))  # type: ignore[arg-type]
            assert msgspec.json.decode(msgspec.json.encode(stated)) == stated
        except NoData:
            continue
        except Exception as error:
            pytest.fail(f"{name}: {type(error).__name__}: {error}")


PLUGIN = installed()


def agent(on: str, **more: Any) -> Json:
    return pod(f"plugin-{on}", on, gpus=0, namespace="gpu", labels={"app": "plugin"}, meta=made_by("u"), **more)


def of_agents(pods: list[Json], nodes: list[Json] | None = None) -> Any:
    world = World(pods=pods, nodes=nodes or [node("a"), node("b", gpus=4), node("z")])
    return SIGNALS["elsewhere.device-plugin"](Read(world, plan(facts=PlanFacts(components={"device-plugin": PLUGIN}))))  # type: ignore[arg-type]


def test_every_other_node_with_the_agent_is_reported_and_the_target_is_not() -> None:
    eight, four = {"nvidia.com/gpu": 8}, {"nvidia.com/gpu": 4}
    assert of_agents([agent("a"), agent("b"), agent("z", restarts=1)]) == {
        "b": ["uid-plugin-b 0", True, four, four],
        "z": ["uid-plugin-z 1", True, eight, eight],
    }


@each_row
def test_what_happens_to_another_node_shows(pods: list[Json], nodes: list[Json] | None) -> None:
    before = of_agents([agent("a"), agent("b"), agent("z")])
    assert of_agents(pods, nodes).get("b") != before["b"]


def test_without_the_agent_on_the_untouched_node_nothing_is_known() -> None:
    with pytest.raises(NoData, match="no pod on z"):
        of_agents([agent("a"), agent("b")])


def test_a_node_that_joins_changes_nothing_of_the_agents() -> None:
    def world(*names: str, ready: int, desired: int) -> World:
        status = {"desiredNumberScheduled": desired, "numberReady": ready, "updatedNumberScheduled": desired}
        plugin = {"metadata": {"name": "plugin", "namespace": "gpu", "uid": "u"}, "status": status}
        nodes = [node(name, ready="True" if name in "ab" else "False", taints=JOINING if name == "new" else []) for name in names]
        return World(nodes=nodes, pods=[agent("a"), agent("b"), *late], apps__daemonsets=[plugin])

    late: list[Json] = []
    names = ("agents.pods", "daemonsets", "daemonsets.settled", "nodes.quarantined")
    read = Read(world("a", "b", ready=2, desired=2), plan(facts=PlanFacts(components={"device-plugin": PLUGIN})))
    before = [SIGNALS[name](read) for name in names]  # type: ignore[arg-type]
    assert before[2:] == [True, []]
    read = read.again(world("a", "b", "new", ready=2, desired=3))
    assert [SIGNALS[name](read) for name in names] == before  # type: ignore[arg-type]
    late.append(agent("new"))
    read = read.again(world("a", "b", "new", ready=3, desired=3))
    assert [SIGNALS[name](read) for name in names] == before  # type: ignore[arg-type]
    read = read.again(world("a", "b", "new", ready=2, desired=3))  # the new one is ready, one of the others is not
    assert SIGNALS["daemonsets.settled"](read) is False  # type: ignore[arg-type]


def test_agents_come_and_go_with_their_nodes() -> None:
    """A list of nodes may be older than the list of pods that is read after it, and a node that goes takes its agents along."""
    facts = PlanFacts(components={"device-plugin": PLUGIN})
    read = Read(World(nodes=[node("a"), node("b")], pods=[agent("a"), agent("b")]), plan(facts=facts))
    before = SIGNALS["agents.pods"](read)  # type: ignore[arg-type]
    for nodes, pods in (([node("a"), node("b")], [agent("a"), agent("b"), agent("new")]), ([node("a")], [agent("a")])):
        read = read.again(World(nodes=nodes, pods=pods))
        assert SIGNALS["agents.pods"](read) == before  # type: ignore[arg-type]
    read = read.again(World(nodes=[node("a"), node("b")], pods=[agent("a")]))
    assert SIGNALS["agents.pods"](read) != before  # type: ignore[arg-type]


def later(read: Read, world: World) -> Read:
    """The next reading, after as long as the fleet is not read anew."""
    for name, kept in read.memory.items():
        if isinstance(kept, tuple) and isinstance(kept[0], float):
            read.memory[name] = (kept[0] - OTHERS_SECONDS_SIMULATED, kept[1])
    return read.again(world)


LEAVING = [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]


@pytest.mark.parametrize("taken", [LEAVING, []], ids=["by an autoscaler", "by nobody known"])
def test_what_goes_with_a_node_that_an_autoscaler_takes_away_is_not_the_experiments(taken: list[Json]) -> None:
    def world(*names: str, taints: list[Json]) -> World:
        status = dict.fromkeys(("desiredNumberScheduled", "numberReady", "updatedNumberScheduled"), len(names))
        plugin = {"metadata": {"name": "plugin", "namespace": "gpu", "uid": "u"}, "status": status}
        nodes = [node(name, taints=taints if name == "b" else []) for name in names]
        pods = [one for name in names for one in (agent(name), pod(f"job-{name}", name))]
        return World(nodes=nodes, pods=pods, apps__daemonsets=[plugin])

    signals = ("elsewhere.device-plugin", "daemonsets", "nodes.others", "pods.others", "harm.nodes", "harm.pods", "nodes.quarantined")
    facts = PlanFacts(components={"device-plugin": PLUGIN})
    read = Read(world("a", "b", "z", taints=[]), plan(facts=facts))
    seen = [[SIGNALS[name](read) for name in signals]]  # type: ignore[arg-type]
    for now in (world("a", "b", "z", taints=taken), world("a", "z", taints=[])):
        read = later(read, now)
        seen.append([SIGNALS[name](read) for name in signals])  # type: ignore[arg-type]
    if taken:
        assert seen[2] == seen[0]
    else:
        assert not [name for name, before, after in zip(signals[:-1], seen[0], seen[2], strict=False) if before == after]


@each_row
def test_what_takes_another_node_out_of_service(now: Json, found: list[str]) -> None:
    read = Read(World(nodes=[node("a"), node("b")]), plan())
    assert value("harm.nodes", World(), read) == []
    assert value("harm.nodes", World(), later(read, World(nodes=[node("a", ready="False"), now]))) == found


def test_a_pod_elsewhere_whose_device_becomes_unhealthy_is_hurt() -> None:
    def world(health: str) -> World:
        found = pod("job", "b")
        held = {"allocatedResourcesStatus": [{"resources": [{"resourceID": "GPU-1", "health": health}]}]}
        found["status"]["containerStatuses"] = [held]
        return World(nodes=[node("a"), node("b")], pods=[found])

    read = Read(world("Healthy"), plan())
    assert value("harm.pods", World(), read) == []
    assert value("harm.pods", World(), later(read, world("Unhealthy"))) == ["team/job holds GPU-1, which is Unhealthy"]
    assert value("harm.pods", World(), Read(world("Unhealthy"), plan())) == []  # as it was before anything was done


JOINING = [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


def test_the_owners_consent_is_no_label_that_a_new_node_must_have() -> None:
    labels = {"gpu-conformance.io/chaos": "allowed", "nvidia.com/gpu.product": "H100"}
    target = Target(kind="nodes", name="a", uid="first", node="a", facts={"labels": labels, "taints": []})
    for kept, anew in ((["nvidia.com/gpu.product"], True), ([], False)):
        again = node("a", labels={key: labels[key] for key in kept})
        assert SIGNALS["node.registered.anew"](Read(World(nodes=[again]), plan(target))) is anew  # type: ignore[arg-type]


def beating(count: int) -> World:
    return World({f"{CANARIES}/pods/one/log": f"beat {count}\n"}, pods=[canary("one", "a")])


def test_seconds_since_the_last_beat_are_counted_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = 100.0
    monkeypatch.setattr("chaos.observe.signals.pace.time.monotonic", lambda: moment)
    read = Read(beating(1), plan())
    assert SIGNALS["canaries.stalled"](read) == 0.0  # type: ignore[arg-type]
    moment = 103.0
    read = read.again(beating(1))
    assert SIGNALS["canaries.stalled"](read) == 3.0  # type: ignore[arg-type]
    moment = 104.0
    read = read.again(beating(2))
    assert SIGNALS["canaries.stalled"](read) == 0.0  # type: ignore[arg-type]


def test_where_a_worker_has_to_go_on_it_may_not_pause_until_the_undo() -> None:
    found = 0
    for experiment in EXPERIMENTS.values():
        expected = experiment.extension.expect
        if not any(one.mode == "eventually" and "canaries.progress" in signals_of(one.condition) for one in expected):
            continue
        found += 1
        if "stop_kubelet" in experiment.functions:
            continue  # nobody can read a worker's log meanwhile
        assert any(
            one.mode == "always" and one.until == "undo" and set(signals_of(one.condition)) == {"canaries.stalled"} for one in expected
        ), experiment.id
    assert found


def logging(text: str) -> World:
    return World({f"{CANARIES}/pods/one/log": text}, pods=[canary("one", "a")])


LISTING = "GPU 0: NVIDIA H100 (UUID: GPU-1)\n"


@pytest.mark.parametrize("text", ["", "unable to retrieve container logs for containerd://1a2b"])
def test_a_log_that_cannot_be_had_is_no_worker_without_devices_or_beats(text: str) -> None:
    """What a kubelet answers while its container runtime restarts. Before its first line, a worker lists nothing yet."""
    names = ("canaries.seen", "canaries.progress", "canaries.stalled", "canaries.pause")
    read = Read(logging(text), plan())
    assert [SIGNALS[name](read) for name in names[:2]] == [{}, -1]  # type: ignore[arg-type]
    read = read.again(logging(f"{LISTING}beat 1\n"))
    assert [SIGNALS[name](read) for name in names[:2]] == [{"one": ["GPU-1"]}, 1]  # type: ignore[arg-type]
    for name in names:
        with pytest.raises(NoData, match="the log of one holds no"):
            SIGNALS[name](read.again(logging(text)))  # type: ignore[arg-type]
    failed = read.again(logging(f"{LISTING}beat 1\ndevices cannot be listed\nbeat 2\n"))
    assert [SIGNALS[name](failed) for name in names[:2]] == [{}, 2]  # type: ignore[arg-type]


def test_how_long_a_worker_took_to_start_and_has_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("chaos.observe.signals.pace.time.monotonic", lambda: clock[0])
    read = Read(World(pods=[canary("one", "a", phase="Pending")]), plan())
    assert SIGNALS["canaries.start"](read) == 0.0  # type: ignore[arg-type]
    clock[0] = 104.0  # one that is still being prepared
    assert SIGNALS["canaries.start"](read) == 4.0  # type: ignore[arg-type]
    steps = [(112.0, "", 12.0, 0.0), (118.0, "beat 1\n", 12.0, 0.0), (121.0, "beat 1\n", 12.0, 3.0), (122.0, "beat 2\n", 12.0, 3.0)]
    for clock[0], log, start, pause in steps:  # before its first beat, it does not pause
        read = read.again(World({"/pods/one/log": log}, pods=[canary("one", "a")]))
        assert [SIGNALS[name](read) for name in ("canaries.start", "canaries.pause")] == [start, pause]  # type: ignore[arg-type]
