"""NET-04: on one node of every product and fabric resource, a pod that asks for it and one that does not list RDMA devices."""

import re
from collections.abc import Iterator, Mapping

import msgspec

from conformance.outputs.captured_text import Unreadable
from conformance.probes.computing import sections
from conformance.probes.node_sampling import PlaceFinding, choose_places, in_batches, kept_away, left_out, one_per_node
from conformance.probes.running import ProbeResult, pinned_pod, run_pods
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope
from fixtures.model.devices.fabric import allocatable, fabric_resources, offering_nodes
from fixtures.model.devices.node_labels import view_of
from fixtures.model.placement.free_devices import Place
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding, Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable

NETWORKS = "k8s.v1.cni.cncf.io/networks"


def places(scope: Scope) -> dict[str, list[Node]]:
    """Usable nodes per fabric resource, most free first.

    Raises :class:`NotApplicable` when no node offers any, and :class:`Inconclusive` when those that do cannot be used.
    """
    offering = {name: [node for node in scope.snapshot.nodes if allocatable(node, name) > 0] for name in fabric_resources(scope)}
    if not any(offering.values()):
        raise NotApplicable("NoRdmaNodes", "no node offers an RDMA resource")
    found = {}
    for name, nodes in offering.items():
        if usable := [node for node in nodes if scope.why_not_judged(node) == ""]:
            found[name] = sorted(usable, key=lambda node: (-scope.free(node, name), node.name))
    if not found:
        raise Inconclusive("NoUsableNode", "every node that offers an RDMA resource is cordoned or NotReady")
    return found


def attached(pod: Json, scope: Scope) -> Json:
    """The pod with the networks that the policy attaches RDMA pods to."""
    if scope.policy.network.attachments:
        pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), NETWORKS: scope.policy.network.attachments}
    return pod


def probe_devices(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """NET-04: one finding for every node that offers an RDMA resource. Raises :class:`Inconclusive` when no unit of any is free."""

    def ask(batch: list[tuple[int, Place]]) -> Iterator[PlaceFinding]:
        pods = [pinned_pod(scope, place.node, f"net-04-{number}-unasked", LIST_SCRIPT) for number, place in batch]
        for number, place in batch:
            pod = pinned_pod(scope, place.node, f"net-04-{number}", LIST_SCRIPT, resources={place.resource: 1})
            pods.append(attached(pod, scope))
        ran = run_pods(workspace, pods, scope.policy.probes.start_seconds)
        for number, place in batch:
            findings = judge_visible_fabric(ran[f"net-04-{number}"], ran[f"net-04-{number}-unasked"], place.resource)
            yield from ((place, finding) for finding in findings)

    offered = [_place(scope, node, name) for name, nodes in places(scope).items() for node in nodes]
    chosen = choose_places(scope, sorted(offered, key=lambda place: -place.free))
    asked = in_batches(scope, workspace, chosen, 2, ask)
    yield from one_per_node(asked, offering_nodes(scope), lambda node, reached: _left(scope, node, reached))


def _place(scope: Scope, node: Node, name: str) -> Place:
    free, capacity = max(scope.free(node, name), 0), allocatable(node, name)
    return Place(node=node, view=view_of(scope, node), resource=name, free=free, capacity=capacity, shared=False)


def _left(scope: Scope, node: Node, reached: Mapping[tuple[str, ...], str]) -> Finding:
    """A node that offers RDMA resources and was not asked."""
    own = [_place(scope, node, name) for name in fabric_resources(scope) if allocatable(node, name) > 0]
    full = "" if any(place.free for place in own) else f"pods hold every unit of {', '.join(place.resource for place in own)}"
    spoken = {reached[place.device_type] for place in own if place.device_type in reached}
    return left_out(scope, node, kept_away(scope, node) or full, spoken)


LIST_SCRIPT = (
    'echo "## dev"; ls -1 /dev/infiniband 2>&1 || echo "exit=$?"; '
    'echo "## verbs"; for v in /sys/class/infiniband_verbs/uverbs*/ibdev; do echo "$v $(cat $v 2>/dev/null)"; done; '
    'echo "## ports"; for p in /sys/class/infiniband/*/ports/1/state; do echo "$p $(cat $p 2>/dev/null)"; done; '
    'echo "## end"'
)
"""Prints device files, which HCA each uverbs device is, and the state of port 1 of each HCA, between markers.

sysfs belongs to the host and shows every HCA to every pod; what a pod can use are its device files.
"""

SOURCE = "/dev/infiniband and /sys/class/infiniband in the container"
_UVERBS = re.compile(r"uverbs\d{1,4}\Z")
_VERBS = re.compile(r"/sys/class/infiniband_verbs/(uverbs\d{1,4})/ibdev ([\w.-]{1,64})\s*\Z")
_PORT = re.compile(r"/sys/class/infiniband/([\w.-]{1,64})/ports/1/state (\d: [A-Z_a-z]{1,32})\s*\Z")
_SECTIONS = ["dev", "verbs", "ports", "end"]


class VisibleFabric(msgspec.Struct, frozen=True, kw_only=True):
    """Device files of the container, the HCA of each where sysfs tells, and the state of each HCA's port 1 (``4: ACTIVE``)."""

    uverbs: tuple[str, ...]
    hcas: dict[str, str]
    ports: dict[str, str]

    @property
    def active(self) -> list[str]:
        """HCAs with an ACTIVE port 1 that the container can use; all of the host where sysfs does not say which is which."""
        usable = {self.hcas[name] for name in self.uverbs if name in self.hcas} or set(self.ports)
        return sorted(name for name, state in self.ports.items() if name in usable and state.endswith(" ACTIVE"))

    @property
    def text(self) -> str:
        """One line of evidence."""
        states = ", ".join(f"{name} {state}" for name, state in sorted(self.ports.items())[:8]) or "none"
        return f"{len(self.uverbs)} uverbs device(s); port 1: {states}"


def read_visible_fabric(text: str) -> VisibleFabric:
    """Read the output of :data:`LIST_SCRIPT`. Raises :class:`Unreadable` when a section is missing or out of order."""
    found = {name: [line.strip() for line in part.splitlines()] for name, part in sections(text).items()}
    if list(found) != _SECTIONS:
        raise Unreadable(f"the probe's output is incomplete: it has the sections {', '.join(found) or 'none'}")
    verbs = [match for line in found["verbs"] if (match := _VERBS.match(line))]
    ports = [match for line in found["ports"] if (match := _PORT.match(line))]
    return VisibleFabric(
        uverbs=tuple(sorted(line for line in found["dev"] if _UVERBS.match(line))),
        hcas={match[1]: match[2] for match in verbs},
        ports={match[1]: match[2] for match in ports},
    )


def judge_visible_fabric(asked: ProbeResult, unasked: ProbeResult, resource: str) -> Iterator[Finding]:
    """NET-04: the pod that asked sees devices and an ACTIVE port; the one beside it that did not sees no device."""
    first = _judge_asked(asked, resource)
    yield first
    yield _judge_unasked(unasked, first.outcome is Outcome.OK, resource)


def _judge_asked(ran: ProbeResult, resource: str) -> Finding:
    seen = _visible_to(ran)
    about = About(ran.subject, SOURCE, "a uverbs device and an ACTIVE port 1")
    if isinstance(seen, str):
        return about.undecided(seen, cause="ProbeDidNotRun")
    observed = f"{seen.text}, on node {ran.node}"
    if not seen.uverbs:
        message = f"it holds one {resource} and has no /dev/infiniband/uverbs*, so NCCL finds no HCA and falls back to TCP"
        return about.bad(message, cause="FabricNotVisible", observed=observed)
    if not seen.active:
        message = f"it holds one {resource} and no port 1 of its HCAs is ACTIVE, so nothing can be sent over the fabric"
        return about.bad(message, cause="FabricPortDown", observed=observed)
    return about.ok(observed)


def _judge_unasked(ran: ProbeResult, works: bool, resource: str) -> Finding:
    seen = _visible_to(ran)
    about = About(ran.subject, SOURCE, "no uverbs device")
    if isinstance(seen, str):
        return about.undecided(seen, cause="ProbeDidNotRun")
    observed = f"{seen.text}, on node {ran.node}"
    if seen.uverbs:
        message = f"it did not ask for {resource} and sees /dev/infiniband/{seen.uverbs[0]}: any pod here can use the fabric uncounted"
        return about.bad(message, cause="FabricVisibleToAll", observed=observed)
    if not works:
        message = f"PositiveControlFailed: the pod on {ran.node} that asked for {resource} sees no working device either"
        return about.undecided(message, cause="PositiveControlFailed")
    return about.ok(observed)


def _visible_to(ran: ProbeResult) -> VisibleFabric | str:
    """What a pod saw, or why that is not known."""
    if ran.trouble:
        return f"the probe pod gave no answer: {ran.trouble}"
    try:
        return read_visible_fabric(ran.logs.get("probe", ""))
    except Unreadable as error:
        return f"the probe's output could not be read: {error}"
