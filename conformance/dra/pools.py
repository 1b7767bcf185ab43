"""DRA-02: pools are complete, their names unique, their nodes there, and a pod of their driver lives on the node. Pure.

Facts: docs/facts/dra.md#slices-and-pools, docs/facts/dra.md#kubelet-plugins.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from fixtures.model.cluster import Scope
from fixtures.model.dra.slices import SLICES, DriverKind, Slice, lack_of, wrong_counters
from fixtures.model.nodes.changes import change_under_way
from fixtures.model.platform.agents import is_ready
from fixtures.model.platform.kubelet_plugins import DriverPods
from fixtures.text.sentences import in_order, listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Subject

_EXPECTED = "a complete pool, names once, a node that exists, a Ready pod of its driver there"


def check_pools(scope: Scope) -> Iterator[Finding]:
    """One finding per pool of a driver of accelerators, and of other drivers on accelerator nodes; one per node that its driver forgot."""
    pods = DriverPods(scope)
    own = {node.name for node in scope.accelerator_nodes}
    published: dict[str, set[str]] = {}
    for (driver, pool), slices in scope.slices.newest().items():
        nodes = sorted({node for entry in slices for node in (entry.node, *(device.node for device in entry.devices)) if node})
        published.setdefault(driver, set()).update(nodes)
        if scope.kind_of(driver) is DriverKind.ACCELERATOR or own & set(nodes):
            yield _judge(scope, driver, pool, slices, nodes, pods)
    yield from _forgotten(scope, published, pods)


def _judge(scope: Scope, driver: str, pool: str, slices: Sequence[Slice], nodes: Sequence[str], pods: DriverPods) -> Finding:
    node = nodes[0] if len(nodes) == 1 else ""
    name = f"{node} {driver}" if node and pool == node else f"{node} {driver}/{pool}".strip()
    place = Subject("Node" if node else "Pool", name)
    count, wanted, generation = len(slices), max(entry.expected_slices for entry in slices), slices[0].generation
    observed = f"{count} of {wanted} slices of generation {generation}, {sum(len(entry.devices) for entry in slices)} devices"
    about = About(place, f"{SLICES}, pods", _EXPECTED)
    if unread := next((entry.incomplete for entry in slices if entry.incomplete), ""):
        return about.undecided(f"pool {pool} cannot be read whole: {unread}", cause="NotUnderstood", source=SLICES)
    problems = []
    if lack := lack_of(slices):
        problems.append(f"pool {pool} has {lack}: nothing of it is allocated")
    names = Counter(device.name for entry in slices for device in entry.devices)
    if twice := sorted(name for name, times in names.items() if times > 1):
        problems.append(f"pool {pool} has {listed(twice)} more than once: one device is given to several pods")
    wrong = "" if lack else wrong_counters(slices)
    if wrong:
        problems.append(f"pool {pool} has {wrong}: the scheduler takes the whole pool for invalid and allocates nothing of it")
    known = scope.snapshot.node_by_name
    if lost := [node for node in nodes if node not in known]:
        problems.append(f"its node {listed(lost)} does not exist")
    unsure, troubled = "", set[str]()
    for node in (node for node in nodes if node in known):
        if not known[node].ready:
            if not problems:
                return about.not_judged(f"node {node} is NotReady (INV-02), so its driver cannot be judged", source=SLICES)
            continue
        state = pods.state(driver, node)
        if state.problem:
            problems.append(state.problem)
            troubled.add(node)
        unsure = unsure or state.unsure
        observed += f"; {state.observed}" if state.observed else ""
    now = scope.snapshot.taken_at
    changing = {node: doing for node in nodes if node in known and (doing := change_under_way(known[node], scope.policy, now))}
    if problems and not twice and not wrong and not lost and changing and troubled <= changing.keys():
        return about.undecided(f"{listed(problems, 4)}; {listed(changing.values(), 1)}", cause="ChangeUnderWay")
    if problems:
        cause = "PoolInvalid" if wrong and len(problems) == 1 else "PoolNotServed"
        return about.bad(listed(problems, 4), cause=cause, observed=observed)
    if unsure and scope.kind_of(driver) is DriverKind.OTHER:
        return about.not_judged(unsure, source="pods")
    if unsure:
        return about.undecided(unsure, cause="NotUnderstood", source="pods")
    return about.ok(observed)


def _forgotten(scope: Scope, published: dict[str, set[str]], pods: DriverPods) -> Iterator[Finding]:
    """Nodes where a Ready pod of a driver publishes nothing, although the same DaemonSet publishes for that driver on other nodes."""
    for driver, nodes in sorted(published.items()):
        if scope.kind_of(driver) is DriverKind.ACCELERATOR:
            continue  # INV-01
        for node in sorted(pods.nodes_of(driver) - nodes):
            here = scope.snapshot.node_by_name.get(node)
            if here is None or not here.ready or node not in scope.dra_inventory:
                continue
            pod = pods.of(driver, node)
            if pod is not None and is_ready(pod):
                about = About(Subject("Node", f"{node} {driver}"), SLICES, f"a ResourceSlice of {driver}", "no slice")
                others = f"as it does on {listed(in_order(nodes), 3)}"
                message = f"{pod.namespace}/{pod.name} runs there and publishes no slice of {driver}, {others}"
                yield about.bad(message, cause="PoolNotServed")
