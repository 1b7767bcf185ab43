"""Leaving a cluster: what has to be gone is asked for until the cluster shows that it is gone, or the time is up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from chaos.model.errors import LedgerError
from fixtures.cluster.trouble import ApiTrouble

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
