"""Requests that undos share: fresh reads, writes that name the version they were decided on, waiting for a state, rights reviewed."""

import shlex
import threading
import time
from collections.abc import Callable, Iterable

from chaos.model.records import LedgerError
from fixtures.cluster import access, confirmed
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


class Reviewer:
    """Asks the API server what it would allow; each question once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._answers: dict[access.Right, bool] = {}

    def denied(self, rights: Iterable[access.Right]) -> list[access.Right]:
        """Those that are not granted. Raises ApiTrouble when the API server does not say."""
        return [right for right in dict.fromkeys(rights) if not self._allowed(right)]

    def _allowed(self, right: access.Right) -> bool:
        if right not in self._answers:
            answer = accepted(self._cluster.request("POST", access.PATH, body=right.review(), repeatable=True), "ask for rights")
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
