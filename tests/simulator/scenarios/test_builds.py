"""Every scenario builds, and what it builds agrees with itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import msgspec
import pytest
import yaml

from conformance.outputs.node_labels import advertisement, inconsistencies
from conformance.policy.policy_file import build_policy
from fixtures.kubernetes.podsecurity import evaluate
from fixtures.kubernetes.podsecurity.standards import Level
from fixtures.simulator.admission import usage
from fixtures.simulator.api.objects import Json
from fixtures.simulator.builder import build, hardware_of
from fixtures.simulator.config.hardware import Sharing
from fixtures.simulator.config.scenario import ScenarioError, load_scenario, parse_simulate, scenario_names
from fixtures.simulator.dra.claims import claim_names
from fixtures.simulator.dra.devices import DRIVER
from fixtures.simulator.pods.amounts import thousandths
from fixtures.simulator.pods.taints import untolerated

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@cache
def objects(name: str) -> list[Json]:
    return build(load_scenario(name), now=NOW)


def of_kind(name: str, kind: str) -> list[Json]:
    return [item for item in objects(name) if item["kind"] == kind]


def by_claim(name: str) -> set[str]:
    """The nodes that offer their devices through a DRA driver."""
    return {node for node, hardware in hardware_of(load_scenario(name)).items() if hardware.dra}


def tenant_pods(name: str) -> list[Json]:
    tenants = {tenant.namespace for tenant in load_scenario(name).tenants}
    return [pod for pod in of_kind(name, "Pod") if pod["metadata"]["namespace"] in tenants]


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


def templates(item: object) -> Iterator[Json]:
    """Every pod template inside an object, custom resources included."""
    if isinstance(item, dict):
        if isinstance(item.get("spec"), dict) and "containers" in item["spec"] and "metadata" in item:
            yield item
        for child in item.values():
            yield from templates(child)
    elif isinstance(item, list):
        for child in item:
            yield from templates(child)


every_scenario = pytest.mark.parametrize("name", scenario_names())


def test_the_scenarios_of_the_catalogue_are_there() -> None:
    expected = {
        "healthy",
        "mig-single",
        "mig-mixed",
        "time-slicing",
        "mps",
        "mixed-skus",
        "paired-skus",
        "rdma-training",
        "kueue-inference",
        "amd",
        "fleet",
        "mig-rdma",
        "dra",
    }
    assert expected <= set(scenario_names())


@every_scenario
def test_names_are_those_of_the_files_and_builds_are_repeatable(name: str) -> None:
    assert load_scenario(name).name == name
    assert build(load_scenario(name), now=NOW) == objects(name)


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
    assert owned > 50


@every_scenario
def test_every_namespaced_object_has_a_namespace_that_exists(name: str) -> None:
    namespaces = {item["metadata"]["name"] for item in of_kind(name, "Namespace")}
    assert {item["metadata"]["namespace"] for item in objects(name) if "namespace" in item["metadata"]} <= namespaces


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
            devices += resource.startswith(("nvidia.com/", "amd.com/"))
    devices += len(of_kind(name, "ResourceClaim"))
    assert devices > 0


@every_scenario
def test_device_pods_ask_for_what_they_are_limited_to(name: str) -> None:
    judged = 0
    for item in objects(name):
        for template in templates(item):
            for container in template["spec"]["containers"]:
                resources = container["resources"]
                if any("/" in key for key in resources.get("limits", {})) or resources.get("claims"):
                    assert resources["limits"] == resources["requests"]
                    assert {"cpu", "memory"} <= set(resources["requests"])
                    judged += 1
    assert judged > 0


@every_scenario
def test_pods_tolerate_their_node_and_fit_its_selector(name: str) -> None:
    nodes = {node["metadata"]["name"]: node for node in of_kind(name, "Node")}
    for pod in bound(of_kind(name, "Pod")):
        node = nodes[pod["spec"]["nodeName"]]
        if "kubernetes.io/config.mirror" not in pod["metadata"].get("annotations", {}):
            assert untolerated(node["spec"].get("taints", ()), pod["spec"].get("tolerations", ())) is None, pod["metadata"]["name"]
        assert pod["spec"].get("nodeSelector", {}).items() <= node["metadata"]["labels"].items()
        terms = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
        for term in terms.get("nodeSelectorTerms", ()):
            for expression in term.get("matchExpressions", ()):
                assert node["metadata"]["labels"][expression["key"]] in expression["values"]
            for field in term.get("matchFields", ()):
                assert field["values"] == [node["metadata"]["name"]]


@every_scenario
def test_only_device_pods_of_tenants_stand_on_accelerator_nodes_and_none_tolerates_everything(name: str) -> None:
    fences = {taint["key"] for pool in load_scenario(name).pools for taint in pool.taints}
    for pod in tenant_pods(name):
        keys = {toleration.get("key") for toleration in pod["spec"].get("tolerations", ())}
        assert None not in keys
        assert {key for key in keys if not str(key).startswith("node.kubernetes.io/")} <= fences


@every_scenario
def test_device_resources_are_what_the_hardware_gives(name: str) -> None:
    hardware = hardware_of(load_scenario(name))
    for node in of_kind(name, "Node"):
        units = hardware[node["metadata"]["name"]].units() if node["metadata"]["name"] in hardware else {}
        offered = {key: int(value) for key, value in node["status"]["capacity"].items() if "/" in key}
        assert offered == {resource: len(found) for resource, found in units.items()}
        assert all(len({unit.id for unit in found}) == len(found) for found in units.values())


@every_scenario
def test_labels_and_capacity_of_gpu_nodes_agree_by_the_plugin_s_arithmetic(name: str) -> None:
    claimed = by_claim(name)
    for node in of_kind(name, "Node"):
        labels, status = node["metadata"]["labels"], node["status"]
        if node["metadata"]["name"] in claimed:  # no plugin: what the labels count is in the node's slice and not in its capacity
            count = labels.get("nvidia.com/gpu.count", "0")
            specs = [item["spec"] for item in of_kind(name, "ResourceSlice")]
            slices = [spec for spec in specs if (spec["driver"], spec["nodeName"]) == (DRIVER, node["metadata"]["name"])]
            own = [device["attributes"] for spec in slices for device in spec["devices"]]
            assert len({text["string"] for body in own if (text := body.get("parentUUID", body["uuid"]))}) == int(count)
            continue
        assert inconsistencies(advertisement(labels, status["capacity"], status["allocatable"])) == [], node["metadata"]["name"]


@every_scenario
def test_daemon_sets_count_their_pods(name: str) -> None:
    owners = Counter(ref["uid"] for pod in of_kind(name, "Pod") for ref in pod["metadata"].get("ownerReferences", ()))
    for daemon_set in of_kind(name, "DaemonSet"):
        status, count = daemon_set["status"], owners[daemon_set["metadata"]["uid"]]
        assert {status[key] for key in ("desiredNumberScheduled", "numberReady", "numberAvailable", "updatedNumberScheduled")} == {count}
        assert daemon_set["metadata"]["generation"] == status["observedGeneration"]
    for replica_set in of_kind(name, "ReplicaSet"):
        assert replica_set["spec"]["replicas"] == replica_set["status"]["readyReplicas"] == owners[replica_set["metadata"]["uid"]]


@every_scenario
def test_selectors_select_their_own_template(name: str) -> None:
    for item in objects(name):
        if item["kind"] in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"):
            selector = item["spec"]["selector"]["matchLabels"]
            assert selector
            assert selector.items() <= item["spec"]["template"]["metadata"]["labels"].items(), item["metadata"]["name"]


@every_scenario
def test_quota_usage_is_what_the_admission_counts(name: str) -> None:
    quotas = of_kind(name, "ResourceQuota")
    assert quotas
    for quota in quotas:
        pods = [pod for pod in of_kind(name, "Pod") if pod["metadata"]["namespace"] == quota["metadata"]["namespace"]]
        claims = [item for item in of_kind(name, "ResourceClaim") if item["metadata"]["namespace"] == quota["metadata"]["namespace"]]
        asked = [request["exactly"] for claim in claims for request in claim["spec"]["devices"]["requests"]]
        devices: Counter[str] = Counter()
        for one in asked:
            devices[f"{one['deviceClassName']}.deviceclass.resource.k8s.io/devices"] += one["count"]
        counted = {**usage(quota, pods), **{resource: str(count) for resource, count in devices.items()}}
        for resource, hard in quota["status"]["hard"].items():
            used = quota["status"]["used"][resource]
            assert thousandths(used) <= thousandths(hard)
            assert used == counted[resource], resource


@every_scenario
def test_tenants_are_restricted_and_satisfy_it(name: str) -> None:
    namespaces = {item["metadata"]["name"]: item["metadata"]["labels"] for item in of_kind(name, "Namespace")}
    judged = 0
    for tenant in load_scenario(name).tenants:
        labels = namespaces[tenant.namespace]
        for mode in ("enforce", "audit", "warn"):
            assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"
            assert labels[f"pod-security.kubernetes.io/{mode}-version"] == "v1.37"
        for item in objects(name):
            if item["metadata"].get("namespace") == tenant.namespace:
                for template in templates(item):
                    assert evaluate(template["spec"], {}, Level.RESTRICTED, "v1.37") == [], item["metadata"]["name"]
                    judged += 1
    assert judged > 0


@every_scenario
def test_every_accelerator_node_has_every_agent(name: str) -> None:
    pods = {
        (ref["name"], pod["spec"]["nodeName"]) for pod in bound(of_kind(name, "Pod")) for ref in pod["metadata"].get("ownerReferences", ())
    }
    vendor = "amd" if name == "amd" else "nvidia"
    agents = {
        "nvidia": ("nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-dcgm-exporter", "nvidia-operator-validator"),
        "amd": ("default-device-plugin", "default-node-labeller", "default-metrics-exporter"),
    }[vendor]
    nodes = [node for node, hardware in hardware_of(load_scenario(name)).items() if hardware.gpus]
    claimed = by_claim(name)
    assert nodes
    for node in nodes:
        own, other = agents[0], "nvidia-dra-driver-gpu-kubelet-plugin"
        if node in claimed:
            own, other = other, own
        assert (other, node) not in pods
        for agent in (own, *agents[1:], "kube-proxy", "cilium"):
            assert (agent, node) in pods, (agent, node)


@every_scenario
def test_something_is_left_for_probes_on_every_accelerator_pool(name: str) -> None:
    scenario, sums = load_scenario(name), held(of_kind(name, "Pod"))
    hardware = hardware_of(scenario)
    for pool in scenario.pools:
        if not pool.product:
            continue
        free: dict[str, list[int]] = defaultdict(list)
        for index in range(pool.count):
            node = f"{pool.name}-{index}"
            for resource, units in hardware[node].units().items():
                free[resource].append(len(units) - sums[node][resource] // 1000)
        for resource, counts in free.items():
            if pool.sharing.strategy != "none":
                assert max(counts) >= pool.sharing.replicas, (pool.name, resource)
            elif pool.mig:
                assert sum(counts) >= 2, (pool.name, resource)
            else:
                assert max(counts) >= pool.gpus, (pool.name, resource)


def test_gang_scenarios_leave_two_whole_nodes() -> None:
    for name, pool in (("rdma-training", "h100"), ("kueue-inference", "l40s"), ("healthy", "h100")):
        sums = held(of_kind(name, "Pod"))
        whole = [node for node in hardware_of(load_scenario(name)) if node.startswith(pool) and not sums[node]["nvidia.com/gpu"]]
        assert len(whole) >= 2, name


@every_scenario
def test_gangs_are_bound_whole(name: str) -> None:
    pods = of_kind(name, "Pod")
    for group in of_kind(name, "PodGroup"):
        members = [p for p in pods if p["metadata"].get("annotations", {}).get("scheduling.k8s.io/group-name") == group["metadata"]["name"]]
        assert len(members) == group["spec"]["minMember"] == group["status"]["running"]
    for workload in (item for item in of_kind(name, "Workload") if item["apiVersion"].startswith("kueue")):
        conditions = {condition["type"]: condition["status"] for condition in workload["status"]["conditions"]}
        assert conditions == {"QuotaReserved": "True", "Admitted": "True", "PodsReady": "True"}


@every_scenario
def test_policies_suit_the_suite(name: str) -> None:
    build_policy(load_scenario(name).policy)


def test_queues_count_what_they_admitted() -> None:
    totals = {}
    for queue in of_kind("kueue-inference", "ClusterQueue"):
        (usage_of,) = queue["status"]["flavorsUsage"]
        totals[queue["metadata"]["name"]] = {row["name"]: row["total"] for row in usage_of["resources"]}["nvidia.com/gpu"]
        assert queue["status"]["admittedWorkloads"] == 1
    assert totals == {"team-search": "4", "team-assistant": "2"}


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


def test_rdma_job_asks_for_the_fabric_and_its_network_names_it() -> None:
    pods = [pod for pod in tenant_pods("rdma-training") if pod["metadata"]["name"].startswith("llm-")]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == len(pods) == 2
    for pod in pods:
        assert pod["spec"]["containers"][0]["resources"]["limits"]["rdma/rdma_shared_device_a"] == "1"
        assert pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "rdma-net"
    (network,) = of_kind("rdma-training", "NetworkAttachmentDefinition")
    (policy,) = of_kind("rdma-training", "NicClusterPolicy")
    (entry,) = msgspec.json.decode(policy["spec"]["rdmaSharedDevicePlugin"]["config"])["configList"]
    resource = f"{entry['resourcePrefix']}/{entry['resourceName']}"
    assert network["metadata"]["annotations"]["k8s.v1.cni.cncf.io/resourceName"] == resource
    capacities = [
        node["status"]["capacity"].get(resource) for node in of_kind("rdma-training", "Node") if "h100" in node["metadata"]["name"]
    ]
    assert capacities == [str(entry["rdmaHcaMax"])] * 4


@every_scenario
def test_configurations_that_nodes_name_exist(name: str) -> None:
    maps = {
        item["metadata"]["name"]: item["data"] for item in of_kind(name, "ConfigMap") if item["metadata"]["namespace"] == "gpu-operator"
    }
    for node in of_kind(name, "Node"):
        labels = node["metadata"]["labels"]
        if key := labels.get("nvidia.com/device-plugin.config"):
            config = yaml.safe_load(maps["device-plugin-config"][key])
            assert config["version"] == "v1"
            shared = config.get("sharing", {}).get("timeSlicing") or config.get("sharing", {}).get("mps")
            if shared:
                assert [row["replicas"] for row in shared["resources"]] == [4]
        if layout := labels.get("nvidia.com/mig.config"):
            configs = yaml.safe_load(maps["default-mig-parted-config"]["config.yaml"])["mig-configs"]
            assert layout in configs


@every_scenario
def test_custom_kinds_are_defined_and_come_first(name: str) -> None:
    defined: set[tuple[str, str]] = set()
    for item in objects(name):
        if item["kind"] == "CustomResourceDefinition":
            defined |= {(f"{item['spec']['group']}/{v['name']}", item["spec"]["names"]["kind"]) for v in item["spec"]["versions"]}
        group = item["apiVersion"].partition("/")[0]
        if "." in group and not group.endswith(".k8s.io"):
            assert (item["apiVersion"], item["kind"]) in defined


@every_scenario
def test_webhooks_have_ready_endpoints_behind_their_service(name: str) -> None:
    slices: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for piece in of_kind(name, "EndpointSlice"):
        slices[piece["metadata"]["namespace"], piece["metadata"]["labels"]["kubernetes.io/service-name"]] += piece["endpoints"]
    for configuration in of_kind(name, "ValidatingWebhookConfiguration"):
        for webhook in configuration["webhooks"]:
            service = webhook["clientConfig"]["service"]
            assert slices[service["namespace"], service["name"]]
            assert webhook["clientConfig"]["caBundle"]


@every_scenario
def test_images_are_pinned(name: str) -> None:
    for pod in of_kind(name, "Pod"):
        for item in [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]:
            reference, _, tag = item["image"].rpartition(":")
            assert reference
            assert tag not in ("", "latest")
            assert "{" not in tag


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
