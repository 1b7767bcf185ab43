"""The verdict over one captured output by itself, as ``gpu-conformance inspect`` prints it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec


class Judged(StrEnum):
    """Verdict of an inspection or of one finding in it."""

    GOOD = "good"
    BAD = "bad"
    UNDECIDABLE = "undecidable"
    NOTE = "note"  # of a finding alone: worth knowing, and no verdict

    @classmethod
    def of(cls, good: bool | None) -> Judged:
        """From the three-valued ``good`` of the verdict functions."""
        return cls.UNDECIDABLE if good is None else cls.GOOD if good else cls.BAD


class InspectionFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One subject of an output (a device, a node, a rank pair, a line) and what was found out about it."""

    subject: str
    verdict: Judged
    message: str = ""
    observed: str = ""
    expected: str = ""


class Inspection(msgspec.Struct, frozen=True, rename="camel"):
    """On the wire: ``{kind, verdict, reasonCode, message, facts, findings}``. ``facts`` hold JSON values only."""

    kind: str
    verdict: Judged
    reason_code: str
    message: str
    facts: Mapping[str, object]
    findings: Sequence[InspectionFinding]


def worst(verdicts: Sequence[Judged]) -> Judged:
    """Bad before undecidable before good; undecidable for none at all, which proves nothing."""
    for verdict in (Judged.BAD, Judged.UNDECIDABLE, Judged.GOOD):
        if verdict in verdicts:
            return verdict
    return Judged.UNDECIDABLE
