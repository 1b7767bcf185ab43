"""HW-09: parts of one kind and board run one firmware in a pool: VBIOS and InfoROM of devices, firmware of RDMA adapters."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from conformance.probes.node_documents import SOURCE, NodeDocument
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import subject
from fixtures.tables.rows import FIRMWARE
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding

Counts = dict[str, Counter[str]]
"""How many parts of each kind have which version."""


class Version(msgspec.Struct, frozen=True):
    """What one part of a node runs; parts of one ``kind`` must run the same."""

    kind: str
    part: str
    version: str


def firmware_judge(documents: Iterable[NodeDocument], pools: Iterable[Iterable[Node]]) -> Callable[[NodeDocument], Iterator[Finding]]:
    """What judges a document against those of its pool: a finding for the node, by what most parts of each kind have."""
    found = {one.node.name: list(_versions(one)) for one in documents}
    counts: dict[str, Counts] = {}
    for pool in pools:
        names = [node.name for node in pool if node.name in found]
        counts |= dict.fromkeys(names, _counts(version for name in names for version in found[name]))

    def judge(one: NodeDocument) -> Iterator[Finding]:
        versions = found[one.node.name]
        yield _judge(one.node, versions, counts.get(one.node.name) or _counts(versions))

    return judge


def _counts(versions: Iterable[Version]) -> Counts:
    counts: Counts = {}
    for version in versions:
        counts.setdefault(version.kind, Counter())[version.version] += 1
    return counts


def _judge(node: Node, versions: Sequence[Version], counts: Counts) -> Finding:
    place = subject(node)
    about = About(place, SOURCE)
    compared = [version for version in versions if counts[version.kind].total() > 1]
    if not compared:
        return about.not_judged("no other part of its kind in its pool was asked for its firmware")
    expected = "the firmware that most parts of its kind have in its pool"
    unlike = [(version, usual) for version in compared if (usual := _usual(counts[version.kind])) != version.version]
    if not unlike:
        return about.ok(listed(dict.fromkeys(f"{one.kind} {one.version}" for one in compared), 4), expected=expected)
    words = listed(
        [
            f"{one.part} has {one.kind} {one.version}, {counts[one.kind][usual]} of {counts[one.kind].total()} have {usual}"
            for one, usual in unlike
        ],
        3,
    )
    return about.bad(words, cause="FirmwareDiffers", observed=words, expected=expected)


def _usual(counted: Counter[str]) -> str:
    """What most have; of two that are as common the newer."""
    return max(counted, key=lambda version: (counted[version], version))


def _versions(read: NodeDocument) -> Iterator[Version]:
    devices = [("device", f"device {one.index} {one.uuid}".rstrip(), one.name, one) for driver in read.drivers for one in driver.devices]
    adapters = [("adapter", port.adapter, "adapter", port) for port in read.document.host.rdma]
    for rule in FIRMWARE.rows:
        for kind, label, name, part in (*devices, *adapters):
            # a driver in a virtual machine may name the VBIOS ??.??.??.??.??, and an adapter without a board may be of any maker
            version, board = getattr(part, rule.field, ""), re.fullmatch(rule.pattern, getattr(part, rule.board, ""))
            if kind == rule.part and re.search(r"\d", version) and (board or kind == "device"):
                yield Version(f"{rule.what} ({name}{f', board {board[1]}' if board else ''})", label, version)
