"""Requests that undos share: fresh reads, writes that name the version they were decided on, waiting for a state."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from fixtures.cluster import confirmed
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
        if not confirmed.nobody_serves(cluster, key, trouble):
            raise
        return differs(None)


def field(obj: Json | None, *path: str) -> Any:
    """What is at a path of an object; None when it is not there."""
    value: Any = obj
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def uid_of(obj: Json | None) -> str:
    """The object's UID, empty without one."""
    return str(field(obj, "metadata", "uid") or "")


def kubectl(*words: str, namespace: str = "") -> str:
    """A kubectl line that a shell takes as it is and a terminal shows as it is, whatever a cluster's texts hold."""
    return " ".join(map(_quoted, ["kubectl", *(("-n", namespace) if namespace else ()), *words]))


def _quoted(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + plain(word.replace("\\", "\\\\").replace("'", "\\'")) + "'"
