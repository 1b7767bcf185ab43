"""REQ-01 for claims (DRA): what the API server answers to malformed ResourceClaims, by server-side dry-run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from conformance.req.quantity_probe import CONTROL, Refusal, refusal
from fixtures.cluster.client import Answer
from fixtures.kubernetes.models import Json
from fixtures.model.dra.kinds import BY_CLASS, CLAIMS
from fixtures.model.dra.written_claims import api_version, claim_of
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Inconclusive, Subject

DEFAULTED = "a claim without a count"
_SOURCE = "answer to a server-side dry-run"


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
            yield _acceptance(place, case, answer)


def _acceptance(place: Subject, case: ClaimCase, answer: Answer) -> Finding:
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
