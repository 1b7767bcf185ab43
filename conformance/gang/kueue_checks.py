"""Admission checks that queues of Kueue name, and the queues whose work other clusters run (docs/facts/gangs.md#quota-of-kueue)."""

from __future__ import annotations

from collections.abc import Iterable

from fixtures.kubernetes.models import Json
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.model.cluster import Scope
from fixtures.model.queues.kueue_objects import name_of, objects_of

CHECKS = "kueue.x-k8s.io/admissionchecks"
_MULTIKUEUE = "kueue.x-k8s.io/multikueue"


def checks_of(queue: Json) -> list[str]:
    """Names of the admission checks of a queue, in the newer and the older form."""
    spec = mapping(queue, "spec")
    older = spec.get("admissionChecks")
    named = [str(item.get("name")) for item in mappings(mapping(spec, "admissionChecksStrategy").get("admissionChecks"))]
    return named + [str(name) for name in (older if isinstance(older, list) else ())]


def sent_away(scope: Scope, queues: Iterable[Json]) -> dict[str, str]:
    """``{queue: check}`` for ClusterQueues whose work MultiKueue sends to other clusters.

    Raises :class:`Inconclusive` for a refused list.
    """
    sending = {name_of(item) for item in objects_of(scope, CHECKS) if mapping(item, "spec").get("controllerName") == _MULTIKUEUE}
    return {name_of(queue): found[0] for queue in queues if (found := sorted(sending.intersection(checks_of(queue))))}
