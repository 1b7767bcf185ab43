"""The verdict over one captured output by itself, as ``gpu-conformance inspect`` prints it, and which program wrote a text by its marks."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from conformance.outputs.captured_text import cut_lines
from fixtures.text import yaml_text


class Judged(StrEnum):
    """Verdict of an inspection or of one finding in it."""

    GOOD = "good"
    BAD = "bad"
    UNDECIDABLE = "undecidable"
    NOTE = "note"  # of a finding alone: worth knowing, and no verdict

    @classmethod
    def of(cls, good: bool | None) -> "Judged":
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


MAX_FINDINGS = 200
"""Of an output that may have one for each of its lines."""


def worst(verdicts: Sequence[Judged]) -> Judged:
    """Bad before undecidable before good; undecidable for none at all, which proves nothing."""
    for verdict in (Judged.BAD, Judged.UNDECIDABLE, Judged.GOOD):
        if verdict in verdicts:
            return verdict
    return Judged.UNDECIDABLE


CodeT = TypeVar("CodeT", bound=StrEnum)


class OutputVerdict(msgspec.Struct, Generic[CodeT], frozen=True, kw_only=True):
    """What the output of a run shows. ``good`` is None where it cannot tell; ``failures`` fail the run whatever else it shows.

    ``doubts`` speak of an error and nobody knows them: with them nobody can say that all went well.
    """

    code: CodeT
    message: str
    facts: Mapping[str, object]
    good: bool | None
    failures: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def inspection(self, kind: str, findings: Sequence[InspectionFinding]) -> Inspection:
        """It as an inspection, with at most :data:`MAX_FINDINGS` of the findings."""
        return Inspection(kind, Judged.of(self.good), self.code.value, self.message, self.facts, findings[:MAX_FINDINGS])


def concluded(
    kind: str,
    found: Sequence[tuple[str, InspectionFinding]],
    facts: Mapping[str, object],
    good: tuple[str, str],
    notes: Sequence[InspectionFinding] = (),
) -> Inspection:
    """The inspection that its findings make: the worst decides, and the first of that kind gives reason code and message.

    Args:
        kind: The kind of output.
        found: Findings, each with the reason code that it gives.
        facts: As they are.
        good: Reason code and message where nothing is wrong.
        notes: Findings that decide nothing, behind the others.
    """
    verdict = worst([finding.verdict for _, finding in found if finding.verdict is not Judged.NOTE] or [Judged.GOOD])
    code, message = good
    if verdict is not Judged.GOOD:
        code, first = next((code, finding) for code, finding in found if finding.verdict is verdict)
        message = f"{first.subject}: {first.message}"
    return Inspection(kind, verdict, code, message, facts, [*(finding for _, finding in found), *notes])


_MAX_LOOKED_AT = 400_000
KUBERNETES = "a Kubernetes object"
"""What :func:`other_program` returns for an object that no kind of ``inspect`` reads, whoever wrote it."""


@cache  # not when imported: runs of the suite, which import this, recognise no texts
def _programs() -> tuple[dict[str, re.Pattern[str]], ...]:
    """Kinds that ``inspect`` judges, and programs whose output it does not, each by its marks."""
    programs = yaml_text.packaged(Path(__file__).with_name("programs.yaml"), dict[str, dict[str, str]])
    return tuple({name: re.compile(pattern, re.MULTILINE) for name, pattern in marks.items()} for marks in programs.values())


def judged_kinds(text: str) -> list[str]:
    """The kinds of ``inspect`` that a text may be, likeliest first."""
    head = looked_at(text)
    judged, _ = _programs()
    return [name for name, pattern in judged.items() if pattern.search(head)]


def other_program(text: str) -> str:
    """The program that wrote a text which ``inspect`` does not judge, or empty."""
    head = looked_at(text)
    _, others = _programs()
    return next((name for name, pattern in others.items() if pattern.search(head)), "")


def looked_at(text: str) -> str:
    """The beginning of a text without blank lines: with each of a run of them, a pattern would look through all that follow."""
    return "\n".join(line[:2048] for line in cut_lines(text[:_MAX_LOOKED_AT]) if line.strip())
