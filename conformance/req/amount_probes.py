"""REQ-01 and REQ-07: what the API server answers to malformed amounts of devices and claims, and whether a quota on devices is enforced.

All by server-side dry-run in namespaces of the run. REQ-07 creates its quota there.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from conformance.req.quotas import quota_key
from fixtures.cluster.client import Answer
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.dra.claims import api_version, claim_of
from fixtures.model.dra.slices import BY_CLASS, CLAIMS
from fixtures.model.placement.claimable import claimable
from fixtures.model.placement.free_devices import asked_by
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject

CONTROL = "one device"
COPIED = "a limit without request"
DEFAULTED = "a claim without a count"
_FIELD = "spec.containers[0].resources"
_SOURCE = "answer to a server-side dry-run"
_BY_WEBHOOK = "admission webhook "
"""How a webhook's denial begins, whatever its status: it may come before amounts are validated (docs/facts/admission.md)."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One way to ask for a device: its name, the object in words, the object, and the causes of its refusal; none: it is accepted.

    A cause is a field and a part of the message.
    """

    name: str
    what: str
    body: Json
    causes: tuple[tuple[str, str], ...] = ()


def counted_resource(scope: Scope) -> str:
    """The name by which most devices are asked for: of nodes, else of DeviceClasses. Raises :class:`NotApplicable` when there is none."""
    counts = Counter[str]()
    for node in scope.accelerator_nodes:
        counts.update({**scope.device_capacity(node), **scope.device_allocatable(node)})
    if not any(counts.values()):
        for item in (item for node in scope.accelerator_nodes for item in claimable(scope, node)):
            counts[asked_by(scope, item.device_class)] += item.capacity
    offered = [name for name, count in counts.items() if count]
    if not offered:
        raise NotApplicable("NoDeviceResource", "no node advertises a device resource")
    return min(offered, key=lambda name: (-counts[name], name))


def pod_cases(scope: Scope, resource: str) -> list[Case]:
    """The control first, then each mistake with the API server's causes for it (docs/facts/admission.md#extended-resources)."""

    def case(name: str, request: str, limit: str, *causes: tuple[str, str], what: str = "") -> Case:
        requests, limits = ({resource: amount} if amount else {} for amount in (request, limit))
        body = _pod(scope, "-".join(("quantity", *name.split())), requests, limits)
        return Case(name=name, what=what or f"a pod with {name}", body=body, causes=causes)

    integer = "must be an integer"
    return [
        case(CONTROL, "1", "1", what=f"a well-formed pod with one {resource}"),
        case("a request that is not the limit", "1", "2", (f"{_FIELD}.requests", f"must be equal to {resource} limit")),
        case("a request without limit", "1", "", (f"{_FIELD}.limits", "Limit must be set")),
        case("half a device", "500m", "500m", (f"{_FIELD}.limits[{resource}]", integer), (f"{_FIELD}.requests[{resource}]", integer)),
        case(COPIED, "", "1"),
    ]


def _pod(scope: Scope, name: str, requests: Mapping[str, str], limits: Mapping[str, str]) -> Json:
    probes = scope.policy.probes
    pod = probe_pod(PodShape(name=name, image=probes.cpu_image, script="true", run_as_user=probes.run_as_user))
    resources = pod["spec"]["containers"][0]["resources"]
    resources["requests"] = {**resources["requests"], **requests}
    resources["limits"] = {**resources["limits"], **limits}
    return pod


def claim_cases(resource: str, version: str) -> list[Case]:
    """As :func:`pod_cases`, for claims of a DeviceClass (by its name as a resource) in a version of their group."""
    own = {"deviceClassName": resource.removeprefix(BY_CLASS)}
    field = "spec.devices.requests[0]" + ("" if version == "v1beta1" else ".exactly")
    both = "must not be specified when allocationMode is 'All'"

    def case(name: str, exactly: Mapping[str, str | int], *cause: str, what: str = "") -> Case:
        body = claim_of(resource, 1, version, name="-".join(("claim", *name.split())))
        request: Json = {"name": "devices", **(exactly if version == "v1beta1" else {"exactly": exactly})}
        causes = ((f"{field}.{cause[0]}", cause[1]),) if cause else ()
        return Case(
            name=name, what=what or f"a claim of {name}", body={**body, "spec": {"devices": {"requests": [request]}}}, causes=causes
        )

    return [
        case(CONTROL, {**own, "allocationMode": "ExactCount", "count": 1}, what=f"a well-formed claim of one device of {resource}"),
        case("less than one device", {**own, "count": -1}, "count", "must be greater than zero"),
        case("all devices and a count", {**own, "allocationMode": "All", "count": 2}, "count", both),
        case("no class", {"count": 1}, "deviceClassName", "Required value"),
        case(DEFAULTED, own, what=DEFAULTED),
    ]


def ask_amounts(workspace: Workspace, scope: Scope, resource: str) -> list[tuple[Case, Answer]]:
    """Put every case of a resource to the API server."""
    namespace = workspace.namespace()
    if resource.startswith(BY_CLASS):
        key, cases = CLAIMS, claim_cases(resource, api_version(workspace.cluster.path(CLAIMS)))
    else:
        key, cases = "pods", pod_cases(scope, resource)
    return [(case, workspace.ask(key, case.body, namespace)) for case in cases]


def judge_amounts(resource: str, answers: Iterable[tuple[Case, Answer]]) -> Iterator[Finding]:
    """One finding per case. Raises :class:`Inconclusive` when the control was refused: then no refusal means anything."""
    for case, answer in answers:
        if case.name == CONTROL and not answer.ok:
            raise Inconclusive("PositiveControlFailed", f"{case.what} was refused: {answer.status} {answer.message[:300]}")
        place = Subject("Request", f"{resource}: {case.name}")
        yield _refused(place, case, answer) if case.causes else _accepted(place, case, resource, answer)


def _refused(place: Subject, case: Case, answer: Answer) -> Finding:
    """Whether the API refused it, and for its own reason."""
    expected = f"422 Invalid at {' and '.join(field for field, _ in case.causes)}"
    about = About(place, _SOURCE, expected)
    if answer.ok:
        message = f"the API accepts {case.what}: a node may get a pod that it cannot serve"
        return about.bad(message, cause="AmountsNotValidated", observed=f"{answer.status} accepted")
    if answer.status != 422 or answer.message.startswith(_BY_WEBHOOK):
        message = f"refused for another reason before quantities were validated: {answer.status} {answer.reason}: {answer.message[:300]}"
        return about.undecided(message, cause="RefusedForAnotherReason")
    missing = [field for field, text in case.causes if not _has_cause(answer, field, text)]
    if answer.reason != "Invalid" or missing:
        message = f"refused with 422 {answer.reason}, but not for {' and '.join(missing) or 'this'}: {answer.message[:300]}"
        return about.bad(message, cause="AmountsNotValidated", observed=f"422 {answer.reason}")
    return about.ok(expected)


def _has_cause(answer: Answer, field: str, text: str) -> bool:
    """Whether a cause is about the field, or about one key of it (releases differ), and says the text."""
    found = ((str(cause.get("field")), str(cause.get("message"))) for cause in answer.causes)
    return any((place == field or place.startswith(f"{field}[")) and text in message for place, message in found)


def _accepted(place: Subject, case: Case, resource: str, answer: Answer) -> Finding:
    """Whether the API accepted it, and asks for one device in what it returned."""
    by_claim = resource.startswith(BY_CLASS)
    about = About(place, _SOURCE, "accepted, a count of 1" if by_claim else f"accepted, request {resource} 1")
    if not answer.ok:
        message = f"the API refuses {case.what}: {answer.status} {answer.message[:300]}"
        return about.bad(message, cause="AmountsNotValidated", observed=f"{answer.status} {answer.reason}")
    amount, word = _returned(answer, resource), "count" if by_claim else "request"
    if str(amount) == "1":
        return about.ok(f"{answer.status}, {word} 1")
    if by_claim:
        message = (
            f"the returned claim asks for {'no count' if amount is None else amount} of devices: nobody can tell what it will be given"
        )
    else:
        message = f"the returned pod requests {amount or 'no'} {resource} for a limit of 1: the scheduler counts requests only"
    return about.bad(message, cause="AmountsNotValidated", observed=f"{word} {'absent' if amount is None else amount}")


def _returned(answer: Answer, resource: str) -> object:
    """How much the returned object asks for, as it writes that; None where it does not."""
    try:
        spec = answer.json()["spec"]
        if not resource.startswith(BY_CLASS):
            return spec["containers"][0]["resources"]["requests"].get(resource)
        request = spec["devices"]["requests"][0]
        return request.get("exactly", request).get("count")
    except (KeyError, IndexError, TypeError, AttributeError):
        return None


QUOTA = "gpu-conformance"
HARD = 1
CONTROLLER_SECONDS = 30.0
"""How long the quota controller may take to publish ``status.hard``; it takes milliseconds where it runs."""

CACHE_SECONDS = (0.5, 1.0, 2.0)
"""Between questions while the API server's own view of quotas catches up with what its watch already showed."""


class QuotaOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What was answered. ``published`` is whether the quota controller filled ``status.hard``."""

    resource: str
    published: bool
    within: Answer
    beyond: Answer


def ask_quota(workspace: Workspace, scope: Scope) -> QuotaOutcome:
    """Create the quota, wait until its controller published it, then ask for what fits and for one device more."""
    resource = counted_resource(scope)
    namespace = workspace.namespace(suffix="quota")
    spec = {"hard": {quota_key(resource): str(HARD)}}
    workspace.create("resourcequotas", {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": QUOTA}, "spec": spec}, namespace)
    seconds = min(scope.policy.probes.start_seconds, CONTROLLER_SECONDS)
    with Observation(workspace.cluster, "resourcequotas", namespace) as observation:
        published = _published(observation, f"{namespace}/{QUOTA}", quota_key(resource), time.monotonic() + seconds)
        beyond = _ask(workspace, scope, namespace, resource, HARD + 1)
        for pause in CACHE_SECONDS:
            if not (beyond.ok or (beyond.status == 403 and "status unknown for quota" in beyond.message)):
                break
            for _ in observation.until(time.monotonic() + pause):
                pass
            beyond = _ask(workspace, scope, namespace, resource, HARD + 1)
        within = _ask(workspace, scope, namespace, resource, HARD)
    return QuotaOutcome(resource=resource, published=published, within=within, beyond=beyond)


def _published(observation: Observation, name: str, key: str, deadline: float) -> bool:
    for objects in observation.until(deadline):
        hard = ((objects.get(name) or {}).get("status") or {}).get("hard") or {}
        if key in hard:
            return True
    return False


def _ask(workspace: Workspace, scope: Scope, namespace: str, resource: str, count: int) -> Answer:
    if resource.startswith(BY_CLASS):
        return workspace.ask(CLAIMS, claim_of(resource, count, api_version(workspace.cluster.path(CLAIMS))), namespace)
    amounts = {resource: str(count)}
    return workspace.ask("pods", _pod(scope, f"quota-{count}", amounts, amounts), namespace)


def judge_quota(outcome: QuotaOutcome) -> Iterator[Finding]:
    """Findings for the refusal and for its control. Raises :class:`Inconclusive` when what fits is refused too."""
    resource, within, beyond = outcome.resource, outcome.within, outcome.beyond
    expected = f"403 exceeded quota: {QUOTA}"
    late = "" if outcome.published else "; the quota controller never published status.hard"
    about = About(Subject("Request", f"{HARD + 1} {resource} under a quota of {HARD}"), _SOURCE, expected)
    if beyond.ok:
        message = f"one device over the quota is accepted: quotas on devices are not enforced here{late}"
        yield about.bad(message, cause="QuotaNotEnforced", observed=f"{beyond.status} accepted")
        return
    if not within.ok:
        text = f"{HARD} {resource} within the quota is refused too: {within.status} {within.message[:300]}{late}"
        raise Inconclusive("PositiveControlFailed", text)
    if beyond.status == 403 and expected.removeprefix("403 ") in beyond.message and quota_key(resource) in beyond.message:
        control = About(Subject("Request", f"{HARD} {resource} under a quota of {HARD}"), _SOURCE, "accepted")
        yield about.ok(expected)
        yield control.ok(f"{within.status} accepted")
    else:
        message = f"refused for another reason than the quota: {beyond.status} {beyond.reason}: {beyond.message[:300]}"
        yield about.undecided(message, cause="RefusedForAnotherReason")
