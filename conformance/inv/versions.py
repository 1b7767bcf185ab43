"""INV-04: one driver, CUDA, kubelet, runtime and kernel in a pool of one product, and sources of one node that agree.

Facts: docs/facts/labels.md#discovery-labels, docs/facts/dra.md#nvidia-driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from conformance.inv.peer_agreement import DRIVER_LABELS, Differences, driver_of_parts, unlike_versions
from conformance.probes.node_documents import NodeDocuments
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, matches, subject
from fixtures.model.nodes.peers import pools_of_peers
from fixtures.text.sentences import cut
from fixtures.verdict.findings import About, Finding, advised, bad

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
    labels, info, probed = node.metadata.label, node.status.node_info, documents.by_node.get(node.name)
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
