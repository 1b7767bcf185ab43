"""Rights in words, ``VERB RESOURCE[/SUBRESOURCE][ in NAMESPACE]``, and whether the API server grants them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from chaos.cluster.requests import accepted
from fixtures.cluster import access, kinds
from fixtures.cluster.client import Cluster

_CORE = frozenset(
    {"nodes", "pods", "namespaces", "configmaps", "services", "serviceaccounts", "events", "resourcequotas", "replicationcontrollers"}
)


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """One verb on one resource, in one namespace or (empty) cluster-wide."""

    verb: str
    group: str = ""
    resource: str
    subresource: str = ""
    namespace: str = ""

    @classmethod
    def parse(cls, text: str) -> Right:
        """Read ``get pods/log``, ``patch apps/deployments in kube-system``. Raises ValueError for anything else."""
        right, _, namespace = text.partition(" in ")
        verb, _, key = right.partition(" ")
        parts = key.split("/")
        group = "" if parts[0] in _CORE else parts.pop(0) if len(parts) > 1 else ""
        if not verb or not 1 <= len(parts) <= 2 or not all(parts):
            raise ValueError(f"{text!r}: not 'VERB RESOURCE[/SUBRESOURCE][ in NAMESPACE]'")
        return cls(verb=verb, group=group, resource=parts[0], subresource=parts[1] if parts[1:] else "", namespace=namespace)

    @property
    def key(self) -> str:
        """The resource key."""
        return f"{self.group}/{self.resource}" if self.group else self.resource

    def __str__(self) -> str:
        key = f"{self.key}/{self.subresource}" if self.subresource else self.key
        return f"{self.verb} {key}" + (f" in {self.namespace}" if self.namespace else "")

    def inside(self, namespace: str) -> Right:
        """The same right in a namespace, if its resource has one and it names none yet."""
        kind = kinds.KINDS.get(self.key)
        if self.namespace or not namespace or self.key in ("nodes", "namespaces") or (kind is not None and not kind.namespaced):
            return self
        return msgspec.structs.replace(self, namespace=namespace)


class Reviewer:
    """Asks the API server what it would allow; each question once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._answers: dict[Right, bool] = {}

    def denied(self, rights: Iterable[Right]) -> list[Right]:
        """Those that are not granted. Raises ApiTrouble when the API server does not say."""
        return [right for right in dict.fromkeys(rights) if not self._allowed(right)]

    def _allowed(self, right: Right) -> bool:
        if right not in self._answers:
            body = access.review(**msgspec.structs.asdict(right))
            answer = accepted(self._cluster.request("POST", access.PATH, body=body, repeatable=True), "ask for rights")
            self._answers[right] = (answer.json().get("status") or {}).get("allowed") is True
        return self._answers[right]
