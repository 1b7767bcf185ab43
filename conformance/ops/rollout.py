"""OPS-02 and OPS-12: every agent is rolled out where it is expected, and no node has two device plugins of one vendor.

The kubelet keeps one endpoint per resource name: the plugin that registered last wins, and ids of one reach the other.

Facts: docs/facts/device-plugin.md#two-plugins-on-a-node.
"""

import re
from collections import Counter
from collections.abc import Iterator

from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.names import vendors_of
from fixtures.model.platform.agents import (
    MONITORS,
    Agent,
    agents,
    full_name,
    is_named,
    is_ready,
    look_alikes,
    missing_agents,
    replaces_by_itself,
    revisions,
    roll_out_under_way,
    workload_of,
)
from fixtures.model.platform.components import mounts_plugin_folder
from fixtures.model.platform.kubelet_plugins import plugins_by_vendor
from fixtures.model.platform.namespaces import UNPROVEN, workload_names
from fixtures.text.globs import matches
from fixtures.text.sentences import listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, not_judged, undecided
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject

_OF_PLUGINS = "pods that mount /var/lib/kubelet/device-plugins"
_ONE_PLUGIN = "one device plugin per vendor"


def check_one_plugin(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node with a device plugin that is seen. Raises :class:`NotApplicable` where none is."""
    seen = False
    for node in scope.accelerator_nodes:
        plugins = plugins_by_vendor(scope, node)
        if not plugins:
            continue
        seen = True
        observed = "; ".join(f"{vendor}: {listed(names)}" for vendor, names in sorted(plugins.items()))
        doubled = {vendor: names for vendor, names in plugins.items() if len(names) > 1}
        about = About(subject(node), _OF_PLUGINS, _ONE_PLUGIN, observed)
        if doubled:
            both = "; ".join(f"{listed(names)} register devices of {vendor}" for vendor, names in sorted(doubled.items()))
            message = f"{both}: the kubelet believes whichever registered last, so pods get wrong devices or none"
            yield about.bad(message, cause="TwoDevicePlugins")
        else:
            yield about.ok()
    if not seen:
        raise NotApplicable("NoPlugins", "no pod on an accelerator node is a device plugin; plugins may be host services")


_EXPECTED = "desired == expected nodes, updated == ready == available, observed, a Ready pod on each"
_PLUGIN = re.compile(r"nvidia-(gpu-)?device-plugin")
_EXPORTERS = ("*dcgm-exporter*",)
_SOURCE = "daemonset.status, pods by owner"


def check_rolled_out(scope: Scope) -> Iterator[Finding]:
    """One finding per agent. Raises :class:`NotApplicable` where no agent is a DaemonSet (some clouds run them as host services).

    Raises :class:`Inconclusive` where DaemonSets look like agents, and none is where agents are.
    """
    missing, found, strangers = missing_agents(scope), agents(scope), look_alikes(scope)
    if not missing and not found and strangers:
        names = listed(full_name(item) for item in strangers)
        raise Inconclusive("AgentsUnproven", f"DaemonSets look like agents ({names}), and {UNPROVEN}")
    for item in strangers:
        advice = f"{item.namespace} is not known to be the platform's (policy tenants.moreInfrastructure)"
        yield not_judged(
            subject(item), message=f"it looks like an agent, and {advice}", source="metadata.namespace, ownerReferences, hostPath"
        )
    if not missing and not found:
        raise NotApplicable("NoAgents", "no DaemonSet of a device stack is in the cluster; agents may be host services")
    for glob in missing:
        message = f"the policy expects {glob} on every accelerator node and no DaemonSet has that name"
        about = About(Subject("DaemonSet", glob), "policy operators.expectedAgents", _EXPECTED)
        yield about.bad(message, cause="AgentNotInstalled", observed="none")
    blind = _blind(scope, found)
    for agent in found:
        if scope.chosen:
            yield from _on_chosen(scope, agent)
            continue
        yield _watches_nothing(agent) if agent in blind else _judge(scope, agent)
    yield from _rivals(scope, found)


def _blind(scope: Scope, found: list[Agent]) -> list[Agent]:
    """Agents that watch devices, where no variant of them selects an accelerator node."""
    watching = [agent for agent in found if matches(agent.daemonset.name, MONITORS)] if scope.accelerator_nodes else []
    exporting = [agent for agent in found if matches(agent.daemonset.name, _EXPORTERS)]
    exporting = exporting if any("nvidia.com" in vendors_of(node, scope) for node in scope.accelerator_nodes) else []
    return [agent for group in (watching, exporting) if not any(one.accelerator_nodes for one in group) for agent in group]


def _rivals(scope: Scope, found: list[Agent]) -> Iterator[Finding]:
    """One finding where several device plugins run on one node and nothing tells which of them is the platform's."""
    registering = [agent for agent in found if _PLUGIN.search(agent.daemonset.name) and mounts_plugin_folder(agent.spec)]
    plugins = [agent for agent in registering if not is_named(scope, agent.daemonset)]
    rivals = scope.platform.resolve(plugins, lambda agent: workload_of(agent.daemonset))
    nodes = Counter(node for agent in rivals for node in agent.pods)
    shared = sorted(node for node, count in nodes.items() if count > 1)
    if shared:
        both = [agent for agent in rivals if agent.pods.keys() & set(shared)]
        names = workload_names(workload_of(agent.daemonset) for agent in both)
        message = f"{names} run on {listed(shared)}: each registers the same devices, and which one is the platform's cannot be told"
        yield undecided(Subject("DaemonSet", "device plugins"), cause="TwoCandidates", message=message, source=_SOURCE)


def _judge(scope: Scope, agent: Agent) -> Finding:
    place, status = subject(agent.daemonset), agent.daemonset.status
    nodes = [*agent.accelerator_nodes, *agent.other_nodes]
    if not nodes and not status.desired_number_scheduled and agent.optional:
        message = "its selector matches no node, as an optional agent's may"
        return not_judged(place, message=message, source="template nodeSelector, node labels")
    observed = (
        f"expected on {len(nodes)}, desired {status.desired_number_scheduled}, updated {status.updated_number_scheduled}, "
        f"ready {status.number_ready}, available {status.number_available}"
    )
    about = About(place, _SOURCE, _EXPECTED, observed)
    cause, problem = _problem(agent, nodes)
    if not problem and (old := status.desired_number_scheduled - status.updated_number_scheduled) > 0:
        message = f"{old} of its pods are of an older template and updateStrategy is OnDelete: the upgrade has not ended"
        return about.advised(message, cause="AgentOfOlderTemplate")
    if not problem:
        return about.ok()
    if status.desired_number_scheduled and (doing := roll_out_under_way(agent, nodes, scope.policy, scope.snapshot.taken_at)):
        return about.undecided(f"{problem}; {doing}", cause=CHANGE_UNDER_WAY)
    return about.bad(problem, cause=cause)


def _on_chosen(scope: Scope, agent: Agent) -> Iterator[Finding]:
    """One finding for each node that the run is about and that should run the agent: whether its pod is Ready there."""
    for node in filter(scope.is_asked, [*agent.accelerator_nodes, *agent.other_nodes]):
        place = Subject("Agent", f"{agent.daemonset.name} on {node.name}", agent.daemonset.namespace)
        pod = agent.pods.get(node.name)
        about = About(place, "pods by owner, status.conditions[Ready]", "a Ready pod", pod.name if pod else "no pod")
        if pod is not None and is_ready(pod):
            yield about.ok()
        elif doing := roll_out_under_way(agent, [node], scope.policy, scope.snapshot.taken_at):
            yield about.undecided(f"no Ready pod of it is on {node.name}; {doing}", cause=CHANGE_UNDER_WAY)
        else:
            yield about.bad(f"no Ready pod of it is on {node.name}", cause="AgentNotReady" if pod else "AgentPodMissing")


def _watches_nothing(agent: Agent) -> Finding:
    """Of several variants of an agent that watches devices, one must select accelerator nodes; here none does."""
    message = "it watches devices and selects no accelerator node, nor does another of its kind: faults go unseen"
    about = About(subject(agent.daemonset), "template nodeSelector and affinity, node labels", "accelerator nodes that it selects")
    return about.bad(message, cause="AgentSelectsTooFew", observed=f"desired {agent.daemonset.desired}, on no accelerator node")


def _problem(agent: Agent, nodes: list[Node]) -> tuple[str, str]:
    """What is wrong with an agent's rollout, first things first: cause and words, or empty ones."""
    status, generation, expected = agent.daemonset.status, agent.daemonset.metadata.generation, len(nodes)
    desired = status.desired_number_scheduled
    if status.observed_generation != generation:
        seen = f"its controller saw generation {status.observed_generation} of {generation}"
        return "AgentStatusOutdated", f"{seen}: its counts are those of an older template"
    if not desired:
        why = (
            f"although {expected} nodes should run it"
            if expected
            else "because its selector matches none, although every GPU node should run it"
        )
        return "AgentSelectsTooFew", f"desired on no node {why}: zero of zero pods are ready"
    tainted = [node for node in nodes if agent.untolerated(node)]
    kept = [node for node in tainted if node.name in agent.pods]
    there = [node for node in nodes if node.name in agent.pods and is_ready(agent.pods[node.name])]
    uncounted = len(there) == expected and desired < expected - len(kept)  # pods run where its controller would make none now
    least = 1 if uncounted else expected - len(kept)
    if not least <= desired <= expected + len(agent.pods.keys() - {node.name for node in nodes}):
        cause, why = _difference(agent)
        return cause, f"desired on {desired} nodes and expected on {expected}: {why or 'its selector and the nodes disagree'}"
    if len(kept) < len(tainted):
        return _difference(agent)
    if uncounted and replaces_by_itself(agent.daemonset) and len(revisions(agent)) > 1:
        return "AgentNotReady", f"desired on {desired} of {expected} nodes, and its pods are not all of one revision: it replaces no other"
    counts = {"ready": status.number_ready, "available": status.number_available}
    if replaces_by_itself(agent.daemonset):
        counts = {"updated": status.updated_number_scheduled, **counts}
    short = [f"{name} {count}" for name, count in counts.items() if count < desired]
    if short:
        return "AgentNotReady", f"of {desired} desired: {', '.join(short)}; {_unready(agent) or 'its pods are not there yet'}"
    return "AgentNotReady", _unready(agent)


def _difference(agent: Agent) -> tuple[str, str]:
    """Cause and words: nodes that taints keep it away from, else nodes without its pod.

    A taint ends no pod that runs unless it is NoExecute.
    """
    absent = [node for node in agent.accelerator_nodes if node.name not in agent.pods]
    kept_away = [f"{node.name} ({taints[0]})" for node in absent if (taints := agent.untolerated(node))]
    if kept_away:
        return "TaintNotTolerated", f"it does not tolerate the taints of {listed(kept_away)}"
    return "AgentPodMissing", f"no pod on {listed(node.name for node in absent)}" if absent else ""


def _unready(agent: Agent) -> str:
    """Nodes without a Ready pod of the agent, whatever its counts say, or empty."""
    nodes = [*agent.accelerator_nodes, *agent.other_nodes]
    unready = [node.name for node in nodes if (pod := agent.pods.get(node.name)) is None or not is_ready(pod)]
    return f"no Ready pod on {listed(unready)}" if unready else ""
