"""Companions of signals: what tells beside a signal of other people's pods which of them ended, and nothing says who ended them.

The signal itself shows only pods that the cluster ended.
"""

from __future__ import annotations

from collections.abc import Iterable

_COMPANIONS = {
    "pods.others": ("pods.others.ended",),
    "pods.uids": ("pods.ended",),
    "pods.strangers": ("pods.ended",),
    "pods.failed": ("pods.ended", "pods.refused"),
    "claims.held": ("pods.ended",),
}


def companions(names: Iterable[str]) -> list[str]:
    """The companions of some signals, each once."""
    return list(dict.fromkeys(one for name in names for one in _COMPANIONS.get(name, ())))


def with_companions(names: Iterable[str]) -> list[str]:
    """Signals and their companions: what is sampled for an experiment that names these."""
    named = list(names)
    return list(dict.fromkeys([*named, *companions(named)]))
