"""Members of a gang that are bound without the devices that they claim: a scheduler that knows no claims binds them all the same.

Facts: docs/facts/dra.md#extended-resources-by-claim, docs/facts/gangs.md#claims-of-gangs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.dra.kinds import CLAIMS
from fixtures.probes.workspace import Workspace


def claims_there(workspace: Workspace) -> dict[str, Json]:
    """ResourceClaims of the run's namespace, by name. Raises :class:`ApiTrouble`."""
    answer = workspace.cluster.request("GET", workspace.cluster.path(CLAIMS, workspace.namespace()))
    if not answer.ok:
        raise ApiTrouble(answer.reason, f"ResourceClaims of this run could not be listed: {answer.status} {answer.message}")
    return {text_of(mapping(item.get("metadata")).get("name")): item for item in mappings(answer.json().get("items"))}


def without_devices(pods: Iterable[Json], claims: Mapping[str, Json]) -> list[str]:
    """Names of bound pods that lack a claim which is allocated and reserved for them."""
    return sorted(text_of(mapping(pod.get("metadata")).get("name")) for pod in pods if not _served(pod, claims))


def _served(pod: Json, claims: Mapping[str, Json]) -> bool:
    names = _claims_of(pod)
    uid = mapping(pod.get("metadata")).get("uid")
    return bool(names) and all(_holds(mapping(claims.get(name)), uid) for name in names)


def _claims_of(pod: Json) -> Sequence[str]:
    """Names of the claims that were made for a pod of its templates and of its extended resources."""
    status = mapping(pod.get("status"))
    made = [*mappings(status.get("resourceClaimStatuses")), mapping(status.get("extendedResourceClaimStatus"))]
    return [name for item in made if (name := text_of(item.get("resourceClaimName")))]


def _holds(claim: Json, uid: object) -> bool:
    status = mapping(claim.get("status"))
    return bool(status.get("allocation")) and any(one.get("uid") == uid for one in mappings(status.get("reservedFor")))
