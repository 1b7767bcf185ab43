"""DRA-10: extended resources that a DeviceClass serves have devices behind them, and pods that ask for them hold as many. Pure.

Facts: docs/facts/dra.md#extended-resources-by-claim.
"""

from __future__ import annotations

from collections.abc import Iterator

from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.cluster import Scope, subject, whole
from fixtures.model.dra.claims import results_of
from fixtures.model.dra.device_classes import DeviceClass
from fixtures.model.dra.drivers import DriverKind
from fixtures.model.dra.kinds import BY_CLASS, CLAIMS, SLICES
from fixtures.model.placement.claimable import units_of
from fixtures.text.ages import ask_again, duration
from fixtures.verdict.findings import About, Finding, not_judged, undecided
from fixtures.verdict.subjects import NotApplicable, Subject

_SOURCE = "pod.status.extendedResourceClaimStatus, resourceclaim.status.allocation"


def check_extended(scope: Scope) -> Iterator[Finding]:
    """One finding per DeviceClass of accelerators that names an extended resource, and per live pod that gets its devices in that way.

    Raises :class:`NotApplicable` where no class names one and no pod asks by the implicit name of a class.
    """
    classes = [known for _, known in sorted(scope.claims.classes.items()) if known.extended_resource and _accelerators(scope, known)]
    asking = [(pod, amounts) for pod in scope.snapshot.pods if not pod.finished and (amounts := _asked(scope, pod))]
    if not classes and not asking:
        raise NotApplicable("NoExtendedResources", "no DeviceClass of accelerators names an extended resource, and no pod asks for one")
    for known in classes:
        yield _class(scope, known, sum(known.extended_resource in amounts for _, amounts in asking))
    for pod, amounts in asking:
        if pod.spec.node_name:
            yield _pod(scope, pod, amounts)


def _accelerators(scope: Scope, known: DeviceClass) -> bool:
    return any(scope.kind_of(driver) is DriverKind.ACCELERATOR for driver in known.drivers)


def _asked(scope: Scope, pod: Pod) -> dict[str, int]:
    """Extended resources of DeviceClasses of accelerators that a pod asks for, and that its node has none of itself."""
    amounts = {
        name: count for name, count in scope.extended_amounts(pod).items() if name.startswith(BY_CLASS) or name in scope.claims.serving
    }
    if not amounts:
        return {}
    node = scope.snapshot.node_by_name.get(pod.spec.node_name)
    own = node.status.allocatable if node is not None else {}
    return {name: count for name, count in amounts.items() if count and not whole(own.get(name)) and scope.claims.by_resource(name).devices}


def _class(scope: Scope, known: DeviceClass, pods: int) -> Finding:
    place, resource = Subject("DeviceClass", known.name), known.extended_resource
    source = f"deviceclass.spec.extendedResourceName, {SLICES}"
    if (serving := scope.claims.serving[resource]) != known.name:
        return not_judged(place, message=f"DeviceClass {serving} is newer and serves {resource}", source=source)
    if why := scope.claims.unread(SLICES):
        return undecided(place, message=f"whether it has devices is not known: {why}", source=SLICES, cause="NotUnderstood")
    by_node = {node.name: units for node in scope.snapshot.nodes if (units := units_of(scope, node, resource))}
    observed = f"{resource}: {sum(by_node.values())} devices on {len(by_node)} nodes, asked for by {pods} pods"
    expected = f"devices for pods that ask for {resource}"
    about = About(place, source, expected, observed)
    if by_node:
        return about.ok()
    if not pods:
        return about.not_judged(f"no slice has a device that it selects, and no pod asks for {resource}")
    message = f"{pods} pods ask for {resource}, and no slice has a device that DeviceClass {known.name} selects: they get none"
    return about.bad(message, cause="ClassWithoutDevices")


def _pod(scope: Scope, pod: Pod, amounts: dict[str, int]) -> Finding:
    wanted = ", ".join(f"{count} {name}" for name, count in sorted(amounts.items()))
    expected = "one claim of the pod that was allocated as many devices"
    name = text_of(mapping(pod.status.extended_resource_claim_status).get("resourceClaimName"))
    claim = scope.claims.claim(pod.namespace, name) if name else None
    if name and claim is None and (why := scope.claims.unread(CLAIMS)):
        return undecided(subject(pod), message=f"what its claim {name} holds is not known: {why}", source=CLAIMS, cause="NotUnderstood")
    given = len(results_of(claim)) if claim is not None else 0
    observed = f"asks for {wanted}; " + (f"claim {name} holds {given} devices" if claim is not None else f"claim {name or 'none'}")
    about = About(subject(pod), _SOURCE, expected, observed)
    if given >= sum(amounts.values()):
        return about.ok()
    scheduled = pod.condition("PodScheduled")
    since = unix(scheduled.last_transition_time) if scheduled is not None else None
    limit = scope.policy.requests.start_minutes * 60
    if since is not None and (age := scope.snapshot.taken_at - since) < limit:
        return about.undecided(f"{observed}; it was bound {duration(age)} ago: {ask_again(age, limit)}", cause="ChangeUnderWay")
    lack = f"its claim {name} holds {given}" if claim is not None else f"its claim {name} is gone" if name else "no claim was made for it"
    message = (
        f"it asks for {wanted} and is bound to {pod.spec.node_name}, which has none of its own, and {lack}: it holds no device for them"
    )
    return about.bad(message, cause="PodWithoutItsClaim")
