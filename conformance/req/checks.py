"""REQ-02 to 05: what templates and pods ask for, and whether nodes have it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from conformance.req.amounts import held, is_extended, looks_like_device, mapped_to_dra, problem
from conformance.req.claimed import check_claims_can_be_met, check_given_once
from conformance.scope import Scope, asked, matches, subject, whole
from conformance.templates import Template, templates, unread
from fixtures.evidence import Finding, NotApplicable, Subject, bad, not_judged, ok
from fixtures.models import Container, Node, Pod, PodSpec
from fixtures.text import listed

# -- REQ-02 --------------------------------------------------------------------------------------------


def check_whole_devices(scope: Scope) -> Iterator[Finding]:
    """One finding per template or live pod that asks for a device: whole numbers, request equal to limit, in every container."""
    for template in templates(scope):
        if template.trouble:
            yield unread(template)
            continue
        devices = [(place, container) for place, container in containers(template.spec) if asked(container, scope.is_device)]
        if devices:
            yield _whole_devices(scope, template, devices)


def containers(spec: PodSpec) -> Iterator[tuple[str, Container]]:
    """Every container with its field path: init and sidecar, ordinary, ephemeral."""
    for field, group in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    ):
        for index, container in enumerate(group or ()):
            yield f"{field}[{index}]", container


def _whole_devices(scope: Scope, template: Template, devices: list[tuple[str, Container]]) -> Finding:
    expected = "whole devices, request equal to limit"
    source = f"{template.path}.*.resources"
    problems = [
        f"{place} {text}"
        for place, container in devices
        for name, (request, limit) in asked(container, scope.is_device).items()
        if (text := problem(name, request, limit))
    ]
    if problems:
        consequence = (
            "the API server will refuse the pods it makes" if not template.live else "it was never accepted by a validating API server"
        )
        return bad(template.place, listed(problems, 3), expected, source, f"{listed(problems, 3)}, so {consequence}")
    amounts = held(template.spec, scope.is_device)
    observed = ", ".join(f"{name} {count}" for name, count in sorted(amounts.items()))
    return ok(template.place, observed, expected, source)


# -- REQ-03 --------------------------------------------------------------------------------------------


def check_not_overcommitted(scope: Scope) -> Iterator[Finding]:
    """One finding per node and extended resource that it offers or that pods hold there, and per node and DRA driver."""
    yield from check_given_once(scope)
    by_claim = mapped_to_dra(scope)
    for node in sorted(scope.snapshot.nodes, key=lambda node: node.name):
        pods = [(pod, amounts) for pod in scope.snapshot.pods_by_node.get(node.name, ()) if (amounts := held(pod.spec))]
        names = {name for _, amounts in pods for name, count in amounts.items() if count}
        names |= {name for name, value in node.status.allocatable.items() if is_extended(name) and whole(value)}
        for name in sorted(names):
            holders = [(pod, amounts[name]) for pod, amounts in pods if amounts.get(name)]
            yield _committed(node, name, holders, name in by_claim)


def _committed(node: Node, name: str, holders: list[tuple[Pod, int]], by_claim: bool) -> Finding:
    place, source = Subject("Node", f"{node.name} {name}"), "requests of bound pods, status.allocatable"
    total = sum(count for _, count in holders)
    offered = whole(node.status.allocatable.get(name))
    if not offered and by_claim:  # the kubelet keeps a 0 of the plugin that was there before
        return not_judged(place, f"a DeviceClass maps {name} to claims: its {total} units are allocated by DRA", source)
    if total <= offered:
        return ok(place, f"{total} of {offered} held", f"at most {offered}", source)
    holding = listed(
        [f"{pod.namespace}/{pod.name} ({count})" for pod, count in sorted(holders, key=lambda item: (-item[1], item[0].name))], 4
    )
    message = f"bound pods hold {total} {name} and the node can allocate {offered}: {holding}; some of them fail at a restart"
    return bad(place, f"{total} held", f"at most {offered}", source, message)


# -- REQ-04 --------------------------------------------------------------------------------------------


def check_can_be_offered(scope: Scope) -> Iterator[Finding]:
    """One finding per pending pod that asks for extended resources or claims devices: some node could offer all it asks for together."""
    yield from check_claims_can_be_met(scope)
    distinct = {
        tuple(sorted((name, whole(value)) for name, value in node.status.capacity.items() if is_extended(name)))
        for node in scope.snapshot.nodes
    }
    offers = [dict(offer) for offer in sorted(distinct)]  # a thousand equal nodes are one offer
    by_claim = mapped_to_dra(scope)
    for pod in scope.snapshot.pods:
        if pod.finished or pod.spec.node_name or pod.metadata.deletion_timestamp:
            continue
        wanted = {name: count for name, count in held(pod.spec).items() if count and name not in by_claim}
        if wanted:
            yield _offered(scope, pod, wanted, offers)


def _offered(scope: Scope, pod: Pod, wanted: dict[str, int], offers: list[dict[str, int]]) -> Finding:
    place, source = subject(pod), "requests of the pending pod, status.capacity of every node"
    observed = ", ".join(f"{name} {count}" for name, count in sorted(wanted.items()))
    expected = "a node whose capacity holds it"
    scaled = [name for name in wanted if matches(name, scope.policy.requests.autoscaled)]
    if scaled:
        return not_judged(place, f"{listed(scaled)} would come with new nodes, by the policy", "policy requests.autoscaled")
    known = sorted({name for offer in offers for name, count in offer.items() if count})
    for name, count in sorted(wanted.items()):
        largest = max((offer.get(name, 0) for offer in offers), default=0)
        if not largest:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            hint = f" (did it mean {near[0]}?)" if near else f" (nodes offer {listed(known)})" if known else ""
            return bad(place, observed, expected, source, f"it asks for {name}, which no node offers{hint}: it will stay Pending for ever")
        if count > largest:
            message = f"it asks for {count} {name} and the largest node has {largest}: it will stay Pending for ever"
            return bad(place, observed, expected, source, message)
    if not any(all(offer.get(name, 0) >= count for name, count in wanted.items()) for offer in offers):
        message = f"no single node has {observed} together, though some node has each: it will stay Pending for ever"
        return bad(place, observed, expected, source, message)
    return ok(place, observed, expected, source)


# -- REQ-05 --------------------------------------------------------------------------------------------


def check_approved_names(scope: Scope) -> Iterator[Finding]:
    """One finding per device resource name, and per DeviceClass of devices, that templates or pods use."""
    users: dict[str, list[Template]] = {}
    claimants: dict[str, list[Template]] = {}
    for template in templates(scope):
        if template.trouble:
            yield unread(template)
            continue
        names = {
            name for _, container in containers(template.spec) for name in asked(container, lambda name: looks_like_device(scope, name))
        }
        for name in names:
            users.setdefault(name, []).append(template)
        entries = template.spec.resource_claims
        for name, asking in scope.claims.classes_of(entries, template.namespace, template.claims).items() if entries else ():
            if asking.devices:
                claimants.setdefault(name, []).append(template)
    if not users and not claimants:
        raise NotApplicable("NoDeviceRequests", "no template and no pod asks for a device")
    accelerators = scope.policy.accelerators
    approved = scope.policy.requests.approved or (*accelerators.resources, *accelerators.vm_resources)
    for name, using in sorted(users.items()):
        yield _approved(Subject("Resource", name), using, matches(name, approved), approved, "resources of templates and pods")
    by_driver = scope.policy.requests.approved or accelerators.drivers
    for name, using in sorted(claimants.items()):
        drivers = scope.claims.classes[name].drivers if name in scope.claims.classes else ()
        own = [name] if scope.policy.requests.approved else [*drivers]
        yield _approved(Subject("DeviceClass", name), using, any(matches(one, by_driver) for one in own), by_driver, "claims of pods")


def _approved(place: Subject, using: list[Template], good: bool, approved: Sequence[str], source: str) -> Finding:
    who = listed(dict.fromkeys(str(template.subject) for template in using), 3)
    if good:
        return ok(place, f"asked by {len(using)} templates and pods", "an approved name", source)
    message = f"{place.name} is not approved and is asked by {who}: quotas, fences and dashboards for approved names do not cover it"
    return bad(place, f"asked by {who}", f"one of {listed(approved, 8)}", source, message)
