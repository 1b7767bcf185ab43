"""What the owner of a cluster expects of it. Every field has a default that suits an NVIDIA cluster.

One struct per section; the structs are the schema. Globs are shell patterns (``nvidia.com/mig-*``).
Durations are seconds unless the name says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

PodSecurityLevel = Literal["privileged", "baseline", "restricted"]


class Section(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Base of the sections: an unknown key is an error."""


class Accelerators(Section, frozen=True, kw_only=True):
    """Which resources are devices and which nodes are accelerator nodes."""

    resources: tuple[str, ...] = (
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-*",
        "nvidia.com/pgpu",
        "amd.com/*",
        "gpu.intel.com/*",
        "habana.ai/gaudi",
        "google.com/tpu",
        "aws.amazon.com/neuron*",
    )
    """Device resource names (globs)."""
    no_devices: tuple[str, ...] = (
        "gpu.intel.com/*monitoring",
        "gpu.intel.com/memory.max",
        "gpu.intel.com/millicores",
        "gpu.intel.com/tiles",
    )
    """Names (globs) among them that count no device: leave to monitor all of a node, shares of one."""
    vm_resources: tuple[str, ...] = ("nvidia.com/[A-Z]*",)
    """Resources (globs) that hand devices to virtual machines, named after the product: approved, but none that a container could use."""
    drivers: tuple[str, ...] = ("gpu.*", "gaudi.intel.com", "tpu.google.com", "neuron.aws.com")
    """DRA drivers (globs) whose devices are accelerators; others are known by their name and by what they publish."""
    node_labels: tuple[str, ...] = (
        "feature.node.kubernetes.io/pci-10de.present=true",
        "feature.node.kubernetes.io/pci-0302_10de.present=true",
        "feature.node.kubernetes.io/pci-0300_10de.present=true",
        "feature.node.kubernetes.io/amd-gpu=true",
        "nvidia.com/gpu.present=true",
    )
    """Labels that say by themselves that a node has an accelerator."""
    marks: tuple[str, ...] = (
        "feature.node.kubernetes.io/pci-10de.present=true",
        "feature.node.kubernetes.io/pci-????_10de*.present=true",
        "feature.node.kubernetes.io/pci-1002.present=true",
        "feature.node.kubernetes.io/pci-????_1002*.present=true",
        "feature.node.kubernetes.io/pci-1da3.present=true",
        "feature.node.kubernetes.io/pci-????_1da3*.present=true",
        "feature.node.kubernetes.io/pci-0302_8086*.present=true",
        "feature.node.kubernetes.io/pci-0380_8086*.present=true",
        "feature.node.kubernetes.io/pci-1200_8086*.present=true",
        "feature.node.kubernetes.io/amd-vgpu=true",
        "intel.feature.node.kubernetes.io/gpu=true",
        "intel.feature.node.kubernetes.io/gaudi=true",
        "nvidia.com/gpu.product=?*",
        "nvidia.com/gpu.deploy.operands=false",
        "nvidia.com/gpu.workload.config=vm-*",
        "gpu.nvidia.com/model=?*",
        "amd.com/gpu=true",
        "amd.com/gpu.product-name=?*",
        "beta.amd.com/gpu.product-name=?*",
        "gpu.intel.com/product=?*",
        "gpu.intel.com/device-id.*=true",
        "habana.ai/device*=?*",
        "cloud.google.com/gke-accelerator=?*",
        "cloud.google.com/gke-tpu-accelerator=?*",
        "kubernetes.azure.com/accelerator=?*",
        "eks.amazonaws.com/instance-gpu-name=?*",
        "eks.amazonaws.com/instance-accelerator-name=?*",
        "karpenter.k8s.aws/instance-gpu-name=?*",
        "karpenter.k8s.aws/instance-accelerator-name=?*",
        "node.kubernetes.io/instance-type=inf[0-9]*.*",
        "node.kubernetes.io/instance-type=trn[0-9]*.*",
    )
    """Labels (globs over ``key=value``) that stay when a node's devices are gone: with one, it counts as an accelerator node."""
    expected_nodes: tuple[str, ...] = ()
    """Names of nodes that are accelerator nodes whatever their labels say; the other sources must agree."""
    expected_count: int | None = None
    """How many accelerator nodes there must be; None does not count them, 0 says that there are none."""
    allow_not_judged: tuple[str, ...] = ()
    """Names (globs) of accelerator nodes that may stay out of reach: cordoned, NotReady, tainted away or without devices."""
    allow_busy: bool = True
    """Whether nodes with no free device may be left to the requirements that only read."""


class Fence(Section, frozen=True, kw_only=True):
    """Taint fencing (FENCE)."""

    taint_keys: tuple[str, ...] = ("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "aws.amazon.com/neuron", "habana.ai/gaudi", "sku")
    """Keys of which one must be on every accelerator node (globs)."""
    allowed_namespaces: tuple[str, ...] = ()
    """Namespaces whose pods may run on accelerator nodes without a device (globs), besides infrastructure ones."""
    affinity: dict[str, str] = {}
    """Labels by which workloads select accelerator nodes; empty takes each pool's product label."""


class Tenants(Section, frozen=True, kw_only=True):
    """Who is a tenant, and what tenants may do."""

    namespaces: tuple[str, ...] = ("*",)
    """Tenant namespaces (globs); namespaces of the platform are never tenants."""
    infrastructure: tuple[str, ...] = (
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "kube-flannel",
        "kube-amd-gpu",
        "gpu-operator",
        "nvidia-gpu-operator",
        "gpu-operator-resources",
        "network-operator",
        "nvidia-network-operator",
        "sriov-network-operator",
        "nvidia-device-plugin",
        "nvidia-dra-driver-gpu",
        "dra-driver-nvidia-gpu",
        "gpu-resources",
        "node-feature-discovery",
        "nvsentinel",
        "inteldeviceplugins-system",
        "habana-system",
        "volcano-system",
        "kueue-system",
        "kai-scheduler",
        "kai-resource-reservation",
        "runai",
        "runai-reservation",
        "jobset-system",
        "lws-system",
        "kubeflow",
        "kubeflow-system",
        "kuberay-system",
        "kuberay-operator",
        "mpi-operator",
        "training-operator",
        "calico-system",
        "calico-apiserver",
        "tigera-operator",
        "gatekeeper-system",
        "istio-system",
        "metallb-system",
        "longhorn-system",
        "cattle-system",
        "cattle-fleet-system",
        "cattle-monitoring-system",
        "cattle-fleet-local-system",
        "cattle-impersonation-system",
        "cattle-provisioning-capi-system",
        "cert-manager",
        "monitoring",
        "local-path-storage",
        "karpenter",
        "flux-system",
        "app-routing-system",
        "aks-istio-system",
        "azure-workload-identity-system",
        "amazon-cloudwatch",
        "amazon-guardduty",
        "gke-managed-system",
        "gke-managed-cim",
        "gke-managed-volumepopulator",
        "gke-managed-parallelstorecsi",
        "gke-managed-filestorecsi",
        "gke-managed-lustrecsi",
        "gke-managed-checkpointing",
        "gke-managed-networking-dra-driver",
        "gke-managed-dpv2-observability",
        "gke-gmp-system",
        "gmp-system",
        "gmp-public",
        "gpu-conformance",
        "gpu-conformance-chaos",
    )
    """Namespaces of the platform itself (globs). The default holds exact names only: who may create namespaces chooses their names."""
    more_infrastructure: tuple[str, ...] = ()
    """Further namespaces of the platform (globs), beside those of ``infrastructure``: operators and agents that live under names of
    your own."""
    pod_security: PodSecurityLevel = "restricted"
    """Level each tenant namespace must enforce at least, and its device pods must satisfy."""
    pod_security_exceptions: dict[str, PodSecurityLevel] = {}
    """Another level for single tenants: namespace → privileged, baseline or restricted."""
    ipc_lock: tuple[str, ...] = ()
    """Tenants (globs) whose RDMA pods may add the capability IPC_LOCK."""
    isolated: tuple[str, ...] = ()
    """Tenants (globs) who must not share a device with others."""


class Requests(Section, frozen=True, kw_only=True):
    """Requests, limits and quotas (REQ)."""

    approved: tuple[str, ...] = ()
    """Approved device resource names (globs); empty means those of ``accelerators.resources`` and ``vmResources``."""
    autoscaled: list[str] = []
    """Resources (globs) that nodes not there yet would offer: pending pods may ask for them."""


class Operators(Section, frozen=True, kw_only=True):
    """Operator and agents (OPS)."""

    expected_agents: tuple[str, ...] | None = None
    """DaemonSets (``namespace/name`` globs) that must be on every accelerator node; None takes those that are installed."""
    image_tags_forbidden: tuple[str, ...] = ("latest",)
    """Tags (globs) that images of the agents may not have, because what they name moves."""


class Advertisement(Section, frozen=True, kw_only=True):
    """Advertisement by the device plugin, MIG and sharing (ADV, MIG, SHARE)."""

    max_label_age_hours: float = 0
    """Oldest GFD timestamp; 0 does not judge age (GFD writes it at its start only)."""
    mig_pending_minutes: float = 30
    """How long a change of ``nvidia.com/mig.config`` may take, in minutes."""
    max_replicas: int = 16
    """To how many pods one device may be given where it is shared."""
    devices_per_node: dict[str, int] = {}
    """Physical devices of a node by product label (glob): ``NVIDIA-H100-80GB-HBM3: 8``. What labels alone cannot say (a lost device)."""


class Gang(Section, frozen=True, kw_only=True):
    """Gang scheduling (GANG)."""

    required: bool | None = None
    """Whether a gang scheduler must be there; None: when multi-pod device jobs exist."""
    adapters: tuple[str, ...] = ()
    """Adapters to judge (volcano, kueue, native); empty means all that are detected."""
    partial_minutes: float = 10
    """How long a gang may be bound in part, in minutes."""


class Network(Section, frozen=True, kw_only=True):
    """RDMA and GPUDirect (NET)."""

    resources: tuple[str, ...] = (
        "rdma/*",
        "nvidia.com/hostdev*",
        "nvidia.com/rdma*",
        "nvidia.com/mlnxnics",
        "vpc.amazonaws.com/efa",
        "openshift.io/*",
    )
    """RDMA resource names (globs)."""
    accepted: tuple[str, ...] = ("GDR_ENGAGED",)
    """NCCL verdicts that count as engaged: GDR_ENGAGED, MNNVL, TCPX_GPUDIRECT."""
    min_bus_bandwidth: float | None = None
    """GB/s of the largest size of a two-node all-reduce; None: not judged but must be measured."""
    nodes: int = 2
    """Nodes of the all-reduce; fewer than 2 leaves it out."""
    image: str = "nvcr.io/nvidia/pytorch:25.09-py3"
    """Image of its pods: PyTorch with the collective library of the devices."""
    command: str = ""
    """Shell command of one rank group; empty runs the suite's own all-reduce under torchrun."""
    env: dict[str, str] = {}
    """Further environment of the two-node run: NCCL_SOCKET_IFNAME, NCCL_NET_PLUGIN and the like."""
    attachments: str = ""
    """Networks that RDMA pods attach to: value of their annotation ``k8s.v1.cni.cncf.io/networks``."""
    ipc_lock: bool = False
    """Whether the pods of the two-node run need IPC_LOCK: they then run as root in a privileged namespace."""


class Probes(Section, frozen=True, kw_only=True):
    """Pods that the suite creates."""

    image: str = "nvcr.io/nvidia/cuda:13.0.1-base-ubuntu24.04"
    """Image of pods that hold a device; the nodes must be able to pull it."""
    cpu_image: str = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"
    """Image of pods that hold none."""
    start_seconds: float = 180
    """Deadline for a pod that should run."""
    window_seconds: float = 30
    """How long an absence (stays Pending, binds nothing) is watched, at least."""
    every_node: bool = False
    """Whether probes ask every accelerator node that is free, as ``--every-node`` has it; else one of every product."""
    at_once: Annotated[int, msgspec.Meta(ge=1)] = 32
    """How many pods a probe that asks many nodes has at a time, about."""
    every_node_seconds: float = 1800
    """How long one requirement goes on to further nodes; those it did not come to are undecided."""
    run_as_user: int = 1000
    """Numeric user of probe pods; restricted namespaces refuse 0."""
    tolerations: tuple[dict[str, str], ...] = ()
    """Further tolerations of probe pods, beside those for the pool's fence taint."""
    pull_secrets: tuple[str, ...] = ()
    """Secrets that the images are pulled with. The suite copies none: something in the cluster must put them into new namespaces."""
    priority_class: str = ""
    """PriorityClass of probe pods, which should preempt nothing; empty creates one for the run, below every workload's priority."""

    @property
    def pod_seconds(self) -> float:
        """How long a probe pod may run at most (activeDeadlineSeconds): longer than any probe needs it, and no longer."""
        return 10 * self.start_seconds + self.window_seconds


class Chaos(Section, frozen=True, kw_only=True):
    """What chaos experiments may do to the cluster. Without a word here they act on none but those that the suite itself started."""

    clusters: tuple[str, ...] = ()
    """Clusters that experiments, ``recover``, ``halt`` and ``cleanup`` may change, each by the UID of its namespace kube-system."""
    namespace_uid: str = ""
    """UID of a namespace gpu-conformance-chaos that an administrator has made for Lease and ledgers; any other one is somebody else's."""
    max_level: Annotated[int, msgspec.Meta(ge=0, le=4)] = 1
    """Highest level of experiments: 0 no real machine, 1 self-healing agents, 2 telemetry, 3 one node, 4 destructive."""
    max_targets: Annotated[int, msgspec.Meta(ge=1)] = 1
    """How many objects one experiment may touch, whatever it says itself."""
    max_percent: Annotated[float, msgspec.Meta(gt=0, le=100)] = 50
    """How many of the eligible nodes, devices or agents' pods it may touch, in percent."""
    injector_image: str = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"
    """Image of the privileged pods that run host programs: it must have nsenter."""
    canary_image: str = ""
    """Image of the experiments' own workload; empty takes ``probes.image``."""
    components: dict[str, str] = {}
    """Which workload is which component, where several could be or none is where components are looked for: ``device-plugin:
    gpu-system/my-plugin``."""
    protected_namespaces: tuple[str, ...] = ("kube-public", "kube-node-lease", "default")
    """Namespaces (globs) in which nothing is ever touched."""
    remediation: tuple[str, ...] = ()
    """Remediation that may see the faults and react: nvsentinel, eks-node-monitoring, karpenter, cluster-autoscaler, draino, medik8s."""
    halt: bool = False
    """Whether nothing may run at all."""


class Gate(Section, frozen=True, kw_only=True):
    """How much a run must judge to be conformant. Less than that is inconclusive (exit code 10)."""

    minimum_judged: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How many requirements must be judged at least; ``--min-judged`` takes its place."""
    areas: tuple[str, ...] = ()
    """Areas of the catalogue (``FENCE``) of which at least one requirement must be judged."""


class Policy(Section, frozen=True, kw_only=True):
    """The whole policy."""

    accelerators: Accelerators = Accelerators()
    fence: Fence = Fence()
    tenants: Tenants = Tenants()
    requests: Requests = Requests()
    operators: Operators = Operators()
    advertisement: Advertisement = Advertisement()
    gang: Gang = Gang()
    network: Network = Network()
    probes: Probes = Probes()
    chaos: Chaos = Chaos()
    gate: Gate = Gate()
    required: tuple[str, ...] = ()
    """Requirements that must judge something: nothing to judge is a failure."""
