"""The pure checks of ADV, MIG and SHARE by the requirement that they judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conformance.adv.checks import check_advertised, check_allocatable, check_arithmetic, check_one_route
from conformance.adv.configs import check_configs
from conformance.adv.labels import check_labels
from conformance.mig.applied import check_applied
from conformance.mig.checks import check_geometry, check_mixed, check_off, check_single
from conformance.mig.state import changing, check_state
from conformance.scope import Scope
from conformance.share.checks import check_isolated, check_replicas
from fixtures.evidence import Finding
from tests.adv.built import NOW


def _state(scope: Scope) -> Iterator[Finding]:
    return check_state(scope, NOW, {node.name: NOW - 3 * 3600 for node in changing(scope)})


def _labels(scope: Scope) -> Iterator[Finding]:
    return check_labels(scope, NOW)


CHECKS: dict[str, Callable[[Scope], Iterator[Finding]]] = {
    "ADV-01": check_advertised,
    "ADV-02": check_allocatable,
    "ADV-03": check_arithmetic,
    "ADV-04": _labels,
    "ADV-05": check_one_route,
    "ADV-06": check_configs,
    "MIG-01": _state,
    "MIG-02": check_single,
    "MIG-03": check_mixed,
    "MIG-04": check_geometry,
    "MIG-05": check_applied,
    "MIG-06": check_off,
    "SHARE-01": check_replicas,
    "SHARE-02": check_isolated,
}
