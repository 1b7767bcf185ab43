"""A healthy cluster of each platform, as its public documents and manifests describe them."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from fixtures.kubernetes.models import Json
from tests.platforms.objects import SECURE, base, container, daemonset, definition, job, meta, namespace, node, pod, quota

H100 = "NVIDIA-H100-80GB-HBM3"
NFD = "feature.node.kubernetes.io/pci-10de.present"
PRESENT = "nvidia.com/gpu.present"
PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"
OPERATOR = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "cluster-policy", "uid": "uid--cluster-policy"}


def with_quotas(objects: Iterable[Json]) -> list[Json]:
    """The objects with a quota for what pods of each namespace hold: tenants' and, which does no harm, the platform's."""
    items = list(objects)
    held: dict[tuple[str, str], None] = {}
    for item in items:
        if item["kind"] == "ResourceClaim":
            asked = item["spec"]["devices"]["requests"]
            ways = [way for one in asked for way in one.get("firstAvailable", [one.get("exactly", one)])]
            names = {f"{way['deviceClassName']}.deviceclass.resource.k8s.io/devices" for way in ways}
            held |= dict.fromkeys((item["metadata"]["namespace"], name) for name in sorted(names))
        if item["kind"] == "Pod":
            space = item["metadata"]["namespace"]
            names = {name for one in item["spec"]["containers"] for name in one["resources"]["limits"] if "/" in name}
            held |= dict.fromkeys((space, name) for name in names)
    return [*items, *(quota(space, name, f"devices-{number}") for number, (space, name) in enumerate(held))]


class Cluster(msgspec.Struct, kw_only=True):
    """``presets`` that its marks choose. ``policy`` is what its owner has to write. ``red`` are requirements that are red without
    either, each with the reason for which that is true."""

    objects: list[Json]
    presets: list[str]
    policy: dict[str, Any] = {}
    red: dict[str, str] = {}


CLUSTERS: dict[str, Callable[[], Cluster]] = {}


def platform(build: Callable[[], Cluster]) -> Callable[[], Cluster]:
    """Registers the cluster under the function's name."""
    CLUSTERS[build.__name__.replace("_", "-")] = build
    return build


def gfd(product: str, count: int, *, replicas: int = 1, memory: int = 81559, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Labels as GPU Feature Discovery and NFD write them."""
    labels = {
        NFD: "true",
        PRESENT: "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(count),
        "nvidia.com/gpu.replicas": str(replicas),
        "nvidia.com/gpu.memory": str(memory),
        "nvidia.com/gpu.family": "hopper",
        "nvidia.com/gpu.compute.major": "9",
        "nvidia.com/gpu.compute.minor": "0",
        "nvidia.com/gpu.machine": "server",
        "nvidia.com/gpu.mode": "compute",
        "nvidia.com/cuda.driver-version.major": "580",
        "nvidia.com/cuda.driver-version.minor": "95",
        "nvidia.com/cuda.driver-version.revision": "05",
        "nvidia.com/cuda.driver-version.full": "580.95.05",
        "nvidia.com/cuda.runtime-version.major": "13",
        "nvidia.com/cuda.runtime-version.minor": "0",
        "nvidia.com/cuda.runtime-version.full": "13.0",
        "nvidia.com/gfd.timestamp": "1763700000",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "none",
        "nvidia.com/gpu.sharing-strategy": "none",
    }
    return {**labels, **(more or {})}


def operator(space: str, nodes: Iterable[str]) -> list[Json]:
    """The GPU Operator with its agents."""
    names = list(nodes)
    agents = {
        "nvidia-device-plugin-daemonset": ("device-plugin", PLUGIN),
        "nvidia-dcgm-exporter": ("dcgm-exporter", "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3-4.1.3-ubuntu22.04"),
        "gpu-feature-discovery": ("gpu-feature-discovery", PLUGIN),
        "nvidia-container-toolkit-daemonset": ("container-toolkit", "nvcr.io/nvidia/k8s/container-toolkit:v1.17.8"),
        "nvidia-operator-validator": ("operator-validator", "nvcr.io/nvidia/cloud-native/gpu-operator-validator:v25.3.2"),
    }
    policy = {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": meta("cluster-policy"),
        "spec": {},
        "status": {"state": "ready", "namespace": space, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    made = [definition("clusterpolicies", "nvidia.com", "ClusterPolicy"), policy, namespace(space, "privileged")]
    for name, (key, image) in agents.items():
        made += daemonset(name, space, names, image=image, select={f"nvidia.com/gpu.deploy.{key}": "true"}, owner=OPERATOR)
    return made


def deployed(
    keys: Iterable[str] = ("device-plugin", "dcgm-exporter", "gpu-feature-discovery", "container-toolkit", "operator-validator"),
) -> dict[str, str]:
    """Labels by which the operator's agents choose nodes."""
    return {f"nvidia.com/gpu.deploy.{key}": "true" for key in keys}


@platform
def eks_p5() -> Cluster:
    names = ["p5-0", "p5-1"]
    labels = {
        **gfd(H100, 8),
        **deployed(),
        "eks.amazonaws.com/nodegroup": "p5",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
    }
    devices = {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 32}
    version = "v1.33.5-eks-113cf36"
    nodes = [
        node(name, devices, labels, ["nvidia.com/gpu=true:NoSchedule"], kubelet=version, provider=f"aws:///us-east-1a/i-{name}")
        for name in names
    ]
    efa = daemonset(
        "aws-efa-k8s-device-plugin",
        "kube-system",
        names,
        image="602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.13",
        select={"node.kubernetes.io/instance-type": "p5.48xlarge"},
    )
    jobs = [
        job(f"llama-{rank}", "research", name, devices, select={"nvidia.com/gpu.product": H100}, tolerations=["nvidia.com/gpu:NoSchedule"])
        for rank, name in enumerate(names)
    ]
    rest = base(kubelet=version, provider="aws:///us-east-1a/i-cpu", **{"eks.amazonaws.com/nodegroup": "cpu"})
    return Cluster(
        objects=[*rest, *nodes, *operator("gpu-operator", names), *efa, namespace("research"), *jobs], presets=["gpu-operator", "eks"]
    )


@platform
def eks_auto() -> Cluster:
    auto = {"eks.amazonaws.com/compute-type": "auto", "karpenter.sh/nodepool": "gpu"}
    labels = {
        **auto,
        "eks.amazonaws.com/instance-gpu-name": "l4",
        "eks.amazonaws.com/instance-gpu-manufacturer": "nvidia",
        "eks.amazonaws.com/instance-gpu-count": "1",
        "node.kubernetes.io/instance-type": "g6.2xlarge",
    }
    version, system = "v1.33.5-eks-8bd5c50", "Bottlerocket (EKS Auto, Nvidia) 2025.10.9 (aws-k8s-1.33-nvidia)"
    devices = {"nvidia.com/gpu": 1, "vpc.amazonaws.com/efa": 0}
    nodes = [node(f"auto-{n}", devices, labels, ["nvidia.com/gpu:NoSchedule"], kubelet=version, system=system) for n in range(2)]
    select = {"eks.amazonaws.com/instance-gpu-name": "l4"}
    chat = job("chat-0", "serving", "auto-0", {"nvidia.com/gpu": 1}, select=select, tolerations=["nvidia.com/gpu:NoSchedule"])
    rest = base(kubelet=version, system=system, **{**auto, "karpenter.sh/nodepool": "system"})
    return Cluster(objects=[*rest, *nodes, namespace("serving"), chat], presets=["eks", "eks-auto"])


@platform
def eks_neuron() -> Cluster:
    labels = {"eks.amazonaws.com/nodegroup": "trn1", "node.kubernetes.io/instance-type": "trn1.32xlarge"}
    devices = {"aws.amazon.com/neuron": 16, "aws.amazon.com/neuroncore": 32, "aws.amazon.com/neurondevice": 16}
    version, key = "v1.33.5-eks-113cf36", "aws.amazon.com/neuron"
    nodes = [node("trn-0", devices, labels, [f"{key}:NoSchedule"], kubelet=version)]
    plugin = daemonset(
        "neuron-device-plugin-daemonset",
        "kube-system",
        ["trn-0"],
        image="public.ecr.aws/neuron/neuron-device-plugin:2.29.16.0",
        select={"node.kubernetes.io/instance-type": "trn1.32xlarge"},
    )
    health, labels_of_trn = "neuron-healthcheck-system", {"node.kubernetes.io/instance-type": "trn1.32xlarge"}
    plugin += [
        namespace(health, ""),
        *daemonset("node-problem-detector", health, ["trn-0"], image="neuron/npd:v0.8.19", select=labels_of_trn),
    ]
    select = {"node.kubernetes.io/instance-type": "trn1.32xlarge"}
    train = job("train-0", "research", "trn-0", {key: 16}, select=select, tolerations=[f"{key}:NoSchedule"])
    rest = base(kubelet=version, **{"eks.amazonaws.com/nodegroup": "cpu"})
    return Cluster(objects=[*rest, *nodes, *plugin, namespace("research"), train], presets=["neuron", "eks"])


@platform
def gke_a3mega() -> Cluster:
    version = "v1.34.1-gke.1829001"
    labels = {
        "cloud.google.com/gke-nodepool": "a3mega",
        "cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb",
        "cloud.google.com/gke-accelerator-count": "8",
        "node.kubernetes.io/instance-type": "a3-megagpu-8g",
    }
    system = "Container-Optimized OS from Google"
    nodes = [
        node(f"a3-{n}", {"nvidia.com/gpu": 8}, labels, ["nvidia.com/gpu=present:NoSchedule"], kubelet=version, system=system)
        for n in range(2)
    ]
    plugin = daemonset(
        "nvidia-gpu-device-plugin-large-cos",
        "kube-system",
        ["a3-0", "a3-1"],
        image="gke.gcr.io/nvidia-gpu-device-plugin@sha256:" + "a" * 64,
        select={"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"},
    )
    select = {"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"}
    jobs = [
        job(f"t-{n}", "research", f"a3-{n}", {"nvidia.com/gpu": 8}, select=select, tolerations=["nvidia.com/gpu:NoSchedule"])
        for n in (0, 1)
    ]
    rest = base(kubelet=version, system=system, **{"cloud.google.com/gke-nodepool": "cpu"})
    return Cluster(objects=[*rest, *nodes, *plugin, namespace("research"), *jobs], presets=["gke"])


@platform
def gke_tpu() -> Cluster:
    version, key = "v1.34.1-gke.1829001", "google.com/tpu"
    labels = {
        "cloud.google.com/gke-nodepool": "tpu",
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
        "cloud.google.com/gke-tpu-topology": "2x4",
        "node.kubernetes.io/instance-type": "ct5lp-hightpu-4t",
    }
    nodes = [node(f"tpu-{n}", {key: 4}, labels, [f"{key}=present:NoSchedule"], kubelet=version) for n in range(2)]
    plugin = daemonset(
        "tpu-device-plugin",
        "kube-system",
        ["tpu-0", "tpu-1"],
        image="gke.gcr.io/tpu-device-plugin@sha256:" + "b" * 64,
        select={"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice"},
    )
    select = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice", "cloud.google.com/gke-tpu-topology": "2x4"}
    jobs = [job(f"t-{n}", "research", f"tpu-{n}", {key: 4}, select=select, tolerations=[f"{key}:NoSchedule"]) for n in range(2)]
    rest = base(kubelet=version, **{"cloud.google.com/gke-nodepool": "cpu"})
    return Cluster(objects=[*rest, *nodes, *plugin, namespace("research"), *jobs], presets=["tpu", "gke"])


def _aks(extra: dict[str, str]) -> tuple[list[Json], list[Json]]:
    common = {"kubernetes.azure.com/cluster": "MC_a_b_c", "kubernetes.azure.com/agentpool": "gpu"}
    labels = {
        **common,
        "accelerator": "nvidia",
        "kubernetes.azure.com/accelerator": "nvidia",
        "node.kubernetes.io/instance-type": "Standard_ND96isr_H100_v5",
        **extra,
    }
    nodes = [node(f"nd-{n}", {"nvidia.com/gpu": 8}, labels, ["sku=gpu:NoSchedule"]) for n in range(2)]
    return nodes, base(**{**common, "kubernetes.azure.com/agentpool": "system"})


@platform
def aks_ndh100() -> Cluster:
    nodes, rest = _aks({**gfd(H100, 8), **deployed()})
    select = {"nvidia.com/gpu.product": H100}
    train = job("train-0", "research", "nd-0", {"nvidia.com/gpu": 8}, select=select, tolerations=["sku:NoSchedule"])
    stack = operator("gpu-operator", ["nd-0", "nd-1"])
    return Cluster(objects=[*rest, *nodes, *stack, namespace("research"), train], presets=["gpu-operator", "aks"])


@platform
def aks_plain_plugin() -> Cluster:
    nodes, rest = _aks({})
    select = {"kubernetes.azure.com/accelerator": "nvidia"}
    plugin = daemonset("nvidia-device-plugin-daemonset", "gpu-resources", ["nd-0", "nd-1"], image=PLUGIN, select=select)
    train = job("train-0", "research", "nd-0", {"nvidia.com/gpu": 8}, select=select, tolerations=["sku:NoSchedule"])
    return Cluster(objects=[*rest, *nodes, namespace("gpu-resources", ""), *plugin, namespace("research"), train], presets=["aks"])


@platform
def oke_mi300x() -> Cluster:
    labels = {"amd.com/gpu": "true", "node.kubernetes.io/instance-type": "BM.GPU.MI300X.8", "oci.oraclecloud.com/rdma.hpc_island_id": "i1"}
    provider = "ocid1.instance.oc1.iad.aaaa"
    nodes = [node(f"mi-{n}", {"amd.com/gpu": 8}, labels, ["amd.com/gpu=present:NoSchedule"], provider=f"{provider}{n}") for n in range(2)]
    plugin = daemonset(
        "amdgpu-device-plugin-daemonset",
        "kube-system",
        ["mi-0", "mi-1", "mi-2"],
        image="rocm/k8s-device-plugin:1.31.0.7",
        select={"amd.com/gpu": "true"},
    )
    watch = "oke-monitoring-system"
    plugin += [
        namespace(watch, ""),
        *daemonset("oke-node-problem-detector", watch, ["mi-0", "mi-1", "mi-2"], image="oke/npd:v1.35.1", select={"amd.com/gpu": "true"}),
    ]
    jobs = [
        job(
            f"rccl-{n}",
            "training",
            f"mi-{n}",
            {"amd.com/gpu": 8},
            select={"amd.com/gpu": "true"},
            tolerations=["amd.com/gpu:NoSchedule"],
            security={"privileged": True, "capabilities": {"add": ["IPC_LOCK"]}},
            hostNetwork=True,
            dnsPolicy="ClusterFirstWithHostNet",
            volumes=[{"name": "devinf", "hostPath": {"path": "/dev/infiniband"}}],
        )
        for n in range(2)
    ]
    labels = {**labels, "node.kubernetes.io/instance-type": "BM.GPU.MI300X.8"}
    nodes.append(node("mi-2", {"amd.com/gpu": 8}, labels, ["amd.com/gpu=present:NoSchedule"], provider=f"{provider}2"))
    chat = job("chat-0", "serving", "mi-2", {"amd.com/gpu": 1}, select={"amd.com/gpu": "true"}, tolerations=["amd.com/gpu:NoSchedule"])
    return Cluster(
        objects=[*base(provider=provider), *nodes, *plugin, namespace("training", "privileged"), *jobs, namespace("serving"), chat],
        presets=["amd", "oke"],
        policy={"tenants": {"hostRdma": ["training"]}},  # which tenants go through the host only the owner knows
        red={
            "PSA-01": "namespace training enforces nothing",
            "PSA-02": "its pods are privileged and use the host's network",
            "PSA-05": "its pods are privileged",
        },
    )


@platform
def coreweave() -> Cluster:
    common = {"compute.coreweave.com/node-pool": "h100", "node.coreweave.cloud/state": "production"}
    labels = {
        **common,
        "gpu.nvidia.com/model": "H100_NVLINK_80GB",
        "gpu.nvidia.com/class": "H100_NVLINK_80GB",
        "ib.coreweave.cloud/fabric": "LGA1-A",
        "node.kubernetes.io/instance-type": "gd-8xh100ib-i128",
    }
    devices = {"nvidia.com/gpu": 8, "rdma/ib": 100}
    nodes = [node(f"g-{n}", devices, labels, ["sku=gpu:NoSchedule"]) for n in range(3)]
    plugin = daemonset(
        "nvidia-device-plugin", "kube-system", ["g-0", "g-1", "g-2"], image=PLUGIN, select={"compute.coreweave.com/node-pool": "h100"}
    )
    verify = pod("nhc-run-1", "cw-hpc-verification", "g-2", container("main", {"nvidia.com/gpu": 8, "rdma/ib": 1}), tolerations=["*"])
    watcher = pod("hpc-verification-controller-1", "cw-hpc-verification", "g-1", tolerations=["*"])
    jobs = [
        job(
            f"t-{n}",
            "research",
            f"g-{n}",
            {"nvidia.com/gpu": 8, "rdma/ib": 1},
            select={"gpu.nvidia.com/model": "H100_NVLINK_80GB"},
            tolerations=["sku:NoSchedule"],
        )
        for n in range(2)
    ]
    rest = base(**{**common, "compute.coreweave.com/node-pool": "cpu"})
    return Cluster(
        objects=[*rest, *nodes, *plugin, namespace("cw-hpc-verification", ""), verify, watcher, namespace("research"), *jobs],
        presets=["coreweave"],
        red={
            "FENCE-02": "nothing proves that cw-hpc-verification is the platform's",
            "FENCE-03": "nothing proves that cw-hpc-verification is the platform's",
            "FENCE-08": "nothing proves that cw-hpc-verification is the platform's",
            "PSA-01": "nothing proves that cw-hpc-verification is the platform's",
            "PSA-02": "nothing proves that cw-hpc-verification is the platform's",
        },
    )


@platform
def openshift() -> Cluster:
    common = {"node.openshift.io/os_id": "rhel"}
    labels = {
        **common,
        **gfd("NVIDIA-A100-SXM4-80GB", 4, more={"nvidia.com/gpu.family": "ampere", "nvidia.com/gpu.compute.major": "8"}),
        **deployed(),
    }
    nodes = [
        node(f"ocp-{n}", {"nvidia.com/gpu": 4}, labels, ["nvidia.com/gpu:NoSchedule"], system="Red Hat Enterprise Linux CoreOS")
        for n in range(2)
    ]
    version = {
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterVersion",
        "metadata": meta("version"),
        "spec": {"clusterID": "c"},
        "status": {},
    }
    synced = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("warn", "audit")}
    train = job(
        "train-0",
        "data-science",
        "ocp-0",
        {"nvidia.com/gpu": 4},
        select={"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"},
        tolerations=["nvidia.com/gpu:NoSchedule"],
        annotations={"openshift.io/scc": "restricted-v2"},
    )
    stack = operator("nvidia-gpu-operator", ["ocp-0", "ocp-1"])
    monitoring = [namespace("openshift-monitoring", ""), pod("node-exporter-0", "openshift-monitoring", "ocp-0", tolerations=["*"])]
    return Cluster(
        objects=[*base(**common), version, *nodes, *stack, *monitoring, namespace("data-science", "", **synced), train],
        presets=["gpu-operator", "openshift"],
    )


@platform
def talos_timeslice() -> Cluster:
    system = "Talos (v1.11.3)"
    shared = {
        "nvidia.com/gpu.family": "ada-lovelace",
        "nvidia.com/gpu.compute.major": "8",
        "nvidia.com/gpu.compute.minor": "9",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
        "nvidia.com/mig.capable": "false",
    }
    labels = gfd("NVIDIA-GeForce-RTX-4090-SHARED", 1, replicas=4, memory=24564, more=shared)
    box = node("talos-0", {"nvidia.com/gpu": 4}, labels, system=system, annotations={"extensions.talos.dev/schematic": "c" * 64})
    plugin = daemonset("nvidia-device-plugin", "kube-system", ["talos-0"], image=PLUGIN, select={PRESENT: "true"})
    spaces = [namespace(name, "") for name in ("default", "kube-node-lease", "kube-public", "kube-system")]
    select = {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090-SHARED"}
    pods = [job(f"jelly-{n}", "media", "talos-0", {"nvidia.com/gpu": 1}, select=select, runtimeClassName="nvidia") for n in range(2)]
    web = pod("web-0", "media", "talos-0", container("web", securityContext=SECURE))
    dns = pod("coredns-0", "kube-system", "talos-0")
    return Cluster(
        objects=[*spaces, box, dns, *plugin, namespace("media"), *pods, web],
        presets=["talos"],
        red={"FENCE-01": "the node has no taint", "FENCE-02": "web-0 runs beside the GPU without asking for it"},
    )


@platform
def k3s_plain() -> Cluster:
    version = "v1.33.4+k3s1"
    labels = {"node.kubernetes.io/instance-type": "k3s", "gpu": "present"}
    nodes = [
        node(f"box-{n}", {"nvidia.com/gpu": 2}, labels, ["nvidia.com/gpu:NoSchedule"], kubelet=version, provider=f"k3s://box-{n}")
        for n in range(2)
    ]
    plugin = daemonset("nvidia-device-plugin-daemonset", "kube-system", ["box-0", "box-1"], image=PLUGIN, select={"gpu": "present"})
    train = job(
        "train-0",
        "lab",
        "box-0",
        {"nvidia.com/gpu": 2},
        select={"gpu": "present"},
        tolerations=["nvidia.com/gpu:NoSchedule"],
        runtimeClassName="nvidia",
    )
    return Cluster(objects=[*base(kubelet=version), *nodes, *plugin, namespace("lab"), train], presets=["k3s"])


@platform
def rke2_mig() -> Cluster:
    version, product = "v1.33.5+rke2r1", "NVIDIA-A100-SXM4-40GB"
    profiles = {"1g.5gb": 16, "2g.10gb": 8, "3g.20gb": 8}
    labels = {
        **gfd(
            product,
            8,
            memory=40960,
            more={
                "nvidia.com/gpu.family": "ampere",
                "nvidia.com/gpu.compute.major": "8",
                "nvidia.com/mig.strategy": "mixed",
                "nvidia.com/gpu.replicas": "0",
            },
        ),
        **deployed(),
        "nvidia.com/mig.config": "all-balanced",
        "nvidia.com/mig.config.state": "success",
    }
    for profile, count in profiles.items():
        slices, _, memory = profile.partition("g.")
        labels |= {
            f"nvidia.com/mig-{profile}.count": str(count),
            f"nvidia.com/mig-{profile}.product": f"{product}-MIG-{profile}",
            f"nvidia.com/mig-{profile}.replicas": "1",
            f"nvidia.com/mig-{profile}.sharing-strategy": "none",
            f"nvidia.com/mig-{profile}.memory": str(int(memory.removesuffix("gb")) * 1024 - 256),
            f"nvidia.com/mig-{profile}.slices.gi": slices,
            f"nvidia.com/mig-{profile}.slices.ci": slices,
        }
    devices = {"nvidia.com/gpu": 0, **{f"nvidia.com/mig-{profile}": count for profile, count in profiles.items()}}
    nodes = [node("a100-0", devices, labels, ["nvidia.com/gpu:NoSchedule"], kubelet=version)]
    select, tolerated = {"nvidia.com/gpu.product": product}, ["nvidia.com/gpu:NoSchedule"]
    pods = [job(f"nb-{n}", "notebooks", "a100-0", {"nvidia.com/mig-1g.5gb": 1}, select=select, tolerations=tolerated) for n in range(2)]
    logging = [namespace("cattle-logging-system", ""), pod("fluentbit-0", "cattle-logging-system", "a100-0", tolerations=["*"])]
    return Cluster(
        objects=[*base(kubelet=version), *nodes, *operator("gpu-operator", ["a100-0"]), *logging, namespace("notebooks"), *pods],
        presets=["gpu-operator", "rke2"],
        red={
            "FENCE-02": "nothing proves that cattle-logging-system is the platform's",
            "FENCE-03": "nothing proves that cattle-logging-system is the platform's",
            "PSA-01": "nothing proves that cattle-logging-system is the platform's",
        },
    )


@platform
def amd_operator() -> Cluster:
    found = {
        "node.kubernetes.io/instance-type": "mi300x",
        "feature.node.kubernetes.io/amd-gpu": "true",
        "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
        "amd.com/gpu.device-id": "74a1",
        "amd.com/gpu.vram": "192G",
        "amd.com/gpu.cu-count": "304",
        "amd.com/gpu.family": "AI",
    }
    nodes = [node(f"mi-{n}", {"amd.com/gpu": 8}, found, ["amd.com/gpu:NoSchedule"]) for n in range(2)]
    virtual = {"node.kubernetes.io/instance-type": "mi300x-vf", "feature.node.kubernetes.io/amd-vgpu": "true"}
    nodes.append(node("vf-0", {"amd.com/gpu": 1}, virtual, ["amd.com/gpu:NoSchedule"]))
    config = {
        "apiVersion": "amd.com/v1alpha1",
        "kind": "DeviceConfig",
        "metadata": meta("default", "kube-amd-gpu"),
        "spec": {},
        "status": {
            part: {"nodesMatchingSelectorNumber": 2, "desiredNumber": 2, "availableNumber": 2}
            for part in ("devicePlugin", "metricsExporter")
        },
    }
    owner = {"apiVersion": "amd.com/v1alpha1", "kind": "DeviceConfig", "name": "default", "uid": "uid-kube-amd-gpu-default"}
    made = [definition("deviceconfigs", "amd.com", "DeviceConfig", "Namespaced"), config, namespace("kube-amd-gpu", "privileged")]
    every = ["mi-0", "mi-1"]
    for part, image in (
        ("device-plugin", "k8s-device-plugin"),
        ("node-labeller", "k8s-device-plugin"),
        ("metrics-exporter", "device-metrics-exporter"),
    ):
        made += daemonset(
            f"default-{part}",
            "kube-amd-gpu",
            every,
            image=f"rocm/{image}:v1.4.0",
            select={"feature.node.kubernetes.io/amd-gpu": "true"},
            owner=owner,
        )
    made += daemonset(
        "virtual-device-plugin",
        "kube-amd-gpu",
        ["vf-0"],
        image="rocm/k8s-device-plugin:v1.4.0",
        select={"feature.node.kubernetes.io/amd-vgpu": "true"},
        owner=owner,
    )
    select = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
    train = job("train-0", "research", "mi-0", {"amd.com/gpu": 8}, select=select, tolerations=["amd.com/gpu:NoSchedule"])
    return Cluster(objects=[*base(), *nodes, *made, namespace("research"), train], presets=["amd"])


@platform
def intel_gaudi() -> Cluster:
    gaudi = {"intel.feature.node.kubernetes.io/gaudi": "true", "node.kubernetes.io/instance-type": "gaudi3"}
    flex = {
        "intel.feature.node.kubernetes.io/gpu": "true",
        "gpu.intel.com/device-id.0380-56c0.present": "true",
        "node.kubernetes.io/instance-type": "flex170",
    }
    nodes = [
        node("hl-0", {"habana.ai/gaudi": 8}, gaudi, ["habana.ai/gaudi:NoSchedule"]),
        node("flex-0", {"gpu.intel.com/i915": 2, "gpu.intel.com/i915_monitoring": 1}, flex, ["gpu.intel.com/i915:NoSchedule"]),
    ]
    plugins = [
        namespace("habana-system", "privileged"),
        namespace("inteldeviceplugins-system", "privileged"),
        *daemonset(
            "habanalabs-device-plugin-daemonset",
            "habana-system",
            ["hl-0"],
            image="vault.habana.ai/docker-k8s-device-plugin/docker-k8s-device-plugin:1.22.0",
            select={"intel.feature.node.kubernetes.io/gaudi": "true"},
        ),
        namespace("habana-ai-operator", ""),
        *daemonset(
            "habana-metric-exporter",
            "habana-ai-operator",
            ["hl-0"],
            image="vault.habana.ai/gaudi-metric-exporter/metric-exporter:1.22.0-740",
            select={"intel.feature.node.kubernetes.io/gaudi": "true"},
        ),
        *daemonset(
            "intel-gpu-plugin",
            "inteldeviceplugins-system",
            ["flex-0"],
            image="intel/intel-gpu-plugin:0.34.0",
            select={"intel.feature.node.kubernetes.io/gpu": "true"},
        ),
    ]
    jobs = [
        job(
            "hpu-0",
            "research",
            "hl-0",
            {"habana.ai/gaudi": 8},
            select={"intel.feature.node.kubernetes.io/gaudi": "true"},
            tolerations=["habana.ai/gaudi:NoSchedule"],
        ),
        job(
            "media-0",
            "research",
            "flex-0",
            {"gpu.intel.com/i915": 1},
            select={"intel.feature.node.kubernetes.io/gpu": "true"},
            tolerations=["gpu.intel.com/i915:NoSchedule"],
        ),
    ]
    return Cluster(objects=[*base(), *nodes, *plugins, namespace("research"), *jobs], presets=["intel"])


def _slice(where: str, driver: str, devices: list[Json]) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": meta(f"{where}-{driver}"),
        "spec": {
            "driver": driver,
            "nodeName": where,
            "pool": {"name": where, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def _gpu(index: int, product: str, architecture: str, memory: str, tray: int = 0) -> Json:
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-0000000{index}-0000-0000-0000-00000000000{tray}"},
            "productName": {"string": product},
            "architecture": {"string": architecture},
            "driverVersion": {"version": "580.95.5"},
        },
        "capacity": {"memory": {"value": memory}},
    }


def _class(name: str, driver: str, kind: str) -> Json:
    expression = f"device.driver == '{driver}' && device.attributes['{driver}'].type == '{kind}'"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": meta(name),
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _dra_driver(names: list[str]) -> list[Json]:
    """NVIDIA's DRA driver on these nodes, in its namespace."""
    space = "nvidia-dra-driver-gpu"
    return [
        namespace(space, "privileged"),
        *daemonset(
            "nvidia-dra-driver-gpu-kubelet-plugin",
            space,
            names,
            image="nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0",
            select={PRESENT: "true"},
            mounts={"plugins-registry": "/var/lib/kubelet/plugins_registry", "plugins": "/var/lib/kubelet/plugins"},
        ),
    ]


@platform
def gb200_imex() -> Cluster:
    product, driver = "NVIDIA-GB200", "compute-domain.nvidia.com"
    labels = {
        **gfd(product, 4, memory=189471, more={"nvidia.com/gpu.family": "blackwell", "nvidia.com/gpu.compute.major": "10"}),
        **deployed(),
        "nvidia.com/gpu.clique": "9a1c7b7e-2f8b-4a44-9d6c-5b1f3c0a7d21.1",
    }
    names = ["gb-0", "gb-1"]
    nodes = [node(name, {"nvidia.com/gpu": 4}, labels, ["nvidia.com/gpu:NoSchedule"]) for name in names]
    channels = [{"name": "channel-0", "attributes": {"type": {"string": "channel"}, "id": {"int": 0}}}]
    daemons = [{"name": "daemon-0", "attributes": {"type": {"string": "daemon"}, "id": {"int": 0}}}]
    slices = [_slice(name, driver, [*channels, *daemons]) for name in names]
    classes = [
        _class("compute-domain-default-channel.nvidia.com", driver, "channel"),
        _class("compute-domain-daemon.nvidia.com", driver, "daemon"),
    ]
    stack = [*_dra_driver(names), definition("computedomains", "resource.nvidia.com", "ComputeDomain", "Namespaced")]
    jobs = [
        job(
            f"t-{n}",
            "research",
            name,
            {"nvidia.com/gpu": 4},
            select={"nvidia.com/gpu.product": product},
            tolerations=["nvidia.com/gpu:NoSchedule"],
        )
        for n, name in enumerate(names)
    ]
    return Cluster(
        objects=[*base(), *nodes, *operator("gpu-operator", names), *slices, *classes, *stack, namespace("research"), *jobs],
        presets=["gpu-operator", "dra", "gb200"],
    )


@platform
def dra_only() -> Cluster:
    driver, names = "gpu.nvidia.com", ["b200-0", "b200-1"]
    labels = {NFD: "true", "nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-B200"}
    nodes = [node(name, None, labels, ["nvidia.com/gpu:NoSchedule"]) for name in names]
    slices = [
        _slice(name, driver, [_gpu(n, "NVIDIA B200", "Blackwell", "183359Mi", tray) for n in range(2)]) for tray, name in enumerate(names)
    ]
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": meta("one", "research"),
        "spec": {
            "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": driver, "count": 1, "allocationMode": "ExactCount"}}]}
        },
        "status": {
            "allocation": {"devices": {"results": [{"request": "gpu", "driver": driver, "pool": "b200-0", "device": "gpu-0"}]}},
            "reservedFor": [{"resource": "pods", "name": "train-0", "uid": "uid-research-train-0"}],
        },
    }
    train = job(
        "train-0",
        "research",
        "b200-0",
        {},
        select={"nvidia.com/gpu.product": "NVIDIA-B200"},
        tolerations=["nvidia.com/gpu:NoSchedule"],
        resourceClaims=[{"name": "gpu", "resourceClaimName": "one"}],
    )
    train["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return Cluster(
        objects=[*base(), *nodes, *slices, _class(driver, driver, "gpu"), *_dra_driver(names), claim, namespace("research"), train],
        presets=["dra"],
    )


@platform
def hami() -> Cluster:
    """HAMi's plugin in place of the operator's, whose feature discovery counts devices and not their units."""
    turing = {"nvidia.com/gpu.family": "turing", "nvidia.com/gpu.compute.major": "7", "nvidia.com/gpu.compute.minor": "5"}
    labels = {"gpu": "on", "node.kubernetes.io/instance-type": "t4x2", **gfd("Tesla-T4", 2, memory=15360, more=turing)}
    device = {"count": 10, "devmem": 15360, "devcore": 100, "type": "NVIDIA-Tesla T4", "health": True}
    register = {"hami.io/node-nvidia-register": json.dumps([{"id": f"GPU-{n}", **device} for n in range(2)])}
    nodes = [node("t4-0", {"nvidia.com/gpu": 20}, labels, ["nvidia.com/gpu:NoSchedule"], annotations=register)]
    plugin = daemonset("hami-device-plugin", "kube-system", ["t4-0"], image="projecthami/hami:v2.7.0", select={"gpu": "on"})
    amounts = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000, "nvidia.com/gpucores": 30}
    pods = [
        job(
            f"infer-{n}",
            "serving",
            "t4-0",
            amounts,
            select={"gpu": "on"},
            tolerations=["nvidia.com/gpu:NoSchedule"],
            schedulerName="hami-scheduler",
        )
        for n in range(3)
    ]
    installed = operator("gpu-operator", [])
    installed[1]["spec"] = {"devicePlugin": {"enabled": False, "config": {"name": "plugin-configs", "default": "any"}}}
    objects = [*base(), *nodes, *plugin, *installed[:3], namespace("serving"), *pods]
    return Cluster(objects=objects, presets=["gpu-operator", "hami"])


@platform
def koordinator() -> Cluster:
    names, product, shares = ["a10-0", "a10-1"], "NVIDIA-A10", "koordinator.sh"
    ampere = {"nvidia.com/gpu.family": "ampere", "nvidia.com/gpu.compute.major": "8", "nvidia.com/gpu.compute.minor": "6"}
    model = {"node.koordinator.sh/gpu-vendor": "nvidia", "node.koordinator.sh/gpu-model": "A10"}
    labels = {**gfd(product, 4, memory=23028, more=ampere), **deployed(), **model}
    offered: dict[str, int | str] = {
        "nvidia.com/gpu": 4,
        f"{shares}/gpu": 400,
        f"{shares}/gpu.shared": 400,
        f"{shares}/gpu-core": 400,
        f"{shares}/gpu-memory": "92112Mi",
        f"{shares}/gpu-memory-ratio": 400,
        f"{shares}/rdma": 100,
    }
    nodes = [node(name, offered, labels, ["nvidia.com/gpu:NoSchedule"]) for name in names]
    agents = [
        item
        for agent in ("koordlet", "koord-device-daemon")
        for item in daemonset(agent, "koordinator-system", names, image=f"koordinator-sh/{agent}:v1.7.0", select={}, mounts={"sys": "/sys"})
    ]

    def given(core: int, memory: str, *minors: int) -> dict[str, str]:
        amounts = {f"{shares}/gpu-core": str(core), f"{shares}/gpu-memory": memory, f"{shares}/gpu-memory-ratio": str(core)}
        record = {"gpu": [{"minor": minor, "resources": amounts} for minor in minors]}
        text = json.dumps(record, separators=(",", ":"))
        return {"scheduling.koordinator.sh/device-allocated": text, "scheduling.koordinator.sh/gpu-minors": ",".join(map(str, minors))}

    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.annotations['scheduling.koordinator.sh/gpu-minors']"}}
    own = {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": source}]}  # the image's own says "all"

    def handing_on(item: Json) -> Json:
        item["spec"]["containers"][0] |= own
        return item

    def shared(name: str, asked: Mapping[str, int | str], annotations: Mapping[str, str]) -> Json:
        return job(
            name,
            "serving",
            "a10-0",
            asked,
            select={"nvidia.com/gpu.product": product},
            tolerations=["nvidia.com/gpu:NoSchedule"],
            annotations=annotations,
            schedulerName="koord-scheduler",
        )

    half = {f"{shares}/gpu.shared": 1, f"{shares}/gpu-core": 50, f"{shares}/gpu-memory-ratio": 50}
    pods = [
        handing_on(shared("half-0", half, given(50, "11514Mi", 0))),
        shared("half-1", half, given(50, "11514Mi", 0)),
        handing_on(shared("two-0", {f"{shares}/gpu": 200}, given(100, "23028Mi", 1, 2))),
        shared("memory-0", {f"{shares}/gpu-memory": "4Gi"}, given(18, "4Gi", 3)),
    ]
    whole = shared("whole-0", {"nvidia.com/gpu": 1}, given(100, "23028Mi", 0))
    whole["spec"]["nodeName"] = "a10-1"
    sleeping = handing_on(shared("half", half, {}))
    del sleeping["spec"]["nodeName"]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta("half", "serving", generation=1),
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "half"}},
            "template": {"metadata": {"labels": {"app": "half"}}, "spec": sleeping["spec"]},
        },
        "status": {"observedGeneration": 1},
    }
    return Cluster(
        objects=[
            *base(),
            *nodes,
            *operator("gpu-operator", names),
            namespace("koordinator-system", "privileged"),
            *agents,
            namespace("serving"),
            *pods,
            handing_on(whole),
            deployment,
        ],
        presets=["gpu-operator"],
    )


@platform
def kai_runai() -> Cluster:
    names = ["a100-0", "a100-1"]
    product = "NVIDIA-A100-SXM4-80GB"
    labels = {**gfd(product, 8, more={"nvidia.com/gpu.family": "ampere", "nvidia.com/gpu.compute.major": "8"}), **deployed()}
    nodes = [node(name, {"nvidia.com/gpu": 8}, labels, ["nvidia.com/gpu:NoSchedule"]) for name in names]
    group = {"runai-gpu-group": "4f6c2a8e-6f0f-4a38-9d6e-0b3f0a1c2d3e"}
    reservation = pod(
        "gpu-reservation-a100-0-x7x2q",
        "kai-resource-reservation",
        "a100-0",
        container("resource-reservation", {"nvidia.com/gpu": 1}),
        labels={"app": "kai-resource-reservation", **group},
        annotations={"run.ai/reserve_for_gpu_index": "GPU-1"},
        tolerations=["*"],
    )
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta("half-0-abcde-shared-gpu", "team-a"),
        "data": {"NVIDIA_VISIBLE_DEVICES": "GPU-1"},
    }
    bound = {"type": "PodBound", "status": "True", "reason": "Bound", "message": "Pod bound successfully to node a100-0"}
    halves = []
    for n in range(2):
        half = job(
            f"half-{n}",
            "team-a",
            "a100-0",
            {},
            select={"nvidia.com/gpu.product": product},
            tolerations=["nvidia.com/gpu:NoSchedule"],
            labels={**group, "kai.scheduler/queue": "team-a"},
            annotations={"gpu-fraction": "0.5"},
            schedulerName="kai-scheduler",
        )
        source = {"configMapKeyRef": {"name": "half-0-abcde-shared-gpu", "key": "NVIDIA_VISIBLE_DEVICES"}}
        half["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": source}]
        half["status"]["conditions"] = [*half["status"].get("conditions", ()), bound]
        halves.append(half)
    whole = job(
        "whole-0",
        "team-a",
        "a100-1",
        {"nvidia.com/gpu": 8},
        select={"nvidia.com/gpu.product": product},
        tolerations=["nvidia.com/gpu:NoSchedule"],
        schedulerName="kai-scheduler",
    )
    spaces = [
        namespace(name, "privileged")
        for name in ("kai-scheduler", "kai-resource-reservation", "runai", "runai-reservation", "runai-backend")
    ]
    stack = [
        definition("queues", "scheduling.run.ai", "Queue"),
        definition("projects", "run.ai", "Project"),
        pod("kai-scheduler-0", "kai-scheduler", "cpu-0"),
        pod("backend-0", "runai-backend", "cpu-0"),
    ]
    return Cluster(
        objects=[
            *base(),
            *nodes,
            *operator("gpu-operator", names),
            *spaces,
            *stack,
            reservation,
            namespace("team-a"),
            config,
            *halves,
            whole,
        ],
        presets=["gpu-operator", "kai", "runai"],
        red={"PSA-01": "nothing proves that runai-backend is the platform's"},
    )


@platform
def slinky_vgpu() -> Cluster:
    labels = {
        NFD: "true",
        PRESENT: "true",
        "nvidia.com/gpu.product": "GRID-A100-10C",
        "nvidia.com/vgpu.present": "true",
        "nvidia.com/gpu.count": "1",
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.memory": "10240",
    }
    names = ["v-0", "v-1"]
    nodes = [node(name, {"nvidia.com/gpu": 1}, labels, ["nvidia.com/gpu:NoSchedule"]) for name in names]
    plugin = daemonset("nvidia-device-plugin", "nvidia-device-plugin", names, image=PLUGIN, select={PRESENT: "true"})
    owner = {"apiVersion": "slinky.slurm.net/v1", "kind": "NodeSet", "name": "slurm-worker", "uid": "uid-nodeset"}
    slurmd = [
        pod(
            f"slurm-worker-{n}",
            "slurm",
            name,
            container(
                "slurmd", {"nvidia.com/gpu": 1}, securityContext={"capabilities": {"add": ["BPF", "NET_ADMIN", "SYS_ADMIN", "SYS_NICE"]}}
            ),
            owner=owner,
            tolerations=["nvidia.com/gpu:NoSchedule"],
        )
        for n, name in enumerate(names)
    ]
    stack = [
        definition("nodesets", "slinky.slurm.net", "NodeSet", "Namespaced"),
        namespace("slinky", ""),
        namespace("slurm", ""),
        namespace("nvidia-device-plugin", ""),
        pod("slurm-operator-0", "slinky", "cpu-0"),
        pod("slurmctld-0", "slurm", "cpu-0"),
    ]
    return Cluster(
        objects=[*base(), *nodes, *plugin, *stack, *slurmd],
        presets=["slinky"],
        red={
            "FENCE-08": "nothing proves that slurm is the platform's, and slurmd has no selector",
            "PSA-01": "nothing proves that slinky and slurm are the platform's",
            "PSA-02": "nothing proves that slurm is the platform's, and slurmd adds capabilities",
        },
    )
