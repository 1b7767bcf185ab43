"""Readers of what ``kubectl get resourceclaims`` and ``kubectl get resourceslices`` print. Neither names a device.

Facts: docs/facts/dra.md#what-kubectl-prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from conformance.outputs.log_text import log_lines

_CLAIM_HEAD = re.compile(
    r"\s{0,16}(?P<all>NAMESPACE\s{1,64})?NAME\s{1,300}(?:RESOURCECLASSNAME\s{1,80}ALLOCATIONMODE\s{1,80})?STATE\s{1,64}AGE\b"
)
_SLICE_HEAD = re.compile(r"\s{0,16}NAME\s{1,300}NODE\s{1,300}DRIVER\s{1,128}POOL\s{1,300}AGE\b")
_OTHER_HEAD = re.compile(r"\s{0,16}(?:NAMESPACE\s{1,64})?NAME\s{2,300}[A-Z]|\s{0,16}[$>#] ")
_STATE = re.compile(r"(?:pending|deleted|(?:deleted,)?allocated(?:,reserved)?)\Z")
_KIND = re.compile(r"resource(?:claim|slice)s?(?:\.resource\.k8s\.io)?/")


class ClaimRow(msgspec.Struct, frozen=True):
    """One claim of a table. ``state`` are its words: ``deleted``, ``allocated``, ``reserved``, ``pending``."""

    namespace: str
    name: str
    state: tuple[str, ...]


class SliceRow(msgspec.Struct, frozen=True):
    """One slice of a table; ``node`` is empty where several nodes reach its devices."""

    name: str
    node: str
    driver: str
    pool: str


def claim_rows(text: str) -> list[ClaimRow]:
    """Claims of every table in the text; empty where there is none."""
    rows = []
    for spread, words in _rows(text, _CLAIM_HEAD):
        state = next((word for word in words if _STATE.match(word)), "")
        if state and len(words) > spread:
            namespace, name = (words[0], words[1]) if spread else ("", words[0])
            rows.append(ClaimRow(namespace, _KIND.sub("", name), tuple(state.split(","))))
    return rows


def slice_rows(text: str) -> list[SliceRow]:
    """Slices of every table in the text; empty where there is none."""
    rows = []
    for _, words in _rows(text, _SLICE_HEAD):
        if len(words) in (4, 5):
            name, driver, pool = words[0], words[-3], words[-2]
            rows.append(SliceRow(_KIND.sub("", name), words[1] if len(words) == 5 else "", driver, pool))
    return rows


def _rows(text: str, head: re.Pattern[str]) -> Iterator[tuple[bool, list[str]]]:
    """Words of the lines below each such head, and whether the head has a column of namespaces."""
    inside, spread = False, False
    for line in log_lines(text):
        if found := head.match(line):
            inside, spread = True, bool(found.groupdict().get("all"))
        elif _OTHER_HEAD.match(line) or not line.strip():
            inside = False
        elif inside:
            yield spread, line[:2048].split()
