"""The one rollback of every experiment: replay its ledger, newest first, and read back."""

import contextlib
from typing import Any

from chaoslib.exceptions import ActivityFailed

from chaos.activities.base import current
from chaos.activities.waiting import wait_for, watch_before
from chaos.model.records import PREPARATION


def undo_everything(watched: dict[str, Any] | None = None, within: str = "") -> dict[str, Any]:
    """Undo every open entry of this experiment's ledger. Raises ActivityFailed with what remains.

    With ``watched`` the faults are undone first: what was set up for the experiment stays until that condition holds, or the duration
    ``within`` is over, and the sampler has seen it so. An experiment that was aborted is not watched any more.
    """
    acting = current()
    entries, limit = acting.ledger.open_entries(), acting.plan.seconds.get("undo", 120.0)
    try:
        if watched is not None and not acting.abort.reason:
            faults = [entry.seq for entry in entries if not acting.ledger.detail(entry.seq).get(PREPARATION)]
            if not acting.restore(limit, seqs=faults):
                with contextlib.suppress(ActivityFailed):  # aborted meanwhile: the flag says why
                    wait_for(watched, within)
                    watch_before()
    finally:
        left = acting.restore(limit)
    if left:
        raise ActivityFailed("not restored: " + "; ".join(str(item) for item in left))
    return {"undone": [f"{entry.seq} {entry.undo}" for entry in entries]}
