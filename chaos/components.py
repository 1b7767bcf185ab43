"""Which components of a GPU cluster are there: found by the labels, owners and images that they are deployed with (facts 1.8, 4, 5, 6).

Names of components are the words that experiments use in ``needs``. A policy may say which workload is which
(``chaos.components: {device-plugin: gpu-system/my-plugin}``), because charts are renamed and forked.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from chaos.sampling.signals.view import NoData, View, dig, full_name, items_of, labels_of, name_of, namespace_of, text_of, uid_of
from fixtures.models import Json

DAEMON_SETS = "apps/daemonsets"
DEPLOYMENTS = "apps/deployments"


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """How a component is recognised: one of the label sets on its workload's pod template, else an image's base name.

    ``serves`` is a resource key that must be served too: a controller without its kind is no such component.
    """

    name: str
    key: str = DAEMON_SETS
    labels: tuple[Mapping[str, str], ...] = ()
    images: tuple[str, ...] = ()
    serves: str = ""


_NFD = "app.kubernetes.io/name"

KNOWN: tuple[Component, ...] = (
    Component(
        name="device-plugin",
        labels=(
            {"app": "nvidia-device-plugin-daemonset"},
            {_NFD: "nvidia-device-plugin", "app.kubernetes.io/component": "device-plugin"},
            {"k8s-app": "nvidia-gpu-device-plugin"},
            {"name": "nvidia-device-plugin-ds"},
        ),
    ),
    Component(name="gfd", labels=({"app": "gpu-feature-discovery"}, {_NFD: "gpu-feature-discovery"})),
    Component(
        name="nfd-worker",
        labels=({_NFD: "node-feature-discovery", "role": "worker"}, {"app": "nfd-worker"}),
    ),
    Component(name="nfd-master", key=DEPLOYMENTS, labels=({_NFD: "node-feature-discovery", "role": "master"}, {"app": "nfd-master"})),
    Component(
        name="exporter",
        labels=({"app": "nvidia-dcgm-exporter"}, {_NFD: "dcgm-exporter"}, {_NFD: "gke-managed-dcgm-exporter"}),
        images=("dcgm-exporter",),
    ),
    Component(name="host-engine", labels=({"app": "nvidia-dcgm"},)),
    Component(name="operator", key=DEPLOYMENTS, labels=({"app": "gpu-operator"},), serves="nvidia.com/clusterpolicies"),
    Component(name="mig-manager", labels=({"app": "nvidia-mig-manager"},), images=("k8s-mig-manager",)),
    Component(
        name="dra-plugin",
        labels=(
            {"app": "nvidia-dra-driver-kubelet-plugin"},
            {"nvidia-dra-driver-gpu-component": "kubelet-plugin"},
            {"dra-driver-nvidia-gpu-component": "kubelet-plugin"},
        ),
        serves="resource.k8s.io/resourceslices",
    ),
    Component(
        name="rdma-plugin",
        labels=({"app": "rdma-shared-dp"}, {"app": "sriovdp"}),
        images=("k8s-rdma-shared-dev-plugin", "sriov-network-device-plugin"),
    ),
    Component(
        name="volcano",
        key=DEPLOYMENTS,
        labels=({"app": "volcano-scheduler"},),
        images=("vc-scheduler",),
        serves="scheduling.volcano.sh/podgroups",
    ),
    Component(
        name="kueue",
        key=DEPLOYMENTS,
        labels=({_NFD: "kueue", "control-plane": "controller-manager"},),
        serves="kueue.x-k8s.io/workloads",
    ),
    Component(
        name="remediation",
        key=DEPLOYMENTS,
        labels=({_NFD: "fault-quarantine"}, {_NFD: "nvsentinel"}, {"app": "fault-quarantine"}),
        images=("fault-quarantine", "fault-quarantine-module"),
    ),
    Component(name="nvml-mock", labels=({_NFD: "nvml-mock"}, {"app": "nvml-mock"}), images=("nvml-mock",)),
)
"""Every component that experiments may need. Remediation is NVSentinel: the quarantining part stands for all of it."""

NAMES = frozenset(component.name for component in KNOWN)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One installed component: the workload that runs it. ``selector`` is a label selector of its pods."""

    component: str
    key: str
    namespace: str
    name: str
    uid: str
    selector: str
    images: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.component} ({self.key.rpartition('/')[2]} {self.namespace}/{self.name})"


class Components(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and why the rest was not."""

    found: dict[str, Found] = {}
    absent: dict[str, str] = {}

    def get(self, name: str) -> Found | None:
        """The component, or None."""
        return self.found.get(name)

    def missing(self, needs: tuple[str, ...]) -> str:
        """Why an experiment that needs these cannot be done here; empty when all are there."""
        return "; ".join(self.absent.get(name, f"{name} is no known component") for name in needs if name not in self.found)


def detect(view: View, overrides: Mapping[str, str] | None = None) -> Components:
    """Look for every known component. A list that is refused makes a component absent with that reason: it cannot be judged.

    ``overrides`` maps a component to ``namespace/name`` of its workload; one that is not there is absent.
    """
    overrides = overrides or {}
    found: dict[str, Found] = {}
    absent: dict[str, str] = {}
    for component in KNOWN:
        try:
            workload = _named(view, component, overrides[component.name]) if component.name in overrides else _first(view, component)
        except NoData as error:
            absent[component.name] = f"whether {component.name} is installed cannot be told: {error}"
            continue
        if workload is None:
            where = f" at {overrides[component.name]}, where the policy says it is" if component.name in overrides else ""
            absent[component.name] = f"{component.name} is not installed{where}"
        else:
            found[component.name] = workload
    return Components(found=found, absent=absent)


def pods_of(view: View, found: Found) -> list[Json]:
    """Pods of a component, by its workload's selector. One that another controller made is none, whatever labels it has."""
    if not found.selector:
        return []  # an empty selector selects every pod of the namespace
    return [pod for pod in view.select("pods", found.namespace, labels=found.selector) if not _ended(pod) and not _of_another(pod, found)]


def _of_another(pod: Json, found: Found) -> bool:
    """Whether a pod has a controller that is not the component's workload (or one of its ReplicaSets)."""
    owner = next((item for item in items_of(dig(pod, "metadata").get("ownerReferences")) if item.get("controller") is True), None)
    if owner is None:
        return False  # about to be adopted by the workload whose selector it matches
    if found.key == DAEMON_SETS:
        return owner.get("uid") != found.uid
    return owner.get("uid") != found.uid and not text_of(owner.get("name")).startswith(f"{found.name}-")


def _ended(pod: Json) -> bool:
    return text_of(dig(pod, "status").get("phase")) in ("Succeeded", "Failed")


def _named(view: View, component: Component, name: str) -> Found | None:
    for key in (component.key, DAEMON_SETS, DEPLOYMENTS):
        for item in view.select(key):
            if full_name(item) == name:
                return _found(component, key, item)
    return None


def _first(view: View, component: Component) -> Found | None:
    if component.serves and not _served(view, component.serves):
        return None
    workloads = [item for item in view.select(component.key) if _runs(component.key, item)]
    for item in workloads:
        labels = {**labels_of(item), **_template_labels(item)}
        if any(all(labels.get(key) == value for key, value in wanted.items()) for wanted in component.labels):
            return _found(component, component.key, item)
    for item in workloads:
        if any(_base_name(image) in component.images for image in _images(item)):
            return _found(component, component.key, item)
    return None


def _served(view: View, key: str) -> bool:
    try:
        view.select(key)
    except NoData:
        return False
    return True


def _runs(key: str, item: Json) -> bool:
    """Whether a workload wants any pod: a DaemonSet for no node, and a Deployment scaled to none, run nothing."""
    if key == DAEMON_SETS:
        return bool(dig(item, "status").get("desiredNumberScheduled"))
    return bool(dig(item, "spec").get("replicas", 1) != 0)


def _found(component: Component, key: str, item: Json) -> Found:
    return Found(
        component=component.name,
        key=key,
        namespace=namespace_of(item),
        name=name_of(item),
        uid=uid_of(item),
        selector=_selector(dig(item, "spec", "selector")),
        images=tuple(_images(item)),
    )


def _selector(wanted: Json) -> str:
    """A workload's selector in words that the API takes: labels and expressions."""
    words = [f"{name}={value}" for name, value in sorted(dig(wanted, "matchLabels").items())]
    for item in items_of(wanted.get("matchExpressions")):
        key, values = text_of(item.get("key")), ",".join(map(str, item.get("values") or ()))
        known = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}
        words.append(known.get(text_of(item.get("operator")), f"{key} in ()"))  # what is not known is refused by the API
    return ",".join(words)


def _template_labels(item: Json) -> dict[str, str]:
    return {str(key): text_of(value) for key, value in dig(item, "spec", "template", "metadata", "labels").items()}


def _images(item: Json) -> list[str]:
    return [text_of(container.get("image")) for container in items_of(dig(item, "spec", "template", "spec").get("containers"))]


def _base_name(image: str) -> str:
    """``registry:5000/a/b:tag@sha256:…`` → ``b``."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]
