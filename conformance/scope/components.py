"""Decides which workload is a component of the platform when several look like it.

A component is looked for in the platform's namespaces and its operator's only. If several candidates remain, the owner decides (an
operator's own resource, by UID), then the operator's namespace, then its Helm release. If several still remain, a person has to
decide. A release is an annotation: where only a default name makes a namespace the platform's, a tenant may have written it, and it
does not decide. Why: docs/decisions/components-by-namespace-and-owner.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from conformance.scope.platform_namespaces import Operator, PlatformNamespaces

T = TypeVar("T")


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked about a candidate. ``owners`` are the UIDs of its owners, ``release`` name and namespace of its Helm release."""

    kind: str
    namespace: str
    name: str
    owners: tuple[str, ...] = ()
    release: tuple[str, str] = ("", "")

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class PlatformWorkloads:
    """What tells the platform's workloads from others that look like them."""

    def __init__(self, platform: PlatformNamespaces, operators: Iterable[Operator]) -> None:
        self.platform = platform
        self._operators = tuple(operators)
        self._homes: set[str] = set()
        self._releases: set[tuple[str, str]] = set()
        self._owners: dict[str, str] = {}
        for operator in self._operators:
            self._homes |= operator.homes.keys()
            self._releases |= {operator.release} if all(operator.release) else set()
            self._owners[operator.uid] = operator.namespace

    def admits(self, namespace: str) -> bool:
        """Whether components may be in a namespace: the platform's, or an operator's."""
        return bool(self.platform.why(namespace)) or namespace in self._homes

    def homes_of(self, kind: str) -> dict[str, frozenset[str]]:
        """Namespaces in which operators run, by the UID of their own objects of a kind."""
        return {one.uid: frozenset(one.homes) for one in self._operators if one.uid and one.kind == kind}

    def resolve(self, candidates: Sequence[T], about: Callable[[T], Workload]) -> list[T]:
        """Those candidates for one component that remain: none, the one, or several that nothing tells apart."""
        admitted = [item for item in candidates if self.admits(about(item).namespace)]
        for proves in (self._owned, self._at_home):
            if proven := [item for item in admitted if proves(about(item))]:
                return proven
        released = [item for item in admitted if self._released(about(item))]
        return admitted if any(self.unproven(about(item)) for item in released) else released or admitted

    def unproven(self, workload: Workload) -> bool:
        """Whether only a default name of its namespace speaks for a workload: a tenant may have created both."""
        by_name_alone = self.platform.has_usual_name_only(workload.namespace)
        return by_name_alone and not self._owned(workload) and not self._at_home(workload)

    def named(self, workload: Workload) -> bool:
        """Whether the policy's owner has named its namespace as the platform's."""
        return self.platform.is_of_owner(workload.namespace)

    def _owned(self, workload: Workload) -> bool:
        """Whether an operator's resource owns it, where that operator runs."""
        return any(uid in self._owners and self._owners[uid] in ("", workload.namespace) for uid in workload.owners if uid)

    def _at_home(self, workload: Workload) -> bool:
        return workload.namespace in self._homes

    def _released(self, workload: Workload) -> bool:
        return workload.release in self._releases


def workload_names(workloads: Iterable[Workload]) -> str:
    """Workloads in words, each once, by name."""
    return " and ".join(sorted({str(item) for item in workloads}))


UNPROVEN = "their namespaces are not known to be the platform's (policy tenants.moreInfrastructure)"
"""Why no candidate is the component, as a clause."""
