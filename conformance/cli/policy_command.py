"""``gpu-conformance policy init``: print a policy that is drafted from a live cluster or a saved snapshot.

Exit codes: 0 printed, 4 usage, 10 nodes, pods or namespaces could not be read.

What exempts somebody is written as a comment, which the owner makes valid: a tenant may have put there what was found. Nothing but
names, keys, products and counts is taken from the cluster, and every text of it is written as an ASCII string.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from conformance.cli import target
from conformance.cli.arguments import Parser, complain, show
from conformance.cli.commands import command_parser
from conformance.version import VERSION
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ClusterUnreachable
from fixtures.kubernetes.labels import INSTANCE_TYPE
from fixtures.kubernetes.models import Node
from fixtures.kubernetes.podsecurity import Level, policy_of
from fixtures.model.cluster import Scope
from fixtures.model.demand.amounts import tenant_device_pods
from fixtures.model.devices.counts import model_of
from fixtures.model.devices.offers import unlisted_names
from fixtures.model.nodes.holds import is_never_permanent
from fixtures.model.nodes.pools import pools
from fixtures.model.platform.namespaces import READS
from fixtures.policy.platforms import NONE, Chosen, PresetError, chosen_by_marks, named
from fixtures.policy.policy_file import build_policy
from fixtures.snapshot.collect import collect
from fixtures.snapshot.files import SnapshotError, load_files
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.subjects import Inconclusive, NotApplicable

PROGRAM = "gpu-conformance policy"
USAGE, INCONCLUSIVE = 4, 10

KEYS = ("nodes", "pods", "namespaces", "apps/daemonsets", "resource.k8s.io/resourceslices", *READS)
"""Kinds that are read. No Secret, no ConfigMap and no event is among them."""

MAX_NAMED = 20
_GLOB = set("*?[]+")
_HARD = ("NoSchedule", "NoExecute")


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    parser.add_argument("action", choices=["init"], help="draft a policy")
    target.add_options(parser)
    parser.add_argument("--snapshot", metavar="PATH", default="", help="a file or folder of 'kubectl get' output instead of a live cluster")
    parser.add_argument("--platform", metavar="NAME[,NAME]", default="", help="presets by name; default: the cluster's own marks choose")


def main(argv: Sequence[str]) -> int:
    """Read, draft and print."""
    arguments = command_parser("policy").parse_args(argv[1:])
    try:
        by_name = named((name.strip() for name in arguments.platform.split(",") if name.strip()), "--platform")
        if arguments.snapshot and (arguments.kubeconfig or arguments.in_cluster):
            return complain(PROGRAM, "--snapshot and a live cluster: one target at a time")
        snapshot = load_files(Path(arguments.snapshot)) if arguments.snapshot else _read(target.open_cluster(arguments))
    except (ClusterUnreachable, PresetError, SnapshotError) as error:
        return complain(PROGRAM, error)
    try:
        text = draft(snapshot, by_name if arguments.platform else chosen_by_marks(snapshot))
    except (Inconclusive, NotApplicable) as error:
        complain(PROGRAM, error.message)
        return INCONCLUSIVE
    show(text, end="")
    return 0


def _read(cluster: Cluster) -> Snapshot:
    return collect(cluster, KEYS, version=cluster.probe())


def draft(snapshot: Snapshot, presets: Iterable[Chosen]) -> str:
    """The policy as commented YAML.

    Raises :class:`Inconclusive` or :class:`NotApplicable` where nodes, pods or namespaces were not read.
    """
    chosen = list(presets)
    usual = [one.policy for one in chosen]
    scope = Scope(snapshot, build_policy(*usual))
    if unlisted := unlisted_names(scope):
        scope = Scope(snapshot, build_policy(*usual, {"accelerators": {"resources": [f"+{name}" for name in sorted(unlisted)]}}))
    parts = [
        _head(scope),
        _platform(chosen),
        _accelerators(scope, unlisted),
        _fence(scope),
        _advertisement(scope),
        _tenants(scope),
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def quoted(text: str) -> str:
    """Text of a cluster as it may stand in YAML and in a comment: one line of ASCII, bounded."""
    return json.dumps(text[:253])


def _names(names: Iterable[str]) -> str:
    every = sorted(names)
    more = f" and {len(every) - MAX_NAMED} more" if len(every) > MAX_NAMED else ""
    return ", ".join(map(quoted, every[:MAX_NAMED])) + more


def _list(names: Iterable[str]) -> str:
    return f"[{', '.join(quoted(f'+{name}') for name in sorted(names))}]"


def _head(scope: Scope) -> Iterator[str]:
    yield f"# Drafted by gpu-conformance {VERSION} from cluster {quoted(scope.snapshot.cluster_uid or 'unknown')}."
    yield "# Each entry says what was found, why it is assumed and what to check. Lines that begin with '#? ' exempt somebody:"
    yield "# they count only when you remove these three characters."


def _platform(chosen: list[Chosen]) -> Iterator[str]:
    yield "# Found: " + ("; ".join(f"{one.name}: {quoted(one.why)}" for one in chosen) or "no mark of a known platform") + "."
    yield "# Assumed: these presets suit the cluster, also when a mark goes away. Check: the presets in docs/policy.md."
    yield f"platform: [{', '.join(one.name for one in chosen) or NONE}]"


def _accelerators(scope: Scope, unlisted: Iterable[str]) -> Iterator[str]:
    nodes = scope.accelerator_nodes
    found = [f"{quoted(product)}: {len(members)}" for product, members in pools(scope, nodes).items()]
    scaled = any(key.startswith(("karpenter.", "eks.amazonaws.com/compute-type")) for node in nodes for key in node.metadata.label)
    yield "accelerators:"
    if unlisted:
        yield "  # Found: nodes offer these by names of accelerators that no default has. Assumed: each is a device. Check: their guide."
        yield f"  resources: {_list(unlisted)}"
    yield f"  # Found: {len(nodes)} accelerator nodes ({'; '.join(found[:MAX_NAMED]) or 'none'})."
    if scaled:
        yield "  # Not assumed: an autoscaler adds and removes nodes, so their number is left open."
        yield "  expectedCount: null"
    else:
        yield "  # Assumed: all of them are there now, and no autoscaler changes their number. Check: how many there should be."
        yield f"  expectedCount: {len(nodes)}"


def _fence(scope: Scope) -> Iterator[str]:
    more: set[str] = set()
    seen: Counter[str] = Counter()
    for members in pools(scope, scope.accelerator_nodes).values():
        keys = [{taint.key for taint in node.spec.taints if taint.effect in _HARD and not is_never_permanent(taint)} for node in members]
        shared = set.intersection(*keys)
        seen.update(key for own in keys for key in own)
        if not any(map(scope.is_fence_key, shared)):
            more |= shared
    yield "fence:"
    yield f"  # Found: hard taints {'; '.join(f'{quoted(key)} on {count} nodes' for key, count in sorted(seen.items())) or 'none'}."
    if more:
        yield "  # Assumed: a taint that every node of a pool carries is its fence. Check: that only device pods tolerate it."
        yield f"  taintKeys: {_list(more)}"
    else:
        yield "  # Assumed: the keys of the defaults and presets are those of your fences."
        yield "  affinity: {}"
    if len(scope.snapshot.nodes) == 1:
        yield "  # Found: one node. Check: whether its other pods have anywhere else to run."
        yield f"  singleNode: {'true' if scope.policy.fence.single_node else 'false'}"


def _advertisement(scope: Scope) -> Iterator[str]:
    counts: dict[str, set[int]] = {}
    for node in scope.accelerator_nodes:
        if (name := _kind(node)) and (devices := _whole_devices(scope, node)):
            counts.setdefault(name, set()).add(devices)
    alike = {name: found for name, found in counts.items() if len(found) == 1}
    yield "advertisement:"
    yield "  # Found: what nodes of one product or machine type offer, where they agree and offer whole devices only."
    yield "  # Assumed: no device was missing when this was drafted. Check: the data sheets of the machines."
    if not alike:
        yield "  devicesPerNode: {}"
        return
    yield "  devicesPerNode:"
    for name, found in sorted(alike.items()):
        yield f"    {quoted(name)}: {max(found)}"


def _kind(node: Node) -> str:
    name = model_of(node) or node.metadata.label.get(INSTANCE_TYPE, "")
    return "" if _GLOB & set(name) else name


def _whole_devices(scope: Scope, node: Node) -> int:
    """Devices of a node that offers one kind of them, whole and unshared; 0 where that is not sure."""
    offered = {name: count for name, count in scope.device_capacity(node).items() if count}
    labels = node.metadata.label
    shared = labels.get("nvidia.com/gpu.sharing-strategy", "none") != "none" or labels.get("nvidia.com/mig.strategy", "none") != "none"
    annotated = any(key.startswith("hami.io/") for key in node.metadata.annotation)
    clouds = any(key.startswith("cloud.google.com/gke-gpu-") or key.endswith("max-shared-clients-per-gpu") for key in labels)
    partitioned = any("partition" in key for key in labels)
    if (
        shared
        or annotated
        or clouds
        or partitioned
        or set(offered) - {"nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "google.com/tpu"}
    ):
        return 0
    return next(iter(offered.values())) if len(offered) == 1 else 0


def _tenants(scope: Scope) -> Iterator[str]:
    tenants = [item for item in scope.snapshot.namespaces if scope.is_tenant(item.name)]
    yield "tenants:"
    yield f"  # Found: tenants by this policy are {_names(item.name for item in tenants) or 'none'}."
    yield "  # Assumed: everybody who is not the platform is a tenant. Check: that none of them is the platform's."
    yield '  namespaces: ["*"]'
    if doubtful := {item.name for item in tenants if scope.platform.advice(item.name)}:
        yield "  # Found: names that sound like the platform's, and nothing proves it. Check: who created these namespaces."
        yield f"  #? moreInfrastructure: {_list(doubtful)}"
    host = {pod.namespace for pod in tenant_device_pods(scope) if pod.spec.host_network}
    if host:
        yield "  # Found: device pods on their host's network. Check: whether the platform has no other way to its fabric."
        yield f"  #? hostRdma: [{', '.join(map(quoted, sorted(host)))}]"
    required = Level(scope.policy.tenants.pod_security)
    levels = {item.name: policy_of(item.metadata.label)[0].enforce.level for item in tenants if item.name not in host}
    weaker = {name: level for name, level in levels.items() if level.strictness < required.strictness}
    if weaker and not scope.platform.openshift:
        yield f"  # Found: namespaces that enforce less than {required}. Check: whether their pods need that."
        yield "  #? podSecurityExceptions:"
        yield from (f"  #?   {quoted(name)}: {level}" for name, level in sorted(weaker.items()))
