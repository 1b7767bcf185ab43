"""OPS-02: every agent is rolled out on the nodes where it is expected, by its counts and by the pods that are there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from conformance.components import UNPROVEN, told
from conformance.ops.agents import (
    Agent,
    agents,
    full_name,
    is_named,
    is_ready,
    look_alikes,
    missing_agents,
    mounts_plugin_folder,
    workload_of,
)
from conformance.scope import Scope, subject
from fixtures.evidence import Finding, Inconclusive, NotApplicable, Subject, bad, not_judged, ok, undecided
from fixtures.text import listed

_EXPECTED = "desired == expected nodes, updated == ready == available, observed, a Ready pod on each"
_PLUGIN = re.compile(r"nvidia-(gpu-)?device-plugin")
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
        yield not_judged(subject(item), f"it looks like an agent, and {advice}", "metadata.namespace, ownerReferences, hostPath")
    if not missing and not found:
        raise NotApplicable("NoAgents", "no DaemonSet of a device stack is in the cluster; agents may be host services")
    for glob in missing:
        message = f"the policy expects {glob} on every accelerator node and no DaemonSet has that name"
        yield bad(Subject("DaemonSet", glob), "none", _EXPECTED, "policy operators.expectedAgents", message)
    for agent in found:
        yield _judge(agent)
    yield from _rivals(scope, found)


def _rivals(scope: Scope, found: list[Agent]) -> Iterator[Finding]:
    """One finding where several device plugins run on one node and nothing tells which of them is the platform's."""
    registering = [agent for agent in found if _PLUGIN.search(agent.daemonset.name) and mounts_plugin_folder(agent.spec)]
    plugins = [agent for agent in registering if not is_named(scope, agent.daemonset)]
    rivals = scope.standing.decided(plugins, lambda agent: workload_of(agent.daemonset))
    nodes = Counter(node for agent in rivals for node in agent.pods)
    shared = sorted(node for node, count in nodes.items() if count > 1)
    if shared:
        both = [agent for agent in rivals if agent.pods.keys() & set(shared)]
        names = told(workload_of(agent.daemonset) for agent in both)
        message = f"{names} run on {listed(shared)}: each registers the same devices, and which one is the platform's cannot be told"
        yield undecided(Subject("DaemonSet", "device plugins"), message, _SOURCE)


def _judge(agent: Agent) -> Finding:
    place, status = subject(agent.daemonset), agent.daemonset.status
    nodes = [*agent.accelerator_nodes, *agent.other_nodes]
    if not nodes and not status.desired_number_scheduled and agent.optional:
        return not_judged(place, "its selector matches no node, as an optional agent's may", "template nodeSelector, node labels")
    observed = (
        f"expected on {len(nodes)}, desired {status.desired_number_scheduled}, updated {status.updated_number_scheduled}, "
        f"ready {status.number_ready}, available {status.number_available}"
    )
    problem = _problem(agent, len(nodes))
    return bad(place, observed, _EXPECTED, _SOURCE, problem) if problem else ok(place, observed, _EXPECTED, _SOURCE)


def _problem(agent: Agent, expected: int) -> str:
    """What is wrong with an agent's rollout, first things first, or empty."""
    status, generation = agent.daemonset.status, agent.daemonset.metadata.generation
    desired = status.desired_number_scheduled
    if status.observed_generation != generation:
        return f"its controller saw generation {status.observed_generation} of {generation}: its counts are those of an older template"
    if not desired:
        why = (
            f"although {expected} nodes should run it"
            if expected
            else "because its selector matches none, although every GPU node should run it"
        )
        return f"desired on no node {why}: zero of zero pods are ready"
    if desired != expected:
        return f"desired on {desired} nodes and expected on {expected}: {_difference(agent) or 'its selector and the nodes disagree'}"
    counts = {"updated": status.updated_number_scheduled, "ready": status.number_ready, "available": status.number_available}
    short = [f"{name} {count}" for name, count in counts.items() if count != desired]
    if short:
        return f"of {desired} desired: {', '.join(short)}; {_unready(agent) or 'its pods are not there yet'}"
    return _unready(agent)


def _difference(agent: Agent) -> str:
    kept_away = [f"{node.name} ({taints[0]})" for node in agent.accelerator_nodes if (taints := agent.untolerated(node))]
    if kept_away:
        return f"it does not tolerate the taints of {listed(kept_away)}"
    absent = [node.name for node in agent.accelerator_nodes if node.name not in agent.pods]
    return f"no pod on {listed(absent)}" if absent else ""


def _unready(agent: Agent) -> str:
    """Nodes without a Ready pod of the agent, whatever its counts say, or empty."""
    nodes = [*agent.accelerator_nodes, *agent.other_nodes]
    unready = [node.name for node in nodes if (pod := agent.pods.get(node.name)) is None or not is_ready(pod)]
    return f"no Ready pod on {listed(unready)}" if unready else ""
