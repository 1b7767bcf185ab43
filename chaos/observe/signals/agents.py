"""Signals of the GPU stack's agents, their operator, and the ComputeDomain whose daemon the experiment takes away."""

from functools import partial

from chaos.model.conditions import JsonValue
from chaos.model.plan import PlanFacts
from chaos.observe.signals.nodes import joined_nodes, known_nodes, leaving, slowly
from chaos.observe.view import NoData, Reading, Signal, View
from fixtures.kubernetes.models import Json
from fixtures.model import objects
from fixtures.model.dra.nvidia_driver import DOMAIN_DAEMON, domain_members, domain_of, domain_state
from fixtures.model.platform.components import DAEMON_SETS
from fixtures.model.platform.installed import NAMES, InstalledComponent, pods_of
from fixtures.model.platform.namespaces import IGNORED

AMOUNTS = ("capacity", "allocatable")
POLICIES = "nvidia.com/clusterpolicies"
AGENTS = ("device-plugin", "gfd", "nfd-worker", "exporter", "host-engine", "mig-manager", "dra-plugin", "rdma-plugin")
"""Components that run on every node as DaemonSets."""


def ready(reading: Reading, *, component: str) -> JsonValue:
    """Whether the component's pods are Ready: one on each target node, or every replica of a controller."""
    found = _component(reading, component)
    pods = _instances(reading, found)
    if found.key == DAEMON_SETS:
        return all(any(objects.node_of(pod) == node and objects.is_ready(pod) for pod in pods) for node in reading.plan.nodes)
    return bool(pods) and all(objects.is_ready(pod) for pod in pods)


def uids(reading: Reading, *, component: str) -> JsonValue:
    """UIDs and restarts of the component's pods, on the target nodes or of all replicas; sorted."""
    return sorted(f"{objects.uid_of(pod)} {objects.restarts_of(pod)}" for pod in _instances(reading, _component(reading, component)))


def daemon_sets(reading: Reading) -> JsonValue:
    """``{namespace/name: [desired, ready, updated]}`` of the agents' DaemonSets, without nodes that joined since the sampler began."""
    return {objects.full_name(item): _counts(reading, item) for item in _agents(reading)}


def agent_pods(reading: Reading) -> JsonValue:
    """``{namespace/name: "uid restarts"}`` of every agent's pods, on the nodes that there were when the sampler began.

    Pods of a node that was taken away since are kept as they were: they went with it.
    """
    facts, view, first = PlanFacts.of(reading.plan), View.at(reading), known_nodes(reading)
    pods = [pod for name in AGENTS if (found := facts.components.get(name)) is not None for pod in pods_of(view, found)]
    now = {
        objects.full_name(pod): (objects.node_of(pod), f"{objects.uid_of(pod)} {objects.restarts_of(pod)}")
        for pod in pods
        if objects.node_of(pod) in first
    }
    seen: dict[str, tuple[str, str]] = reading.memory.setdefault("agents.first", now)
    gone = first - {objects.name_of(node) for node in view.select("nodes")}
    return {name: text for name, (node, text) in {**{key: one for key, one in seen.items() if one[0] in gone}, **now}.items()}


def elsewhere(reading: Reading, *, component: str) -> JsonValue:
    """``{node: [pod, ready, capacity, allocatable]}`` of every node beside the targets that runs the component: nobody may touch it.

    ``pod`` is its UID and restarts, the others are the node's devices. Of a node that an autoscaler takes away it is as it was before.
    Raises :class:`NoData` when the untouched node is not among them.
    """

    def read() -> JsonValue:
        facts, view, left = PlanFacts.of(reading.plan), View.at(reading), leaving(reading)
        nodes = {objects.name_of(node): node for node in view.select("nodes") if objects.name_of(node) not in reading.plan.nodes}
        found = {
            objects.node_of(pod): [
                f"{objects.uid_of(pod)} {objects.restarts_of(pod)}",
                objects.is_ready(pod),
                *(objects.device_amounts(nodes[objects.node_of(pod)], name, facts.is_device) for name in AMOUNTS),
            ]
            for pod in pods_of(view, _component(reading, component))
            if objects.node_of(pod) in nodes
        }
        seen: dict[str, JsonValue] = reading.memory.setdefault(f"elsewhere.{component}.seen", {})
        found |= {node: seen[node] for node in left & seen.keys()}
        seen |= found
        if reading.plan.untouched not in found:
            raise NoData(f"{component} has no pod on {reading.plan.untouched or 'a node that is left untouched'}")
        return found

    return slowly(reading, f"elsewhere.{component}", read)


def policy_state(reading: Reading) -> JsonValue:
    """``status.state`` of the ClusterPolicy that its operator acts upon; empty without one. Raises :class:`NoData` when there are two.

    It stays what it was first while a node that joined has agents to come.
    """
    states = {objects.name_of(item): objects.state_of(item) for item in View.at(reading).select(POLICIES)}
    active = {name: state for name, state in states.items() if state not in IGNORED}
    if len(active) > 1:
        raise NoData(f"ClusterPolicies {' and '.join(sorted(active))} are both acted upon")
    state = next(iter(active.values()), "")
    first: str = reading.memory.setdefault("policy.first", state)
    return first if joined_nodes(reading) else state


def _operand(reading: Reading) -> Json | None:
    """The targeted operand; None while it is not there."""
    target = next((target for target in reading.plan.targets if target.kind != "nodes"), None)
    if target is None:
        raise NoData("the plan names no object")
    return View.at(reading).find(target.kind, target.name, target.namespace)


def operand(reading: Reading) -> JsonValue:
    """A digest of what the targeted operand says (not when or by whom it was written); empty while it is not there."""
    item = _operand(reading)
    return objects.digest_of_content(item, ALLOCATED_FIELDS) if item is not None else ""


ALLOCATED_FIELDS = frozenset({"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"})
"""Fields of a Service that the API server chooses: a recreated Service has others."""


def _component(reading: Reading, name: str) -> InstalledComponent:
    found = PlanFacts.of(reading.plan).components.get(name)
    if found is None:
        raise NoData(f"{name} was not found when the experiment was planned")
    return found


def _instances(reading: Reading, found: InstalledComponent) -> list[Json]:
    pods = pods_of(View.at(reading), found)
    if found.key == DAEMON_SETS and reading.plan.nodes:
        return [pod for pod in pods if objects.node_of(pod) in reading.plan.nodes]
    return pods


def _agents(reading: Reading) -> list[Json]:
    facts, view = PlanFacts.of(reading.plan), View.at(reading)
    known = [found for name in AGENTS if (found := facts.components.get(name)) is not None]
    names = {(one.namespace, one.name) for found in known for one in found.workloads}
    return [item for item in view.select(DAEMON_SETS) if (objects.namespace_of(item), objects.name_of(item)) in names]


def _counts(reading: Reading, item: Json) -> list[int]:
    """Desired, ready and updated pods of a DaemonSet. Pods of nodes that joined are left out, as are such nodes without a pod yet.

    Pods of nodes that an autoscaler has taken away count as if they were there.
    """
    desired, here, updated = objects.scheduled_pods(item)
    wanted: int = reading.memory.setdefault("daemonsets.first", {}).setdefault(objects.uid_of(item), desired)
    if desired < wanted:
        left = leaving(reading) - {objects.name_of(node) for node in View.at(reading).select("nodes")}
        return [count + min(len(left), wanted - desired) for count in (desired, here, updated)]
    if desired == wanted:
        return [desired, here, updated]
    known, pods = known_nodes(reading), View.at(reading).select("pods", objects.namespace_of(item))
    late = [pod for pod in pods if objects.node_of(pod) not in known and objects.controller_of(pod) == objects.uid_of(item)]
    return [wanted, min(here - sum(map(objects.is_ready, late)), wanted), min(updated, wanted)]


def state(reading: Reading) -> JsonValue:
    """``status.status`` of the domain: Ready or NotReady."""
    return domain_state(_domain(reading))


def strays(reading: Reading) -> JsonValue:
    """Members without a daemon: no pod of the domain's DaemonSet is on that node with that address; sorted."""
    pods = {(objects.node_of(pod), objects.address_of(pod)) for pod in pods_of(View.at(reading), _component(reading, DOMAIN_DAEMON))}
    return sorted(node for node, address, _ in domain_members(_domain(reading)) if (node, address) not in pods)


def _domain(reading: Reading) -> Json:
    found, view = _component(reading, DOMAIN_DAEMON), View.at(reading)
    item = view.find(DAEMON_SETS, found.name, found.namespace)
    domain = domain_of(view, item) if item is not None and objects.uid_of(item) == found.uid else None
    if domain is None:
        raise NoData(f"{found} is gone or belongs to no ComputeDomain")
    return domain


SIGNALS: dict[str, Signal] = {
    **{f"ready.{name}": partial(ready, component=name) for name in sorted(NAMES)},
    **{f"uids.{name}": partial(uids, component=name) for name in sorted(NAMES)},
    **{f"elsewhere.{name}": partial(elsewhere, component=name) for name in AGENTS},
    "daemonsets": daemon_sets,
    # Whether every agent's DaemonSet has all its pods ready and of the current template.
    "daemonsets.settled": lambda reading: all(len(set(_counts(reading, item))) == 1 for item in _agents(reading)),
    # ``{namespace/name: generation}`` of the agents' DaemonSets: it rises when somebody writes their spec.
    "daemonsets.generations": lambda reading: {objects.full_name(item): objects.generation_of(item) for item in _agents(reading)},
    "agents.pods": agent_pods,
    "policy.state": policy_state,
    "operand": operand,
    # Whether the targeted operand is there.
    "operand.present": lambda reading: _operand(reading) is not None,
    # UID of the targeted operand; empty while it is not there.
    "operand.uid": lambda reading: objects.uid_of(_operand(reading)),
    "domain.state": state,
    # ``{node: status}`` of the domain's members.
    "domain.members": lambda reading: {node: status for node, _, status in domain_members(_domain(reading))},
    "domain.strays": strays,
}
