"""OBS-02 and OBS-09: who holds each device of a node, by the exporter's labels, the kubelet, claims, the pods themselves, and probes.

The socket of PodResources is root's and on the host. So a pod reads it only where the policy lets a privileged one look
(``probes.wholeNodes``), in the image of the suite, which has the program.

Facts: docs/facts/kubelet.md#podresources, docs/facts/telemetry.md#owners, docs/facts/telemetry.md#shared-devices.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from conformance.obs.flaws import Flaw
from conformance.obs.page import Owner, Page, Part
from conformance.obs.scraping import COLLECTIONS, Scrape, Scraper
from conformance.probes.computing import END_MARKER, HOLD_SCRIPT, VisibleDevices, read_holders, start_holders, visible_to
from conformance.probes.node_sampling import PlaceFinding, choose_places, in_batches, per_node
from conformance.probes.running import ProbeResult, hold_pods, made_privileged, pinned_pod, run_pods
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Node, Pod
from fixtures.kubernetes.pod_resources import PROGRAM, SOCKET, PodResources
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.held import Held, Name, held_on
from fixtures.model.devices.shares import listed_by_kubelet
from fixtures.model.placement.free_devices import Place, places_of, usable_places, why_unlistable
from fixtures.nodeprobe.smi_xml import Listing
from fixtures.probes.pods import decode_pod
from fixtures.probes.workspace import Workspace
from fixtures.text import json_text
from fixtures.text.sentences import in_order, listed
from fixtures.verdict.findings import About, Finding, not_judged, undecided
from fixtures.verdict.subjects import Inconclusive, NotApplicable


def parts_of(page: Page) -> list[Part]:
    """The rows that owners are named on: MIG instances, and devices without any."""
    return [part for rows in page.devices.values() for part in ([row for row in rows if row.instance] or rows)]


def owner_flaws(
    page: Page, held: Mapping[Name, Held], *, shared: bool, passing: Callable[[str, str], bool] = lambda *_: False
) -> list[Flaw]:
    """Where the exporter's labels disagree with who holds the devices of a node. ``shared``: one device may have many owners.

    Pods that are ``passing``, by namespace and name, are left out.
    """
    return [*_wrong(page, held, shared, passing), *([] if shared else _unnamed(page, held))]


def _wrong(page: Page, held: Mapping[Name, Held], shared: bool, passing: Callable[[str, str], bool]) -> Iterator[Flaw]:
    for part in parts_of(page):
        owners = [owner for owner in part.owners if not passing(owner.namespace, owner.pod)]
        if len(owners) > 1 and not shared:
            yield Flaw("OwnerWrong", f"{part} is given to {listed(owners)} at once")
        for owner in owners:
            known = held.get((owner.namespace, owner.pod))
            if known is None:
                yield Flaw("OwnerStale", f"{part} is given to {owner}, and no such pod is on the node")
            elif not (known.count or known.containers):
                yield Flaw("OwnerWrong", f"{part} is given to {owner}, which asks for no device")
            elif owner.container and known.containers and owner.container not in known.containers:
                yield Flaw("OwnerWrong", f"{part} is given to {owner}: that container asks for no device")
            elif not part.instance and known.devices and part.uuid not in known.devices and not shared:
                yield Flaw("OwnerWrong", f"{part} is given to {owner}, which holds {listed(in_order(known.devices))} by {known.source}")


def _unnamed(page: Page, held: Mapping[Name, Held]) -> Iterator[Flaw]:
    for (namespace, name), known in sorted(held.items()):
        if known.quarrel:
            yield Flaw("OwnerWrong", f"of {namespace}/{name} {known.quarrel}")
        mine = [part for part in parts_of(page) if any((one.namespace, one.pod) == (namespace, name) for one in part.owners)]
        if known.runs and len(mine) < known.count:
            named = {part.uuid for part in mine}
            which = listed(in_order(known.devices - named)) if known.devices else f"{known.count - len(mine)} of its {known.count} devices"
            yield Flaw(
                "OwnerNotNamed", f"no series names {namespace}/{name} for {which}, which it holds by {known.source or 'its requests'}"
            )
        if not all(one.container and one.namespace for part in mine for one in part.owners if one.pod == name):
            yield Flaw("OwnerNotNamed", f"series of {listed(mine)} name the pod {name} and lack its namespace or container")


class Row(msgspec.Struct, frozen=True):
    """One device or MIG instance: who holds it by the exporter, and by others, with who says so; "-" for nobody."""

    device: str
    exporter: str
    others: str


def owner_rows(held: Mapping[Name, Held], page: Page) -> list[Row]:
    """A row for each device or instance on a page."""
    by_device: dict[str, list[str]] = {}
    for (namespace, name), known in sorted(held.items()):
        for uuid in known.devices:
            by_device.setdefault(uuid, []).append(f"{namespace}/{name} ({known.source})")
    rows = []
    for part in parts_of(page):
        asking = [one for one in part.owners if (mine := held.get((one.namespace, one.pod))) and mine.count and not mine.devices]
        named = by_device.get(part.uuid, []) if not part.instance else []
        named = named or [f"{one.namespace}/{one.pod} (its requests)" for one in asking]
        rows.append(Row(str(part), listed(part.owners) or "-", listed(named) or "-"))
    return rows


_FOLDER = SOCKET.rpartition("/")[0]
_LIMITS = {"cpu": "500m", "memory": "192Mi"}


def read_kubelets(scope: Scope, workspace: Workspace, nodes: Sequence[Node]) -> dict[tuple[str, str], set[str]]:
    """UUIDs of what pods hold on these nodes, by namespace and name. A kubelet that gives no answer says nothing of its pods."""
    probes = scope.policy.probes
    if probes.whole_nodes != "privileged" or not probes.suite_image or not nodes:
        return {}
    image = probes.suite_image
    asked = [pinned_pod(scope, node, f"obs-09-kubelet-{number}", PROGRAM, image=image, limits=_LIMITS) for number, node in enumerate(nodes)]
    pods = [made_privileged(pod, _FOLDER) for pod in asked]  # where SELinux is enforced, the socket is closed to any other
    ran = run_pods(workspace, pods, probes.start_seconds, workspace.namespace("privileged"))
    found: dict[tuple[str, str], set[str]] = {}
    for one in ran.values():
        try:
            document: PodResources = json_text.decode(one.logs.get("probe", "").encode(), PodResources)
        except json_text.NotJson:
            continue
        found |= listed_by_kubelet(document, scope.is_device)
    return found


_EXPECTED = "series of exactly the device that the pod holds name its namespace, pod and container, and none does after its end"


def probe_attribution(scope: Scope, workspace: Workspace, scraper: Scraper) -> Iterator[Finding]:
    """OBS-02: one device is held on each place, named while it is, and no longer after. One finding per accelerator node."""
    pages, seconds, start = scraper.pages(), scope.policy.metrics.attribution_seconds, scope.policy.probes.start_seconds

    def unfit(place: Place) -> str:
        if place.shared:
            return "an exporter names one pod of a shared device at most"
        return "" if place.node.name in pages else "its exporter gives no page (OBS-01 says why)"

    def ask(batch: list[tuple[int, Place]]) -> Iterator[PlaceFinding]:
        asked = {f"obs-02-{number}": place for number, place in batch}
        pods = [pinned_pod(scope, place.node, name, HOLD_SCRIPT, resources={place.resource: 1}) for name, place in asked.items()]
        ran, namespace = hold_pods(workspace, pods, END_MARKER, start), workspace.namespace()
        by_node = {place.node.name: name for name, place in asked.items() if not ran[name].trouble}
        owners = {node: Owner(namespace, name, "probe") for node, name in by_node.items()}
        wait = partial(scraper.until, seconds=seconds, collections=COLLECTIONS)
        named = {one.exporter.node: one for one in wait(by_node, lambda one: _named(one, owners[one.exporter.node]))}
        staying = workspace.clear()
        ended = [node for node, name in by_node.items() if name not in staying]
        later = {one.exporter.node: one for one in wait(ended, lambda one: not _named(one, owners[one.exporter.node]))}
        for name, place in asked.items():
            node = place.node.name
            if node not in named:
                message = f"the probe pod gave no answer: {ran[name].trouble}"
                yield place, undecided(subject(place.node), cause="ProbeDidNotRun", message=message)
            else:
                pages = named[node], later.get(node, named[node])
                yield place, judge_attribution(place.node, ran[name], owners[node], *pages, seconds, staying=staying.get(name, ""))

    fit = [place for place in usable_places(scope) if not unfit(place)]
    if not fit:
        raise NotApplicable("NoAttribution", "no usable node has devices of its own and an exporter that gives a page")
    yield from per_node(scope, in_batches(scope, workspace, choose_places(scope, fit), 1, ask), unfit)


def judge_attribution(
    node: Node, ran: ProbeResult, owner: Owner, named: Scrape, later: Scrape, seconds: float, *, staying: str = ""
) -> Finding:
    """What the page said while the pod held a device, and after its end. ``staying``: why the pod could not be removed, if so."""
    source = f"metrics of {named.exporter.name}, within {seconds:g} s"
    about = About(subject(node), source, _EXPECTED)
    if named.page is None or later.page is None:
        return about.undecided(f"the exporter gave no page: {named.why or later.why}")
    sight = visible_to(ran)
    uuids = set(sight.uuids) if isinstance(sight, VisibleDevices) else set()
    mine = _of(named.page, owner)
    found: list[Flaw] = []
    if not mine:
        rows = _rows_of(named.page, sight.listing) if isinstance(sight, VisibleDevices) else []
        if uuids and not rows and any(part.uuid for part in named.page.parts):
            return about.undecided(f"the page has no series of {listed(in_order(uuids))}: OBS-01 says which devices it lacks")
        if others := [one for part in rows for one in part.owners if one.namespace == owner.namespace]:
            message = f"{listed(rows)} names {listed(others)} and not {owner}: ISO-03 and OBS-09 say whether both pods of this run hold it"
            return about.undecided(message, cause="ProbeDidNotRun")
        reported = listed(one for part in rows for one in part.owners) or "nobody"
        words = f"{listed(rows) or 'no device'} names {reported} while {owner} holds {listed(uuids) or 'a device'}"
        found.append(Flaw("OwnerNotNamed", words))
    for part in mine:
        if any(one.pod == owner.pod and one != owner for one in part.owners):
            found.append(Flaw("OwnerNotNamed", f"{part} names {listed(part.owners)}, expected {owner}"))
        if uuids and not part.instance and part.uuid not in uuids:
            found.append(Flaw("OwnerWrong", f"{part} names {owner}, which holds {listed(in_order(uuids))}"))
    if len({(part.uuid, part.instance) for part in mine}) > 1:
        found.append(Flaw("OwnerWrong", f"{listed(mine)} all name {owner}, which holds one device"))
    if not staying and (left := _of(later.page, owner)):
        found.append(Flaw("OwnerStale", f"{listed(left)} still name {owner} after its end"))
    observed = f"{listed(mine) or 'no device'} named {owner}"
    if found:
        message = "; ".join(flaw.text for flaw in found)[:1000]
        return about.bad(message, cause=found[0].cause, observed=observed)
    if staying:
        message = f"the probe pod could not be removed, so it is not known whom the page names after its end: {staying}"
        return about.undecided(message, cause="ProbeDidNotRun")
    return about.ok(f"{observed}, and nobody after its end")


def _rows_of(page: Page, listing: Listing) -> list[Part]:
    """The rows of what a pod lists: its devices, and for a MIG device, of which pages have no UUID, its GPU's instances of that profile."""
    whole = {gpu.uuid for gpu in listing.gpus if not gpu.mig}
    slices = {(gpu.uuid, one.profile) for gpu in listing.gpus for one in gpu.mig}
    return [part for part in page.parts if (part.uuid in whole and not part.instance) or (part.uuid, part.profile) in slices]


def _of(page: Page, owner: Owner) -> list[Part]:
    return [
        part
        for part in page.parts
        if any((one.namespace or owner.namespace, one.pod) == (owner.namespace, owner.pod) for one in part.owners)
    ]


def _named(one: Scrape, owner: Owner) -> bool:
    return one.page is not None and bool(_of(one.page, owner))


def probe_owners(scope: Scope, workspace: Workspace, scraper: Scraper) -> Iterator[Finding]:
    """OBS-09: one finding per accelerator node with a page; on some a pod of the run says itself what it holds."""
    pages = scraper.pages()
    nodes = {node.name: node for node in scope.accelerator_nodes if node.name in pages}
    places = _free_places(scope, nodes)
    sights, silent = _held_by_probes(scope, workspace, places)
    listings = read_kubelets(scope, workspace, list({place.node.name: place.node for place in places}.values()))

    def passing(namespace: str, pod: str) -> bool:
        """Whether a pod is another probe's of this run, which comes and goes while the page is read. OBS-02 judges what is said of such."""
        return workspace.has_made(namespace) and (namespace, pod) not in sights

    def flaws_of(one: Scrape) -> list[Flaw]:
        node = nodes[one.exporter.node]
        held = held_on(scope, node, pods_on(workspace.cluster, node.name), sights, listings)
        held = {name: known for name, known in held.items() if not passing(*name)}
        return owner_flaws(one.page, held, shared=shares(scope, node), passing=passing) if one.page else []

    seconds = scope.policy.metrics.attribution_seconds
    for one in scraper.until(nodes, lambda one: one.page is not None and not flaws_of(one), seconds, collections=COLLECTIONS):
        node, flaws = nodes[one.exporter.node], flaws_of(one)
        if not flaws and node.name in silent:
            message = f"the probe pod gave no answer: {silent[node.name]}"
            yield undecided(subject(node), cause="ProbeDidNotRun", message=message)
        else:
            yield judge_owners(node, one, flaws)
    for node in scope.accelerator_nodes:
        if node.name not in pages:
            yield not_judged(subject(node), message="its exporter gives no page (OBS-01 says why)", source="metrics")


def judge_owners(node: Node, one: Scrape, found: list[Flaw]) -> Finding:
    """What a page says of the owners of a node's devices, against everybody else's word."""
    source = f"metrics of {one.exporter.name}; status, claims and requests of the node's pods"
    about = About(subject(node), source)
    if one.page is None:
        return about.undecided(f"the exporter gave no page: {one.why}")
    owners = {owner for part in one.page.parts for owner in part.owners}
    observed, expected = f"{len(owners)} owners named", "the exporter, the kubelet, claims and pods name one owner for each device"
    if found:
        message = listed([flaw.text for flaw in found], 8)[:1500]
        return about.bad(message, cause=found[0].cause, observed=observed, expected=expected)
    return about.ok(observed, expected=expected)


def shares(scope: Scope, node: Node) -> bool:
    """Whether several pods may have one device of a node."""
    return any(place.shared for place in places_of(scope, node))


def _free_places(scope: Scope, nodes: Collection[str]) -> list[Place]:
    """Where pods of the run hold a device: half of what may run at once, for a kubelet may be read beside each. None where none is free."""
    fit = [place for place in usable_places(scope) if place.node.name in nodes and not place.shared and not why_unlistable(place)]
    try:
        return choose_places(scope, fit)[: max(scope.policy.probes.at_once // 2, 1)] if fit else []
    except Inconclusive:
        return []


def _held_by_probes(scope: Scope, workspace: Workspace, places: Sequence[Place]) -> tuple[dict[Name, tuple[str, ...]], dict[str, str]]:
    """UUIDs of what pods of the run hold, as they list it themselves; and by node, why one of them said nothing."""
    asked = {f"obs-09-{number}": place for number, place in enumerate(places)}
    ran = read_holders(scope, workspace, start_holders(scope, workspace, asked))
    seen = {(one.subject.namespace, one.subject.name): visible_to(one) for one in ran.values()}
    sights = {name: sight.uuids for name, sight in seen.items() if isinstance(sight, VisibleDevices)}
    return sights, {asked[name].node.name: one.trouble for name, one in ran.items() if one.trouble}


def pods_on(cluster: Cluster, node: str) -> list[Pod]:
    """Pods that are bound to a node now. Raises :class:`ApiTrouble`."""
    answer = cluster.request("GET", cluster.path("pods"), query={"fieldSelector": f"spec.nodeName={node}"})
    if not answer.ok:
        raise ApiTrouble(answer.reason, f"list pods of {node}: {answer.status} {answer.message}")
    return [decode_pod(item) for item in answer.json()["items"]]
