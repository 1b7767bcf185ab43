"""Lets the child process wait until its parent's sampler has seen a state."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from fixtures.text import typed

_TAIL = 1 << 20
_PERIOD = 0.05


class _When(msgspec.Struct):
    at: str


def await_sample(samples: Path, seconds: float, since: datetime | None = None) -> bool:
    """Whether a sample that began after ``since`` (this call) is in the file within ``seconds``.

    A state that is undone before it was sampled was never seen, and what was expected of it could not be judged. The file is
    another process's, so it is looked at again and again.
    """
    begun, deadline = since or datetime.now(UTC), time.monotonic() + seconds
    while time.monotonic() < deadline:
        newest = _newest(samples)
        if newest is not None and newest > begun:
            return True
        threading.Event().wait(min(_PERIOD, max(deadline - time.monotonic(), 0.0)))
    return False


def _newest(samples: Path) -> datetime | None:
    """When the last complete sample in the file began; None without one."""
    try:
        with samples.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
            lines = file.read().split(b"\n")
        return datetime.fromisoformat(typed.decode(lines[-2], _When).at)
    except (OSError, IndexError, msgspec.MsgspecError, ValueError):
        return None
