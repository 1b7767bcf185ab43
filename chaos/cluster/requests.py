"""Requests that undos share: fresh reads, writes that name the version they were decided on, waiting for a state, rights in words."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterable

import msgspec

from chaos.model.records import LedgerError
from fixtures.cluster import access, confirmed, kinds
from fixtures.cluster.client import Answer, Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.text.sentences import plain


def read(cluster: Cluster, key: str, name: str, namespace: str = "") -> Json | None:
    """The object now, or None if a list does not show it either. Raises :class:`ApiTrouble` when the API does not say."""
    return confirmed.read(cluster, key, name, namespace)


def accepted(answer: Answer, what: str) -> Answer:
    """The answer, if the API took the request. Raises :class:`ApiTrouble`."""
    if not answer.ok:
        raise ApiTrouble(answer.reason, f"{what}: {answer.status} {answer.message}")
    return answer


def merge(cluster: Cluster, key: str, obj: Json, patch: Json) -> None:
    """Merge-patch the very version that was read: 409 when anything has changed since. Raises :class:`ApiTrouble`."""
    meta = obj["metadata"]
    body = {**patch, "metadata": {**(patch.get("metadata") or {}), "resourceVersion": meta["resourceVersion"]}}
    accepted(cluster.patch(key, str(meta["name"]), body, str(meta.get("namespace") or "")), f"patch {key} {meta['name']}")


def await_object(cluster: Cluster, key: str, name: str, namespace: str, deadline: float, differs: Callable[[Json | None], str]) -> str:
    """Empty as soon as ``differs`` finds nothing in the object (None: it is not there), else its last words at the deadline.

    The object is as a list shows it; where nobody serves its kind, it is not there. Raises ApiTrouble.
    """
    try:
        with Observation(cluster, key, namespace, fields=f"metadata.name={name}") as observation:
            return observation.await_shown(deadline, lambda objects: differs(objects.get(f"{namespace}/{name}")))
    except ApiTrouble as trouble:
        if not confirmed.is_unserved(cluster, key, trouble):
            raise
        return differs(None)


def kubectl(*words: str, namespace: str = "") -> str:
    """A kubectl line that a shell takes as it is and a terminal shows as it is, whatever a cluster's texts hold."""
    return " ".join(map(_quoted, ["kubectl", *(("-n", namespace) if namespace else ()), *words]))


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + plain(word.replace("\\", "\\\\").replace("'", "\\'")) + "'"


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
            self._answers[right] = access.allowed(answer) is True
        return self._answers[right]


PAUSE = 2.0


def until_gone(attempt: Callable[[], list[str]], seconds: float, perhaps: str) -> list[str]:
    """Repeat ``attempt`` until it names nothing that is left; what it named last. It is called once at least.

    An attempt without an answer (ApiTrouble, LedgerError) may have left anything: the line about it begins with ``perhaps``.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            left = attempt()
        except (ApiTrouble, LedgerError) as error:
            left = [f"{perhaps}: {error.message if isinstance(error, ApiTrouble) else error}"]
        if not left or time.monotonic() + PAUSE > deadline:
            return left
        threading.Event().wait(PAUSE)
