"""Groups the subjects of a requirement: those of which the same was found stand together."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fixtures.verdict.record import SubjectResult, Verdict
from reports.phrases import SUBJECT_ORDER

SELF = "\N{HORIZONTAL ELLIPSIS}"
"""Stands for the subject's own name where a text of a group names each of its subjects."""


class SubjectGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Subjects of one kind with one verdict, of which the same was seen and expected. A text that differs by name alone says ``…``."""

    verdict: Verdict
    kind: str
    observed: str
    expected: str
    source: str
    message: str
    subjects: list[SubjectResult]


def subject_groups(subjects: Iterable[SubjectResult]) -> list[SubjectGroup]:
    """The groups, most urgent verdict first, then the largest, else in the order of the record."""
    found: dict[tuple[str, ...], list[SubjectResult]] = {}
    for one in subjects:
        texts = (_nameless(text, one) for text in (one.observed, one.expected, one.source, one.message))
        found.setdefault((one.verdict, one.kind, *texts), []).append(one)
    rank = {verdict: index for index, verdict in enumerate(SUBJECT_ORDER)}
    groups = [_group(key, members) for key, members in found.items()]
    return sorted(groups, key=lambda group: (rank[group.verdict], -len(group.subjects)))


def in_short(found: Iterable[SubjectGroup]) -> list[SubjectGroup]:
    """The groups by their message alone, for a list without columns: what was observed may differ."""
    merged: dict[tuple[str, ...], list[SubjectGroup]] = {}
    for one in found:
        told = (one.message,) if one.message else (one.observed, one.expected)
        merged.setdefault((one.verdict, one.kind, *told), []).append(one)
    return [
        msgspec.structs.replace(members[0], subjects=[subject for one in members for subject in one.subjects])
        for members in merged.values()
    ]


def _group(key: tuple[str, ...], members: list[SubjectResult]) -> SubjectGroup:
    first = members[0]
    observed, expected, source, message = key[2:] if len(members) > 1 else (first.observed, first.expected, first.source, first.message)
    return SubjectGroup(
        verdict=first.verdict, kind=first.kind, observed=observed, expected=expected, source=source, message=message, subjects=members
    )


def _nameless(text: str, subject: SubjectResult) -> str:
    """The text without the subject's own name, when the name is long enough to be no word of the text by chance."""
    for name in (subject.name, subject.name.partition(" ")[0]):
        if len(name) >= 4 and name in text:
            return text.replace(name, SELF)
    return text
