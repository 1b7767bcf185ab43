"""Exceptions: why a fault was not made, or could not be undone."""

from __future__ import annotations


class LedgerError(Exception):
    """The ledger cannot be read or written. Nothing may be done that it does not hold."""


class MirrorRefused(LedgerError):
    """The ledger's copy in the cluster could not be written: another machine could not undo what is about to be done."""


class LeaseRefused(Exception):
    """This run may not act on the cluster now: another one does, it is halted, or an earlier one left something to recover."""


class Aborted(Exception):
    """Nothing more may be done: halted, expired, or the Lease is lost. One line saying which."""


class UndoRefused(Exception):
    """An undo that must not be forced: the object is another one, or somebody else changed the value since.

    ``reason`` is ``changed by another`` or ``replaced``; ``current`` what was found, ``prior`` what was recorded.
    """

    def __init__(self, reason: str, message: str, *, prior: object = None, current: object = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.prior = prior
        self.current = current
