"""Healthy clusters that offer devices by claim, as drivers' documents, charts and public outputs describe them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from fixtures.kubernetes.models import Json
from tests.platforms.clusters import BUILDERS, H100, HERE, NFD, PRESENT, Builders, Cluster, cluster_of
from tests.platforms.objects import base, daemonset, job, meta, namespace, node

NVIDIA = "gpu.nvidia.com"
REGISTRY = {"plugins-registry": "/var/lib/kubelet/plugins_registry", "plugins": "/var/lib/kubelet/plugins"}
PCI = "resource.kubernetes.io/pciBusID"


def typed(named: Mapping[str, Any] | None = None, /, **values: Any) -> Json:
    """Attributes by name; versions begin with ``v=``."""
    found: Json = {}
    for name, value in {**values, **(named or {})}.items():
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
        version = isinstance(value, str) and value.startswith("v=")
        found[name] = {"version": value.removeprefix("v=")} if version else {kind: value}
    return found


def device(name: str, attributes: Json, capacity: Mapping[str, str | Json] | None = None, **more: Any) -> Json:
    """A device of v1; capacities are plain amounts."""
    amounts = {key: value if isinstance(value, dict) else {"value": value} for key, value in (capacity or {}).items()}
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


def _devices(entries: Sequence[Json]) -> Iterator[Json]:
    """Devices of a file: one of NVIDIA's by its builder, or a name with plain attributes and amounts."""
    for entry in entries:
        more = {key: value for key, value in entry.items() if key not in ("gpu", "for_machines", "name", "attributes", "capacity")}
        if "gpu" in entry:
            yield {**gpu(**entry["gpu"]), **more, **({"capacity": entry["capacity"]} if "capacity" in entry else {})}
        elif "for_machines" in entry:
            yield for_machines(gpu(**entry["for_machines"]))
        else:
            yield device(entry["name"], typed(entry["attributes"]), entry.get("capacity"), **more)


def _slice(where: str, driver: str, devices: Sequence[Json], **more: Any) -> Json:
    return a_slice(where, driver, list(_devices(devices)), **more)


def _agents(*, claims: Sequence[Sequence[str]] = (), **more: Any) -> list[Json]:
    """An agent whose pods have claims."""
    made = daemonset(**more)
    for one, names in zip(made[1:], claims, strict=False):
        one["spec"] = deepcopy(one["spec"])
        claiming(one, *names)
    return made


def _claiming(builder: str, *, claims: Sequence[str] = (), **more: Any) -> Json:
    made = BUILDERS[builder](**more)
    assert isinstance(made, dict)
    return claiming(made, *claims) if claims else made


OFFERED_BY_CLAIM: Builders = {
    **BUILDERS,
    "claim": a_claim,
    "class": a_class,
    "daemonset": _agents,
    "job": partial(_claiming, "job"),
    "pod": partial(_claiming, "pod"),
    "slice": _slice,
}
DRA_CLUSTERS: dict[str, Callable[[], Cluster]] = {
    **{path.stem: partial(cluster_of, path, OFFERED_BY_CLAIM) for path in sorted((HERE / "claimed").glob("*.yaml"))},
    "amd_partitions": amd_partitions,
    "partitionable_mig": partitionable_mig,
}
