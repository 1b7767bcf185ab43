"""Every scenario builds, and what it builds agrees with itself."""

import asyncio
from collections import Counter, defaultdict
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
import pytest

from fixtures.simulator.api.objects import Json
from fixtures.simulator.builder import build, hardware_of
from fixtures.simulator.config.hardware import Sharing
from fixtures.simulator.config.scenario import ScenarioError, load_scenario, parse_simulate, scenario_names
from fixtures.simulator.dra.claims import claim_names
from fixtures.simulator.pods.amounts import thousandths
from fixtures.simulator.simulated_cluster import SimulatedCluster

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@cache
def objects(name: str) -> list[Json]:
    return build(load_scenario(name), now=NOW)


def of_kind(name: str, kind: str) -> list[Json]:
    return [item for item in objects(name) if item["kind"] == kind]


def bound(pods: list[Json]) -> list[Json]:
    """Pods that stand on a node: all but those that wait for one (``test_waiting.py``)."""
    assert all("nodeName" in pod["spec"] or pod["status"]["phase"] == "Pending" for pod in pods)
    return [pod for pod in pods if "nodeName" in pod["spec"]]


def held(pods: list[Json]) -> dict[str, Counter[str]]:
    """Requests per node of bound pods that are not done."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in bound(pods):
        if pod["status"]["phase"] != "Succeeded":
            for item in pod["spec"]["containers"]:
                for resource, quantity in item["resources"].get("requests", {}).items():
                    sums[pod["spec"]["nodeName"]][resource] += thousandths(quantity)
    return sums


every_scenario = pytest.mark.parametrize("name", scenario_names())


@every_scenario
def test_objects_are_unique_and_encodable(name: str) -> None:
    identities = Counter((o["apiVersion"], o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]) for o in objects(name))
    assert [identity for identity, count in identities.items() if count > 1] == []
    uids = Counter(o["metadata"]["uid"] for o in objects(name))
    kinds = {o["metadata"]["uid"]: o for o in objects(name)}
    assert [kinds[uid]["kind"] for uid, count in uids.items() if count > 1] == []
    assert msgspec.json.decode(msgspec.json.encode(objects(name))) == objects(name)


@every_scenario
def test_owners_exist_and_match_by_uid(name: str) -> None:
    known = {o["metadata"]["uid"]: o for o in objects(name)}
    owned = 0
    for item in objects(name):
        for reference in item["metadata"].get("ownerReferences", ()):
            owner = known[reference["uid"]]
            assert (owner["kind"], owner["metadata"]["name"], owner["apiVersion"]) == (
                reference["kind"],
                reference["name"],
                reference["apiVersion"],
            )
            assert owner["metadata"].get("namespace") in (None, item["metadata"].get("namespace"))
            owned += 1
    assert owned > 20


@every_scenario
def test_pods_hold_at_most_what_their_node_can_allocate(name: str) -> None:
    nodes = {node["metadata"]["name"]: node for node in of_kind(name, "Node")}
    sums = held(of_kind(name, "Pod"))
    devices = 0
    for node, amounts in sums.items():
        allocatable = nodes[node]["status"]["allocatable"]
        for resource, value in amounts.items():
            of_slices = 4000 if (name, resource) == ("dra-extended", "nvidia.com/gpu") and node.startswith("h100-") else 0
            assert value <= thousandths(allocatable.get(resource, "0")) + of_slices, (node, resource)
            devices += resource.startswith(("nvidia.com/", "amd.com/", "xilinx.com/"))
    devices += len(of_kind(name, "ResourceClaim"))
    assert devices > 0 or name == "idle-fabric"


@every_scenario
def test_device_resources_are_what_the_hardware_gives(name: str) -> None:
    hardware = hardware_of(load_scenario(name))
    for node in of_kind(name, "Node"):
        units = hardware[node["metadata"]["name"]].units() if node["metadata"]["name"] in hardware else {}
        offered = {key: int(value) for key, value in node["status"]["capacity"].items() if "/" in key}
        assert offered == {resource: len(found) for resource, found in units.items()}
        assert all(len({unit.id for unit in found}) == len(found) for found in units.values())


@every_scenario
def test_daemon_sets_count_their_pods(name: str) -> None:
    owners = Counter(ref["uid"] for pod in of_kind(name, "Pod") for ref in pod["metadata"].get("ownerReferences", ()))
    for daemon_set in of_kind(name, "DaemonSet"):
        status, count = daemon_set["status"], owners[daemon_set["metadata"]["uid"]]
        assert {status[key] for key in ("desiredNumberScheduled", "numberReady", "numberAvailable", "updatedNumberScheduled")} == {count}
        assert daemon_set["metadata"]["generation"] == status["observedGeneration"]
    for replica_set in of_kind(name, "ReplicaSet"):
        assert replica_set["spec"]["replicas"] == replica_set["status"]["readyReplicas"] == owners[replica_set["metadata"]["uid"]]


@pytest.mark.parametrize("name", ["kueue-inference", "mig-rdma"])
def test_queues_count_every_resource_of_what_they_admitted_and_flavors_select_nodes(name: str) -> None:
    admitted: dict[str, Counter[str]] = defaultdict(Counter)
    for workload in (item for item in of_kind(name, "Workload") if item["apiVersion"].startswith("kueue")):
        for assignment in workload["status"]["admission"]["podSetAssignments"]:
            for resource, quantity in assignment["resourceUsage"].items():
                admitted[workload["status"]["admission"]["clusterQueue"]][resource] += thousandths(quantity)
    assert admitted
    for queue in of_kind(name, "ClusterQueue"):
        (usage_of,) = queue["status"]["flavorsUsage"]
        counted = {row["name"]: thousandths(row["total"]) for row in usage_of["resources"]}
        assert counted == dict(admitted[queue["metadata"]["name"]])
    nodes = [node["metadata"]["labels"].items() for node in of_kind(name, "Node")]
    for flavor in of_kind(name, "ResourceFlavor"):
        assert any(flavor["spec"]["nodeLabels"].items() <= labels for labels in nodes), flavor["metadata"]["name"]


def test_a_fleet_has_the_nodes_and_pods_that_were_asked_for() -> None:
    scenario, _ = parse_simulate("fleet:nodes=60")
    built = build(scenario, now=NOW)
    gpu = {item["metadata"]["name"] for item in built if item["kind"] == "Node" and "nvidia.com/gpu" in item["status"]["capacity"]}
    assert len(gpu) == 60
    pods = [item for item in built if item["kind"] == "Pod" and item["spec"]["nodeName"] in gpu]
    assert len(pods) == 600
    sizes = [len(msgspec.json.encode(item)) for item in built if item["kind"] == "Node" and item["metadata"]["name"] in gpu]
    assert 8000 < sum(sizes) / len(sizes) < 12000
    sizes = [len(msgspec.json.encode(pod)) for pod in pods]
    assert 3500 < sum(sizes) / len(sizes) < 8000


@pytest.mark.test_all
def test_names_of_pods_never_collide_in_a_large_fleet() -> None:
    scenario, _ = parse_simulate("fleet:nodes=1000")
    built = build(scenario, now=NOW)
    names = Counter((item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]) for item in built)
    assert [name for name, count in names.items() if count > 1] == []
    assert len({item["metadata"]["uid"] for item in built if item["kind"] == "Pod"}) > 10_000


@pytest.mark.parametrize(
    ("pools", "workload", "words"),
    [
        ([{"dra": True, "sharing": Sharing(strategy="time-slicing", replicas=2)}], {}, "shares devices by draShares"),
        ([{"dra": True}], {"kind": "Deployment"}, "what claims devices is a Job or StatefulSet or Pod"),
        ([{"dra": True}], {"claims": 9}, "claims more devices"),
    ],
    ids=["sharing", "a Deployment", "too many devices"],
)
def test_what_is_not_modelled_of_claims_is_refused(pools: list[dict[str, Any]], workload: dict[str, Any], words: str) -> None:
    known = load_scenario("dra")
    claiming = msgspec.structs.replace(known.tenants[0].workloads[0], **workload)
    scenario = msgspec.structs.replace(
        known,
        pools=[*(msgspec.structs.replace(known.pools[0], **more) for more in pools), *known.pools[1:]],
        tenants=[msgspec.structs.replace(known.tenants[0], workloads=[claiming])],
    )
    with pytest.raises(ScenarioError, match=words):
        build(scenario)


@pytest.mark.parametrize("name", ["dra", "dra-extended", "dra-shared"])
def test_claims_of_running_pods_hold_devices_of_their_nodes_each_once(name: str) -> None:
    pods = {pod["metadata"]["uid"]: pod for pod in of_kind(name, "Pod")}
    published = {
        (spec["driver"], spec["pool"]["name"], device["name"])
        for spec in (item["spec"] for item in of_kind(name, "ResourceSlice"))
        for device in spec["devices"]
    }
    given = []
    for claim in of_kind(name, "ResourceClaim"):
        (consumer,) = claim["status"]["reservedFor"]
        pod = pods[consumer["uid"]]
        assert claim["metadata"]["name"] in claim_names(pod).values()
        results = claim["status"]["allocation"]["devices"]["results"]
        assert {result["pool"] for result in results} == {pod["spec"]["nodeName"]}
        given += [(result["driver"], result["pool"], result["device"]) for result in results]
    assert given
    assert len(set(given)) == len(given)
    assert set(given) < published


# -- a built cluster is settled: with every program running beside it, nothing in it changes ---------

WINDOW = 0.8  # seconds in which programs list, adopt and would act
RENEWED = {"coordination.k8s.io/leases"}


async def changes(name: str) -> tuple[list[str], int]:
    scenario, defects = parse_simulate(name)
    cluster = SimulatedCluster(scenario, defects)
    keys = sorted({resource.key for resource in cluster.store.registry if resource.key not in RENEWED})
    before = {key: {id(entry): entry.name for entry in cluster.store.entries(key)} for key in keys}
    await cluster.start()
    try:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(cluster.failure(), WINDOW)
        changed = []
        for key in keys:
            after = {id(entry): entry.name for entry in cluster.store.entries(key)}
            changed += [
                f"{key} {name}" for entry, name in {**before[key], **after}.items() if entry not in before[key] or entry not in after
            ]
        return changed, sum(map(len, before.values()))
    finally:
        await cluster.stop()


@pytest.mark.parametrize("name", scenario_names())
def test_programs_leave_a_settled_cluster_alone(name: str) -> None:
    changed, total = asyncio.run(changes(name))
    assert changed == []
    assert total > 80
