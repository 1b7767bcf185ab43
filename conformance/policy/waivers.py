"""Waivers: failures that their owners accept for a time. A file of them beside the policy (docs/waivers.md).

A waiver names a requirement, subjects by globs, a reason, an owner and the last day on which it holds. It covers what is bad, never
what could not be decided. What it covers stays in every view, with owner and date.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec

from fixtures.text import typed, yaml_text
from fixtures.text.yaml_text import NotYaml
from fixtures.verdict.findings import WAIVABLE, Finding, Outcome
from fixtures.verdict.record import WaiverUse

MAX_WAIVERS = 1_000
MAX_FILE_BYTES = 1 << 20

Words = Annotated[str, msgspec.Meta(min_length=1, max_length=400, pattern=r"\S")]


class WaiverError(Exception):
    """The file of waivers cannot be used. One line with the path of the offending value."""


class Waiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the file. ``subjects`` are globs of ``Kind name`` or ``Kind namespace/name``, as reports write them."""

    requirement: Words
    subjects: Annotated[tuple[Words, ...], msgspec.Meta(min_length=1, max_length=100)]
    reason: Words
    owner: Words
    expires: date  # the last day, in UTC, on which it holds


class WaiverFile(msgspec.Struct, frozen=True, kw_only=True):
    """The waivers of a run, numbered from 1 as in the file, and the day (UTC) on which the run began."""

    waivers: tuple[Waiver, ...] = ()
    today: date = date.min

    def numbered(self) -> Iterable[tuple[int, Waiver]]:
        """Each waiver with its place in the file, from 1."""
        return enumerate(self.waivers, start=1)

    def is_expired(self, waiver: Waiver) -> bool:
        """Whether its last day is over."""
        return waiver.expires < self.today


class _Document(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    waivers: tuple[Waiver, ...]


def read_waiver_file(path: Path, started: float) -> WaiverFile:
    """The waivers of a file, for a run that began at ``started`` (Unix seconds). Raises :class:`WaiverError`.

    Whether the catalogue has the requirements is for the reader to check: the policy's room does not know it.
    """
    try:
        document = yaml_text.read(path, most=MAX_FILE_BYTES)
    except NotYaml as error:
        raise WaiverError(f"{path}: {error}") from None
    try:
        waivers = typed.convert(document, _Document).waivers
    except msgspec.ValidationError as error:
        raise WaiverError(f"{path}: {' '.join(str(error).split())[:300]}") from None
    if len(waivers) > MAX_WAIVERS:
        raise WaiverError(f"{path}: {len(waivers)} waivers, and at most {MAX_WAIVERS} are read")
    return WaiverFile(waivers=waivers, today=datetime.fromtimestamp(started, UTC).date())


class RequirementWaivers:
    """The waivers of one requirement that hold today. Counts, for each glob, what it waives and what passes without it."""

    def __init__(self, waivers: Iterable[tuple[int, Waiver]]) -> None:
        self._globs = [(WaiverUse(waiver=number, subjects=glob), waiver) for number, waiver in waivers for glob in waiver.subjects]

    @classmethod
    def of(cls, requirement: str, file: WaiverFile) -> RequirementWaivers | None:
        """None where no waiver names the requirement, which is how it mostly is."""
        found = [(number, one) for number, one in file.numbered() if one.requirement == requirement and not file.is_expired(one)]
        return cls(found) if found else None

    def words(self, finding: Finding) -> str:
        """``waived until 2026-12-31 by team-a: the fix is ordered``; "" where no glob names the finding's subject."""
        name = str(finding.subject)
        met = [(use, waiver) for use, waiver in self._globs if fnmatchcase(name, use.subjects)]
        for use, _ in met:
            use.waived += finding.outcome in WAIVABLE
            use.passed += finding.outcome is Outcome.OK
        if not met:
            return ""
        waiver = met[0][1]
        return f"waived until {waiver.expires.isoformat()} by {waiver.owner}: {waiver.reason}"

    def uses(self) -> list[WaiverUse]:
        """What each glob met so far."""
        return [use for use, _ in self._globs]
