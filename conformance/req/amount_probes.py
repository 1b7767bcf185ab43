"""REQ-01 and REQ-07: what the API server answers to malformed amounts of devices and claims, and whether a quota on devices is enforced.

All by server-side dry-run in namespaces of the run. REQ-07 creates its quota there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

import msgspec

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
from fixtures.verdict.findings import About, Finding, ok
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject

CONTROL = "one device"
COPIED = "a limit without request"
_FIELD = "spec.containers[0].resources"
_SOURCE = "answer to a server-side dry-run"
_BY_WEBHOOK = "admission webhook "
"""How a webhook's denial begins, whatever its status: it may come before amounts are validated (docs/facts/admission.md)."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One way to write a device's amounts, and the causes (field, part of the message) of its refusal; none: it is accepted."""

    name: str
    resource: str
    requests: Mapping[str, str]
    limits: Mapping[str, str]
    causes: tuple[tuple[str, str], ...] = ()


def counted_resource(scope: Scope) -> str:
    """The name by which most devices are asked for: of nodes, else of DeviceClasses. Raises :class:`NotApplicable` when there is none."""
    counts: dict[str, int] = {}
    for node in scope.accelerator_nodes:
        for name, count in {**scope.device_capacity(node), **scope.device_allocatable(node)}.items():
            counts[name] = counts.get(name, 0) + count
    offered = {name: count for name, count in counts.items() if count} or _of_classes(scope)
    if not offered:
        raise NotApplicable("NoDeviceResource", "no node advertises a device resource")
    return min(offered, key=lambda name: (-offered[name], name))


def _of_classes(scope: Scope) -> dict[str, int]:
    counts: dict[str, int] = {}
    for item in (item for node in scope.accelerator_nodes for item in claimable(scope, node)):
        name = asked_by(scope, item.device_class)
        counts[name] = counts.get(name, 0) + item.capacity
    return counts


def cases(resource: str) -> list[Case]:
    """The control first, then each mistake with the API server's causes for it (docs/facts/admission.md#extended-resources)."""

    def case(name: str, request: str, limit: str, *causes: tuple[str, str]) -> Case:
        requests = {resource: request} if request else {}
        limits = {resource: limit} if limit else {}
        return Case(name=name, resource=resource, requests=requests, limits=limits, causes=causes)

    integer = "must be an integer"
    return [
        case(CONTROL, "1", "1"),
        case("a request that is not the limit", "1", "2", (f"{_FIELD}.requests", f"must be equal to {resource} limit")),
        case("a request without limit", "1", "", (f"{_FIELD}.limits", "Limit must be set")),
        case("half a device", "500m", "500m", (f"{_FIELD}.limits[{resource}]", integer), (f"{_FIELD}.requests[{resource}]", integer)),
        case(COPIED, "", "1"),
    ]


def pod_of(scope: Scope, case: Case, index: int) -> Json:
    """The probe pod of a case."""
    probes = scope.policy.probes
    pod = probe_pod(PodShape(name=f"quantity-{index}", image=probes.cpu_image, script="true", run_as_user=probes.run_as_user))
    resources = pod["spec"]["containers"][0]["resources"]
    resources["requests"] = {**resources["requests"], **case.requests}
    resources["limits"] = {**resources["limits"], **case.limits}
    return pod


def ask_quantities(workspace: Workspace, scope: Scope) -> list[tuple[Case, Answer]]:
    """Put every case to the API server."""
    namespace = workspace.namespace()
    return [
        (case, workspace.ask("pods", pod_of(scope, case, index), namespace)) for index, case in enumerate(cases(counted_resource(scope)))
    ]


def judge_quantities(answers: Iterable[tuple[Case, Answer]]) -> Iterator[Finding]:
    """One finding per case. Raises :class:`Inconclusive` when the control was refused: then no refusal means anything."""
    for case, answer in answers:
        if case.name == CONTROL and not answer.ok:
            text = f"a well-formed pod with one {case.resource} was refused: {answer.status} {answer.message[:300]}"
            raise Inconclusive("PositiveControlFailed", text)
        if case.causes:
            yield refusal(Refusal(place=_place(case), what=f"a pod with {case.name}", causes=case.causes), answer)
        else:
            yield _acceptance(case, answer)


def _place(case: Case) -> Subject:
    return Subject("Request", f"{case.resource}: {case.name}")


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be refused: ``what`` says it, ``causes`` are field and part of the message of each."""

    place: Subject
    what: str
    causes: tuple[tuple[str, str], ...]


def refusal(wanted: Refusal, answer: Answer) -> Finding:
    """Whether the API refused it, and for its own reason."""
    fields = " and ".join(field for field, _ in wanted.causes)
    expected = f"422 Invalid at {fields}"
    about = About(wanted.place, _SOURCE, expected)
    if answer.ok:
        message = f"the API accepts {wanted.what}: a node may get a pod that it cannot serve"
        return about.bad(message, cause="AmountsNotValidated", observed=f"{answer.status} accepted")
    if answer.status != 422 or answer.message.startswith(_BY_WEBHOOK):
        message = f"refused for another reason before quantities were validated: {answer.status} {answer.reason}: {answer.message[:300]}"
        return about.undecided(message, cause="RefusedForAnotherReason")
    missing = [field for field, text in wanted.causes if not _has_cause(answer, field, text)]
    if answer.reason != "Invalid" or missing:
        message = f"refused with 422 {answer.reason}, but not for {' and '.join(missing) or 'this'}: {answer.message[:300]}"
        return about.bad(message, cause="AmountsNotValidated", observed=f"422 {answer.reason}")
    return about.ok(f"422 Invalid at {fields}")


def _has_cause(answer: Answer, field: str, text: str) -> bool:
    """Whether a cause is about the field, or about one key of it (releases differ), and says the text."""
    for cause in answer.causes:
        place = str(cause.get("field"))
        if (place == field or place.startswith(f"{field}[")) and text in str(cause.get("message")):
            return True
    return False


def _acceptance(case: Case, answer: Answer) -> Finding:
    expected = f"accepted, request {case.resource} 1"
    about = About(_place(case), _SOURCE, expected)
    if not answer.ok:
        message = f"the API refuses a pod with {case.name}: {answer.status} {answer.message[:300]}"
        return about.bad(message, cause="AmountsNotValidated", observed=f"{answer.status} {answer.reason}")
    request = _returned_request(answer, case.resource)
    if request != "1":
        message = f"the returned pod requests {request or 'no'} {case.resource} for a limit of 1: the scheduler counts requests only"
        return about.bad(message, cause="AmountsNotValidated", observed=f"request {request or 'absent'}")
    return about.ok(f"{answer.status}, request {request}")


def _returned_request(answer: Answer, resource: str) -> str:
    try:
        requests = answer.json()["spec"]["containers"][0]["resources"]["requests"]
        return str(requests.get(resource) or "")
    except (KeyError, IndexError, TypeError, AttributeError):
        return ""


DEFAULTED = "a claim without a count"


class ClaimCase(msgspec.Struct, frozen=True, kw_only=True):
    """One way to write a claim's request, and the causes (field, part of the message) of its refusal; none: it is accepted."""

    name: str
    request: Mapping[str, str | int]
    causes: tuple[tuple[str, str], ...] = ()


def claim_cases(device_class: str, field: str) -> list[ClaimCase]:
    """The control first. ``field`` is the path of the request."""
    own = {"deviceClassName": device_class}
    count = f"{field}.count"
    return [
        ClaimCase(name=CONTROL, request={**own, "allocationMode": "ExactCount", "count": 1}),
        ClaimCase(name="less than one device", request={**own, "count": -1}, causes=((count, "must be greater than zero"),)),
        ClaimCase(
            name="all devices and a count",
            request={**own, "allocationMode": "All", "count": 2},
            causes=((count, "must not be specified when allocationMode is 'All'"),),
        ),
        ClaimCase(name="no class", request={"count": 1}, causes=((f"{field}.deviceClassName", "Required value"),)),
        ClaimCase(name=DEFAULTED, request=own),
    ]


def ask_claims(workspace: Workspace, resource: str) -> list[tuple[ClaimCase, Answer]]:
    """Put every case to the API server. ``resource`` is a DeviceClass by its name as a resource."""
    namespace, version = workspace.namespace(), api_version(workspace.cluster.path(CLAIMS))
    field = "spec.devices.requests[0]" + ("" if version == "v1beta1" else ".exactly")
    found = []
    for index, case in enumerate(claim_cases(resource.removeprefix(BY_CLASS), field)):
        body = claim_of(resource, 1, version)
        request: Json = {"name": "devices", **(case.request if version == "v1beta1" else {"exactly": dict(case.request)})}
        body = {**body, "metadata": {"name": f"claim-{index}"}, "spec": {"devices": {"requests": [request]}}}
        found.append((case, workspace.ask(CLAIMS, body, namespace)))
    return found


def judge_claims(resource: str, answers: Iterable[tuple[ClaimCase, Answer]]) -> Iterator[Finding]:
    """One finding per case. Raises :class:`Inconclusive` when the control was refused: then no refusal means anything."""
    for case, answer in answers:
        place = Subject("Request", f"{resource}: {case.name}")
        if case.name == CONTROL and not answer.ok:
            text = f"a well-formed claim of one device of {resource} was refused: {answer.status} {answer.message[:300]}"
            raise Inconclusive("PositiveControlFailed", text)
        if case.causes:
            yield refusal(Refusal(place=place, what=f"a claim of {case.name}", causes=case.causes), answer)
        else:
            yield _claim_accepted(place, case, answer)


def _claim_accepted(place: Subject, case: ClaimCase, answer: Answer) -> Finding:
    expected = "accepted, a count of 1"
    about = About(place, _SOURCE, expected)
    if not answer.ok:
        message = f"the API refuses {case.name}: {answer.status} {answer.message[:300]}"
        return about.bad(message, cause="AmountsNotValidated", observed=f"{answer.status} {answer.reason}")
    count = _returned_count(answer)
    if count != 1:
        message = f"the returned claim asks for {'no count' if count is None else count} of devices: nobody can tell what it will be given"
        return about.bad(message, cause="AmountsNotValidated", observed=f"count {count}")
    return about.ok(f"{answer.status}, count 1")


def _returned_count(answer: Answer) -> object:
    try:
        request = answer.json()["spec"]["devices"]["requests"][0]
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


def quota_key(resource: str) -> str:
    """What a quota calls devices of a resource: ``requests.<name>``, or the class's own key where they are claimed.

    Facts: docs/facts/admission.md#quota.
    """
    if resource.startswith(BY_CLASS):
        return f"{resource.removeprefix(BY_CLASS)}.deviceclass.resource.k8s.io/devices"
    return f"requests.{resource}"


def quota_of(resource: str) -> Json:
    """A quota of one device."""
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": QUOTA}, "spec": {"hard": {quota_key(resource): str(HARD)}}}


def ask_quota(workspace: Workspace, scope: Scope) -> QuotaOutcome:
    """Create the quota, wait until its controller published it, then ask for what fits and for one device more."""
    resource = counted_resource(scope)
    namespace = workspace.namespace(suffix="quota")
    workspace.create("resourcequotas", quota_of(resource), namespace)
    seconds = min(scope.policy.probes.start_seconds, CONTROLLER_SECONDS)
    with Observation(workspace.cluster, "resourcequotas", namespace) as observation:
        published = _published(observation, f"{namespace}/{QUOTA}", quota_key(resource), time.monotonic() + seconds)
        beyond = _ask(workspace, scope, namespace, resource, HARD + 1)
        for pause in CACHE_SECONDS:
            if not _may_be_late(beyond):
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


def _may_be_late(answer: Answer) -> bool:
    return answer.ok or (answer.status == 403 and "status unknown for quota" in answer.message)


def _ask(workspace: Workspace, scope: Scope, namespace: str, resource: str, count: int) -> Answer:
    probes = scope.policy.probes
    if resource.startswith(BY_CLASS):
        return workspace.ask(CLAIMS, claim_of(resource, count, api_version(workspace.cluster.path(CLAIMS))), namespace)
    shape = PodShape(
        name=f"quota-{count}", image=probes.cpu_image, script="true", resources={resource: count}, run_as_user=probes.run_as_user
    )
    return workspace.ask("pods", probe_pod(shape), namespace)


def judge_quota(outcome: QuotaOutcome) -> Iterator[Finding]:
    """Findings for the refusal and for its control. Raises :class:`Inconclusive` when what fits is refused too."""
    resource, within, beyond = outcome.resource, outcome.within, outcome.beyond
    refused = Subject("Request", f"{HARD + 1} {resource} under a quota of {HARD}")
    expected = f"403 exceeded quota: {QUOTA}"
    late = "" if outcome.published else "; the quota controller never published status.hard"
    about = About(refused, _SOURCE, expected)
    if beyond.ok:
        message = f"one device over the quota is accepted: quotas on devices are not enforced here{late}"
        yield about.bad(message, cause="QuotaNotEnforced", observed=f"{beyond.status} accepted")
        return
    if not within.ok:
        text = f"{HARD} {resource} within the quota is refused too: {within.status} {within.message[:300]}{late}"
        raise Inconclusive("PositiveControlFailed", text)
    if beyond.status == 403 and f"exceeded quota: {QUOTA}" in beyond.message and quota_key(resource) in beyond.message:
        yield about.ok(f"403 exceeded quota: {QUOTA}")
        yield ok(
            Subject("Request", f"{HARD} {resource} under a quota of {HARD}"),
            observed=f"{within.status} accepted",
            expected="accepted",
            source=_SOURCE,
        )
    else:
        yield about.undecided(
            f"refused for another reason than the quota: {beyond.status} {beyond.reason}: {beyond.message[:300]}",
            cause="RefusedForAnotherReason",
        )
