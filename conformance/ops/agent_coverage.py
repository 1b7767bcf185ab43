"""OPS-13, second part: agents are on all nodes where they belong, by what ClusterPolicy and DeviceConfig enable and by what peers run.

OPS-02 asks for a pod where a DaemonSet selects a node. This asks whether one selects the node at all.
Facts: docs/facts/gpu-operator.md#agents, docs/facts/vendors-and-clouds.md#amd.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from fixtures.kubernetes.images import repository
from fixtures.kubernetes.models import DaemonSet, Json, Node
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.cluster import Scope, matches
from fixtures.model.nodes.availability import withheld
from fixtures.model.nodes.changes_by_age import change_under_way
from fixtures.model.nodes.peers import pools_of_peers
from fixtures.model.placement.affinity import admits
from fixtures.model.platform.agents import DEPLOY, Agent, agents
from fixtures.model.platform.namespaces import CLUSTER_POLICIES, is_heeded
from fixtures.text.ages import so_far
from fixtures.text.sentences import listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, bad, ok, undecided
from fixtures.verdict.subjects import Subject

DEVICE_CONFIGS = "amd.com/deviceconfigs"
_DRIVER_READY = "kmm.node.kubernetes.io/"
"""How the labels begin by which agents wait for the driver's module on a node (Kernel Module Management)."""


class DeviceConfigPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part that a DeviceConfig enables: its DaemonSets, and nodes that it selects and no DaemonSet does."""

    place: Subject
    selector: str
    sets: list[DaemonSet]
    left: list[Node]
    source: str


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A part: where the spec has it, the field that enables it, whether it is installed without that field, and its DaemonSet's suffix."""

    section: str
    field: str
    default: bool
    suffix: str
    own_selector: bool = False


_KINDS = (
    _Kind(section="devicePlugin", field="enableDevicePlugin", default=True, suffix="device-plugin"),
    _Kind(section="devicePlugin", field="enableNodeLabeller", default=False, suffix="node-labeller"),
    _Kind(section="draDriver", field="enable", default=False, suffix="dra-driver", own_selector=True),
    _Kind(section="metricsExporter", field="enable", default=False, suffix="metrics-exporter", own_selector=True),
)


def parts_of_device_configs(scope: Scope) -> Iterator[DeviceConfigPart]:
    """Each part that a DeviceConfig enables, if it selects a node that is judged."""
    for item in scope.snapshot.listing(DEVICE_CONFIGS).objects:
        spec = mapping(item.get("spec"))
        for kind in _KINDS:
            section = mapping(spec.get(kind.section))
            enabled = section.get(kind.field)
            if kind.default if enabled is None else enabled is True:
                own = mapping(section.get("selector")) if kind.own_selector else {}
                if found := _part(scope, item, kind, own or mapping(spec.get("selector"))):
                    yield found


def _part(scope: Scope, item: Json, kind: _Kind, selector: Json) -> DeviceConfigPart | None:
    meta = mapping(item.get("metadata"))
    name, namespace = str(meta.get("name")), str(meta.get("namespace"))
    wanted = [
        node
        for node in scope.accelerator_nodes
        if selector and all(node.metadata.label.get(key) == value for key, value in selector.items())
    ]
    if not wanted:
        return None
    sets = [one for one in scope.snapshot.daemonsets if one.namespace == namespace and one.name.startswith(f"{name}-{kind.suffix}")]
    return DeviceConfigPart(
        place=Subject("DeviceConfig", f"{name} {kind.suffix}", namespace),
        selector=", ".join(f"{key}={value}" for key, value in sorted(selector.items())),
        sets=sets,
        left=[node for node in wanted if not any(admits(one.spec.template.spec, node) or _awaits_driver(one, node) for one in sets)],
        source=f"spec.{kind.section}.{kind.field}, spec.selector, DaemonSets",
    )


def _awaits_driver(daemonset: DaemonSet, node: Node) -> bool:
    """Whether a DaemonSet lacks nothing of a node but that the driver's module is ready there, which is not this part's fault."""
    wanted = daemonset.spec.template.spec.node_selector or {}
    missing = [key for key, value in wanted.items() if node.metadata.label.get(key) != value]
    return bool(missing) and all(key.startswith(_DRIVER_READY) for key in missing)


_COMPONENTS = {
    "driver": ("driver", True),
    "toolkit": ("container-toolkit", True),
    "devicePlugin": ("device-plugin", True),
    "dcgmExporter": ("dcgm-exporter", True),
    "dcgm": ("dcgm", True),
    "gfd": ("gpu-feature-discovery", True),
    "migManager": ("mig-manager", True),
    "validator": ("operator-validator", True),
    "nodeStatusExporter": ("node-status-exporter", False),
}
"""Parts of a ClusterPolicy: the word of the label by which their DaemonSet selects nodes, and whether the operator installs them where
``enabled`` is left out."""

_SERVED = ("*dcgm*", "*device-plugin*", "*gpu-feature-discovery*")
"""Names of agents that have a Service."""
_DISCOVERY = ("*feature-discovery*", "nfd-worker*", "*node-labeller*")
_WATCHING = ("*dcgm-exporter*", "*metrics-exporter*", "* (discovery)")


def check_coverage(scope: Scope) -> Iterator[Finding]:
    """One finding per part that a ClusterPolicy or DeviceConfig enables, and one per pool and agent."""
    pools = pools_of_peers(scope)
    yield from _enabled(scope, pools)
    for part in parts_of_device_configs(scope):
        yield _judge(scope, part.place, part.left, part.sets, f"a DaemonSet that selects {part.selector}", part.source)
    yield from _on_all_peers(scope, pools)
    yield from _behind_services(scope)


def _behind_services(scope: Scope) -> Iterator[Finding]:
    """One finding per Service of an agent: what it selects is there. An agent's Service stays when somebody deletes its DaemonSet."""
    limit, now = scope.policy.operators.rollout_minutes * 60, scope.snapshot.taken_at
    for item in scope.snapshot.listing("services").objects if scope.accelerator_nodes else ():
        meta, selector = mapping(item.get("metadata")), mapping(mapping(item.get("spec")).get("selector"))
        name, namespace = text_of(meta.get("name")), text_of(meta.get("namespace"))
        if not selector or not matches(name, _SERVED) or not scope.platform_workloads.admits(namespace):
            continue
        labels = [one.spec.template.metadata.label for one in scope.snapshot.daemonsets if one.namespace == namespace]
        labels += [pod.metadata.label for pod in scope.snapshot.pods if pod.namespace == namespace]
        place, source = Subject("Service", name, namespace), "spec.selector, DaemonSets and pods of its namespace"
        wanted, expected = ", ".join(f"{key}={value}" for key, value in sorted(selector.items())), "a DaemonSet or pods that it selects"
        if any(selector.items() <= own.items() for own in labels):
            yield ok(place, observed=f"there are pods with {wanted}", expected=expected, source=source)
        elif (made := unix(text_of(meta.get("creationTimestamp")))) is not None and now - made < limit:
            message = f"no DaemonSet or pod has {wanted} yet; the Service exists {so_far(now - made, limit)}"
            yield undecided(place, cause=CHANGE_UNDER_WAY, message=message, source=source)
        else:
            message = f"no DaemonSet or pod has {wanted}: the agent behind this Service is gone from every node"
            yield bad(place, cause="AgentSelectsTooFew", observed="none", expected=expected, source=source, message=message)


def _enabled(scope: Scope, pools: list[list[Node]]) -> Iterator[Finding]:
    """One finding per part that a ClusterPolicy enables: each node that is labelled for it is selected by a DaemonSet of it.

    Where several claim the nodes (OPS-01), the operator heeds one of them: a part counts that all of them enable.
    """
    heeded = [item for item in scope.snapshot.listing(CLUSTER_POLICIES).objects if is_heeded(item)]
    for item in heeded:
        name = str(mapping(item.get("metadata")).get("name"))
        for part, (word, default) in _COMPONENTS.items():
            if all(_enables(one, part, default) for one in heeded) and (nodes := _labelled(pools, word)):
                yield _selected(scope, Subject("ClusterPolicy", f"{name} {part}"), word, nodes)


def _enables(policy: Json, part: str, default: bool) -> bool:
    enabled = mapping(mapping(policy.get("spec")).get(part)).get("enabled")
    return default if enabled is None else enabled is True


def _labelled(pools: Iterable[list[Node]], word: str) -> list[Node]:
    """Nodes on which the operator wants an agent: labelled so, or without the label while peers have it (somebody removed it)."""
    found = []
    for pool in pools:
        values = {node.name: node.metadata.label.get(f"{DEPLOY}{word}") for node in pool}
        wanted = ("true", None) if "true" in values.values() else ("true",)
        found += [node for node in pool if values[node.name] in wanted]
    return found


def _selected(scope: Scope, place: Subject, word: str, nodes: list[Node]) -> Finding:
    known = [item for item in scope.snapshot.daemonsets if scope.platform_workloads.admits(item.namespace)]
    sets = [item for item in known if f"{DEPLOY}{word}" in (item.spec.template.spec.node_selector or {})]
    left = [node for node in nodes if not any(admits(item.spec.template.spec, node) for item in sets)]
    expected = f"a DaemonSet that selects {DEPLOY}{word}=true and each of {len(nodes)} nodes"
    return _judge(scope, place, left, sets, expected, f"spec.*.enabled, labels {DEPLOY}*")


def _judge(scope: Scope, place: Subject, left: list[Node], sets: list[DaemonSet], expected: str, source: str) -> Finding:
    """The finding about a part of which ``sets`` are the DaemonSets, and which none of them puts onto the nodes that are ``left``."""
    if not left:
        return ok(place, observed=f"selected by {listed(item.name for item in sets)}", expected=expected, source=source)
    observed = f"not selected on {listed(node.name for node in left)}" if sets else "no such DaemonSet"
    if doing := _changing(scope, left):
        return undecided(place, cause=CHANGE_UNDER_WAY, message=f"{observed}; {doing}", source=source)
    message = f"the {place.kind} enables it and {observed}: these nodes run without it, and no count shows it"
    return bad(place, cause="AgentSelectsTooFew", observed=observed, expected=expected, source=source, message=message)


def _on_all_peers(scope: Scope, pools: list[list[Node]]) -> Iterator[Finding]:
    by_kind: dict[str, list[Agent]] = {}
    for agent in agents(scope):
        by_kind.setdefault(_image_of(agent), []).append(agent)
    for pool in pools:
        for kind, alike in sorted(by_kind.items()):
            have = {node.name for node in pool if any(node.name in agent.pods for agent in alike)}
            if len(pool) > 1 and have:
                yield _on_pool(scope, pool, have, kind, alike)


def _on_pool(scope: Scope, pool: list[Node], have: set[str], kind: str, alike: list[Agent]) -> Finding:
    """An agent on a pool. A minority that runs it may be meant: it is some nodes' own agent, or a part of the cloud's variants.

    Not so an exporter of metrics or a discovery that no operator's object owns: what it does not watch, nobody watches, and labels stay
    as they were.
    """
    watches = matches(kind, _WATCHING) and not any(agent.daemonset.metadata.owners for agent in alike)
    place, source = Subject("Agent", f"{kind} on the pool of {pool[0].name}"), "pods of agents by node, selectors of DaemonSets"
    observed, expected = f"on {len(have)} of {len(pool)} nodes", "on all nodes of the pool, if on most of them"
    missing = [node for node in pool if node.name not in have and not _selected_or_declined(scope, node, alike)]
    about = About(place, source, expected, observed)
    if not missing or (2 * len(have) <= len(pool) and not watches):
        return about.ok()
    if doing := _changing(scope, missing):
        return about.undecided(f"{observed}; {doing}", cause=CHANGE_UNDER_WAY)
    message = f"no DaemonSet of it selects {listed(node.name for node in missing)}, and {len(have)} of {len(pool)} nodes of the pool run it"
    return about.bad(message, cause="AgentSelectsTooFew")


def _selected_or_declined(scope: Scope, node: Node, alike: list[Agent]) -> bool:
    """Whether a DaemonSet selects the node, or the node's labels keep the agent away on purpose or during a change."""
    words = {key for agent in alike for key in agent.spec.node_selector or {} if key.startswith(DEPLOY)}
    declined = any(node.metadata.label.get(word, "true") != "true" for word in words)
    return declined or bool(withheld(scope, node)) or any(admits(agent.spec, node) for agent in alike)


def _changing(scope: Scope, nodes: Iterable[Node]) -> str:
    """What is being done to one of the nodes just now, or empty."""
    return next((text for node in nodes if (text := change_under_way(node, scope.policy, scope.snapshot.taken_at))), "")


def _image_of(agent: Agent) -> str:
    """What an agent is, whatever its DaemonSet is called: the name of its first image. Plugin and discovery of a vendor may share one."""
    first = agent.spec.containers[0].image if agent.spec.containers else agent.daemonset.name
    image = repository(first).rpartition("/")[2]
    return f"{image} (discovery)" if matches(agent.daemonset.name, _DISCOVERY) else image
