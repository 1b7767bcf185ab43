"""A pod that a kubelet or a runtime refused, as REQ-11 counts it."""

from __future__ import annotations

import msgspec

from conformance.req.creation_failures import Fault
from fixtures.kubernetes.models import Pod


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A device pod that a node did not take. ``pod`` is None where only an event tells of it.

    ``at``: when, at least; None where nothing says so. ``alone``: nobody replaces it. ``why`` it is not plainly the node's fault.
    """

    node: str
    reason: str
    message: str
    who: str
    namespace: str
    at: float | None
    alone: bool
    fault: Fault = Fault.NODE
    why: str = ""
    pod: Pod | None = None
