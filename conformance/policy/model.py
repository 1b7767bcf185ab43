"""What the owner of a cluster expects of it. Every field has a default that suits an NVIDIA cluster.

One struct per section; the structs are the schema. Globs are shell patterns (``nvidia.com/mig-*``).
Durations are seconds unless the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Literal

import msgspec

from conformance.policy.default_namespaces import NAMES

PodSecurityLevel = Literal["privileged", "baseline", "restricted"]
Duration = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
"""In the unit that the field's name says. "Never" is a large number, which clocks can still add to a time."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


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
    """Names (globs) among them that are no devices: permission to monitor all of a node's devices, or shares of one device."""
    vm_resources: tuple[str, ...] = ("nvidia.com/[A-Z]*",)
    """Resources (globs) that pass devices to virtual machines and are named after the product: approved, but no container can use them."""
    drivers: tuple[str, ...] = ("gpu.*", "gaudi.intel.com", "tpu.google.com", "neuron.aws.com", "hami-core-gpu.project-hami.io")
    """DRA drivers (globs) whose devices are accelerators; other drivers are recognised by their name and by what they publish."""
    device_classes: tuple[str, ...] = ()
    """Names of DeviceClasses that must exist."""
    node_labels: tuple[str, ...] = (
        "feature.node.kubernetes.io/pci-10de.present=true",
        "feature.node.kubernetes.io/pci-0302_10de.present=true",
        "feature.node.kubernetes.io/pci-0300_10de.present=true",
        "feature.node.kubernetes.io/amd-gpu=true",
        "feature.node.kubernetes.io/amd-vgpu=true",
        "nvidia.com/gpu.present=true",
    )
    """Labels that are enough to call a node an accelerator node."""
    marks: tuple[str, ...] = (
        "feature.node.kubernetes.io/pci-10de.present=true",
        "feature.node.kubernetes.io/pci-????_10de*.present=true",
        "feature.node.kubernetes.io/pci-1002.present=true",
        "feature.node.kubernetes.io/pci-????_1002*.present=true",
        "feature.node.kubernetes.io/pci-1da3.present=true",
        "feature.node.kubernetes.io/pci-????_1da3*.present=true",
        "feature.node.kubernetes.io/pci-0302_8086*.present=true",
        "feature.node.kubernetes.io/pci-0380_8086*.present=true",
        "feature.node.kubernetes.io/amd-vgpu=true",
        "intel.feature.node.kubernetes.io/gpu=true",
        "intel.feature.node.kubernetes.io/gaudi=true",
        "nvidia.com/gpu.product=?*",
        "nvidia.com/gpu.count=[1-9]*",
        "nvidia.com/gpu.deploy.operands=false",
        "nvidia.com/gpu.workload.config=vm-*",
        "gpu.nvidia.com/model=?*",
        "amd.com/gpu=true",
        "amd.com/gpu.*=?*",
        "beta.amd.com/gpu.*=?*",
        "gpu.intel.com/product=?*",
        "gpu.intel.com/device-id.*=true",
        "habana.ai/device*=?*",
        "cloud.google.com/gke-accelerator=?*",
        "cloud.google.com/gke-gpu=true",
        "cloud.google.com/gke-tpu-accelerator=?*",
        "gke-no-default-nvidia-gpu-device-plugin=true",
        "kubernetes.azure.com/accelerator=?*",
        "eks.amazonaws.com/instance-gpu-name=?*",
        "eks.amazonaws.com/instance-accelerator-name=?*",
        "karpenter.k8s.aws/instance-gpu-name=?*",
        "karpenter.k8s.aws/instance-accelerator-name=?*",
        # docs/facts/vendors-and-clouds.md#labels-of-clouds
        "doks.digitalocean.com/gpu-brand=?*",
        "aliyun.accelerator/nvidia_name=?*",
        "nvidia-device-enable=enable",
        "qgpu-device-enable=enable",
        "accelerator=nvidia*",
        "accelerator=huawei-Ascend*",
        "accelerator/huawei-npu=ascend-*",
        "metax-tech.com/gpu.installed=true",
        # docs/facts/vendors-and-clouds.md#machines-with-accelerators
        "node.kubernetes.io/instance-type=inf[0-9]*.*",
        "node.kubernetes.io/instance-type=trn[0-9]*.*",
        "node.kubernetes.io/instance-type=dl[0-9]*.*xlarge",
        "node.kubernetes.io/instance-type=g3.[148]*xlarge",
        "node.kubernetes.io/instance-type=g4[ad][dn].*",
        "node.kubernetes.io/instance-type=g[5-9].xlarge",
        "node.kubernetes.io/instance-type=g[5-9].[0-9]*xlarge",
        "node.kubernetes.io/instance-type=g[5-9][efg].*",
        "node.kubernetes.io/instance-type=gr[0-9]*.*xlarge",
        "node.kubernetes.io/instance-type=p[0-9]*.*xlarge",
        "node.kubernetes.io/instance-type=Standard_N[CDGV]*",
        "node.kubernetes.io/instance-type=a[2-4]-*gpu*",
        "node.kubernetes.io/instance-type=a4x-*",
        "node.kubernetes.io/instance-type=g[24]-standard-*",
        "node.kubernetes.io/instance-type=*.GPU*.*",
        "node.kubernetes.io/instance-type=gpu-*x[0-9]*-*gb",
        "node.kubernetes.io/instance-type=g[0-9]-gpu-*",
        "node.kubernetes.io/instance-type=ecs.*gn[0-9]*.*",
        "node.kubernetes.io/instance-type=ecs.*pni[0-9]*.*",
        "node.kubernetes.io/instance-type=p[0-9]*.*xlarge.[0-9]*",
        "node.kubernetes.io/instance-type=pi[0-9]*.*xlarge.[0-9]*",
        "node.kubernetes.io/instance-type=gx[0-9]*[.-]*x[0-9]*",
        "node.kubernetes.io/instance-type=vcg-*c-*g-*vram",
        "node.kubernetes.io/instance-type=vbm-*-gpu",
        "node.kubernetes.io/instance-type=[BH][0-9]00-*[0-9]G",
        "node.kubernetes.io/instance-type=L4*-[0-9]*-*G",
        "node.kubernetes.io/instance-type=GPU-3070-S",
        "node.kubernetes.io/instance-type=RENDER-S",
        "node.kubernetes.io/instance-type=[ah][12]00-[0-9]*",
        "node.kubernetes.io/instance-type=l4-[0-9]*",
        "node.kubernetes.io/instance-type=l40s-[0-9]*",
        "node.kubernetes.io/instance-type=a10-[0-9]*",
        "node.kubernetes.io/instance-type=rtx[0-9]*-[0-9]*",
        "node.kubernetes.io/instance-type=t[12]-45",
        "node.kubernetes.io/instance-type=t[12]-90",
        "node.kubernetes.io/instance-type=t[12]-180",
        "node.kubernetes.io/instance-type=t[12]-le-[0-9]*",
        "k8s.amazonaws.com/accelerator=?*",
    )
    """Labels (globs over ``key=value``) that stay when a node loses its devices: a node with one of them counts as an accelerator node.
    A PCI label that the graphics of a CPU have too counts only where a node like it has a card of that maker. Elsewhere
    INV-02 names the node."""
    virtual_nodes: tuple[str, ...] = (
        "type=virtual-kubelet",
        "*/type=virtual-kubelet",
        "liqo.io/type=virtual-node",
        "node.kubernetes.io/instance-type=eklet",
    )
    """Labels (globs over ``key=value``) of nodes that are no machine: their pods run in another cluster or service, which this run cannot
    judge. They are set aside, and INV-02 names them."""
    expected_nodes: tuple[str, ...] = ()
    """Names of nodes that are accelerator nodes whatever their labels say; the other sources must agree."""
    expected_count: Count | None = None
    """How many accelerator nodes there must be; None: any number; 0: there must be none."""
    allow_not_judged: tuple[str, ...] = ()
    """Names (globs) of accelerator nodes that need not be judged: cordoned, NotReady, tainted or without devices."""
    pool_labels: tuple[str, ...] = (
        "*nodepool",
        "*node-pool",
        "*node.pool.id",
        "*agentpool",
        "*/nodegroup",
        "*/nodegroup-name",
        "*instancegroup",
        "*/machineset",
        "*/machine-pool",
        "*/pool",
        "*/pool-name",
        "*/pool.name",
    )
    """Label keys (globs) whose value names the pool of a node: nodes of one pool and one product must agree."""
    allowed_differences: tuple[str, ...] = ()
    """What nodes of one pool may differ in (globs): a resource name, ``driver``, ``kernel``, a firmware label, ``image CONTAINER``."""
    new_node_minutes: Duration = 15
    """How long a node that is new or Ready again may take until its devices and agents are there, in minutes."""
    allow_busy: bool = True
    """Whether a node without free devices may be judged by reading only, without probes."""


class Fence(Section, frozen=True, kw_only=True):
    """Taint fencing (FENCE)."""

    taint_keys: tuple[str, ...] = ("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "aws.amazon.com/neuron", "habana.ai/gaudi", "sku")
    """Taint keys (globs): every accelerator node must carry one of them, or a taint whose key is a device resource."""
    single_node: bool = True
    """Whether a cluster of one node must be fenced too, although its other pods have nowhere else to run."""
    allowed_namespaces: tuple[str, ...] = ()
    """Namespaces (globs) whose pods may run on accelerator nodes without a device, besides the platform's."""
    affinity: dict[str, str] = {}
    """Labels by which workloads select accelerator nodes; empty: each pool's product label."""


class Nodes(Section, frozen=True, kw_only=True):
    """Nodes out of service: repair, upgrade, maintenance (FENCE-09, FENCE-10, OPS-06, INV-02)."""

    quarantine_minutes: Duration = 15
    """How long a node with a fault may stay in service until somebody takes it out, and how long one may be NotReady, in minutes."""
    held_hours: Duration = 24
    """How long a node may be held: cordoned, under a temporary taint, or in a driver upgrade, in hours. Younger holds are
    inconclusive."""


class Tenants(Section, frozen=True, kw_only=True):
    """Who is a tenant, and what tenants may do."""

    namespaces: tuple[str, ...] = ("*",)
    """Tenant namespaces (globs); namespaces of the platform are never tenants."""
    infrastructure: tuple[str, ...] = NAMES
    """Namespaces of the platform (globs). The default has exact names only, because whoever may create namespaces chooses their names.
    A default name counts only where the cluster shows that its product is installed; a name of your own always counts."""
    more_infrastructure: tuple[str, ...] = ()
    """More namespaces of the platform (globs), besides ``infrastructure``: for operators and agents in namespaces with names of
    your own."""
    pod_security: PodSecurityLevel = "restricted"
    """Level each tenant namespace must enforce at least, and its device pods must satisfy."""
    pod_security_exceptions: dict[str, PodSecurityLevel] = {}
    """Another level for some tenants: namespace → privileged, baseline or restricted."""
    ipc_lock: tuple[str, ...] = ()
    """Tenants (globs) whose RDMA pods may add the capability IPC_LOCK. Only privileged admits it, so their namespaces may enforce that."""
    host_rdma: tuple[str, ...] = ()
    """Tenants (globs) whose device pods reach the fabric by hostNetwork and privileged, because the platform has no other way; to see
    no device of others they must take all devices of their node."""
    host_paths: tuple[str, ...] = ()
    """Paths of hosts (globs) that the platform's own guide has device pods mount, as GKE's for GPUDirect. What would make such a pod root
    of its host is accepted only where the pod takes all devices of its node."""
    isolated: tuple[str, ...] = ()
    """Tenants (globs) who must not share a device with others."""


class Requests(Section, frozen=True, kw_only=True):
    """Requests, limits and quotas (REQ)."""

    approved: tuple[str, ...] = ()
    """Approved device resource names (globs); empty means those of ``accelerators.resources`` and ``vmResources``."""
    scheduler_amounts: tuple[str, ...] = (
        "nvidia.com/gpumem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/gpucores",
        "nvidia.com/priority",
        "volcano.sh/vgpu-memory",
        "volcano.sh/vgpu-memory-percentage",
        "volcano.sh/vgpu-cores",
        "koordinator.sh/gpu-core",
        "koordinator.sh/gpu-memory",
        "koordinator.sh/gpu-memory-ratio",
    )
    """Amounts (globs) that only a scheduler or its extender counts. Where no node offers them, bound pods may hold them, if an annotation
    of a node shows that scheduler (HAMi's, Volcano's). A list of your own needs no annotation, nor does what you add to the default.
    An amount alone is no device (FENCE-02), except where a node offers it or you add it to the default."""
    autoscaled: list[str] = []
    """Resources (globs) that only new nodes of an autoscaler would offer: pending pods may ask for them."""
    refused_hours: Duration = 24
    """How long ago a kubelet may have refused a device pod for it to count, in hours."""
    pending_minutes: Duration = 15
    """How long a device pod or job may wait although devices that fit it are free, or in a queue that admits nothing, in minutes."""
    start_minutes: Duration = 60
    """How long a device pod may take to start on its node, image and init containers included, in minutes."""
    end_minutes: Duration = 30
    """How long a device pod may be deleted beyond its grace period, or crash again and again, in minutes."""


class Operators(Section, frozen=True, kw_only=True):
    """Operator and agents (OPS)."""

    expected_agents: tuple[str, ...] | None = None
    """DaemonSets (``namespace/name`` globs) that must be on every accelerator node; None: those that are installed."""
    rollout_minutes: Duration = 15
    """How long an agent's roll-out may take to make its next pod Ready, and an operator's object to become ready, in minutes."""
    image_tags_forbidden: tuple[str, ...] = ("latest",)
    """Tags (globs) that images of the agents may not have, because they name another image over time."""
    max_restarts: Count = 5
    """How often a container of an agent or controller may restart within ``restartHours``."""
    restart_hours: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 24
    """How long a time restarts are counted in, in hours."""


class Advertisement(Section, frozen=True, kw_only=True):
    """Advertisement by the device plugin, MIG and sharing (ADV, MIG, SHARE)."""

    max_label_age_hours: Duration = 0
    """Maximum age of GPU Feature Discovery's timestamp, in hours; 0: age is not judged (the timestamp is written at its start only)."""
    mig_pending_minutes: Duration = 30
    """How long a change of ``nvidia.com/mig.config`` may take, in minutes."""
    max_replicas: Count = 16
    """How many pods may share one device."""
    devices_per_node: dict[str, int] = {}
    """Physical devices of a node by product label or instance type (glob): ``NVIDIA-H100-80GB-HBM3: 8``, ``p5.48xlarge: 8``. Labels
    alone do not show a lost device."""


class Gang(Section, frozen=True, kw_only=True):
    """Gang scheduling (GANG)."""

    required: bool | None = None
    """Whether a gang scheduler must be installed; None: if multi-pod device jobs exist."""
    adapters: tuple[str, ...] = ()
    """Adapters to judge (volcano, kueue, native), or by reading only: kai, runai, coscheduling; empty means all that are detected."""
    partial_minutes: Duration = 10
    """How long only a part of a gang's pods may be bound, in minutes."""


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
    min_bus_bandwidth: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Least bus bandwidth of a two-node all-reduce at the largest size, in GB/s, for the kind of machine that gives the most ranks; None:
    a measured one of the same product, fabric and number of ranks, and where none is known NET-06 is not judged."""
    bus_bandwidths: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}
    """The same by product (glob), before the one for all: ``NVIDIA-H100*: 350``."""
    bisect: bool = True
    """Whether runs of pairs of free nodes follow a slow or indirect all-reduce, to find the node and the adapter."""
    nodes: Count = 2
    """Number of nodes of the all-reduce; below 2 it is left out."""
    image: str = "nvcr.io/nvidia/pytorch:25.09-py3"
    """Image of the all-reduce pods: PyTorch with the collective library of the devices."""
    images: dict[str, str] = {}
    """Other images for certain devices, by resource name (glob): ``amd.com/*: docker.io/rocm/pytorch:latest``."""
    command: str = ""
    """Shell command of each pod of the all-reduce; empty: the suite's own all-reduce under torchrun."""
    env: dict[str, str] = {}
    """Further environment variables of the all-reduce pods: NCCL_SOCKET_IFNAME, NCCL_NET_PLUGIN and the like."""
    attachments: str = ""
    """Networks that RDMA pods attach to: value of their annotation ``k8s.v1.cni.cncf.io/networks``."""
    ipc_lock: bool = False
    """Whether the pods of the two-node run need IPC_LOCK: they then run as root in a privileged namespace."""


class Metrics(Section, frozen=True, kw_only=True):
    """Metrics of devices (OBS)."""

    exporters: tuple[str, ...] = ()
    """DaemonSets (``namespace/name`` globs) that export metrics of devices, besides those that are known by image or name."""
    families: tuple[str, ...] = ("utilisation", "memory", "temperature", "power")
    """What each device must have a series for: utilisation, memory, temperature, power, xid, or the name of a series. Exporters of DCGM
    4 show no Xid before the first one happens, so ``xid`` suits clusters whose exporter always shows it."""
    alerts: tuple[Literal["allocatable", "xid", "ecc", "silent", "idle"], ...] = ("allocatable", "xid", "ecc", "silent", "idle")
    """What an alert rule has to fire on: fewer devices allocatable than there are, a fatal Xid, uncorrectable memory errors, a silent
    exporter, a device that is allocated and idle."""
    rules: tuple[str, ...] = ()
    """Files of alert rules beside the PrometheusRules of the cluster: rule files of Prometheus, or PrometheusRules."""
    custom: bool = False
    """Whether metrics for autoscalers must be served (an adapter of ``custom.metrics.k8s.io`` or ``external.metrics.k8s.io``) although no
    autoscaler asks for any yet."""
    prometheus: str = ""
    """A Prometheus that keeps the metrics, as ``NAMESPACE/SERVICE:PORT``, for what needs a history (OBS-04). It is asked through the API
    server's proxy, for which the account needs the right ``get services/proxy`` in that namespace; the suite's roles lack it."""
    idle_hours: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 24
    """How long a device may be allocated and idle, in hours."""
    attribution_seconds: Duration = 90
    """How long the exporter may take to name the pod that holds a device, and to forget one that has ended, in seconds."""
    fresh_seconds: Duration = 120
    """How long a device's samples may stand still although they have to move, in seconds: more than two collections of the exporter."""


Part = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Hardware(Section, frozen=True, kw_only=True):
    """Health of devices (HW)."""

    persistence: bool | None = None
    """Whether persistence mode must be on (true) or off (false); None: it is not judged."""
    xid_hours: Duration = 24
    """How long ago an Xid in a node's kernel log may be for it to count, in hours."""
    compute_seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 5
    """How long each device multiplies matrices to be measured."""
    least_fp32: Part = 0.25
    """Least part of a product's FP32 peak that its devices must reach, by the suite's own matrix multiply without tensor cores (HW-10)."""
    least_memory: Part = 0.4
    """Least part of the peak of a product's memory, by copies inside the device."""
    least_copies: Part = 0.5
    """Least part of the widest link to the host, by copies in each direction."""
    below_peers: Part = 0.25
    """How far below the median of devices of its name a device may be, as a part of it; 1: they are not compared."""


class Probes(Section, frozen=True, kw_only=True):
    """Pods that the suite creates."""

    image: str = "nvcr.io/nvidia/cuda:13.0.1-base-ubuntu24.04"
    """Image of pods that hold a device; the nodes must be able to pull it."""
    images: dict[str, str] = {}
    """Other images for pods that hold certain devices, by resource name (glob): ``amd.com/*: docker.io/rocm/rocm-terminal:6.4``. AMD's and
    Intel's devices compute in the image for them, if it has this suite beside ROCm or Level Zero."""
    cpu_image: str = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"
    """Image of pods that hold no device."""
    suite_image: str = ""
    """Image of this suite: pods in it run ``gpu-conformance probe``, which reads what the drivers of nodes say (``--access hardware``), and
    ``compute``. Without one, pods in ``image`` ask ``nvidia-smi``, and sysfs for AMD's devices; those that list devices do not compute."""
    sample_image: str = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"
    """Image of CUDA's sample vectorAdd, which computes on a device where there is no image of the suite; empty: nothing does."""
    whole_nodes: Literal["no", "runtime", "privileged"] = "no"
    """How a pod that asks for no device may read all devices of a node, busy ones too, and with ``privileged`` the kernel log: it sets
    NVIDIA_VISIBLE_DEVICES to ``all``, which some runtimes honour (``runtime``), or is privileged as well, and then asks kubelets which pod
    holds which device too (OBS-09). The roles of deploy/ let the account create no privileged pod. With ``no``, only free devices are
    read."""
    mirror: str = ""
    """Registry and path that go before the name of every image of the suite, chaos included: ``registry.example.com/mirror``."""
    start_seconds: Duration = 180
    """How long a pod that should run may take to start."""
    window_seconds: Duration = 30
    """How long at least an absence (stays Pending, binds nothing) is watched; a slow scheduler makes it up to 60 s."""
    every_node: bool = False
    """Whether probes run on every accelerator node with free devices, as with ``--every-node``; otherwise on one of every product."""
    at_once: Annotated[int, msgspec.Meta(ge=1)] = 32
    """About how many pods a probe of many nodes runs at a time."""
    every_node_seconds: Duration = 1800
    """How long one requirement goes on probing further nodes; nodes that it does not reach are undecided."""
    run_as_user: Count = 1000
    """Numeric user of probe pods; restricted namespaces refuse 0."""
    tolerations: tuple[dict[str, str], ...] = ()
    """Further tolerations of probe pods, beside those for the pool's fence taint."""
    pull_secrets: tuple[str, ...] = ()
    """Secrets that the images are pulled with. Something in the cluster must put them into new namespaces."""
    copy_pull_secret: Annotated[str, msgspec.Meta(pattern=r"^([a-z0-9.-]+/[a-z0-9.-]+)?$")] = ""
    """Pull Secret, as ``NAMESPACE/NAME``, that a run copies into its namespaces, with which it is removed. The suite's roles lack the
    right to get it and to create Secrets: give both to the account."""
    priority_class: str = ""
    """PriorityClass of probe pods, which should preempt nothing; empty: the run creates one below every workload's priority."""

    def image_for(self, resources: Iterable[str]) -> str:
        """The image for a pod that holds these resources."""
        held = tuple(resources)
        return next((image for glob, image in self.images.items() if any(fnmatchcase(name, glob) for name in held)), self.image)

    @property
    def pod_seconds(self) -> float:
        """How long a probe pod may run at most (activeDeadlineSeconds): longer than any probe needs it, and no longer."""
        return 10 * self.start_seconds + self.window_seconds


class Chaos(Section, frozen=True, kw_only=True):
    """What chaos experiments may do to the cluster. By default they act only on clusters that the suite itself started."""

    clusters: tuple[str, ...] = ()
    """Clusters that experiments, ``recover``, ``halt`` and ``cleanup`` may change, each by the UID of its namespace kube-system."""
    namespace_uid: str = ""
    """UID of the namespace gpu-conformance-chaos if an administrator has created it for Lease and ledgers; any other is not trusted."""
    max_level: Annotated[int, msgspec.Meta(ge=0, le=4)] | None = None
    """Highest level of experiments, which no option exceeds: 0 no real machine, 1 self-healing agents, 2 telemetry, 3 one node,
    4 destructive. Without it, it is 1, and ``--chaos-max-level`` may raise it."""
    max_targets: Annotated[int, msgspec.Meta(ge=1)] = 1
    """How many objects one experiment may touch at most, whatever the experiment itself allows."""
    max_percent: Annotated[float, msgspec.Meta(gt=0, le=100)] = 50
    """How many of the eligible nodes, devices or agents' pods it may touch at most, in percent."""
    injector_image: str = "gpu-conformance:0.1.0"
    """Image of the privileged pods that run host programs: the suite's own, where nodes can pull it. It has nsenter and
    kubelet-podresources. The default stands for ``probes.suiteImage`` where that names one."""
    canary_image: str = ""
    """Image of the experiments' own workload; empty: ``probes.image``."""
    components: dict[str, str] = {}
    """Which workload is a component, if several look like it or it is not in the platform's namespaces: ``device-plugin:
    gpu-system/my-plugin``."""
    protected_namespaces: tuple[str, ...] = ("kube-public", "kube-node-lease", "default")
    """Namespaces (globs) in which nothing is ever touched."""
    remediation: tuple[str, ...] = ()
    """Remediation that may react to the faults: nvsentinel, eks-node-monitoring, karpenter, cluster-autoscaler, draino, medik8s."""
    halt: bool = False
    """Whether experiments are halted: none may run."""


class Gate(Section, frozen=True, kw_only=True):
    """How much a run must judge to be conformant. If it judges less, it is inconclusive (exit code 10)."""

    minimum_judged: Count = 0
    """How many requirements must be judged at least; ``--min-judged`` overrides it."""
    max_inconclusive: Count | None = None
    """How many requirements may be inconclusive at most, those of level SHOULD too; ``--max-inconclusive`` overrides it."""
    max_not_applicable: Count | None = None
    """How many requirements may have nothing to judge; ``--max-not-applicable`` overrides it."""
    max_not_in_snapshot: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.25
    """Share of the requirements that a saved snapshot can answer (0.25: a quarter) that may judge nothing because it lacks kinds."""
    areas: tuple[str, ...] = ()
    """Areas of the catalogue (``FENCE``) of which at least one requirement must be judged."""


class Publish(Section, frozen=True, kw_only=True):
    """Labels of nodes with their verdict (``gpu-conformance publish``)."""

    max_age_hours: Duration = 24
    """How long ago the run may have begun whose report labels nodes, in hours."""


class Policy(Section, frozen=True, kw_only=True):
    """The whole policy."""

    accelerators: Accelerators = Accelerators()
    fence: Fence = Fence()
    nodes: Nodes = Nodes()
    tenants: Tenants = Tenants()
    requests: Requests = Requests()
    operators: Operators = Operators()
    advertisement: Advertisement = Advertisement()
    gang: Gang = Gang()
    network: Network = Network()
    metrics: Metrics = Metrics()
    hardware: Hardware = Hardware()
    probes: Probes = Probes()
    chaos: Chaos = Chaos()
    gate: Gate = Gate()
    publish: Publish = Publish()
    required: tuple[str, ...] = ()
    """Requirements that must judge something: nothing to judge is a failure, and an option that leaves one out a shortfall."""
    platform: str | tuple[str, ...] = ()
    """Presets by name, as with ``--platform``; empty: the cluster's own marks choose them, ``none``: no preset."""
