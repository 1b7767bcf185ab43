"""NET-09: adapters reach the memory of devices directly: by a module or DMA-BUF, past no redirection, over one switch. Pure.

Facts: docs/facts/nodes.md#what-sysfs-says-of-devices.

NET-08: whether kubelets give a container devices and adapters of one NUMA node.

A kubelet answers whoever may ``get nodes/proxy``, a right to run programs in every pod of the node. So no role of the suite has it. The
suite asks all the same where no NodeResourceTopology names the policy, and does not judge a node that it may not ask.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from conformance.probes.node_documents import SOURCE, NodeDocument
from conformance.requirement import Asks, Form
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.fabric import offering_nodes
from fixtures.model.nodes.topology import policy_of_configz, published_policies, with_one_numa_node
from fixtures.nodeprobe.document import Host, PciFunction
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, not_judged
from fixtures.verdict.subjects import NotApplicable, Subject

_EXPECTED = "peer memory or DMA-BUF, ACS without redirection, and an RDMA adapter below the same switch"
_NEAR = ("PIX", "PXB")
_REDIRECTS = {"request redirect", "completion redirect"}
_BY_ATS = "direct translated"
_OWN_WAY = "efa"
"""EFA's driver reaches NVIDIA's memory by itself."""


def near_devices(scope: Scope) -> Callable[[NodeDocument], Iterator[Finding]]:
    """What judges a document. Every Ethernet card of some makers is an RDMA adapter by its driver: nodes offer those that carry jobs."""
    offering = {node.name for node in offering_nodes(scope)}

    def judge(one: NodeDocument) -> Iterator[Finding]:
        if one.node.name in offering or any(port.layer == "InfiniBand" for port in one.document.host.rdma):
            return check_near_devices(one)
        message = "it offers no RDMA resource and has no InfiniBand port: its adapters may be for ordinary traffic only"
        return iter([not_judged(subject(one.node), message=message, source=SOURCE)])

    return judge


def check_near_devices(one: NodeDocument) -> Iterator[Finding]:
    """What stands between the devices of a node and its RDMA adapters, a finding each; one that says that nothing does."""
    host, about = one.document.host, About(subject(one.node), SOURCE, _EXPECTED)
    adapters = {port.pci_address for port in host.rdma if port.pci_address}
    devices = [function for function in host.pci if function.kind == "accelerator"]
    if not adapters or not devices:
        missing = "RDMA adapter" if devices else "accelerator"
        yield about.not_judged(f"its PCI bus shows no {missing}")
        return
    found = [*_access(about, host), *_redirected(about, host, devices, adapters), *_far(about, host, devices, adapters)]
    yield from found
    if not found:
        levels = sorted({level for function in devices if (level := _nearest(host, function, adapters))})
        distance = " and ".join(levels) or "a distance that sysfs does not show"
        yield about.ok(f"{len(devices)} devices, {len(adapters)} adapters, at {distance}")


def _access(about: About, host: Host) -> Iterator[Finding]:
    way = host.direct_access
    if way is None or way.peermem or way.dma_buf or _OWN_WAY in host.modules:
        return
    if way.dma_buf is None:
        yield about.undecided("nvidia_peermem is not loaded, and whether the driver allows DMA-BUF is not known")
        return
    message = "nvidia_peermem is not loaded, and driver or kernel allow no DMA-BUF: traffic to other nodes goes through the host's memory"
    yield about.bad(message, cause="PeerMemoryMissing", observed="neither peer memory nor DMA-BUF")


def _redirected(about: About, host: Host, devices: list[PciFunction], adapters: set[str]) -> Iterator[Finding]:
    """Ports of switches between a device and an adapter that send their traffic up to the host."""
    acs = {bridge.address: bridge.acs for bridge in host.bridges}
    between = {
        address
        for device in devices
        for adapter in host.pci
        if adapter.address in adapters and (shared := set(device.path) & set(adapter.path))
        for address in {*device.path, *adapter.path} - shared
    }
    on = sorted(address for address in between if _REDIRECTS & set(controls := acs.get(address) or ()) and _BY_ATS not in controls)
    if on:
        detour = "what a device and an adapter send each other goes up to the host, at half the speed or less"
        yield about.bad(f"ACS redirects at {listed(on)}: {detour}", cause="AcsOn", observed=f"redirection on {len(on)} ports")
    elif between and all(acs.get(address) is None for address in between):
        message = "ACS of its switches may be read by privileged pods only (policy probes.wholeNodes)"
        yield not_judged(Subject("Node", f"{about.subject.name} ACS"), message=message, source=SOURCE)


def _far(about: About, host: Host, devices: list[PciFunction], adapters: set[str]) -> Iterator[Finding]:
    """Devices without an adapter below their switch. A machine that shows no switch, as most virtual ones, says nothing."""
    nearest = {device.address: _nearest(host, device, adapters) for device in devices}
    far = [address for address, level in nearest.items() if level and level not in _NEAR]
    if not far or len(far) == len(devices):
        return
    words = listed([f"{address} ({nearest[address]})" for address in far], 4)
    message = f"{words} have no RDMA adapter below their switch, and their peers have: their traffic crosses the host's bridges"
    # with fewer adapters than devices some have to be far
    finding = about.bad if len(adapters) >= len(devices) else about.advised
    yield finding(message, cause="FarFromAdapter", observed=words)


def _nearest(host: Host, device: PciFunction, adapters: set[str]) -> str:
    """The shortest way from a device to an adapter; empty where none is known."""
    levels = {one.level for one in host.distances if one.device == device.address and one.adapter in adapters}
    return next((level for level in (*_NEAR, "PHB", "NODE", "SYS") if level in levels), "")


_AT_ONCE = 8
_SECONDS = 15.0

Asked = tuple[str, str]
"""The policy of a kubelet, empty where it is not known, and why not."""


def policies_of_kubelets(asks: Asks, nodes: list[str]) -> dict[str, Asked]:
    """What the kubelets of nodes say. The first answer decides whether the others are asked: a right is for all."""

    def ask(cluster: Cluster) -> dict[str, Asked]:
        first = {name: _ask(cluster, name) for name in nodes[:1]}
        if any(why.startswith("403") for _, why in first.values()):
            return dict.fromkeys(nodes, next(iter(first.values())))
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="configz") as pool:
            return first | dict(zip(nodes[1:], pool.map(lambda name: _ask(cluster, name), nodes[1:]), strict=True))

    return asks("topologyManagerPolicy of kubelets", ask, Form(dict[str, Asked])) if nodes else {}


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
