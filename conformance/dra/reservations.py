"""DRA-07: claims hold devices for pods that exist, and give them back. Pure.

Facts: docs/facts/dra.md#release-of-claims.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.dra.claim_objects import allocated, just_changed, place_of
from fixtures.kubernetes.models import Json, Pod
from fixtures.kubernetes.times import moment, newest
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.cluster import Scope
from fixtures.model.dra.claims import results_of
from fixtures.model.dra.kinds import CLAIMS
from fixtures.model.placement.fitting import ended_at
from fixtures.text.ages import duration
from fixtures.text.sentences import in_order, listed
from fixtures.verdict.findings import About, Finding

_SOURCE = "status.reservedFor of ResourceClaims, pods"
GROUPS = "scheduling.k8s.io/podgroups"
_EXPECTED = "reserved for pods that exist, by UID, and released after"


def check_reserved(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per allocated claim of accelerators. Raises where the list of claims or pods could not be read."""
    scope.snapshot.items(CLAIMS)
    pods = {(pod.namespace, pod.name): pod for pod in scope.snapshot.pods}
    users = {key for pod in pods.values() if not pod.finished for key in _used(pod)}
    for claim in allocated(scope):
        yield _reserved(scope, claim, pods, users, now)


def _used(pod: Pod) -> Iterator[tuple[str, str]]:
    entries = [*(pod.spec.resource_claims or ()), *(pod.status.resource_claim_statuses or ())]
    entries.append(mapping(pod.status.extended_resource_claim_status))
    yield from ((pod.namespace, name) for entry in entries if (name := text_of(entry.get("resourceClaimName"))))


def _reserved(scope: Scope, claim: Json, pods: dict[tuple[str, str], Pod], users: set[tuple[str, str]], now: float) -> Finding:
    place = place_of(claim)
    consumers = mappings(mapping(claim.get("status")).get("reservedFor"))
    groups = _groups(scope, place.namespace)
    others = [kind for item in consumers if (kind := text_of(item.get("resource"))) != "pods" and (kind != "podgroups" or groups is None)]
    held = listed([f"{text_of(result.get('pool'))}/{text_of(result.get('device'))}" for result in results_of(claim)], 4)
    names = listed([text_of(item.get("name")) for item in consumers], 4)
    problems = [text for item in consumers if text_of(item.get("resource")) == "pods" and (text := _gone(item, pods, place.namespace))]
    problems += [text for item in consumers if groups is not None and (text := _group_gone(item, groups))]
    if not consumers and (place.namespace, place.name) not in users:
        problems.append("it is reserved for no pod, and no pod names it")
    if (age := _deleted_for(claim, now)) > scope.policy.requests.end_minutes * 60:
        problems.append(f"it was deleted {duration(age)} ago and still holds them")
    observed = f"holds {held}; reserved for {names or 'no pod'}"
    about = About(place, _SOURCE, _EXPECTED, observed)
    if not problems:
        if others:
            message = f"it is reserved for {names} ({listed(in_order(set(others)))}), and only pods and PodGroups that were read are judged"
            return about.undecided(message, cause="NotUnderstood")
        return about.ok()
    if (recent := just_changed(claim, now)) and not _ended_long_ago(scope, consumers, pods, place.namespace, now):
        return about.undecided(f"{listed(problems, 3)}; {recent}", cause="ChangeUnderWay")
    message = f"{listed(problems, 3)}: {held} of {_drivers(claim)} stay taken and no other claim gets them"
    return about.bad(message, cause="ClaimHeldByNothing")


def _gone(consumer: Json, pods: dict[tuple[str, str], Pod], namespace: str) -> str:
    """Why a reservation for a pod is left over, or empty."""
    name, uid = text_of(consumer.get("name")), text_of(consumer.get("uid"))
    pod = pods.get((namespace, name))
    if pod is None:
        return f"it is reserved for pod {name}, which does not exist"
    if uid and pod.metadata.uid and pod.metadata.uid != uid:
        return f"it is reserved for an earlier pod {name} (UID {uid}; the pod of that name now has {pod.metadata.uid})"
    return f"it is reserved for pod {name}, which is {pod.status.phase}" if pod.finished else ""


def _groups(scope: Scope, namespace: str) -> dict[str, str] | None:
    """UIDs of a namespace's PodGroups by name; None where they were not read (docs/facts/dra.md#release-of-claims)."""
    listing = scope.snapshot.listing(GROUPS)
    if listing.trouble or not (listing.collected and listing.served):
        return None
    found = [mapping(item.get("metadata")) for item in listing.objects]
    return {text_of(meta.get("name")): text_of(meta.get("uid")) for meta in found if text_of(meta.get("namespace")) == namespace}


def _group_gone(consumer: Json, groups: dict[str, str]) -> str:
    """Why a reservation for a PodGroup is left over, or empty."""
    name, uid = text_of(consumer.get("name")), text_of(consumer.get("uid"))
    if text_of(consumer.get("resource")) != "podgroups":
        return ""
    if name not in groups:
        return f"it is reserved for PodGroup {name}, which does not exist"
    return f"it is reserved for an earlier PodGroup {name} (UID {uid})" if uid and groups[name] not in ("", uid) else ""


def _ended_long_ago(scope: Scope, consumers: list[Json], pods: dict[tuple[str, str], Pod], namespace: str, now: float) -> bool:
    """Whether it is reserved for a pod that ended so long ago that no write of today can be its release.

    A controller may reserve a claim for a finished pod again and again: such a claim is never old.
    """
    found = [pods.get((namespace, text_of(item.get("name")))) for item in consumers]
    ended = [newest(ended_at(pod)) for pod in found if pod is not None and pod.finished]
    return any(at is not None and now - at > scope.policy.requests.end_minutes * 60 for at in ended)


def _deleted_for(claim: Json, now: float) -> float:
    at = moment(mapping(claim.get("metadata")).get("deletionTimestamp"))
    return 0.0 if at is None else now - at


def _drivers(claim: Json) -> str:
    return ", ".join(sorted({text_of(result.get("driver")) for result in results_of(claim)}))
