"""NET-08: whether kubelets give a container devices and adapters of one NUMA node.

A kubelet answers whoever may ``get nodes/proxy``, a right to run programs in every pod of the node. So no role of the suite has it. The
suite asks all the same where no NodeResourceTopology names the policy, and does not judge a node that it may not ask.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.fabric import offering_nodes
from fixtures.model.nodes.topology import policy_of_configz, published_policies, with_one_numa_node
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable

_AT_ONCE = 8
_SECONDS = 15.0

Asked = tuple[str, str]
"""The policy of a kubelet, empty where it is not known, and why not."""


def kubelets_of(opened: Callable[[], Cluster]) -> Callable[[list[str]], dict[str, Asked]]:
    """Asks the kubelets of nodes for their configuration. The first answer decides whether the others are asked: a right is for all."""

    def ask(nodes: list[str]) -> dict[str, Asked]:
        if not nodes:
            return {}
        cluster = opened()
        first = {name: _ask(cluster, name) for name in nodes[:1]}
        if any(why.startswith("403") for _, why in first.values()):
            return dict.fromkeys(nodes, next(iter(first.values())))
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="configz") as pool:
            return first | dict(zip(nodes[1:], pool.map(lambda name: _ask(cluster, name), nodes[1:]), strict=True))

    return ask


def _ask(cluster: Cluster, node: str) -> Asked:
    try:
        answer = cluster.request("GET", f"/api/v1/nodes/{node}/proxy/configz", attempts=1, seconds=_SECONDS)
        if not answer.ok:
            return "", f"{answer.status} {answer.message}"
        return policy_of_configz(answer.json()), "its configuration names no policy"
    except ApiTrouble as trouble:
        return "", trouble.message


def check_alignment(scope: Scope, ask: Callable[[list[str]], dict[str, Asked]]) -> Iterator[Finding]:
    """One finding per accelerator node that offers an RDMA resource. Raises :class:`NotApplicable` where there is none."""
    accelerators = {node.name for node in scope.accelerator_nodes}
    nodes = [node for node in offering_nodes(scope) if node.name in accelerators]
    if not nodes:
        raise NotApplicable("NoRdmaNodes", "no accelerator node offers an RDMA resource")
    published, wanted = published_policies(scope), scope.policy.network.topology_policies
    single = with_one_numa_node(scope)
    asked = ask([node.name for node in nodes if node.name not in published and node.name not in single])
    for node in nodes:
        if node.name in single:
            yield About(subject(node), "NodeResourceTopology zones").not_judged("its machine has one NUMA node")
            continue
        policy, why = (published[node.name], "") if node.name in published else asked.get(node.name, ("", "nobody asked its kubelet"))
        source = "NodeResourceTopology attributes" if node.name in published else "kubelet /configz (get nodes/proxy)"
        about = About(subject(node), source, f"topologyManagerPolicy {listed(list(wanted))}", policy[:60])
        if not policy:
            yield about.not_judged(f"its topology manager's policy is not known: {why}"[:300])
        elif policy in wanted:
            yield about.ok()
        else:
            message = (
                f"with policy {policy[:60]} a container may get devices and adapters of different NUMA nodes: its traffic crosses sockets"
            )
            yield about.bad(message, cause="DevicesNotAligned")
