"""DRA-08: whether admin access to devices is refused outside the namespaces that are labelled for it.

A claim with admin access gets devices that others hold. Facts: docs/facts/dra.md#admin-access.
"""

from collections.abc import Iterator

import msgspec

from fixtures.cluster.client import Answer
from fixtures.kubernetes.untyped import mapping
from fixtures.model.cluster import Scope, subject
from fixtures.model.dra.claims import api_version, claim_of, requests_of, template_of
from fixtures.model.dra.slices import CLAIMS, TEMPLATES
from fixtures.model.placement.claimable import commonest_class
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding, not_judged, ok
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject

LABEL = "resource.kubernetes.io/admin-access"
TURNED_ON = "true"
"""The one value of the label that the API server takes for a yes."""

_SOURCE = "answer to a server-side dry-run"
_KINDS = {CLAIMS: "ResourceClaim", TEMPLATES: "ResourceClaimTemplate"}
_REFUSALS = frozenset({403, 422})
_NAMES = ("adminAccess", LABEL)
_ADMISSION = ("admission webhook", "ValidatingAdmissionPolicy")


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server answered for one kind. ``inside`` is None where no labelled namespace could be made: ``without`` says why."""

    key: str
    plain: Answer
    outside: Answer
    inside: Answer | None
    without: str = ""
    labelled_by_others: bool = False  # the namespace that the suite made without the label has it


def ask_admin_access(workspace: Workspace, scope: Scope) -> list[Asked]:
    """Ask for a claim and a template, each three times: plain, with admin access, and with admin access in a labelled namespace.

    Raises :class:`NotApplicable` where no DeviceClass offers accelerators.
    """
    device_class = commonest_class(scope)
    if not device_class:
        raise NotApplicable("NoDeviceClass", "no DeviceClass selects an accelerator, so none can be claimed")
    outside = workspace.namespace()
    inside, without = "", ""
    try:
        inside = workspace.namespace(suffix="admin", labels={LABEL: TURNED_ON})
    except Inconclusive as refusal:
        without = refusal.message
    labels = mapping(mapping(workspace.cluster.find("namespaces", outside)).get("metadata")).get("labels")
    return [
        Asked(
            key=key,
            plain=_ask(workspace, key, device_class, outside, admin=False),
            outside=_ask(workspace, key, device_class, outside, admin=True),
            inside=_ask(workspace, key, device_class, inside, admin=True) if inside else None,
            without=without,
            labelled_by_others=mapping(labels).get(LABEL) == TURNED_ON,
        )
        for key in _KINDS
    ]


def _ask(workspace: Workspace, key: str, device_class: str, namespace: str, *, admin: bool) -> Answer:
    more = {"adminAccess": True} if admin else {}
    claim = claim_of(device_class, 1, api_version(workspace.cluster.path(key)), name="admin-access", **more)
    return workspace.ask(key, template_of(claim, {}) if key == TEMPLATES else claim, namespace)


def judge_admin_access(asked: list[Asked]) -> Iterator[Finding]:
    """Two findings per kind: the refusal, and its control in a labelled namespace.

    Raises :class:`NotApplicable` where the API server does not know admin access, :class:`Inconclusive` where it refuses a plain claim.
    """
    for one in asked:
        if not one.plain.ok:
            text = f"a {_KINDS[one.key]} without admin access is refused too: {one.plain.status} {one.plain.message[:300]}"
            raise Inconclusive("PositiveControlFailed", text)
    if all(one.inside is not None and one.inside.ok and not granted(one.inside, one.key) for one in asked) and not any(
        granted(one.outside, one.key) for one in asked
    ):
        text = "the API server leaves adminAccess out of every claim: the feature is off"
        raise NotApplicable("AdminAccessOff", text)
    for one in asked:
        yield _refusal(one)
        yield _control(one)


def _refusal(one: Asked) -> Finding:
    place = Subject("Request", f"{_KINDS[one.key]} with adminAccess in a namespace without the label")
    expected = f"refused: the namespace lacks {LABEL}={TURNED_ON}"
    answer = one.outside
    about = About(place, _SOURCE, expected)
    if answer.ok and not granted(answer, one.key):
        return about.ok("accepted, and adminAccess was left out")
    if answer.ok:
        cause = f"; the namespace has {LABEL}={TURNED_ON}, which the suite did not set" if one.labelled_by_others else ""
        message = f"whoever may create claims gets devices that others hold, and can read what is on them{cause}"
        return about.bad(message, cause="AdminAccessOpen", observed=f"{answer.status} accepted")
    if not _refuses_admin_access(answer):
        message = f"not accepted, but nothing says that it is for the admin access: {answer.status} {answer.reason}: {answer.message[:300]}"
        return about.undecided(message, cause="RefusedForAnotherReason")
    return about.ok(f"{answer.status} {answer.reason}: {answer.message[:200]}")


def _refuses_admin_access(answer: Answer) -> bool:
    """Whether a claim was refused for its admin access: by a text that names it, or by a rule of admission.

    A rule may use any words. It let the plain claim through, which differs in nothing else.
    """
    text = answer.message if answer.status in _REFUSALS else ""
    return any(name in text for name in _NAMES) or ("denied" in text and any(name in text for name in _ADMISSION))


def _control(one: Asked) -> Finding:
    place = Subject("Request", f"{_KINDS[one.key]} with adminAccess in a namespace with the label")
    if one.inside is None:
        return not_judged(place, message=f"no namespace with {LABEL}={TURNED_ON} could be made: {one.without}", source=_SOURCE)
    if not one.inside.ok:
        message = f"refused with the label too, by a rule of this cluster: {one.inside.status} {one.inside.message[:300]}"
        return not_judged(place, message=message, source=_SOURCE)
    return ok(place, observed=f"{one.inside.status} accepted", expected="accepted", source=_SOURCE)


def granted(answer: Answer, key: str) -> bool:
    """Whether an accepted claim or template still asks for admin access in the server's answer."""
    if not answer.ok:
        return False
    return any(way.admin for ways in requests_of(answer.json(), template=key == TEMPLATES) for way in ways)


def check_labelled_tenants(scope: Scope) -> Iterator[Finding]:
    """One finding per tenant namespace: it is not labelled for admin access."""
    for namespace in scope.snapshot.namespaces:
        if not scope.is_tenant(namespace.name):
            continue
        value = namespace.metadata.label.get(LABEL)
        observed, expected = f"{LABEL}={value}" if value is not None else "no such label", f"not {LABEL}={TURNED_ON}"
        about = About(subject(namespace), "namespace labels", expected, observed)
        if value == TURNED_ON:
            message = "its users can claim devices of every other tenant with adminAccess: true, beside the pods that hold them"
            yield about.bad(message, cause="AdminAccessOpen")
        else:
            yield about.ok()
