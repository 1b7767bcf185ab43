"""Documents of the node probe: one pod on each chosen node reads what the node's drivers say of their devices.

An ordinary pod takes every free device of its node, so that the document has all that a pod can get. Where the policy allows it
(``probes.wholeNodes``), a pod that asks for no device sees the whole node, busy or not. The documents are read once in a run, and every
requirement with access ``hardware`` judges them.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from conformance.causes import cause_of
from conformance.probes.computing import LIMITS_OF_ALL, SECONDS_PER_DEVICE, after_text, before_listing, listing_run
from conformance.probes.node_sampling import PlaceFinding, batches, choose_places, not_reached, per_node
from conformance.probes.running import ProbeResult, made_privileged, pinned_pod, run_pods
from conformance.requirement import Form
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json, Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.placement.free_devices import Place, listable_places, places_of, runtime_classes, why_unlistable
from fixtures.model.platform.runtime_classes import is_sandbox
from fixtures.nodeprobe import smi
from fixtures.nodeprobe.document import SCHEMA_VERSION, Device, Document, Driver, Host, decode
from fixtures.nodeprobe.smi_xml import NotSmi
from fixtures.probes.workspace import Workspace
from fixtures.text.json_text import NotJson
from fixtures.text.sentences import cut
from fixtures.verdict.findings import About, Finding, undecided
from fixtures.verdict.subjects import Inconclusive, Subject

SOURCE = "node probe in a pod on the node"
_GRANTED = "## granted "
_IN_THE_SUITE = "gpu-conformance probe --json 2>/dev/null"
_ALL = {"NVIDIA_VISIBLE_DEVICES": "all"}
_ENVIRONMENT = {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
_LIMITS = {"cpu": "500m", "memory": "192Mi"}
"""Python and the driver's library: three times what a document of eight devices takes."""

_UUID = re.compile(r"(?<![\w-])(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_WORDS = 300


class NodeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The document of one node. ``places`` are what its pod could reach: all free units of each, or the whole node.

    ``granted`` are UUIDs of what the pod was given, by the variable that NVIDIA's plugin sets or by what a DRA driver publishes; empty
    where neither says. ``handler`` is that of its pod's RuntimeClass.
    """

    places: tuple[Place, ...]
    document: Document
    granted: frozenset[str] = frozenset()
    whole: bool = False
    handler: str = ""

    @property
    def node(self) -> Node:
        """The node."""
        return self.places[0].node

    @property
    def asked(self) -> int:
        """How many units its pod reaches; units that are no devices do not count on a whole node."""
        return sum(0 if place.shared else place.capacity for place in self.places) if self.whole else sum(map(units, self.places))

    @property
    def sandboxed(self) -> bool:
        """Whether its pod had a kernel of its own (Kata Containers, gVisor), of which it read the versions then."""
        own, boot = self.document.host.boot_id, self.node.status.node_info.boot_id
        return is_sandbox(self.handler) or bool(own and boot and own != boot)

    @property
    def pod(self) -> str:
        """Its pod, in words."""
        return f"a pod that {'may see' if self.whole else 'holds'} {self.asked} devices"

    @property
    def drivers(self) -> Sequence[Driver]:
        """Drivers of the vendors whose devices the node offers: one of another vendor says nothing of them."""
        vendors = {place.vendor for place in self.places}
        return [self._offered(driver) for driver in self.document.drivers if driver.vendor in vendors]

    def _offered(self, driver: Driver) -> Driver:
        """A driver without the graphics of the processor, unless the node offers them too: then there are no more devices than units."""
        own = [device for device in driver.devices if not device.integrated]
        return msgspec.structs.replace(driver, devices=own) if own and len(driver.devices) > self.asked else driver

    def devices(self) -> Iterator[tuple[Subject, Device]]:
        """Each device with its subject."""
        for driver in self.drivers:
            for device in driver.devices:
                yield device_subject(self.node, device), device


class Unread(msgspec.Struct, frozen=True, kw_only=True):
    """A chosen node without a document, and why."""

    places: tuple[Place, ...]
    finding: Finding
    trouble: str = ""  # what the pod's own state says


def refused(gone: Unread, causes: Mapping[str, tuple[str, ...]], expected: str, message: str) -> Finding | None:
    """What plugin or runtime said when they could not give a pod its devices, by the words of each cause; None for any others."""
    cause = next((cause for cause, words in causes.items() if any(word in gone.trouble.lower() for word in words)), "")
    about = About(subject(gone.places[0].node), "pod status", expected, cut(gone.trouble, 300))
    return about.bad(message, cause=cause) if cause else None


class NodeDocuments(msgspec.Struct, frozen=True, kw_only=True):
    """What the probes of one run read, by node name. A node that was not chosen is in neither."""

    by_node: Mapping[str, NodeDocument] = {}
    unread: Mapping[str, Unread] = {}
    computed: Mapping[tuple[str, str], ProbeResult] = {}
    """By node and resource: pods that computed on all devices after they had read them."""


class _Kept(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A document of one node as evidence has it: of the host with what nodes are compared by, and of places their resources."""

    resources: list[str]
    document: Document
    granted: list[str] = []
    whole: bool = False
    handler: str = ""


def documents_form(scope: Scope) -> Form[NodeDocuments]:
    """How documents are kept for requirements that only read."""

    def keep(one: NodeDocument) -> _Kept:
        host = Host(kernel=one.document.host.kernel, boot_id=one.document.host.boot_id)
        document = msgspec.structs.replace(one.document, host=host)
        resources = [place.resource for place in one.places]
        return _Kept(resources=resources, document=document, granted=sorted(one.granted), whole=one.whole, handler=one.handler)

    def give(name: str, kept: _Kept) -> NodeDocument:
        places = tuple(place for place in places_of(scope, scope.as_read.node_by_name[name]) if place.resource in kept.resources)
        return NodeDocument(places=places, document=kept.document, granted=frozenset(kept.granted), whole=kept.whole, handler=kept.handler)

    return Form(
        dict[str, _Kept],
        keep=lambda found: {name: keep(one) for name, one in found.by_node.items()},
        give=lambda kept: NodeDocuments(by_node={name: give(name, one) for name, one in kept.items()}),
    )


class DocumentsOnce:
    """Reads the documents when the first requirement asks for them; what was in the way is in the way of all."""

    def __init__(self) -> None:
        self._found: NodeDocuments | Exception | None = None

    def get(self, scope: Scope, workspace: Workspace) -> NodeDocuments:
        """The documents. Raises what :func:`collect` raises."""
        if self._found is None:
            try:
                self._found = collect(scope, workspace)
            except Exception as error:
                self._found = error
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


def device_subject(node: Node, device: Device) -> Subject:
    """One device of a node, by its number and UUID."""
    return Subject("Node", cut(f"{node.name} device {device.index} {device.uuid}".rstrip(), _WORDS))


def why_unreadable(place: Place) -> str:
    """Why no pod reads the devices of a place, or empty. The kernel shows AMD's to every pod, whatever its image."""
    return "" if place.vendor == "amd" else why_unlistable(place)


def units(place: Place) -> int:
    """How many units a probe asks for: all that are free, and one where units are no devices."""
    return 1 if place.shared else place.free


_PEERS = 2
"""Nodes of its sort that are read beside a node that the run is about: with one alone, nobody tells which of two is unlike."""


def collect(
    scope: Scope,
    workspace: Workspace,
    *,
    way: str = "",
    nodes: Collection[str] | None = None,
    peers: int = _PEERS,
    then: Callable[[Sequence[Place]], bool] = lambda _: False,
) -> NodeDocuments:
    """Read the documents of one node of each product, or with ``probes.everyNode`` of every node; or of these nodes among them.

    ``way`` stands for the policy's ``probes.wholeNodes``. ``then``: whether the pod of these places computes on them afterwards, in the
    image of the suite.

    Raises :class:`NotApplicable` without devices that a probe can read, :class:`Inconclusive` where all are held and the policy lets no
    pod without a device look, or where the first pods may not be created.
    """
    way = way or scope.policy.probes.whole_nodes
    whole = way != "no"
    chosen = {
        place.node.name: tuple(one for one in places_of(scope, place.node) if (whole or one.free) and not why_unreadable(one))
        for place in choose_places(scope, listable_places(scope, why_unreadable), free=0 if whole else 1, peers=peers)
        if nodes is None or place.node.name in nodes
    }
    namespace = workspace.namespace("privileged") if way == "privileged" else workspace.namespace()
    classes = runtime_classes(scope)
    by_node: dict[str, NodeDocument] = {}
    unread: dict[str, Unread] = {}
    computed: dict[tuple[str, str], ProbeResult] = {}
    trouble: Inconclusive | None = None
    try:
        for batch in batches(scope, workspace, list(chosen.items()), 1):
            pods = {f"node-probe-{number}": item for number, item in batch}
            computing = {name: places for name, (_, places) in pods.items() if then(places)}
            wanted = [_pod(scope, name, places, way, then=name in computing) for name, (_, places) in pods.items()]
            longest = max((sum(map(units, places)) for places in computing.values()), default=0)
            ran = run_pods(workspace, wanted, scope.policy.probes.start_seconds + SECONDS_PER_DEVICE * longest, namespace)
            for pod, (node, places) in pods.items():
                if pod in computing:
                    computed[node, places[0].resource] = after_text(ran[pod])
                found = _read(ran[pod], places, whole, classes)
                if isinstance(found, NodeDocument):
                    by_node[node] = found
                else:
                    unread[node] = found
    except Inconclusive as error:  # what was read until then is read
        if not (by_node or unread or isinstance(error, ApiTrouble)):
            raise
        trouble = error
    for node, places in chosen.items():
        if node not in by_node and node not in unread:
            finding = not_reached(scope, places[0].node)
            if trouble is not None:
                message, cause = f"its probe pod could not be run: {trouble.message}", cause_of(trouble.code)
                finding = undecided(finding.subject, message=message, source="API server", cause=cause)
            unread[node] = Unread(places=places, finding=finding)
    return NodeDocuments(by_node=by_node, unread=unread, computed=computed)


def judged(
    scope: Scope,
    documents: NodeDocuments,
    judge: Callable[[NodeDocument], Iterable[Finding]],
    of_unread: Callable[[Unread], Finding | None] = lambda _: None,
) -> Iterator[Finding]:
    """One finding for every accelerator node: what ``judge`` finds in its document, or why there is none.

    ``of_unread`` may find something in the state of a pod that gave no document.
    """

    def asked() -> Iterator[PlaceFinding]:
        for one in documents.by_node.values():
            yield from ((one.places[0], finding) for finding in judge(one))
        for gone in documents.unread.values():
            yield gone.places[0], of_unread(gone) or gone.finding

    yield from per_node(scope, asked(), why_unreadable)


def _pod(scope: Scope, name: str, places: Sequence[Place], way: str, *, then: bool = False) -> Json:
    """The pod that reads one node: in the suite's image, where the policy names it, by the collector, else by the script."""
    probes = scope.policy.probes
    script = f'echo "{_GRANTED}$NVIDIA_VISIBLE_DEVICES"; {_IN_THE_SUITE if probes.suite_image else smi.SCRIPT}'
    if then:
        script += f"; {listing_run(scope, then='').script}"
    pod = pinned_pod(
        scope,
        places[0].node,
        name,
        script,
        resources={place.resource: units(place) for place in places} if way == "no" else {},
        env={**_ENVIRONMENT, **({} if way == "no" else _ALL)},
        image=probes.suite_image or probes.image_for(place.resource for place in places),
        runtime_class="" if way == "no" else next((name for name, handler in runtime_classes(scope).items() if handler == "nvidia"), ""),
        limits=LIMITS_OF_ALL if then else _LIMITS,
    )
    return made_privileged(pod) if way == "privileged" else pod


def _read(ran: ProbeResult, places: tuple[Place, ...], whole: bool, classes: Mapping[str, str]) -> NodeDocument | Unread:
    """The document in a pod's log; a text that is none, or of another version, says nothing of the node.

    ``whole``: the pod asked for no device. ``classes`` are handlers by RuntimeClass.
    """
    trouble, cause = ran.trouble, "ProbeDidNotRun"
    if not trouble:
        try:
            granted, _, text = before_listing(ran.logs.get("probe", "")).removeprefix(_GRANTED).partition("\n")
            document = decode(text.encode()) if text.startswith("{") else smi.document(text)
            if document.schema_version.partition(".")[0] == SCHEMA_VERSION.partition(".")[0]:
                return NodeDocument(
                    places=places,
                    document=document,
                    granted=frozenset() if whole else _granted(places, granted),
                    whole=whole or any(place.vendor == "amd" for place in places),
                    handler=classes.get(ran.runtime_class, ran.runtime_class),
                )
            trouble = f"its document has the version {cut(document.schema_version, 20)}, and {SCHEMA_VERSION} is read here"
        except (NotJson, NotSmi) as error:
            trouble = f"its log is no document ({error})"
        cause = "NotUnderstood"
    message = f"the probe pod gave no document: {cut(trouble, _WORDS)}"
    return Unread(places=places, finding=undecided(subject(places[0].node), message=message, source=SOURCE, cause=cause), trouble=trouble)


def _granted(places: Sequence[Place], variable: str) -> frozenset[str]:
    """UUIDs of what a pod was given. Variables of CDI and of images (``void``, ``all``) name none."""
    named = frozenset(_UUID.findall(variable))
    published = [device.body.attribute("uuid") for place in places if place.driver for device in place.devices]
    every = all(place.driver and place.free == place.capacity for place in places)
    return named or (frozenset(published) - {""} if every else frozenset())
