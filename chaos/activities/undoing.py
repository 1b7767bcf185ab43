"""The one rollback of every experiment: replay its ledger, newest first, and read back."""

from __future__ import annotations

import time
from typing import Any

from chaoslib.exceptions import ActivityFailed  # type: ignore[import-untyped]

from chaos.activities.base import current
from chaos.ledger.replay import replay


def undo_everything() -> dict[str, Any]:
    """Undo every open entry of this experiment's ledger. Raises ActivityFailed with what remains."""
    acting = current()
    entries = acting.ledger.open_entries()
    left = replay(acting.ledger, acting.cluster, time.monotonic() + acting.plan.seconds.get("undo", 120.0))
    if left:
        raise ActivityFailed("not restored: " + "; ".join(str(item) for item in left))
    return {"undone": [f"{entry.seq} {entry.undo}" for entry in entries]}
