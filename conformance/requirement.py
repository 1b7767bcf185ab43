"""A requirement as the catalogue states it, and the mark that ties a test to it."""

from __future__ import annotations

import re

import msgspec
import pytest

from fixtures.kinds import KINDS
from fixtures.record import Access, Level

ID = re.compile(r"[A-Z]{2,6}-\d{2}")
_ASSERTION = re.compile(r"(?i)^(ensure|verify|check|test|make sure)\b")
MAX_TITLE = 110


class Requirement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One requirement. ``reads`` are resource keys of the snapshot; ``writes`` are ``"verb resource-key"`` pairs.

    ``tells_tenants``: it tells the platform's namespaces from tenants', and reads what proves them.
    """

    id: str
    title: str
    level: Level
    access: Access
    rationale: str
    remediation: str
    references: list[str]
    reads: list[str] = []
    writes: list[str] = []
    optional_reads: list[str] = []  # read when served; a kind that is not served is no trouble
    tells_tenants: bool = False
    tenant_proofs: list[str] = []  # not written in a catalogue: optional reads for the sake of tells_tenants alone
    bad_stands: bool = False  # where a snapshot lacks optional reads: what is found bad without them is bad with them too

    @property
    def area(self) -> str:
        """The area: the part of the id before the dash."""
        return self.id.partition("-")[0]

    def problems(self) -> list[str]:
        """What is wrong with the entry; empty when it is well-formed. Titles are assertions (style 3.7)."""
        found = []
        if not ID.fullmatch(self.id):
            found.append("the id is not AREA-NN")
        if len(self.title) > MAX_TITLE or self.title.endswith("."):
            found.append(f"the title is longer than {MAX_TITLE} characters or ends with a full stop")
        if _ASSERTION.match(self.title):
            found.append("the title is an order, not an assertion")
        for name in ("rationale", "remediation"):
            if len(getattr(self, name).split()) < 5:
                found.append(f"{name} says too little")
        if not self.references:
            found.append("no reference")
        found += [f"reads the unknown kind {key!r}" for key in (*self.reads, *self.optional_reads) if key not in KINDS]
        return found


def requirement(id_: str) -> pytest.MarkDecorator:
    """Mark a test as the one that judges a requirement: ``@requirement("FENCE-01")``."""
    return pytest.mark.requirement(id_)
