"""Since when something is as it is, and text of the programs that say so."""

from __future__ import annotations

import msgspec

from fixtures.text.sentences import plain


class Since(msgspec.Struct, frozen=True, kw_only=True):
    """Since when something is as it is, and what says so. ``latest`` is the latest moment at which it can have begun, if known."""

    latest: float | None = None
    source: str = ""

    def age(self, now: float) -> float | None:
        """How old it is at least, in seconds; None when nobody knows. A clock that is ahead makes it new."""
        return None if self.latest is None else max(now - self.latest, 0.0)


UNKNOWN = Since()


def said(text: str, most: int = 160) -> str:
    """Text of a program in the cluster as a part of a message: harmless, on one line, and not long."""
    line = plain(" ".join(text[: 4 * most].split()))
    return line if len(line) <= most else f"{line[:most]}…"
