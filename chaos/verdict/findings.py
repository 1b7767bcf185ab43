"""Findings of a chaos verdict."""

from __future__ import annotations

import msgspec

from chaos.model.conditions import JsonValue
from fixtures.verdict.chaos_record import ChaosFinding
from fixtures.verdict.record import Verdict

OTHERS_AT_WORK = "OthersAtWork"
"""The reason code of what may be other people's doing."""


def finding(verdict: Verdict, name: str, code: str, message: str, seconds: float | None = None) -> ChaosFinding:
    """A finding; its message on one line and bounded."""
    return ChaosFinding(name=name, verdict=verdict, reason_code=code, message=" ".join(message.split())[:1000], seconds=seconds)


def undecided(name: str, code: str, message: str) -> ChaosFinding:
    """A finding that something is not known."""
    return finding(Verdict.INCONCLUSIVE, name, code, message)


def shown_value(value: JsonValue) -> str:
    """A value in a message."""
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 160 else text[:157] + "..."
