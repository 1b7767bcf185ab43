"""DRA-01: the API for claims is served, the policy's DeviceClasses exist, and the selectors of classes compile. Pure.

Facts: docs/facts/dra.md#versions, docs/facts/dra.md#selectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from conformance.dra.selector_probe import Compiled
from fixtures.model.cluster import Scope
from fixtures.model.dra.device_classes import DeviceClass, is_plain
from fixtures.model.dra.drivers import DriverKind
from fixtures.model.dra.kinds import CLAIMS, CLASSES, SLICES, TEMPLATES
from fixtures.model.platform.driver_pods import kubelet_plugins
from fixtures.model.platform.kubernetes_version import least_server_minor
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, bad
from fixtures.verdict.subjects import NotApplicable, Subject

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
        yield bad(
            Subject("DeviceClass", name),
            observed="missing",
            expected="a DeviceClass of this name (policy accelerators.deviceClasses)",
            source=CLASSES,
            message=f"DeviceClass {name} does not exist, so claims of it stay unallocated and their pods Pending",
            cause="ClassMissing",
        )
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
