"""OPS-13, second part: agents are on all nodes where they belong, by what ClusterPolicy and DeviceConfig enable and by what peers run.

OPS-02 asks for a pod where a DaemonSet selects a node. This asks whether one selects the node at all.
Facts: docs/facts/gpu-operator.md#agents, docs/facts/vendors-and-clouds.md#amd.
"""

from collections.abc import Iterable, Iterator

from conformance.common_findings import overdue
from fixtures.kubernetes.labels import INSTANCE_TYPE
from fixtures.kubernetes.models import DaemonSet, Node
from fixtures.kubernetes.oci import repository
from fixtures.model.cluster import Scope
from fixtures.model.demand.amounts import whole
from fixtures.model.devices.offers import withheld
from fixtures.model.nodes.changes import change_under_way
from fixtures.model.nodes.peers import pools_of_peers
from fixtures.model.objects import name_of
from fixtures.model.placement.affinity import admits
from fixtures.model.platform.agents import DEPLOY, Agent, agents
from fixtures.model.platform.monitoring import services
from fixtures.model.platform.operators import enables, parts_of_device_configs
from fixtures.model.platform.plugin_settings import heeded_policies
from fixtures.tables.rows import FABRIC_MACHINES
from fixtures.text.globs import matches
from fixtures.text.sentences import listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding
from fixtures.verdict.subjects import Subject

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
    yield from _on_machines_with_fabric(scope)
    yield from _adapters(scope)


def _on_machines_with_fabric(scope: Scope) -> Iterator[Finding]:
    """One finding per fabric's plugin and type of machine whose adapters it serves. Lists of types in a chart end before the newest."""
    for row in FABRIC_MACHINES.rows:
        sets = [agent for agent in agents(scope) if _image_of(agent) == row.plugin]
        by_type: dict[str, list[Node]] = {}
        for node in scope.accelerator_nodes if sets else ():
            if matches(machine := node.metadata.label.get(INSTANCE_TYPE, ""), row.machines):
                by_type.setdefault(machine, []).append(node)
        for machine, nodes in sorted(by_type.items()):
            source = f"nodes: label {INSTANCE_TYPE}; daemonsets: selector and affinity"
            about = About(Subject("Agent", f"{row.plugin} on {machine}"), source, f"a DaemonSet selects each of {len(nodes)} nodes")
            left = [node for node in nodes if row.resource not in node.capacity and not any(admits(agent.spec, node) for agent in sets)]
            if not left:
                yield about.ok()
            elif doing := _changing(scope, left):
                yield about.undecided(f"not selected on {listed(node.name for node in left)}; {doing}", cause=CHANGE_UNDER_WAY)
            else:
                message = (
                    f"no DaemonSet of {row.plugin} selects {listed(node.name for node in left)}: jobs there compute over plain sockets"
                )
                yield about.advised(
                    message, cause="AgentSelectsTooFew", observed=f"{len(left)} of {len(nodes)} nodes without {row.resource}"
                )


def _adapters(scope: Scope) -> Iterator[Finding]:
    """One finding per type of machine whose nodes offer a fabric's adapters, and which can have a known number of them."""
    for row in FABRIC_MACHINES.rows:
        for machine, most in row.adapters.items():
            nodes = [node for node in scope.accelerator_nodes if node.metadata.label.get(INSTANCE_TYPE) == machine]
            offering = {node.name: count for node in nodes if (count := whole(node.capacity.get(row.resource))) > 0}
            if not offering:
                continue  # that no plugin serves them is another finding
            about = About(
                Subject("Machine", f"{machine} {row.resource}"), "node.status.capacity", f"{most} on each of {len(offering)} nodes"
            )
            fewer = [f"{count} on {name}" for name, count in offering.items() if count < most]
            if not fewer:
                yield about.ok()
            elif doing := _changing(scope, nodes):
                yield about.undecided(f"{listed(fewer)}; {doing}", cause=CHANGE_UNDER_WAY)
            else:
                message = f"{listed(fewer)}: the machine has {most}, so jobs between nodes get a part of the bandwidth that is paid for"
                yield about.advised(message, cause="AdaptersNotAttached", observed=f"{len(fewer)} of {len(offering)} nodes with fewer")


def _behind_services(scope: Scope) -> Iterator[Finding]:
    """One finding per Service of an agent: what it selects is there. An agent's Service stays when somebody deletes its DaemonSet."""
    limit, now = scope.policy.operators.rollout_minutes * 60, scope.snapshot.taken_at
    for one in services(scope) if scope.accelerator_nodes else ():
        if not one.selector or not matches(one.name, _SERVED) or not scope.platform.of(one.namespace).components:
            continue
        labels = [item.pod_labels for item in scope.snapshot.daemonsets if item.namespace == one.namespace]
        labels += [pod.metadata.label for pod in scope.snapshot.pods if pod.namespace == one.namespace]
        wanted = ", ".join(f"{key}={value}" for key, value in sorted(one.selector.items()))
        place, source = Subject("Service", one.name, one.namespace), "spec.selector, DaemonSets and pods of its namespace"
        about = About(place, source, "a DaemonSet or pods that it selects")
        if any(map(one.selects, labels)):
            yield about.ok(f"there are pods with {wanted}")
            continue
        state = f"no DaemonSet or pod has {wanted} yet; the Service exists"
        age = overdue(about, one.since or 0.0, now, limit, state, cause="AgentSelectsTooFew")  # one without a time is none of this minute
        message = f"no DaemonSet or pod has {wanted}: the agent behind this Service is gone from every node"
        yield about.bad(message, cause="AgentSelectsTooFew", observed="none") if isinstance(age, float) else age


def _enabled(scope: Scope, pools: list[list[Node]]) -> Iterator[Finding]:
    """One finding per part that a ClusterPolicy enables: each node that is labelled for it is selected by a DaemonSet of it.

    Where several claim the nodes (OPS-01), the operator heeds one of them: a part counts that all of them enable.
    """
    heeded = heeded_policies(scope)
    for policy in heeded:
        for part, (word, default) in _COMPONENTS.items():
            if all(enables(one, part, default) for one in heeded) and (nodes := _labelled(pools, word)):
                yield _selected(scope, Subject("ClusterPolicy", f"{name_of(policy)} {part}"), word, nodes)


def _labelled(pools: Iterable[list[Node]], word: str) -> list[Node]:
    """Nodes on which the operator wants an agent: labelled so, or without the label while peers have it (somebody removed it)."""
    found = []
    for pool in pools:
        values = {node.name: node.metadata.label.get(f"{DEPLOY}{word}") for node in pool}
        wanted = ("true", None) if "true" in values.values() else ("true",)
        found += [node for node in pool if values[node.name] in wanted]
    return found


def _selected(scope: Scope, place: Subject, word: str, nodes: list[Node]) -> Finding:
    known = [item for item in scope.snapshot.daemonsets if scope.platform.of(item.namespace).components]
    sets = [item for item in known if f"{DEPLOY}{word}" in (item.pod_spec.node_selector or ())]
    left = [node for node in nodes if not any(admits(item.pod_spec, node) for item in sets)]
    expected = f"a DaemonSet that selects {DEPLOY}{word}=true and each of {len(nodes)} nodes"
    return _judge(scope, place, left, sets, expected, f"spec.*.enabled, labels {DEPLOY}*")


def _judge(scope: Scope, place: Subject, left: list[Node], sets: list[DaemonSet], expected: str, source: str) -> Finding:
    """The finding about a part of which ``sets`` are the DaemonSets, and which none of them puts onto the nodes that are ``left``."""
    about = About(place, source, expected)
    if not left:
        return about.ok(f"selected by {listed(item.name for item in sets)}")
    observed = f"no DaemonSet of it selects {listed(node.name for node in left)}" if sets else "no DaemonSet has that selector"
    if doing := _changing(scope, left):
        return about.undecided(f"{observed}; {doing}", cause=CHANGE_UNDER_WAY)
    message = f"the {place.kind} enables it and {observed}: these nodes run without it, and no count shows it"
    return about.bad(message, cause="AgentSelectsTooFew", observed=observed)


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
    words = {key for agent in alike for key in agent.node_selector if key.startswith(DEPLOY)}
    declined = any(node.metadata.label.get(word, "true") != "true" for word in words)
    return declined or bool(withheld(scope, node)) or any(admits(agent.spec, node) for agent in alike)


def _changing(scope: Scope, nodes: Iterable[Node]) -> str:
    """What is being done to one of the nodes just now, or empty."""
    return next((text for node in nodes if (text := change_under_way(node, scope.policy, scope.snapshot.taken_at))), "")


def _image_of(agent: Agent) -> str:
    """What an agent is, whatever its DaemonSet is called: the name of its first image. Plugin and discovery of a vendor may share one."""
    first = next((container.image for container in agent.daemonset.pod_spec.containers), agent.daemonset.name)
    image = repository(first).rpartition("/")[2]
    return f"{image} (discovery)" if matches(agent.daemonset.name, _DISCOVERY) else image
