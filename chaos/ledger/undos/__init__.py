"""Undos by the kind of object that they restore, and their interface: typed arguments, a conditional undo, a check that reads back.

An undo restores a value only while it is still the one that was written by the experiment, may be asked for any number of
times, and gives the server the version it decided on, so that nothing is overwritten that was not seen.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import msgspec

from fixtures.cluster.client import Cluster


class Args(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of an undo's arguments: the object, its prior value, the value that the fault sets. All of it can be written as JSON."""


class Undo(ABC):
    """One way of putting something back."""

    name: ClassVar[str]
    Args: ClassVar[type[Any]]
    RIGHTS: ClassVar[tuple[str, ...]]
    """``"VERB RESOURCE-KEY"`` of all that undoing and verifying asks of the API. ``{key}`` is the kind that the arguments name."""

    @abstractmethod
    def undo(self, cluster: Cluster, args: Any, deadline: float) -> None:
        """Put it back if it is still as the experiment left it. Nothing to do is success.

        ``deadline`` is in monotonic seconds. Raises :class:`fixtures.cluster.trouble.ApiTrouble` when the API gave no usable answer (worth
        another attempt) and :class:`chaos.model.records.UndoRefused` when it must be left as it is.
        """

    @abstractmethod
    def verify(self, cluster: Cluster, args: Any, deadline: float) -> str:
        """Empty once a fresh read shows the prior state, watching until ``deadline``; else what differs. Raises ApiTrouble."""

    def rights(self, args: Any) -> tuple[str, ...]:
        """:attr:`RIGHTS` for these arguments."""
        return tuple(right.format(key=getattr(args, "key", "")) for right in self.RIGHTS)

    @abstractmethod
    def human(self, args: Any) -> tuple[str, str]:
        """What is touched, as ``kind [namespace/]name``, and a command line with which a person can put it back."""
