"""HW-09: parts of one kind and board run one firmware in a pool: VBIOS and InfoROM of devices, firmware of RDMA adapters."""

from __future__ import annotations

import datetime
import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from conformance.hw.judging import Documents, devices_of
from fixtures.nodeprobe.document import Document
from fixtures.text import typed
from fixtures.text.sentences import listed
from fixtures.verdict.findings import Finding, Subject, bad, not_judged, ok

_FILE = Path(__file__).with_name("firmware_parity.yaml")
_SOURCE = "node probe: VBIOS and InfoROM of devices, firmware of adapters"


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of ``firmware_parity.yaml``, whose head says what the fields mean."""

    what: str
    part: Literal["device", "adapter"]
    field: str
    board: str
    pattern: str
    date: datetime.date
    source: str


class Version(msgspec.Struct, frozen=True):
    """What one part of a node runs; parts of one ``kind`` must run the same."""

    kind: str
    part: str
    version: str


@functools.cache  # a file of the package
def rules() -> tuple[Rule, ...]:
    """Every row."""
    return tuple(typed.convert(yaml.load(_FILE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader), list[Rule]))


def check_firmware(documents: Documents, pools: Iterable[Sequence[str]]) -> Iterator[Finding]:
    """One finding for every node that was probed: its firmware is what most parts of the kind have. ``pools`` are names of nodes."""
    for pool in pools:
        found = {node: list(_versions(node, documents[node])) for node in pool if node in documents}
        counts: dict[str, Counter[str]] = {}
        for version in (version for versions in found.values() for version in versions):
            counts.setdefault(version.kind, Counter())[version.version] += 1
        for node, versions in found.items():
            yield _judge(node, versions, counts)


def _judge(node: str, versions: Sequence[Version], counts: dict[str, Counter[str]]) -> Finding:
    place = Subject("Node", node)
    compared = [version for version in versions if counts[version.kind].total() > 1]
    if not compared:
        return not_judged(place, message="no other part of its kind in its pool was asked for its firmware", source=_SOURCE)
    expected = "the firmware that most parts of its kind have in its pool"
    unlike = [(version, usual) for version in compared if (usual := _usual(counts[version.kind])) != version.version]
    if not unlike:
        return ok(
            place, observed=listed(dict.fromkeys(f"{one.kind} {one.version}" for one in compared), 4), expected=expected, source=_SOURCE
        )
    words = [
        f"{one.part} has {one.kind} {one.version}, {counts[one.kind][usual]} of {counts[one.kind].total()} have {usual}"
        for one, usual in unlike
    ]
    return bad(
        place, cause="FirmwareDiffers", observed=listed(words, 3), expected=expected, source=_SOURCE, message=f"{node}: {listed(words, 3)}"
    )


def _usual(counted: Counter[str]) -> str:
    """What most have; of two that are as common the newer."""
    return max(counted, key=lambda version: (counted[version], version))


def _versions(node: str, document: Document) -> Iterator[Version]:
    devices = [("device", f"{seen.label}", seen.device.name, seen.device) for seen in devices_of(node, document)]
    adapters = [("adapter", port.adapter, "adapter", port) for port in document.host.rdma]
    for rule in rules():
        for kind, label, name, part in (*devices, *adapters):
            version, board = getattr(part, rule.field, ""), re.fullmatch(rule.pattern, getattr(part, rule.board, ""))
            if kind == rule.part and version:
                yield Version(f"{rule.what} ({name}{f', board {board[1]}' if board else ''})", label, version)
