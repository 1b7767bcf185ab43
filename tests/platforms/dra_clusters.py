"""Healthy clusters that offer devices by claim, as drivers' documents, charts and public outputs describe them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from fixtures.kubernetes.models import Json
from tests.platforms.clusters import H100, NFD, PRESENT, Cluster, deployed, gfd, operator
from tests.platforms.objects import base, daemonset, definition, job, meta, namespace, node, pod

NVIDIA, DOMAINS = "gpu.nvidia.com", "compute-domain.nvidia.com"
REGISTRY = {"plugins-registry": "/var/lib/kubelet/plugins_registry", "plugins": "/var/lib/kubelet/plugins"}
PCI = "resource.kubernetes.io/pciBusID"
ADMIN = {"resource.kubernetes.io/admin-access": "true"}
PROMETHEUS = definition("prometheuses", "monitoring.coreos.com", "Prometheus", "Namespaced")


def typed(named: Mapping[str, Any] | None = None, /, **values: Any) -> Json:
    """Attributes by name; versions begin with ``v=``."""
    found: Json = {}
    for name, value in {**values, **(named or {})}.items():
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
        version = isinstance(value, str) and value.startswith("v=")
        found[name] = {"version": value.removeprefix("v=")} if version else {kind: value}
    return found


def device(name: str, attributes: Json, capacity: Mapping[str, str] | None = None, **more: Any) -> Json:
    """A device of v1; capacities are plain amounts."""
    amounts = {key: {"value": value} for key, value in (capacity or {}).items()}
    return {"name": name, "attributes": attributes, **({"capacity": amounts} if amounts else {}), **more}


def a_slice(
    where: str, driver: str, devices: Sequence[Json], *, version: str = "v1", generation: int = 1, of: int = 1, tail: str = "", **more: Any
) -> Json:
    """A slice as the API server stores it; of v1beta1 each device has a ``basic``."""
    old = version == "v1beta1"
    shown = (
        [{"name": one["name"], "basic": {key: value for key, value in one.items() if key != "name"}} for one in devices]
        if old
        else list(devices)
    )
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": meta(f"{where}-{driver}{tail}", resourceVersion="7"),
        "spec": {
            "driver": driver,
            "nodeName": where,
            "pool": {"name": where, "generation": generation, "resourceSliceCount": of},
            **({"devices": shown} if shown else {}),
            **more,
        },
    }


def a_class(name: str, driver: str, kind: str = "", **more: Any) -> Json:
    """A DeviceClass as charts write it."""
    also = f" && device.attributes['{driver}'].type == '{kind}'" if kind else ""
    spec = {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'{also}"}}], **more}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": meta(name), "spec": spec}


def a_claim(
    name: str, space: str, requests: Sequence[Json], results: Sequence[Json], user: str, *, version: str = "v1", **devices: Any
) -> Json:
    """A claim that a living pod uses."""
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": meta(name, space),
        "spec": {"devices": {"requests": list(requests), **devices}},
        "status": {
            "allocation": {"devices": {"results": list(results)}},
            "reservedFor": [{"resource": "pods", "name": user, "uid": f"uid-{space}-{user}"}],
        },
    }


def exactly(name: str, device_class: str, count: int = 1, **more: Any) -> Json:
    return {"name": name, "exactly": {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count, **more}}


def result(request: str, driver: str, pool: str, name: str, **more: Any) -> Json:
    return {"request": request, "driver": driver, "pool": pool, "device": name, **more}


def claiming(made: Json, *claims: str) -> Json:
    """A pod with claims by name."""
    made["spec"]["resourceClaims"] = [{"name": name, "resourceClaimName": name} for name in claims]
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": name} for name in claims]
    return made


def plugin(name: str, space: str, nodes: Sequence[str], image: str, select: Mapping[str, str]) -> list[Json]:
    """A driver's kubelet plugins, and its namespace unless every cluster has it."""
    made = daemonset(name, space, nodes, image=image, select=select, mounts=REGISTRY)
    return made if space == "kube-system" else [namespace(space, "privileged"), *made]


def gpu(tray: int, index: int, product: str = "NVIDIA H100 80GB HBM3", memory: str = "81559Mi", kind: str = "gpu", **more: Any) -> Json:
    attributes = typed(
        {PCI: f"0000:{index:02x}:00.0"},
        type=kind,
        uuid=f"GPU-{tray:08x}-0000-0000-0000-{index:012x}",
        productName=product,
        brand="Nvidia",
        driverVersion="v=580.95.5",
    )
    return device(f"gpu-{index}", attributes, {"memory": memory}, **more)


def mig(parent: Json, index: int, profile: str, memory: str, **more: Any) -> Json:
    own = typed(
        type="mig",
        uuid=f"MIG-{parent['name']}-{index}-{parent['attributes']['uuid']['string']}",
        parentUUID=parent["attributes"]["uuid"]["string"],
        profile=profile,
        productName="NVIDIA H100 80GB HBM3",
        brand="Nvidia",
        driverVersion="v=580.95.5",
    )
    return device(f"{parent['name']}-mig-{index}", own, {"memory": memory}, **more)


def for_machines(whole: Json) -> Json:
    """A GPU in its shape for virtual machines, whose UUID the driver makes of the PCI address alone."""
    address = whole["attributes"][PCI]["string"]
    named = {
        "uuid": str(uuid5(NAMESPACE_DNS, address)),
        "productName": "GH100 [H100 SXM5 80GB]",
        "deviceID": "0x2330",
        "vendorID": "0x10de",
    }
    own = typed({PCI: address}, type="vfio", iommuFDEnabled=False, **named)
    return device(whole["name"].replace("gpu-", "gpu-vfio-"), own, {"addressableMemory": "128Gi"})


def h100s(count: int, *, labels: Mapping[str, str] | None = None) -> tuple[list[str], list[Json]]:
    names = [f"h100-{index}" for index in range(count)]
    own = {NFD: "true", PRESENT: "true", "nvidia.com/gpu.product": H100, **(labels or {})}
    return names, [node(name, None, own, ["nvidia.com/gpu:NoSchedule"]) for name in names]


def tenant(name: str, where: str, *claims: str, product: str = H100, devices: Mapping[str, int | str] | None = None) -> Json:
    made = job(
        name, "research", where, devices or {}, select={"nvidia.com/gpu.product": product}, tolerations=["nvidia.com/gpu:NoSchedule"]
    )
    return claiming(made, *claims) if claims else made


def nvidia_driver(names: Sequence[str]) -> list[Json]:
    return plugin(
        "nvidia-dra-driver-gpu-kubelet-plugin",
        "nvidia-dra-driver-gpu",
        names,
        "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0",
        {PRESENT: "true"},
    )


def gpus_and_compute_domains() -> Cluster:
    """GB200 whose GPUs and channels are both claimed; a monitor has admin access to all GPUs of a node; a claim has alternatives."""
    clique, uid, product = "9a1c7b7e-2f8b-4a44-9d6c-5b1f3c0a7d21.1", "uid-research-pretrain", "NVIDIA-GB200"
    names = ["gb-0", "gb-1"]
    labels = {
        NFD: "true",
        PRESENT: "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.clique": clique,
        "resource.nvidia.com/computeDomain": uid,
    }
    nodes = [node(name, None, labels, ["nvidia.com/gpu:NoSchedule"]) for name in names]
    imex = [device("channel-0", typed(type="channel", id=0)), device("daemon-0", typed(type="daemon", id=0))]
    slices = [
        a_slice(name, NVIDIA, [gpu(tray, index, "NVIDIA GB200", "189471Mi") for index in range(4)]) for tray, name in enumerate(names)
    ]
    slices += [a_slice(name, DOMAINS, imex) for name in names]
    classes = [a_class(NVIDIA, NVIDIA, "gpu"), a_class("mig.nvidia.com", NVIDIA, "mig")]
    classes += [
        a_class("compute-domain-default-channel.nvidia.com", DOMAINS, "channel"),
        a_class("compute-domain-daemon.nvidia.com", DOMAINS, "daemon"),
    ]
    stack = nvidia_driver(names)
    daemons = daemonset(
        "computedomain-daemon-pretrain",
        "nvidia-dra-driver-gpu",
        names,
        image="nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0",
        select={"resource.nvidia.com/computeDomain": uid},
    )
    claims: list[Json] = []
    for index, one in enumerate(daemons[1:]):
        one["metadata"]["labels"]["resource.nvidia.com/computeDomain"] = uid
        claims.append(
            a_claim(
                f"daemon-{index}",
                "nvidia-dra-driver-gpu",
                [exactly("daemon", "compute-domain-daemon.nvidia.com")],
                [result("daemon", DOMAINS, names[index], "daemon-0")],
                one["metadata"]["name"],
            )
        )
        claiming(one, f"daemon-{index}")
    domain = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": {**meta("pretrain", "research"), "uid": uid},
        "spec": {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "pretrain-channel"}}},
        "status": {
            "status": "Ready",
            "nodes": [
                {"name": name, "cliqueID": clique, "ipAddress": f"10.0.0.{index}", "index": index, "status": "Ready"}
                for index, name in enumerate(names)
            ],
        },
    }
    jobs = []
    for index, name in enumerate(names):
        either = {
            "name": "gpus",
            "firstAvailable": [
                {"name": "nvl", "deviceClassName": NVIDIA, "allocationMode": "All"},
                {"name": "few", "deviceClassName": NVIDIA, "allocationMode": "ExactCount", "count": 2},
            ],
        }
        given = [result("gpus/few", NVIDIA, name, f"gpu-{number}") for number in range(2)]
        claims.append(
            a_claim(
                f"gpus-{index}",
                "research",
                [either],
                given,
                f"t-{index}",
                constraints=[{"requests": ["gpus"], "matchAttribute": f"{NVIDIA}/productName"}],
            )
        )
        claims.append(
            a_claim(
                f"channel-{index}",
                "research",
                [exactly("channel", "compute-domain-default-channel.nvidia.com")],
                [result("channel", DOMAINS, name, "channel-0")],
                f"t-{index}",
            )
        )
        jobs.append(tenant(f"t-{index}", name, f"gpus-{index}", f"channel-{index}", product=product))
    monitor = daemonset(
        "dcgm-exporter", "monitoring", names, image="nvcr.io/nvidia/k8s/dcgm-exporter:4.4.1-4.5.2-ubuntu22.04", select={PRESENT: "true"}
    )
    for index, one in enumerate(monitor[1:]):
        every = {"name": "gpus", "exactly": {"deviceClassName": NVIDIA, "allocationMode": "All", "adminAccess": True}}
        given = [result("gpus", NVIDIA, names[index], f"gpu-{number}", adminAccess=True) for number in range(4)]
        claims.append(a_claim(f"watch-{index}", "monitoring", [every], given, one["metadata"]["name"]))
        claiming(one, f"watch-{index}")
    spaces = [namespace("research"), namespace("monitoring", "privileged", **ADMIN), PROMETHEUS]
    crd = definition("computedomains", "resource.nvidia.com", "ComputeDomain", "Namespaced")
    return Cluster(
        objects=[*base(), *nodes, *slices, *classes, *stack, *daemons, crd, domain, *spaces, *claims, *jobs, *monitor],
        presets=["dra", "gb200"],
    )


def amd_partitions() -> Cluster:
    """MI300X cut in two by AMD's driver (DPX), served in v1beta1; some devices name no NUMA node, and parents' ids have two forms."""
    names, select = ["mi-0", "mi-1"], {"feature.node.kubernetes.io/amd-gpu": "true"}
    nodes = [
        node(name, None, {**select, "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, ["amd.com/gpu:NoSchedule"]) for name in names
    ]
    slices = []
    for name in names:
        devices = []
        for index in range(4):
            address = f"0003:00:{index + 1:02x}.0"
            for part in range(2):
                card = 32 + 8 * index + part
                own = typed(
                    {"resource.kubernetes.io/pcieRoot": "pci0003:00"},
                    type="amdgpu-partition",
                    cardIndex=card,
                    renderIndex=card + 128,
                    driverVersion="v=6.16.6",
                    driverSrcVersion="A27BF33B4586326D747C9FB",
                    family="AI",
                    parentDeviceID="0003:00:04:0" if index else "7066866330502360227",
                    parentPciAddr=address,
                    partitionProfile="dpx_nps1",
                    productName="AMD_Instinct_MI300X_OAM",
                )
                own |= typed(numaNode=1) if index % 2 else {}
                devices.append(device(f"gpu-{card}-{card + 128}", own, {"computeUnits": "152", "memory": "98296Mi", "simdUnits": "608"}))
        slices.append(a_slice(name, "gpu.amd.com", devices, version="v1beta1"))
    stack = plugin("k8s-gpu-dra-driver-kubeletplugin", "k8s-gpu-dra-driver", names, "docker.io/rocm/k8s-gpu-dra-driver:v1.0.1", select)
    asked = {"name": "gpu", "deviceClassName": "gpu.amd.com", "allocationMode": "ExactCount", "count": 1}
    claim = a_claim("part", "research", [asked], [result("gpu", "gpu.amd.com", "mi-0", "gpu-32-160")], "train-0", version="v1beta1")
    train = job("train-0", "research", "mi-0", {}, select=select, tolerations=["amd.com/gpu:NoSchedule"])
    return Cluster(
        objects=[
            *base(),
            *nodes,
            *slices,
            a_class("gpu.amd.com", "gpu.amd.com"),
            *stack,
            namespace("research"),
            claim,
            claiming(train, "part"),
        ],
        presets=["dra", "amd"],
    )


def intel_device(model: str, family: str, driver: str, address: str, pci_id: str) -> Json:
    """Attributes of a healthy device at a PCI address, as Intel's driver publishes them."""
    return typed(
        model=model,
        family=family,
        driver=driver,
        pciAddress=address,
        pciId=pci_id,
        pciRoot="pci0000:00",
        sriov=False,
        healthy=True,
        health="Healthy",
    )


def intel_mixed() -> Cluster:
    """Graphics in the processor (no memory of its own) and cards, served in v1beta2; an exporter has admin access to all."""
    names = ["talos-0", "talos-1", "talos-2"]
    select = {"intel.feature.node.kubernetes.io/gpu": "true"}
    nodes = [node(name, None, select, ["gpu.intel.com/gpu:NoSchedule"], system="Talos (v1.11.2)") for name in names]
    slices = []
    for index, name in enumerate(names):
        inside = intel_device("Unknown", "Unknown", "i915", "0000:00:02.0", "0xa7a0")
        devices = [device("0000-00-02-0-0xa7a0", inside, {"memory": "0", "millicores": "1k"})]
        if index == 0:
            card = intel_device("A770", "Arc", "xe", "0000:03:00.0", "0x56b1")
            devices.append(device("0000-03-00-0-0x56b1", card, {"memory": "16288Mi", "millicores": "1k"}))
        slices.append(a_slice(name, "gpu.intel.com", devices, version="v1beta2"))
    stack = plugin(
        "intel-gpu-resource-driver-kubelet-plugin",
        "intel-gpu-resource-driver",
        names,
        "ghcr.io/intel/intel-resource-drivers-for-kubernetes/intel-gpu-resource-driver:v0.9.0",
        select,
    )
    exporter = daemonset("drm-exporter", "monitoring", names, image="ghcr.io/home-operations/drm-exporter:0.4.0", select=select)
    claims = []
    for name, one, published in zip(names, exporter[1:], slices, strict=True):
        every = {
            "name": "drm-exporter",
            "exactly": {
                "deviceClassName": "gpu.intel.com",
                "allocationMode": "All",
                "adminAccess": True,
                "tolerations": [{"effect": "NoSchedule", "operator": "Exists"}],
            },
        }
        given = [result("drm-exporter", "gpu.intel.com", name, item["name"], adminAccess=True) for item in published["spec"]["devices"]]
        claims.append(a_claim(f"drm-{name}", "monitoring", [every], given, one["metadata"]["name"], version="v1beta2"))
        claiming(one, f"drm-{name}")
    one = {
        "name": "gpu",
        "exactly": {
            "deviceClassName": "gpu.intel.com",
            "selectors": [{"cel": {"expression": "device.capacity['gpu.intel.com'].memory.compareTo(quantity('8Gi')) >= 0"}}],
        },
    }
    claims.append(
        a_claim("card", "research", [one], [result("gpu", "gpu.intel.com", "talos-0", "0000-03-00-0-0x56b1")], "media-0", version="v1beta2")
    )
    media = claiming(job("media-0", "research", "talos-0", {}, select=select, tolerations=["gpu.intel.com/gpu:NoSchedule"]), "card")
    spaces = [namespace("research"), namespace("monitoring", "privileged", **ADMIN), PROMETHEUS]
    return Cluster(
        objects=[
            *base(system="Talos (v1.11.2)"),
            *nodes,
            *slices,
            a_class("gpu.intel.com", "gpu.intel.com"),
            *stack,
            *exporter,
            *spaces,
            *claims,
            media,
        ],
        presets=["dra", "intel", "talos"],
        policy={"accelerators": {"allowedDifferences": ["gpu.intel.com in ResourceSlices"]}},
    )


def dranet_beside_the_plugin() -> Cluster:
    """GPUs by the device plugin, RDMA cards by DRANET, whose slice leaves out a card while a pod has it."""
    names = ["h100-0", "h100-1"]
    nodes = [node(name, {"nvidia.com/gpu": 8}, {**gfd(H100, 8), **deployed()}, ["nvidia.com/gpu:NoSchedule"]) for name in names]
    slices = []
    for index, name in enumerate(names):
        cards = []
        for card in range(8):
            own = {"ifName": f"gpu{card}rdma0", "mac": f"02:42:ac:11:00:{card:02x}", "rdma": True, "type": "device"}
            cards.append(typed({f"dra.net/{key}": value for key, value in {**own, "pciAddress": f"0000:4{card}:00.0"}.items()}))
        slices.append(
            a_slice(name, "dra.net", [device(f"gpu{card}rdma0", one) for card, one in enumerate(cards) if index or card], version="v1beta1")
        )
    stack = plugin("dranet", "kube-system", names, "registry.k8s.io/networking/dranet:v1.0.1", {"kubernetes.io/os": "linux"})
    asked = {
        "name": "nic",
        "deviceClassName": "dranet",
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": 'device.attributes["dra.net"].rdma == true'}}],
    }
    claim = a_claim("nic", "research", [asked], [result("nic", "dra.net", "h100-0", "gpu0rdma0")], "train-0", version="v1beta1")
    claim["status"]["devices"] = [
        {
            "driver": "dra.net",
            "pool": "h100-0",
            "device": "gpu0rdma0",
            "conditions": [{"type": "Ready", "status": "True"}],
            "networkData": {"interfaceName": "eth1"},
        }
    ]
    train = claiming(tenant("train-0", "h100-0", devices={"nvidia.com/gpu": 8}), "nic")
    return Cluster(
        objects=[
            *base(),
            *nodes,
            *operator("gpu-operator", names),
            *slices,
            a_class("dranet", "dra.net"),
            *stack,
            namespace("research"),
            claim,
            train,
        ],
        presets=["gpu-operator"],
    )


def extended_resources() -> Cluster:
    """Pods ask for nvidia.com/gpu as ever; a DeviceClass serves it, and no node has any of its own."""
    names, nodes = h100s(2)
    slices = [a_slice(name, NVIDIA, [gpu(tray, index) for index in range(4)]) for tray, name in enumerate(names)]
    objects = [
        *base(),
        *nodes,
        *slices,
        a_class(NVIDIA, NVIDIA, "gpu", extendedResourceName="nvidia.com/gpu"),
        *nvidia_driver(names),
        namespace("research"),
    ]
    for index, name in enumerate(names):
        train = tenant(f"train-{index}", name, devices={"nvidia.com/gpu": 2})
        train["status"]["extendedResourceClaimStatus"] = {
            "resourceClaimName": f"train-{index}-extended-resources-x",
            "requestMappings": [{"containerName": "train", "resourceName": "nvidia.com/gpu", "requestName": "container-0-request-0"}],
        }
        given = [result("container-0-request-0", NVIDIA, name, f"gpu-{number}") for number in range(2)]
        claim = a_claim(
            f"train-{index}-extended-resources-x", "research", [exactly("container-0-request-0", NVIDIA, 2)], given, f"train-{index}"
        )
        claim["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        objects += [train, claim]
    return Cluster(objects=objects, presets=["dra"])


def partitionable_mig() -> Cluster:
    """Every MIG device that a GPU could have is published beside the GPU; shared counters let one shape hold at a time."""
    names, nodes = h100s(2)
    slices = []
    for tray, name in enumerate(names):
        devices, counters = [], []
        for index in range(2):
            used = {"counterSet": f"gpu-{index}-counters"}
            whole = gpu(tray, index, consumesCounters=[{**used, "counters": {"memory-slices": {"value": "8"}}}])
            devices.append(whole)
            devices += [
                mig(whole, part, "1g.10gb", "10Gi", consumesCounters=[{**used, "counters": {"memory-slices": {"value": "1"}}}])
                for part in range(7)
            ]
            devices.append(mig(whole, 7, "3g.40gb", "40Gi", consumesCounters=[{**used, "counters": {"memory-slices": {"value": "4"}}}]))
            counters.append({"name": f"gpu-{index}-counters", "counters": {"memory-slices": {"value": "8"}}})
        slices += [a_slice(name, NVIDIA, [], of=2, tail="-0", sharedCounters=counters), a_slice(name, NVIDIA, devices, of=2, tail="-1")]
    small = exactly(
        "mig", "mig.nvidia.com", selectors=[{"cel": {"expression": "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'"}}]
    )
    claims = [
        a_claim(f"mig-{index}", "research", [small], [result("mig", NVIDIA, "h100-0", f"gpu-0-mig-{index}")], f"serve-{index}")
        for index in range(2)
    ]
    claims.append(a_claim("whole", "research", [exactly("gpu", NVIDIA)], [result("gpu", NVIDIA, "h100-0", "gpu-1")], "train-0"))
    jobs = [tenant(f"serve-{index}", "h100-0", f"mig-{index}") for index in range(2)] + [tenant("train-0", "h100-0", "whole")]
    return Cluster(
        objects=[
            *base(),
            *nodes,
            *slices,
            a_class(NVIDIA, NVIDIA, "gpu"),
            a_class("mig.nvidia.com", NVIDIA, "mig"),
            *nvidia_driver(names),
            namespace("research"),
            *claims,
            *jobs,
        ],
        presets=["dra"],
    )


def shared_capacity() -> Cluster:
    """Four claims may share a GPU (consumable capacity); two do, one of them asks for memory."""
    names, nodes = h100s(2)
    amounts = {
        "memory": {"value": "81559Mi", "requestPolicy": {"default": "0"}},
        "shares": {"value": "4", "requestPolicy": {"default": "1"}},
    }
    slices = [
        a_slice(name, NVIDIA, [{**gpu(tray, index), "allowMultipleAllocations": True, "capacity": amounts} for index in range(2)])
        for tray, name in enumerate(names)
    ]
    more: list[Json] = [{}, {"capacity": {"requests": {"memory": "20Gi"}}}]
    taken = [{"shares": "1", "memory": "0"}, {"shares": "1", "memory": "20Gi"}]
    claims = [
        a_claim(
            f"share-{index}",
            "research",
            [exactly("gpu", NVIDIA, **more[index])],
            [result("gpu", NVIDIA, "h100-0", "gpu-0", shareID=f"uid-{index}", consumedCapacity=taken[index])],
            f"serve-{index}",
        )
        for index in range(2)
    ]
    jobs = [tenant(f"serve-{index}", "h100-0", f"share-{index}") for index in range(2)]
    return Cluster(
        objects=[*base(), *nodes, *slices, a_class(NVIDIA, NVIDIA, "gpu"), *nvidia_driver(names), namespace("research"), *claims, *jobs],
        presets=["dra"],
    )


def hami_by_claim() -> Cluster:
    """HAMi's driver shares NVIDIA's GPUs by cores and memory; a webhook makes the claims of pods."""
    driver, (names, nodes) = "hami-core-gpu.project-hami.io", h100s(1)
    amounts = {
        "cores": {"value": "100", "requestPolicy": {"default": "100"}},
        "memory": {"value": "81559Mi", "requestPolicy": {"default": "81559Mi"}},
    }
    devices = [
        {
            **device(
                f"hami-gpu-{index}",
                typed(
                    type="hami-gpu",
                    uuid=f"GPU-ca1f3a00-{index}",
                    productName="NVIDIA H100 80GB HBM3",
                    driverVersion="v=580.95.5",
                    minor=index,
                ),
            ),
            "allowMultipleAllocations": True,
            "capacity": amounts,
        }
        for index in range(2)
    ]
    stack = plugin("hami-kubelet-plugin", "kube-system", names, "projecthami/k8s-dra-driver:v0.1.0", {PRESENT: "true"})
    half = [exactly("gpu", driver, capacity={"requests": {"cores": "50", "memory": "20Gi"}})]
    claims = [
        a_claim(
            f"half-{index}",
            "research",
            half,
            [result("gpu", driver, names[0], "hami-gpu-0", shareID=f"uid-{index}", consumedCapacity={"cores": "50", "memory": "20Gi"})],
            f"serve-{index}",
        )
        for index in range(2)
    ]
    jobs = [tenant(f"serve-{index}", names[0], f"half-{index}") for index in range(2)]
    return Cluster(
        objects=[
            *base(),
            *nodes,
            a_slice(names[0], driver, devices),
            a_class(driver, driver),
            *stack,
            namespace("research"),
            *claims,
            *jobs,
        ],
        presets=[],
    )


def driver_in_roll_out() -> Cluster:
    """The driver's new version is on one node, starts on the second and waits for the third; each publishes its pool anew."""
    names, nodes = h100s(3)
    slices = []
    for tray, name in enumerate(names):
        devices = [gpu(tray, index) for index in range(2)]
        slices.append(a_slice(name, NVIDIA, devices, generation=1))
        if tray == 0:
            slices.append(a_slice(name, NVIDIA, devices, generation=2, tail="-2"))  # the old slice is about to be deleted
    item, *pods = daemonset(
        "nvidia-dra-driver-gpu-kubelet-plugin",
        "nvidia-dra-driver-gpu",
        names,
        image="nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0",
        select={PRESENT: "true"},
        mounts=REGISTRY,
    )
    item["metadata"]["generation"], begun = 2, "2026-11-21T11:59:20Z"
    item["status"] |= {"observedGeneration": 2, "updatedNumberScheduled": 2, "numberReady": 2, "numberAvailable": 2, "numberUnavailable": 1}
    for tray, one in enumerate(pods):
        one["metadata"]["labels"] = {**one["metadata"]["labels"], "pod-template-generation": "1" if tray == 2 else "2"}
        if tray < 2:
            one["metadata"]["creationTimestamp"] = one["status"]["startTime"] = "2026-11-21T11:58:00Z" if tray == 0 else begun
    starting = pods[1]["status"]
    starting["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": begun},
        {"type": "Ready", "status": "False", "lastTransitionTime": begun},
    ]
    starting["containerStatuses"][0] |= {"ready": False, "state": {"running": {"startedAt": begun}}}
    claim = a_claim("one", "research", [exactly("gpu", NVIDIA)], [result("gpu", NVIDIA, names[1], "gpu-0")], "train-0")
    stack = [namespace("nvidia-dra-driver-gpu", "privileged"), item, *pods]
    return Cluster(
        objects=[
            *base(),
            *nodes,
            *slices,
            a_class(NVIDIA, NVIDIA, "gpu"),
            *stack,
            namespace("research"),
            claim,
            tenant("train-0", names[1], "one"),
        ],
        presets=["dra"],
    )


def virtual_machines() -> Cluster:
    """KubeVirt's virtual machines claim passed-through GPUs; each GPU is published in both shapes until one is claimed."""
    names, nodes = h100s(2)
    slices = []
    for tray, name in enumerate(names):
        devices = []
        for index in range(2):
            whole = gpu(tray, index)
            shape = for_machines(whole)
            devices += [shape] if (tray, index) == (0, 0) else [whole, shape]
        slices.append(a_slice(name, NVIDIA, devices, generation=3))
    launcher = pod(
        "virt-launcher-vm-0",
        "research",
        "h100-0",
        tolerations=["nvidia.com/gpu:NoSchedule"],
        owner={"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm-0", "uid": "uid-vm-0"},
        nodeSelector={"nvidia.com/gpu.product": H100},
    )
    launcher["spec"]["containers"] = tenant("vm", "h100-0")["spec"]["containers"]
    claim = a_claim(
        "pgpu", "research", [exactly("pgpu", "vfio.gpu.nvidia.com")], [result("pgpu", NVIDIA, "h100-0", "gpu-vfio-0")], "virt-launcher-vm-0"
    )
    parked = {**a_claim("of-a-stopped-machine", "research", [exactly("pgpu", "vfio.gpu.nvidia.com")], [], ""), "status": {}}
    classes = [a_class(NVIDIA, NVIDIA, "gpu"), a_class("vfio.gpu.nvidia.com", NVIDIA, "vfio")]
    return Cluster(
        objects=[
            *base(),
            *nodes,
            *slices,
            *classes,
            *nvidia_driver(names),
            namespace("research"),
            claim,
            parked,
            claiming(launcher, "pgpu"),
        ],
        presets=["dra"],
    )


DRA_CLUSTERS: dict[str, Callable[[], Cluster]] = {
    build.__name__: build
    for build in (
        gpus_and_compute_domains,
        amd_partitions,
        intel_mixed,
        dranet_beside_the_plugin,
        extended_resources,
        partitionable_mig,
        shared_capacity,
        hami_by_claim,
        driver_in_roll_out,
        virtual_machines,
    )
}
