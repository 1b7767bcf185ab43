"""A job of several device pods, as whatever makes or groups its pods describes it."""

from __future__ import annotations

import msgspec

from fixtures.kubernetes.models import Pod
from fixtures.verdict.findings import Subject


class GangJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of several device pods. ``needed``: pods that make it whole; ``system``: the gang scheduler it uses, or empty.

    ``pods`` are its pods, finished ones included; of a job without a group, its device pods. ``together``: how many its scheduler
    places in one go. ``enough``: with how many its owner says that it works (``enough_source``), 0: with all only. One clause each:
    ``waiting`` when the job is suspended and has no right to pods now, ``held`` when missing pods are made only after others are
    ready, ``unsure`` when nothing tells how many it needs. ``deleted_at``: since when it is being deleted, Unix seconds.
    """

    subject: Subject
    needed: int
    pods: tuple[Pod, ...]
    system: str = ""
    together: int = 0
    enough: int = 0
    enough_source: str = ""
    waiting: str = ""
    held: str = ""
    unsure: str = ""
    deleted_at: float | None = None

    @property
    def names(self) -> set[tuple[str, str]]:
        """Namespace and name of its pods."""
        return {(pod.namespace, pod.name) for pod in self.pods}
