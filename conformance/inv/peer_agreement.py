"""INV-06: nodes of one pool agree in devices, fabric, driver, kernel, firmware and images of agents.

A node that offers less than its peers has lost something, even if its own labels agree with what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from fixtures.kubernetes.images import repository, tag_of
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, matches, subject, whole
from fixtures.model.nodes.peers import keys_of, pools_of_peers
from fixtures.model.platform.agents import agents
from fixtures.verdict.findings import About, Finding, not_judged

DRIVER_LABELS = ("nvidia.com/cuda.driver-version.full", "amd.com/gpu.driver-version", "amd.com/gpu.driver-src-version")
_DRIVER_PARTS = ("nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev")
_FIRMWARE = ("*firmware*", "*vbios*")
_SOURCE = "status.capacity, ResourceSlices, node labels, status.nodeInfo, pods of agents"
_POLICY = "the policy can name it in accelerators.allowedDifferences"

V = TypeVar("V", int, str)
Differences = dict[str, dict[str, str]]
"""``{node: {what: in which words it differs}}`` of one pool."""


def check_peers(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node: bad where counts differ from the pool's, advised where only versions do."""
    images = _images(scope)
    for pool in pools_of_peers(scope):
        firmware = [key for key in keys_of(pool) if matches(key, _FIRMWARE)]
        if len(pool) == 1:
            message = "it is the only node of its pool: there is no peer to compare it with"
            yield not_judged(subject(pool[0]), message=message, source=_SOURCE)
            continue
        counts = _unlike_counts({node.name: _counts(scope, node) for node in pool})
        versions = unlike_versions({node.name: {**_versions(node, firmware), **images.get(node.name, {})} for node in pool})
        for node in pool:
            yield _judge(scope, node, len(pool), _refused(scope, counts[node.name]), _refused(scope, versions[node.name]))


def _judge(scope: Scope, node: Node, size: int, counts: Sequence[str], versions: Sequence[str]) -> Finding:
    place, expected = subject(node), f"what most of the {size} nodes of its pool have"
    about = About(place, _SOURCE, expected)
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
    found = _unlike(table, 0, lambda counted: max(counted, key=lambda count: (counted[count], count)))
    return {name: {what: f"offers {own or 'no'} {what}, {others}" for what, (own, others) in row.items()} for name, row in found.items()}


def unlike_versions(table: Mapping[str, Mapping[str, str]]) -> Differences:
    """Versions that differ from the pool's. A node that tells none differs in none: what it lacks is judged elsewhere."""
    found = _unlike(table, None, lambda counted: max(counted, key=lambda version: (counted[version], version)))
    return {name: {what: f"has {what} {own}, {others}" for what, (own, others) in row.items()} for name, row in found.items()}


def _unlike(
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


def _counts(scope: Scope, node: Node) -> dict[str, int]:
    """Units of each device and fabric resource, and devices of each DRA driver; never 0."""
    found = {name: whole(value) for name, value in node.status.capacity.items() if scope.is_device(name) or scope.is_rdma(name)}
    by_plugin = any(scope.device_capacity(node).values())  # slices beside that are ADV-05's
    for item in () if by_plugin else scope.dra_inventory.get(node.name, ()):
        found[f"{item.driver} in ResourceSlices"] = item.whole
    return {name: count for name, count in found.items() if count}


def _versions(node: Node, firmware: Iterable[str]) -> dict[str, str]:
    """Versions that a node's labels and its kubelet tell; ``firmware`` are keys of labels about it."""
    labels = node.metadata.label
    driver = next((labels[key] for key in DRIVER_LABELS if labels.get(key)), "")
    found = {
        "driver": driver or driver_of_parts(node),
        "kernel": node.status.node_info.kernel_version,
        **{key: labels[key] for key in firmware if key in labels},
    }
    return {name: value for name, value in found.items() if value}


def driver_of_parts(node: Node) -> str:
    """The driver's version by the labels of its parts; empty without any."""
    labels = node.metadata.label
    return ".".join(labels[key] for key in _DRIVER_PARTS if labels.get(key))


def _images(scope: Scope) -> dict[str, dict[str, str]]:
    """Versions of the agents' images by node: ``{node: {"image REPOSITORY": version}}``. An agent that is being rolled out has none."""
    found: dict[str, dict[str, str]] = {}
    for agent in agents(scope):
        status = agent.daemonset.status
        if status.updated_number_scheduled != status.desired_number_scheduled:
            continue  # OPS-02 follows its roll-out
        for name, pod in agent.pods.items():
            for container in pod.spec.containers:
                what, version = _image(container.image)
                found.setdefault(name, {})[what] = version
    return found


@lru_cache(maxsize=1024)  # an agent has the same images on every node
def _image(reference: str) -> tuple[str, str]:
    return f"image {repository(reference)}", tag_of(reference) or reference.partition("@")[2] or "latest"
