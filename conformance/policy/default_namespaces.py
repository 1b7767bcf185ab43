"""The usual names of the platform's namespaces, and what proves that their products are installed.

A name whose product is not installed is free, and a tenant may take it (docs/decisions/platform-namespaces.md). Names of namespaces are
those of the products' own guides and charts; API groups are those of the custom kinds that they install
(docs/facts/platform-namespaces.md#what-shows-a-product).
"""

from __future__ import annotations

import msgspec

from conformance.policy.marks import Marks

OF_KUBERNETES = ("kube-system", "kube-public", "kube-node-lease")
"""Kubernetes makes these itself, before any tenant can."""


class Product(msgspec.Struct, frozen=True, kw_only=True):
    """A product and the names that its namespaces usually have.

    ``marks`` prove that it is installed; without any, only a namespace's own proof counts. ``operator`` is the kind of an operator's own
    object: where one says in which namespace it runs, the other names are free. ``agents`` are names (globs) of its DaemonSets: where
    another namespace of the platform runs one, these names are free. ``one_of``: the product has one of these namespaces, the oldest
    that is in use.
    """

    namespaces: tuple[str, ...]
    marks: Marks = Marks()
    operator: str = ""
    agents: tuple[str, ...] = ()
    one_of: bool = False


_NVIDIA = ("nvidia.com/gpu*", "nvidia.com/mig-*", "nvidia.com/pgpu")
_PLUGIN = ("*nvidia*device-plugin*", "*gpu*device-plugin*", "hami-device-plugin*", "volcano-device-plugin*")
_AKS = Marks(node_labels=("kubernetes.azure.com/cluster=?*", "kubernetes.azure.com/agentpool=?*"))
_EKS = Marks(node_labels=("eks.amazonaws.com/*=?*",), kubelet_versions=("*-eks-*",), provider_ids=("aws:///*",))
_GKE = Marks(node_labels=("cloud.google.com/gke-nodepool=?*",), kubelet_versions=("*-gke.*",))
_RANCHER = Marks(api_groups=("management.cattle.io", "catalog.cattle.io", "fleet.cattle.io", "provisioning.cattle.io"))


def _groups(*groups: str) -> Marks:
    return Marks(api_groups=groups)


PRODUCTS: tuple[Product, ...] = (
    Product(namespaces=("kube-flannel",), marks=Marks(node_annotations=("flannel.alpha.coreos.com/*",))),
    Product(namespaces=("kube-amd-gpu",), marks=_groups("amd.com")),
    Product(namespaces=("kube-amd-network",), marks=Marks(api_resources=("networkconfigs.amd.com",))),
    Product(
        namespaces=("gpu-operator", "nvidia-gpu-operator", "gpu-operator-resources"), marks=_groups("nvidia.com"), operator="ClusterPolicy"
    ),
    Product(
        namespaces=("network-operator", "nvidia-network-operator"),
        marks=_groups("mellanox.com"),
        operator="NicClusterPolicy",
        one_of=True,
    ),
    Product(namespaces=("sriov-network-operator",), marks=_groups("sriovnetwork.openshift.io")),
    Product(namespaces=("nvidia-device-plugin", "gpu-resources"), marks=Marks(capacity=_NVIDIA), agents=_PLUGIN, one_of=True),
    Product(
        namespaces=("nvidia-dra-driver-gpu", "dra-driver-nvidia-gpu"),
        marks=Marks(drivers=("gpu.nvidia.com", "compute-domain.nvidia.com"), api_groups=("resource.nvidia.com",)),
        agents=("*nvidia*dra*kubelet-plugin*", "*dra*nvidia*kubelet-plugin*"),
        one_of=True,
    ),
    Product(namespaces=("k8s-gpu-dra-driver",), marks=Marks(drivers=("gpu.amd.com",))),
    Product(namespaces=("intel-gpu-resource-driver",), marks=Marks(drivers=("gpu.intel.com",))),
    Product(namespaces=("intel-gaudi-resource-driver",), marks=Marks(drivers=("gaudi.intel.com",))),
    Product(namespaces=("intel-gpu-base-operator",), marks=_groups("intel.com")),
    Product(
        namespaces=("node-feature-discovery",),
        marks=Marks(api_groups=("nfd.k8s-sigs.io",), node_annotations=("nfd.node.kubernetes.io/*",)),
        agents=("*node-feature-discovery-worker*", "nfd-worker*"),
    ),
    Product(
        namespaces=("nvsentinel",),
        marks=Marks(
            api_groups=("*.dgxc.nvidia.com",), node_labels=("nvsentinel.dgxc.nvidia.com/*=?*", "dgxc.nvidia.com/nvsentinel-state=?*")
        ),
    ),
    Product(
        namespaces=("inteldeviceplugins-system",),
        marks=Marks(
            api_groups=("deviceplugin.intel.com",), capacity=("gpu.intel.com/*",), node_labels=("intel.feature.node.kubernetes.io/*=?*",)
        ),
    ),
    Product(namespaces=("habana-system", "habana-ai-operator"), marks=Marks(capacity=("habana.ai/gaudi",))),
    Product(namespaces=("neuron-healthcheck-system",), marks=Marks(capacity=("aws.amazon.com/neuron*",), drivers=("neuron.aws.com",))),
    Product(namespaces=("dra-driver-google-tpu",), marks=Marks(drivers=("tpu.google.com",))),
    Product(namespaces=("furiosa-system",), marks=Marks(capacity=("*furiosa.ai/*",), drivers=("*furiosa.ai",))),
    Product(namespaces=("rbln-system",), marks=Marks(capacity=("rebellions.ai/*",), api_groups=("*rebellions.ai",))),
    Product(namespaces=("mindx-dl", "npu-exporter"), marks=Marks(capacity=("huawei.com/*",))),
    Product(namespaces=("volcano-system",), marks=_groups("*.volcano.sh")),
    Product(
        namespaces=("koordinator-system",),
        marks=Marks(api_groups=("*.koordinator.sh",), capacity=("*koordinator.sh/*",), node_annotations=("*koordinator.sh/*",)),
    ),
    Product(namespaces=("kueue-system",), marks=_groups("kueue.x-k8s.io")),
    Product(
        namespaces=("kai-scheduler", "kai-resource-reservation", "kai-scale-adjust"), marks=_groups("kai.scheduler", "scheduling.run.ai")
    ),
    Product(namespaces=("runai", "runai-reservation", "runai-scale-adjust"), marks=_groups("run.ai")),
    Product(namespaces=("jobset-system",), marks=_groups("jobset.x-k8s.io")),
    Product(namespaces=("lws-system",), marks=_groups("leaderworkerset.x-k8s.io")),
    Product(
        namespaces=("kubeflow", "kubeflow-system", "training-operator"),
        marks=Marks(
            api_groups=("trainer.kubeflow.org",),
            api_resources=tuple(
                f"{kind}.kubeflow.org"
                for kind in (
                    "pytorchjobs",
                    "tfjobs",
                    "jaxjobs",
                    "xgboostjobs",
                    "notebooks",
                    "profiles",
                    "experiments",
                    "scheduledworkflows",
                )
            ),
        ),
        one_of=True,  # what two of them have in common needs neither devices nor their nodes
    ),
    Product(namespaces=("mpi-operator",), marks=Marks(api_resources=("mpijobs.kubeflow.org",))),
    Product(namespaces=("kuberay-system", "kuberay-operator"), marks=_groups("ray.io"), one_of=True),
    Product(namespaces=("calico-system", "calico-apiserver", "tigera-operator"), marks=_groups("operator.tigera.io")),
    Product(namespaces=("gatekeeper-system",), marks=_groups("*.gatekeeper.sh")),
    Product(namespaces=("istio-system",), marks=_groups("*.istio.io")),
    Product(namespaces=("metallb-system",), marks=_groups("metallb.io")),
    Product(namespaces=("longhorn-system",), marks=_groups("longhorn.io")),
    Product(
        namespaces=(
            "cattle-system",
            "cattle-fleet-system",
            "cattle-monitoring-system",
            "cattle-fleet-local-system",
            "cattle-impersonation-system",
            "cattle-provisioning-capi-system",
        ),
        marks=_RANCHER,
    ),
    Product(namespaces=("cert-manager",), marks=_groups("cert-manager.io")),
    Product(
        namespaces=("monitoring",),
        # charts of others install the definitions of ServiceMonitors alone
        marks=Marks(
            api_resources=("prometheuses.monitoring.coreos.com",), api_groups=("operator.victoriametrics.com", "monitoring.grafana.com")
        ),
    ),
    Product(namespaces=("local-path-storage",), marks=Marks(provisioners=("rancher.io/local-path",))),
    Product(namespaces=("karpenter",), marks=_groups("karpenter.sh")),
    Product(namespaces=("flux-system",), marks=_groups("*.toolkit.fluxcd.io")),
    Product(namespaces=("app-routing-system", "aks-istio-system", "azure-workload-identity-system"), marks=_AKS),
    Product(namespaces=("amazon-cloudwatch", "amazon-guardduty"), marks=_EKS),
    Product(namespaces=("oke-monitoring-system",), marks=Marks(provider_ids=("ocid1.instance.*", "oci://ocid1.instance.*"))),
    Product(namespaces=("mount-s3",), marks=_groups("s3.csi.aws.com")),
    Product(
        namespaces=(
            "gke-managed-system",
            "gke-managed-cim",
            "gke-managed-volumepopulator",
            "gke-managed-parallelstorecsi",
            "gke-managed-filestorecsi",
            "gke-managed-lustrecsi",
            "gke-managed-checkpointing",
            "gke-managed-networking-dra-driver",
            "gke-managed-dpv2-observability",
        ),
        marks=_GKE,
    ),
    Product(
        namespaces=("gke-gmp-system", "gmp-system", "gmp-public"),
        marks=msgspec.structs.replace(_GKE, api_groups=("monitoring.googleapis.com",)),
    ),
    Product(namespaces=("gpu-conformance", "gpu-conformance-chaos")),  # the record of a run proves what it made
)

NAMES = (*OF_KUBERNETES, *(name for product in PRODUCTS for name in product.namespaces))
PRODUCT_OF = {name: product for product in PRODUCTS for name in product.namespaces}
