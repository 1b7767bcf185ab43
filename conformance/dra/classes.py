"""DeviceClasses: they and the API for claims are there and compile (DRA-01), and pods get devices by their extended resources (DRA-10).

Facts: docs/facts/dra.md#versions, docs/facts/dra.md#selectors, docs/facts/dra.md#extended-resources-by-claim.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from conformance.common_findings import overdue
from conformance.requirement import Asks, Form
from fixtures.cluster.client import Answer
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Pod
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.amounts import whole
from fixtures.model.dra.claims import api_version, claim_of
from fixtures.model.dra.device_classes import DeviceClass, is_plain
from fixtures.model.dra.slices import BY_CLASS, CLAIMS, CLASSES, SLICES, TEMPLATES, DriverKind
from fixtures.model.jobs.marks import placed_at
from fixtures.model.objects import results_of
from fixtures.model.placement.claimable import units_of
from fixtures.model.platform.kubelet_plugins import kubelet_plugins
from fixtures.model.platform.kubernetes_version import least_server_minor
from fixtures.probes.workspace import Workspace
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, not_judged, undecided
from fixtures.verdict.subjects import NotApplicable, Subject

_NAMESPACE = "default"
_CONTROL = 'device.driver != ""'


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """Whether selectors compile; None where that is not known. ``words`` are the API server's, or why it was not asked."""

    yes: bool | None
    words: str = ""


def not_asked(_: DeviceClass) -> Compiled:
    """For runs that only read."""
    return Compiled(yes=None, words="this run may not ask it, because it only reads")


def compiled(asks: Asks, workspace: Callable[[], Workspace], known: DeviceClass) -> Compiled:
    """What the API server says of the selectors of a class, asked once in a run."""
    question = f"dry-run of a ResourceClaim with the selectors of DeviceClass {known.name}"
    form: Form[Compiled] = Form(Compiled)
    return asks(question, lambda _: ask_selectors(workspace(), known), form)


def ask_selectors(workspace: Workspace, known: DeviceClass) -> Compiled:
    """What the API server answers. Nothing is created."""
    try:
        return read_answer(_ask(workspace, known, known.expressions), lambda: _ask(workspace, known, (_CONTROL,)))
    except ApiTrouble as trouble:
        return Compiled(yes=None, words=trouble.message)


def _ask(workspace: Workspace, known: DeviceClass, expressions: tuple[str, ...]) -> Answer:
    selectors = [{"cel": {"expression": text}} for text in expressions]
    claim = claim_of(known.name, 1, api_version(workspace.cluster.path(CLAIMS)), selectors=selectors)
    return workspace.ask(CLAIMS, {**claim, "metadata": {"generateName": "gpu-conformance-"}}, _NAMESPACE)


def read_answer(answer: Answer, control: Callable[[], Answer]) -> Compiled:
    """What an answer says of selectors. ``control`` asks the same with a selector that every API server compiles."""
    if answer.ok:
        return Compiled(yes=True)
    about = [str(cause.get("message")) for cause in answer.causes if "selectors" in str(cause.get("field"))]
    if answer.status == 422 and about and control().ok:
        return Compiled(yes=False, words=about[0][:300])
    return Compiled(yes=None, words=f"it refuses to be asked: {answer.status} {answer.message[:300]}")


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
        if pod.node_name:
            yield _pod(scope, pod, amounts)


def _accelerators(scope: Scope, known: DeviceClass) -> bool:
    return any(scope.kind_of(driver) is DriverKind.ACCELERATOR for driver in known.drivers)


def _asked(scope: Scope, pod: Pod) -> dict[str, int]:
    """Extended resources of DeviceClasses of accelerators that a pod asks for, and that its node has none of itself."""
    node = scope.snapshot.node_by_name.get(pod.node_name)
    own = node.allocatable if node is not None else {}
    asked = ((name, count) for name, count in scope.extended_amounts(pod).items() if count and not whole(own.get(name)))
    served = ((name, count) for name, count in asked if name.startswith(BY_CLASS) or name in scope.claims.serving)
    return {name: count for name, count in served if scope.claims.by_resource(name).devices}


def _class(scope: Scope, known: DeviceClass, pods: int) -> Finding:
    place, resource = Subject("DeviceClass", known.name), known.extended_resource
    source = f"deviceclass.spec.extendedResourceName, {SLICES}"
    if (serving := scope.claims.serving[resource]) != known.name:
        return not_judged(place, message=f"DeviceClass {serving} is newer and serves {resource}", source=source)
    if why := scope.claims.unread(SLICES):
        return undecided(place, message=f"whether it has devices is not known: {why}", source=SLICES, cause="NotUnderstood")
    by_node = {node.name: units for node in scope.snapshot.nodes if (units := units_of(scope, node, resource))}
    observed = f"{resource}: {sum(by_node.values())} devices on {len(by_node)} nodes, asked for by {pods} pods"
    about = About(place, source, f"devices for pods that ask for {resource}", observed)
    if by_node:
        return about.ok()
    if not pods:
        return about.not_judged(f"no slice has a device that it selects, and no pod asks for {resource}")
    message = f"{pods} pods ask for {resource}, and no slice has a device that DeviceClass {known.name} selects: they get none"
    return about.bad(message, cause="ClassWithoutDevices")


def _pod(scope: Scope, pod: Pod, amounts: dict[str, int]) -> Finding:
    wanted = ", ".join(f"{count} {name}" for name, count in sorted(amounts.items()))
    claim = scope.claims.claim(pod.namespace, name) if (name := pod.extended_claim) else None
    if name and claim is None and (why := scope.claims.unread(CLAIMS)):
        return undecided(subject(pod), message=f"what its claim {name} holds is not known: {why}", source=CLAIMS, cause="NotUnderstood")
    given = len(results_of(claim)) if claim is not None else 0
    observed = f"asks for {wanted}; " + (f"claim {name} holds {given} devices" if claim is not None else f"claim {name or 'none'}")
    about = About(subject(pod), _SOURCE, "one claim of the pod that was allocated as many devices", observed)
    if given >= sum(amounts.values()):
        return about.ok()
    limit, now = scope.policy.requests.start_minutes * 60, scope.snapshot.taken_at
    lack = f"its claim {name} holds {given}" if claim is not None else f"its claim {name} is gone" if name else "no claim was made for it"
    state = f"it asks for {wanted} and is bound to {pod.node_name}, which has none of its own, and {lack}"
    age = overdue(about, placed_at(pod), now, limit, state, cause="PodWithoutItsClaim")
    return age if isinstance(age, Finding) else about.bad(f"{state}: it holds no device for them", cause="PodWithoutItsClaim")


GROUP = "resource.k8s.io"
Compiles = Callable[[DeviceClass], Compiled]
"""What the API server says of a class's selectors."""

_KINDS = (SLICES, CLASSES, CLAIMS, TEMPLATES)
_ORDER = ("v1alpha3", "v1beta1", "v1beta2", "v1")
_NEWEST = ((34, "v1"), (33, "v1beta2"), (32, "v1beta1"))
"""The newest version that a minor of Kubernetes can serve."""


def check_served(scope: Scope, compiles: Compiles) -> Iterator[Finding]:
    """One finding for the API group, one per DeviceClass of the policy that is missing, one per DeviceClass of accelerators."""
    wanted = scope.policy.accelerators.device_classes
    if not (wanted or scope.dra_drivers or kubelet_plugins(scope)):
        raise NotApplicable("NoClaims", "no DRA driver of accelerators publishes devices here, and the policy names no DeviceClass")
    yield _group(scope)
    if not scope.snapshot.served(CLASSES):
        return
    for name in sorted(set(wanted) - set(scope.claims.classes)):
        about = About(Subject("DeviceClass", name), CLASSES, "a DeviceClass of this name (policy accelerators.deviceClasses)", "missing")
        yield about.bad(f"DeviceClass {name} does not exist, so claims of it stay unallocated and their pods Pending", cause="ClassMissing")
    for name, known in sorted(scope.claims.classes.items()):
        if name in wanted or any(scope.kind_of(driver) is not DriverKind.OTHER for driver in known.drivers) or not known.drivers:
            yield _compiled(known, compiles)


def _group(scope: Scope) -> Finding:
    place, snapshot = Subject("API group", GROUP), scope.snapshot
    lacking = [key.rpartition("/")[2] for key in _KINDS if not snapshot.listing(key).served]
    minor = least_server_minor(scope)
    newest = next((version for least, version in _NEWEST if minor is not None and minor >= least), "")
    expected = f"{newest or 'v1, or the newest beta'}, with {', '.join(key.rpartition('/')[2] for key in _KINDS)}"
    about = About(place, "discovery", expected)
    if lacking:
        message = f"the API server does not serve {listed(lacking)} of {GROUP}, so no device can be claimed of its DRA drivers"
        return about.bad(message, cause="ClaimsNotServed", observed=f"without {listed(lacking)}")
    served = {snapshot.versions[key] for key in _KINDS if key in snapshot.versions}
    if not served:
        return about.ok("served; the version is not saved", source="the snapshot")
    oldest = min(served, key=_rank)
    if newest and _rank(oldest) < _rank(newest):
        message = f"Kubernetes 1.{minor} has {GROUP}/{newest} and this server only {oldest}: drivers and clients of {newest} find nothing"
        return about.bad(message, cause="ClaimsNotServed", observed=oldest)
    return about.ok(oldest)


def _rank(version: str) -> int:
    return _ORDER.index(version) if version in _ORDER else -1


def _compiled(known: DeviceClass, compiles: Compiles) -> Finding:
    place, expected = Subject("DeviceClass", known.name), "selectors that compile"
    observed = _shown(known.expressions)
    about = About(place, CLASSES, expected, observed)
    if is_plain(known):
        return about.ok()
    answer = compiles(known)
    if answer.yes is None:
        message = f"only the API server can tell whether its selectors compile ({observed}): {answer.words}"
        return about.undecided(message, cause="NotUnderstood")
    if not answer.yes:
        message = f"the API server refuses its selectors, so no claim of {known.name} is ever allocated: {answer.words}"
        return about.bad(message, cause="SelectorDoesNotCompile", source="answer to a server-side dry-run")
    return about.ok(source="answer to a server-side dry-run")


def _shown(expressions: Sequence[str]) -> str:
    return listed([text[:200] for text in expressions], 3) or "no selector: every device"
