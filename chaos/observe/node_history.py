"""The labels that nodes had in turn, as a watch tells them: a state may begin and end between two samples."""

from __future__ import annotations

import contextlib
from types import TracebackType

from chaos.observe.view import labels_of
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation

MEMORY = "node.history"
"""Under this name a reading's memory holds the history, where there is one."""


class NodeHistory:
    """Watches the nodes that it is asked about, from the first question on. A context manager: the watches end with it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._open = contextlib.ExitStack()
        self._watches: dict[str, Observation] = {}
        self._labels: dict[str, list[dict[str, str]]] = {}

    def __enter__(self) -> NodeHistory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._open.close()

    def labels(self, name: str) -> list[dict[str, str]]:
        """Every set of labels that the node is known to have had, in order, without waiting for more.

        Raises :class:`fixtures.cluster.trouble.ApiTrouble`.
        """
        if name not in self._watches:
            self._watches[name] = self._open.enter_context(Observation(self._cluster, "nodes", fields=f"metadata.name={name}"))
        known = self._labels.setdefault(name, [])
        for objects in self._watches[name].news():
            for node in objects.values():
                if not known or known[-1] != labels_of(node):
                    known.append(labels_of(node))
        return known
