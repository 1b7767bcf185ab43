"""INV-04 and INV-06: nodes of one pool agree in devices, fabric, versions and images of agents, and so do sources of one node.

A node that offers less than its peers has lost something, even if its own labels agree with what is left.

Facts: docs/facts/dra.md#nvidia-driver, docs/facts/labels.md#discovery-labels.

INV-05: kubelets, control plane, container runtimes and drivers of accelerator nodes go together. Pure.

Facts: docs/facts/kubernetes-versions.md#skew, docs/facts/dra.md#versions-of-drivers.

Facts: docs/facts/container-runtimes.md#cdi.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from conformance.probes.node_documents import NodeDocuments
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.dra.slices import SHAPE_FOR_MACHINES
from fixtures.model.nodes.peers import (
    DRIVER_LABELS,
    MAJOR,
    NVIDIA,
    counts_of,
    driver_of_parts,
    driver_version,
    images_of_agents,
    keys_of,
    pools_of_peers,
    versions_of_peer,
)
from fixtures.model.platform.kubernetes_version import least_server_minor, minor_of, server_minor
from fixtures.model.platform.plugin_settings import without_cdi
from fixtures.text.globs import matches
from fixtures.text.sentences import cut, listed
from fixtures.verdict.findings import About, Finding, advised, bad, not_judged

_FIRMWARE = ("*firmware*", "*vbios*")
_OF_PEERS = "status.capacity, ResourceSlices, node labels, status.nodeInfo, pods of agents"
_POLICY = "the policy can name it in accelerators.allowedDifferences"

V = TypeVar("V", int, str)
Differences = dict[str, dict[str, str]]
"""``{node: {what: in which words it differs}}`` of one pool."""


def check_peers(scope: Scope, documents: NodeDocuments) -> Iterator[Finding]:
    """One finding per accelerator node: bad where counts or models differ from the pool's, advised where only versions do."""
    images = images_of_agents(scope)
    for pool in pools_of_peers(scope):
        firmware = [key for key in keys_of(pool) if matches(key, _FIRMWARE)]
        if len(pool) == 1:
            message = "it is the only node of its pool: there is no peer to compare it with"
            yield not_judged(subject(pool[0]), message=message, source=_OF_PEERS)
            continue
        counts = _unlike_counts({node.name: counts_of(scope, node) for node in pool})
        versions = unlike_versions({node.name: {**versions_of_peer(node, firmware), **images.get(node.name, {})} for node in pool})
        models = _unlike_models({node.name: _models(documents, node) for node in pool if node.name in documents.by_node})
        for node in pool:
            unlike = {**counts[node.name], **models.get(node.name, {})}
            yield _judge_peer(scope, node, len(pool), _refused(scope, unlike), _refused(scope, versions[node.name]))


def _judge_peer(scope: Scope, node: Node, size: int, counts: Sequence[str], versions: Sequence[str]) -> Finding:
    place, expected = subject(node), f"what most of the {size} nodes of its pool have"
    about = About(place, _OF_PEERS, expected)
    if not counts and not versions:
        return about.ok("as its pool")
    observed = "; ".join([*counts, *versions])
    if counts:
        message = f"{node.name} {observed}: devices or fabric were lost, or the nodes are set up differently ({_POLICY})"
        return about.bad(message, cause="CountsDifferFromPool", observed=observed)
    message = f"{node.name} {observed}: jobs that span the pool run on both ({_POLICY})"
    return about.advised(message, cause="VersionsDifferInPool", observed=observed)


def _refused(scope: Scope, found: Mapping[str, str]) -> list[str]:
    """Sentences about differences that the policy does not allow."""
    return [words for what, words in found.items() if not matches(what, scope.policy.accelerators.allowed_differences)]


def _unlike_counts(table: Mapping[str, Mapping[str, int]]) -> Differences:
    """Counts that differ from the pool's. Of two that are as common, the larger is the pool's: devices get lost, none is found."""
    found = _unlike_rows(table, 0, lambda counted: max(counted, key=lambda count: (counted[count], count)))
    return {name: {what: f"offers {own or 'no'} {what}, {others}" for what, (own, others) in row.items()} for name, row in found.items()}


def _models(documents: NodeDocuments, node: Node) -> set[str]:
    """Models of the devices that the driver of a node lists, with their memory: a board that was replaced may be another's."""
    devices = [device for driver in documents.by_node[node.name].drivers for device in driver.devices]
    return {f"{one.name} of {one.memory_total / 2**30:.0f} GiB" for one in devices if one.name and one.memory_total}


def _unlike_models(table: Mapping[str, set[str]]) -> Differences:
    """Models that most nodes of the pool lack. A pod may have read some devices only, so a model that is not listed says nothing."""
    counted = Counter(model for models in table.values() for model in models)
    rare = {model for model, count in counted.items() if 2 * count < len(table)}
    return {
        name: {model: f"has a {model}, {len(table) - counted[model]} of the {len(table)} nodes of its pool that were asked have none"}
        for name, models in table.items()
        for model in sorted(models & rare)
    }


def unlike_versions(table: Mapping[str, Mapping[str, str]]) -> Differences:
    """Versions that differ from the pool's. A node that tells none differs in none: what it lacks is judged elsewhere."""
    found = _unlike_rows(table, None, lambda counted: max(counted, key=lambda version: (counted[version], version)))
    return {name: {what: f"has {what} {own}, {others}" for what, (own, others) in row.items()} for name, row in found.items()}


def _unlike_rows(
    table: Mapping[str, Mapping[str, V]], absent: V | None, usual: Callable[[Counter[V]], V]
) -> dict[str, dict[str, tuple[V, str]]]:
    """``{node: {what: (its own value, what the others have in words)}}`` where a node differs from what is usual.

    ``absent`` is the value of what a node does not have; None: the node is not compared in it.
    """
    found: dict[str, dict[str, tuple[V, str]]] = {name: {} for name in table}
    for what in sorted({what for row in table.values() for what in row}):
        values = {name: value for name, row in table.items() if (value := row.get(what, absent)) is not None}
        counted = Counter(values.values())
        common = usual(counted)
        for name, value in values.items():
            if value != common:
                alike = counted[common] == len(values) - 1
                others = "the others of its pool" if alike else f"{counted[common]} of the {len(values)} nodes of its pool"
                found[name][what] = (value, f"{others} {common}")
    return found


_SOURCE = "node labels, ResourceSlices, status.nodeInfo, node probe"
_EXPECTED = "the versions of its pool, and sources that agree"
_CUDA_LABEL = "nvidia.com/cuda.runtime-version.full"
_KERNEL_LABEL = "feature.node.kubernetes.io/kernel-version.full"
_GPU_DRIVERS = ("gpu.nvidia.com", "gpu.amd.com")
"""Drivers of other devices of a node publish versions of their own."""

_NUMBERS = re.compile(r"\d{1,9}")

Versions = Mapping[str, Mapping[str, str]]
"""``{what: {source: version}}`` of one node. The first source is the nearest to the program itself."""


def check_versions(scope: Scope, documents: NodeDocuments) -> Iterator[Finding]:
    """One finding per accelerator node: bad where its driver is not its pool's or sources contradict each other, advised for the rest."""
    for pool in pools_of_peers(scope):
        versions = {node.name: _versions_of(scope, node, documents) for node in pool}
        unlike = _unlike(versions)
        for node in pool:
            allowed = scope.policy.accelerators.allowed_differences
            refused = {what: words for what, words in unlike[node.name].items() if not matches(what, allowed)}
            yield _judge(node, len(pool), versions[node.name], refused)


def _unlike(versions: Mapping[str, Versions]) -> Differences:
    """In what each node differs from its pool by any source: each source writes versions in its own way."""
    found: Differences = {name: {} for name in versions}
    for source in dict.fromkeys(source for rows in versions.values() for row in rows.values() for source in row):
        table = {name: {what: row[source] for what, row in rows.items() if source in row} for name, rows in versions.items()}
        for name, words in unlike_versions(table).items():
            found[name] = {**words, **found[name]}
    return found


def _judge(node: Node, size: int, versions: Versions, unlike: Mapping[str, str]) -> Finding:
    place = subject(node)
    observed = ", ".join(f"{what} {cut(next(iter(row.values())), 60)}" for what, row in versions.items())
    contradictions = {what: words for what, row in versions.items() if (words := _contradiction(row))}
    about = About(place, _SOURCE, _EXPECTED)
    if contradictions:
        words = "; ".join(f"{what}: {text}" for what, text in contradictions.items())
        message = f"{words}: one of them is old, and programs go by either"
        return about.bad(message, cause="VersionsContradict", observed=words)
    if unlike:
        words = "; ".join(unlike.values())
        say, message = (bad if "driver" in unlike else advised), f"{node.name} {words}: jobs that span the pool run on both"
        return say(place, cause="VersionsDifferInPool", observed=words, expected=_EXPECTED, source=_SOURCE, message=message)
    if size == 1 and all(len(row) < 2 for row in versions.values()):
        message = "it is the only node of its pool, and one source names each version: there is nothing to compare"
        return about.not_judged(message)
    if "driver" not in versions:
        return about.not_judged(f"no source names its driver; {observed or 'nothing else is known'}")
    return about.ok(observed)


def _versions_of(scope: Scope, node: Node, documents: NodeDocuments) -> dict[str, dict[str, str]]:
    labels, info, probed = node.metadata.label, node.info, documents.by_node.get(node.name)
    if probed is not None and probed.sandboxed:
        probed = None  # it read the kernel of its sandbox, and in a virtual machine another driver
    drivers = [driver for driver in probed.drivers if not driver.problem] if probed else []
    labelled = next((labels[key] for key in DRIVER_LABELS if labels.get(key)), "") or driver_of_parts(node)
    found = {
        "driver": {
            "node probe": drivers[0].version if drivers else "",
            "ResourceSlices": _published(scope, node, "driverVersion"),
            "labels": labelled,
        },
        "CUDA": {
            "node probe": drivers[0].cuda if drivers else "",
            "ResourceSlices": _published(scope, node, "cudaDriverVersion"),
            "labels": labels.get(_CUDA_LABEL, ""),
        },
        "kubelet": {"status.nodeInfo": info.kubelet_version},
        "runtime": {"status.nodeInfo": info.container_runtime_version},
        "kernel": {
            "status.nodeInfo": info.kernel_version,
            "node probe": probed.document.host.kernel if probed else "",
            "labels": labels.get(_KERNEL_LABEL, ""),
        },
    }
    known = {what: {source: version for source, version in row.items() if version} for what, row in found.items()}
    return {what: row for what, row in known.items() if row}


def _published(scope: Scope, node: Node, attribute: str) -> str:
    """What the slices of the node's GPUs say; of several versions all, so that they differ from what others say."""
    items = [item for item in scope.dra_inventory.get(node.name, ()) if item.driver in _GPU_DRIVERS]
    found = {device.body.attribute(attribute) for item in items for device in item.devices} - {""}
    return ", ".join(sorted(found))


def _contradiction(row: Mapping[str, str]) -> str:
    """Two sources that name different versions, in words; a shorter version may stand for a longer, and zeros in front mean nothing."""
    (first, version), *others = row.items()
    for source, other in others:
        one, two = _numbers(version), _numbers(other)
        if one[: len(two)] != two[: len(one)]:
            return f"{first} say {cut(version, 60)} and {source} {cut(other, 60)}"
    return ""


def _numbers(version: str) -> list[int]:
    return [int(number) for number in _NUMBERS.findall(version)]


_OLDER_BY = 3
_DRA_MINOR = 34
_DRA_DRIVER = 580


def check_skew(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node."""
    for node in scope.accelerator_nodes:
        yield _judge_skew(scope, node)


def _judge_skew(scope: Scope, node: Node) -> Finding:
    about = About(subject(node))
    if virtual := scope.virtual(node):
        return about.not_judged(f"{virtual}: it has no kubelet of Kubernetes", source="node labels")
    text = node.info.kubelet_version
    kubelet, server, least = minor_of(text), server_minor(scope), least_server_minor(scope)
    drivers = scope.dra_inventory.get(node.name, [])
    expected = "a kubelet not newer than the API server and at most three minor versions older" + (
        f"; for DRA Kubernetes 1.{_DRA_MINOR} or newer" if drivers else ""
    )
    observed = f"kubelet {text[:60] or 'unknown'}, API server {scope.snapshot.version[:60] or 'unknown'}"
    if kubelet is None:
        return about.undecided(f"its kubelet's version is not known: {text[:60] or 'none'}", source="status.nodeInfo")
    problems = []
    if server is not None and kubelet > server:
        problems.append(f"its kubelet 1.{kubelet} is newer than the API server 1.{server}")
    if least is not None and kubelet < least - _OLDER_BY:
        problems.append(f"its kubelet 1.{kubelet} is more than {_OLDER_BY} minor versions older than the API server 1.{least}")
    if drivers and kubelet < _DRA_MINOR:
        names = listed([item.driver for item in drivers])
        problems.append(
            f"it offers devices of {names} through DRA, which is stable from Kubernetes 1.{_DRA_MINOR} on, and runs 1.{kubelet}"
        )
    unknown = ""
    if any(item.driver == NVIDIA and any(device.body.type != SHAPE_FOR_MACHINES for device in item.devices) for item in drivers):
        version = driver_version(scope, node)
        major = MAJOR.match(version)
        observed += f", driver {version[:40] or 'unknown'}"
        expected += f" and NVIDIA driver {_DRA_DRIVER} or newer"
        if major is None:
            unknown = "neither its slices nor its labels tell the version of the NVIDIA driver"
        elif int(major[1]) < _DRA_DRIVER:
            problems.append(f"its NVIDIA driver is {version[:40]}, and devices through DRA need {_DRA_DRIVER} or newer")
    source = "status.nodeInfo, ResourceSlices, node labels"
    broken, doubt = without_cdi(scope, node)
    if broken and not problems:
        runtime = f"{text[:60]}, {node.info.container_runtime_version[:60]}"
        expected, source = "a kubelet and a container runtime that do CDI", "status.nodeInfo, DaemonSets, ClusterPolicies, ResourceSlices"
        return about.bad(broken, cause="RuntimeWithoutCdi", observed=runtime, expected=expected, source=source)
    problems += [broken] if broken else []
    unknown = unknown or doubt
    if problems:
        return about.bad(listed(problems, 4), cause="VersionsDoNotGoTogether", observed=observed, expected=expected, source=source)
    if unknown:
        return about.undecided(unknown, source=source)
    return about.ok(observed, expected=expected, source=source)
