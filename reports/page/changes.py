"""Changes since the baseline as the page shows them: subjects with the same change stand together. Pure."""

from __future__ import annotations

import msgspec

from fixtures.verdict.record import ComparedChange, Comparison
from reports.subject_groups import SELF

MAX_LISTED = 40

URGENT = ("new failure", "became inconclusive", "no longer judged")
"""Buckets that a reader looks at first."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one requirement, and the subjects that it is about. ``first`` stands for all of them."""

    first: ComparedChange
    message: str
    subjects: list[str]


class Bucket(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one bucket. ``more`` are counted in the record and not listed here."""

    name: str
    count: int
    groups: list[Group]
    more: int
    is_open: bool


def buckets(comparison: Comparison | None) -> list[Bucket]:
    """All buckets that have changes, in the order of the record."""
    found: dict[str, dict[tuple[object, ...], Group]] = {}
    for one in comparison.changes if comparison else []:
        name = one.subject.rpartition(" ")[2].rpartition("/")[2]
        message = one.message.replace(name, SELF) if len(name) >= 4 else one.message
        groups = found.setdefault(one.bucket, {})
        key = (one.requirement, one.old, one.new, message, not one.subject)
        group = groups.setdefault(key, Group(first=one, message=message, subjects=[]))
        if one.subject:
            group.subjects.append(one.subject)
    return [_bucket(name, list(groups.values()), comparison) for name, groups in found.items() if comparison]


def _bucket(name: str, groups: list[Group], comparison: Comparison) -> Bucket:
    listed = [
        group if len(group.subjects) != 1 else msgspec.structs.replace(group, message=group.first.message) for group in groups[:MAX_LISTED]
    ]
    told = sum(len(group.subjects) or 1 for group in listed)
    count = max(comparison.counts.get(name, 0), told)
    return Bucket(name=name, count=count, groups=listed, more=count - told, is_open=name in URGENT or len(listed) <= 5)
