"""A healthy cluster of each platform, as its public documents and manifests describe them: a file of ``healthy/`` each."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml

from fixtures.kubernetes.models import Json
from tests.platforms.objects import base, container, daemonset, definition, job, meta, namespace, node, pod, quota

HERE = Path(__file__).parent
DISCOVERED: dict[str, str] = yaml.safe_load((HERE / "discovered.yaml").read_text(encoding="utf-8"))
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


def gfd(product: str, count: int, *, replicas: int = 1, memory: int = 81559, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Labels as GPU Feature Discovery and NFD write them."""
    labels = {
        NFD: "true",
        PRESENT: "true",
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.count": str(count),
        "nvidia.com/gpu.replicas": str(replicas),
        "nvidia.com/gpu.memory": str(memory),
        **DISCOVERED,
    }
    return {**labels, **(more or {})}


def operator(space: str, nodes: Iterable[str]) -> list[Json]:
    """The GPU Operator with its agents."""
    names = list(nodes)
    agents = {
        "nvidia-device-plugin-daemonset": ("device-plugin", PLUGIN),
        "nvidia-dcgm-exporter": ("dcgm-exporter", "nvcr.io/nvidia/k8s/dcgm-exporter:4.2.3-4.1.3-ubuntu22.04"),
        "gpu-feature-discovery": ("gpu-feature-discovery", PLUGIN),
        "nvidia-container-toolkit-daemonset": ("container-toolkit", "nvcr.io/nvidia/k8s/container-toolkit:v1.19.1"),
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
        agent = daemonset(name, space, names, image=image, select={f"nvidia.com/gpu.deploy.{key}": "true"}, owner=OPERATOR)
        if key == "dcgm-exporter":
            agent[0]["spec"]["template"]["metadata"] |= {"annotations": {"prometheus.io/scrape": "true"}}
            agent += [prometheus()] if names else []
        made += agent
    return made


def prometheus() -> Json:
    """What reads the exporters that an annotation names."""
    return pod("prometheus-0", "kube-system", "cpu-0", container("prometheus", image="quay.io/prometheus/prometheus:v3.7.3"))


def deployed(
    keys: Iterable[str] = ("device-plugin", "dcgm-exporter", "gpu-feature-discovery", "container-toolkit", "operator-validator"),
) -> dict[str, str]:
    """Labels by which the operator's agents choose nodes."""
    return {f"nvidia.com/gpu.deploy.{key}": "true" for key in keys}


def _node(*, gfd: Mapping[str, Any] | None = None, deployed: bool = False, labels: Mapping[str, str] | None = None, **more: Any) -> Json:
    """A node with the labels that feature discovery and the operator write."""
    found = {**(_discovered(**gfd) if gfd else {}), **(_deployed() if deployed else {}), **(labels or {})}
    return node(labels=found, **more)


def _pod(name: str, space: str, where: str, *, containers: Sequence[Json] = (), **more: Any) -> Json:
    return pod(name, space, where, *(container(**one["container"]) for one in containers), **more)


def _job(*, main: Json | None = None, conditions: Sequence[Json] = (), **more: Any) -> Json:
    """A tenant's pod with further fields of its container and further conditions."""
    made = job(**more)
    first = made["spec"]["containers"][0]
    for field, value in (main or {}).items():
        first[field] = {**first[field], **value} if isinstance(value, dict) else value
    made["status"]["conditions"] += conditions
    return made


_discovered, _deployed = gfd, deployed
Builders = Mapping[str, Callable[..., Json | list[Json]]]
BUILDERS: Builders = {
    "base": base,
    "daemonset": daemonset,
    "definition": definition,
    "job": _job,
    "namespace": namespace,
    "node": _node,
    "operator": operator,
    "pod": _pod,
    "prometheus": prometheus,
}


def _built(entry: Json, builders: Builders) -> Iterator[Json]:
    """The objects of an entry: an object as it is, or what a builder makes of arguments, and of each row of ``each``.

    ``items`` are changes of each of the objects that it makes.
    """
    if "kind" in entry:
        yield entry
        return
    changes: list[Json] = entry.pop("items", [])
    [(name, asked)] = entry.items()
    each = asked.pop("each", None)
    rows = [dict(zip(each, values, strict=True)) for values in zip(*each.values(), strict=True)] if each else [{}]
    for row in rows:
        made = builders[name](**asked, **row)
        for number, item in enumerate(made if isinstance(made, list) else [made]):
            yield merged(item, changes[number] if number < len(changes) else {})


def merged(item: Json, change: Json) -> Json:
    """An object with changes, mappings into mappings."""
    for key, value in change.items():
        item[key] = merged(item[key], value) if isinstance(value, dict) and isinstance(item.get(key), dict) else value
    return item


def cluster_of(path: Path, builders: Builders = BUILDERS) -> Cluster:
    """The cluster that a file describes."""
    document = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    objects = [item for entry in document.pop("objects") for item in _built(entry, builders)]
    return Cluster(objects=objects, **document)


CLUSTERS: dict[str, Callable[[], Cluster]] = {path.stem: partial(cluster_of, path) for path in sorted((HERE / "healthy").glob("*.yaml"))}
