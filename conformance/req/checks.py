"""REQ-02 to 05: what templates and pods ask for, and whether nodes have it."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from conformance.common_findings import overdue, unread
from conformance.req.claims import check_claims_can_be_met
from fixtures.kubernetes.models import Container, Node, Pod, PodSpec
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.amounts import Amount, held_by, is_extended, looks_like_device, mapped_to_dra, problem, requested_amounts, whole
from fixtures.model.demand.pod_events import quoted
from fixtures.model.demand.pod_templates import templates
from fixtures.model.demand.template import Template
from fixtures.model.devices.scheduler_amounts import counted, doubted, is_amount, split_resources
from fixtures.model.dra.slices import BY_CLASS, SLICES
from fixtures.model.nodes.changes import change_under_way
from fixtures.model.placement.affinity import Choice, aim, selects, too_long
from fixtures.model.placement.claimable import units_of
from fixtures.model.platform.kubelet_plugins import why_none_allocatable
from fixtures.text.globs import matches
from fixtures.text.sentences import listed, natural
from fixtures.verdict.findings import About, Finding, Outcome, undecided
from fixtures.verdict.subjects import NotApplicable, Subject

# -- REQ-02 --------------------------------------------------------------------------------------------

_REPLACES_AMOUNTS = "trainer.kubeflow.org/trainjobs"
"""The kind whose parts replace the amounts of what completes them (docs/facts/vendors-and-clouds.md#trainjobs)."""


Asked = tuple[str, str, Amount | None, Amount | None]
"""Field path of a container, name of a resource, its request and its limit."""


def check_whole_devices(scope: Scope) -> Iterator[Finding]:
    """One finding per template or live pod that asks for a device: whole numbers, request equal to limit, in every container."""
    for template in templates(scope):
        if template.trouble:
            yield unread(template)
            continue
        if amounts := amounts_of(template, scope.names_device):
            about = About(template.place, f"{template.path}.*.resources", "whole devices, request equal to limit")
            yield judged_amounts(about, template, amounts, _shown(held_by(template.spec, scope.names_device)))


def amounts_of(template: Template, wanted: Callable[[str], bool]) -> list[Asked]:
    """What the containers of a template ask for of the resources that ``wanted`` chooses."""
    return [
        (place, name, request, limit)
        for place, container in _containers(template.spec)
        for name, (request, limit) in requested_amounts(container, wanted).items()
    ]


def _containers(spec: PodSpec) -> Iterator[tuple[str, Container]]:
    """Every container with its field path: init and sidecar, ordinary, ephemeral."""
    every = {"initContainers": spec.init_containers, "containers": spec.containers, "ephemeralContainers": spec.ephemeral_containers}
    return ((f"{field}[{index}]", container) for field, group in every.items() for index, container in enumerate(group or ()))


def judged_amounts(about: About, template: Template, amounts: Iterable[Asked], observed: str) -> Finding:
    """Whether the API server would accept amounts of a template."""
    wrong = [(f"{place} {text}", limit) for place, name, request, limit in amounts if (text := problem(name, request, limit))]
    problems = listed((text for text, _ in wrong), 3)
    loose = template.partial and template.key != _REPLACES_AMOUNTS
    if wrong and loose and (not template.certain or all(limit is None for _, limit in wrong)):
        message = f"{problems}: the API server refuses that in a pod; what pod its controller makes is not known"
        return about.undecided(message)
    if wrong:
        consequence = "the API server will refuse the pods it makes" if not template.live else "no API server validated it"
        return about.bad(f"{problems}, so {consequence}", cause="AmountsMalformed", observed=problems)
    return about.ok(observed)


def _shown(amounts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(amounts.items()))


# -- REQ-03 --------------------------------------------------------------------------------------------


def check_not_overcommitted(scope: Scope) -> Iterator[Finding]:
    """One finding per node and extended resource that it offers or that pods hold there."""
    by_claim = mapped_to_dra(scope)
    for node in sorted(scope.snapshot.nodes, key=lambda node: natural(node.name)):
        pods = [(pod, amounts) for pod in scope.snapshot.pods_by_node.get(node.name, ()) if (amounts := scope.extended_amounts(pod))]
        names = {name for _, amounts in pods for name, count in amounts.items() if count and is_extended(name)}
        names |= {name for name, value in node.allocatable.items() if is_extended(name) and whole(value)}
        for name in sorted(names):
            holders = [(pod, amounts[name]) for pod, amounts in pods if amounts.get(name)]
            about = About(Subject("Node", f"{node.name} {name}"), "requests of bound pods, status.allocatable")
            if counted(scope, name):
                yield about.not_judged(f"only a scheduler counts {name}: no node offers it", source="status.capacity")
            elif name not in by_claim and (unclear := doubted(scope, name)):
                source = "requests of bound pods, annotations and status.capacity of nodes"
                yield about.undecided(unclear, source=source)
            elif name in by_claim and not whole(node.allocatable.get(name)):  # the kubelet keeps a 0 of the plugin that was there before
                yield _of_slices(scope, about.subject, node, name, sum(count for _, count in holders))
            else:
                yield _committed(scope, about, node, name, holders)


def _committed(scope: Scope, about: About, node: Node, name: str, holders: list[tuple[Pod, int]]) -> Finding:
    total, offered, had = sum(count for _, count in holders), whole(node.allocatable.get(name)), whole(node.capacity.get(name))
    about = msgspec.structs.replace(about, expected=f"at most {offered}", observed=f"{total} held")
    if total <= offered:
        return about.ok(f"{total} of {offered} held")
    ordered = sorted(holders, key=lambda item: (-item[1], item[0].name))
    holding = listed([f"{pod.namespace}/{pod.name} ({_held(pod, count)})" for pod, count in ordered], 4)
    if not offered and (doing := change_under_way(node, scope.policy, scope.snapshot.taken_at)):
        message = f"bound pods hold {total} {name} and the node can allocate none just now: {doing}"
        return about.undecided(message, cause="ChangeUnderWay")
    if not offered and total <= had:
        why = why_none_allocatable(scope, node, name)
        message = f"bound pods hold {total} of its {had} {name} and the node can allocate none: {why}; no pod took too many ({holding})"
        return about.bad(message, cause="DevicesNotRegistered")
    message = f"bound pods hold {total} {name} and the node can allocate {offered}: {holding}; some of them fail when the kubelet restarts"
    return about.bad(message, cause="DevicesOvercommitted")


def _of_slices(scope: Scope, place: Subject, node: Node, name: str, total: int) -> Finding:
    """A resource that the node has none of and that a DeviceClass serves: pods hold no more than the node's slices have of the class."""
    served = f"DeviceClass {scope.claims.class_behind(name)} serves {name}"
    offered = units_of(scope, node, name)
    about = About(place, "requests of bound pods, resourceslice.spec.devices", f"at most {offered}")
    if not offered:
        return about.not_judged(f"{served}: its {total} units are allocated by DRA, and it selects no device of the node now")
    if total <= offered:
        return about.ok(f"{total} of {offered} held, by DRA")
    message = f"bound pods hold {total} {name}, and the slices of the node have {offered} ({served}): some of these pods hold no device"
    return about.bad(message, cause="DevicesOvercommitted", observed=f"{total} held")


def _held(pod: Pod, count: int) -> str:
    return f"{count}, being deleted" if pod.metadata.deletion_timestamp else str(count)


# -- REQ-04 --------------------------------------------------------------------------------------------


def check_can_be_offered(scope: Scope) -> Iterator[Finding]:
    """One finding per pending pod that asks for extended resources or claims devices: some node could offer all it asks for together."""
    yield from check_claims_can_be_met(scope)
    distinct = {tuple(sorted(scope.cached_for(node, _offer).items())) for node in scope.snapshot.nodes}
    offers = [dict(offer) for offer in sorted(distinct)]  # a thousand equal nodes are one offer
    by_claim = mapped_to_dra(scope) - scope.capacity_names
    for pod in scope.snapshot.pods:
        if not pod.waits:
            continue
        wanted = {name: count for name, count in held_by(pod.spec).items() if count and name not in by_claim and not counted(scope, name)}
        unclear = {name: words for name in sorted(wanted) if (words := doubted(scope, name))}
        rest = {name: count for name, count in wanted.items() if name not in unclear}
        finding = _offered(scope, pod, rest, offers) if rest else None
        if finding is not None and finding.outcome is Outcome.BAD and (why := next(filter(None, map(partial(_unread, scope), rest)), "")):
            finding = undecided(subject(pod), message=why, source=SLICES, cause="KindNotInSnapshot")
        if finding is not None and finding.outcome is Outcome.BAD and (doing := _coming(scope, rest)):
            finding = undecided(subject(pod), message=f"{finding.message}, or {doing}", source=finding.source, cause="ChangeUnderWay")
        if unclear and (finding is None or finding.outcome is Outcome.OK):
            source = "requests of the pending pod, annotations and status.capacity of nodes"
            yield undecided(subject(pod), message=next(iter(unclear.values())), source=source, cause="NotUnderstood")
        elif finding is not None:
            yield finding


def _offer(scope: Scope, node: Node) -> dict[str, int]:
    """Extended resources that a node may have: its capacity, or its slices where a DeviceClass serves what plugins offer elsewhere."""
    own = {name: whole(value) for name, value in node.capacity.items() if is_extended(name)}
    by_class = {name: units_of(scope, node, name) for name in scope.claims.serving if name in scope.capacity_names and not own.get(name)}
    return own | {name: count for name, count in by_class.items() if count}


def _coming(scope: Scope, wanted: Iterable[str]) -> str:
    """A node that lacks something of what is wanted while it is being changed, as a clause, or empty: a reboot sets capacity to 0."""
    for node, doing in scope.cached(_changing):
        if not all(scope.cached_for(node, _offer).get(name) for name in wanted):
            return f"{node.name} will have it: {doing}"
    return ""


def _changing(scope: Scope) -> list[tuple[Node, str]]:
    """Nodes that are being changed, and how."""
    now = scope.snapshot.taken_at
    return [(node, doing) for node in scope.accelerator_nodes if (doing := change_under_way(node, scope.policy, now))]


def _unread(scope: Scope, name: str) -> str:
    """Why not all that offer a resource are known, as a clause; empty where no DeviceClass serves it, or all slices were read."""
    why = scope.claims.unread(SLICES) if scope.claims.class_behind(name) else ""
    return f"what DeviceClass {scope.claims.class_behind(name)} offers of {name} is not known: {why}" if why else ""


def _offered(scope: Scope, pod: Pod, wanted: dict[str, int], offers: list[dict[str, int]]) -> Finding:
    observed = _shown(wanted)
    about = About(subject(pod), "requests of the pending pod, status.capacity of every node", "a node with enough capacity", observed)
    if scaled := [name for name in wanted if matches(name, scope.policy.requests.autoscaled)]:
        source = "policy requests.autoscaled"
        return about.not_judged(f"{listed(scaled)} would come with new nodes ({source})", source=source)
    known = sorted({name for offer in offers for name, count in offer.items() if count})
    for name, count in sorted(wanted.items()):
        largest = max((offer.get(name, 0) for offer in offers), default=0)
        if not largest:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            hint = f" (did it mean {near[0]}?)" if near else f" (nodes offer {listed(known)})" if known else ""
            message = f"it asks for {name}, which no node offers{hint}: it will stay Pending for ever"
            return about.bad(message, cause="AskedForNothingOffered")
        if count > largest:
            message = f"it asks for {count} {name} and the largest node has {largest}: it will stay Pending for ever"
            return about.bad(message, cause="AskedForNothingOffered")
    if not any(all(offer.get(name, 0) >= count for name, count in wanted.items()) for offer in offers):
        message = f"no single node has {observed} together, though some node has each: it will stay Pending for ever"
        return about.bad(message, cause="AskedForNothingOffered")
    if long := too_long(pod.spec):
        return about.undecided(long, source="required node affinity of the pending pod")
    if selects(pod.spec) and (excluded := _excluded(scope, pod, wanted)):
        source = "nodeSelector and required node affinity of the pending pod, labels and status.capacity of every node"
        message = f"its own selector or affinity excludes every node that has {observed} ({listed(excluded, 3)})"
        created, minutes = unix(pod.metadata.creation_timestamp) or 0.0, scope.policy.requests.pending_minutes
        about = About(about.subject, source, "a node that it admits", observed)
        young = f"{message}; a node may still come (policy requests.pendingMinutes: {minutes:g}), and it has waited"
        age = overdue(about, created, scope.snapshot.taken_at, minutes * 60, young, cause="SelectorExcludesDevices")
        if isinstance(age, Finding):
            return age
        events = (one for one in scope.snapshot.listing("events").items if one.reason == "NotTriggerScaleUp" and one.at_home)
        text = next((one.text for one in events if (one.namespace, one.about.name) == (pod.namespace, pod.name)), "")
        why = f"; the autoscaler says: {quoted(text)}" if text else ""
        return about.bad(f"{message}: it will stay Pending{why}", cause="SelectorExcludesDevices")
    return about.ok()


def _excluded(scope: Scope, pod: Pod, wanted: dict[str, int]) -> list[str]:
    """Nodes that have what a pod wants and that its selector does not admit; none if it admits one of them."""

    def found() -> list[str]:
        offers = [(node, scope.cached_for(node, _offer)) for node in scope.snapshot.nodes]
        able = [node for node, offer in offers if all(offer.get(name, 0) >= count for name, count in wanted.items())]
        choice = Choice(pod.spec)
        return [] if any(map(choice.admits, able)) else [node.name for node in able]

    return scope.cached_by(("excluded", aim(pod.spec), *sorted(wanted.items())), found)


# -- REQ-05 --------------------------------------------------------------------------------------------


def check_approved_names(scope: Scope) -> Iterator[Finding]:
    """One finding per device resource name, and per DeviceClass of devices, that templates or pods use."""
    users: dict[str, list[Template]] = {}
    claimants: dict[str, list[Template]] = {}
    looks = partial(looks_like_device, scope)

    def wanted(name: str) -> bool:
        return looks(name) or _names_class(name)

    for template in templates(scope):
        if template.trouble:
            yield unread(template)
            continue
        asked = {name for container in template.containers for name in requested_amounts(container, wanted)}
        for name in filter(looks, asked):
            users.setdefault(name, []).append(template)
        entries = template.entries
        for name, demand in scope.claims.classes_of(entries, template.namespace, template.claims).items() if entries else ():
            if demand.devices:
                claimants.setdefault(name, []).append(template)
        for name in filter(_names_class, asked):
            if scope.claims.by_resource(name).devices:
                claimants.setdefault(scope.claims.class_behind(name), []).append(template)
    if not users and not claimants:
        raise NotApplicable("NoDeviceRequests", "no template and no pod asks for a device")
    accelerators = scope.policy.accelerators
    approved = scope.policy.requests.approved or (*accelerators.resources, *accelerators.vm_resources, *scope.cached(split_resources))
    for name, using in sorted(users.items()):
        good = matches(name, approved) or (not scope.policy.requests.approved and is_amount(scope, name))
        if not good and not scope.policy.requests.approved and (unclear := doubted(scope, name)):
            source = "resources of pods, annotations and status.capacity of nodes"
            yield undecided(Subject("Resource", name), message=unclear, source=source)
        else:
            yield _approved(Subject("Resource", name), using, good, approved, "resources of templates and pods")
    by_driver = scope.policy.requests.approved or accelerators.drivers
    for name, using in sorted(claimants.items()):
        drivers = scope.claims.classes[name].drivers if name in scope.claims.classes else ()
        own = [name] if scope.policy.requests.approved else [*drivers]
        yield _approved(Subject("DeviceClass", name), using, any(matches(one, by_driver) for one in own), by_driver, "claims of pods")


def _names_class(resource: str) -> bool:
    return resource.startswith(BY_CLASS)


def _approved(place: Subject, using: list[Template], good: bool, approved: Sequence[str], source: str) -> Finding:
    who = listed(dict.fromkeys(str(template.subject) for template in using), 3)
    about = About(place, source, f"one of {listed(approved, 8)}", f"asked by {who}")
    if good:
        return about.ok(f"asked by {len(using)} templates and pods", expected="an approved name")
    message = f"{place.name} is not approved and is asked by {who}: quotas, fences and dashboards for approved names do not cover it"
    return about.bad(message, cause="NameNotApproved")
