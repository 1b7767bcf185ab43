"""What the selected requirements do to a cluster, so that rights can be reviewed before they are missed."""

from __future__ import annotations

import msgspec


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of requirements by what they need.

    ``reads`` maps a resource key (``"apps/daemonsets"``) that is listed; ``writes`` maps a right such
    as ``"create pods"`` (verb, resource key).
    """

    reads: dict[str, list[str]]
    writes: dict[str, list[str]]
