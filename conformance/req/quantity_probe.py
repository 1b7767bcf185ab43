"""REQ-01: what the API server answers to pods with malformed device amounts, by server-side dry-run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from fixtures.cluster.client import Answer
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.placement.claimable import claimable
from fixtures.model.placement.free_devices import asked_by
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding
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
