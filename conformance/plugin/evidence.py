"""Finds the API objects that findings are about, and has them written as evidence of the run (``--evidence``)."""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from conformance.plugin import again
from fixtures.cluster.kinds import KINDS
from fixtures.snapshot.state import Object, Snapshot
from fixtures.verdict.record import Access, Report, SubjectResult
from reports.evidence import bundle


class Objects:
    """The objects of a snapshot by kind, namespace and name."""

    def __init__(self, snapshot: Snapshot, keys: Iterable[str]) -> None:
        self._snapshot = snapshot
        self._keys: dict[str, list[str]] = {}
        self._found: dict[str, dict[tuple[str, str], Object]] = {}
        for key in keys:
            kind = KINDS[key].kind if key in KINDS else snapshot.listing(key).kind
            if kind and kind != "Secret":
                self._keys.setdefault(kind.lower(), []).append(key)

    def find(self, subject: SubjectResult) -> dict[str, object] | None:
        """The object of a subject, or of the object that it is a part of (``team-a nvidia.com/gpu``); None where there is none."""
        name = subject.name.split(" ", 1)[0]
        for key in self._keys.get(subject.kind.lower(), []):
            if (found := self._by_name(key).get((subject.namespace, name))) is not None:
                return self._document(key, found)
        return None

    def _by_name(self, key: str) -> dict[tuple[str, str], Object]:
        if key not in self._found:
            self._found[key] = {_path(item): item for item in self._snapshot.listing(key).items}
        return self._found[key]

    def _document(self, key: str, item: Object) -> dict[str, object]:
        kind = KINDS[key].kind if key in KINDS else self._snapshot.listing(key).kind
        version = self._snapshot.versions.get(key, "")
        group = key.rpartition("/")[0]
        head = {"kind": kind, "apiVersion": f"{group}/{version}" if group else version} if version else {"kind": kind}
        return {**head, **msgspec.to_builtins(item)}


def write_evidence(
    report: Report,
    folder: Path,
    snapshot: Snapshot | None,
    reads: Mapping[str, list[str]],
    kept: Mapping[str, bytes] | None = None,
) -> Path:
    """Write ``evidence/`` of a run whose ``report.json`` is in ``folder``. ``reads`` are the kinds that each requirement lists,
    ``kept`` the files by which the run can be judged again.

    Raises :class:`reports.evidence.bundle.EvidenceError`.
    """
    keys = sorted({key for listed in reads.values() for key in listed}) if snapshot is not None else []
    sources = bundle.Sources(
        lists=[_list_read(snapshot, key) for key in keys] if snapshot is not None else [],
        reads=reads,
        find=Objects(snapshot, keys).find if snapshot is not None else lambda _: None,
        taken_at=datetime.fromtimestamp(snapshot.taken_at, UTC).isoformat(timespec="seconds") if snapshot is not None else "",
        kept=kept or {},
        again=lambda evidence: _not_again(report, evidence, reads) if kept else {},
    )
    return bundle.write(report, folder, sources, folder / "report.json")


def _not_again(report: Report, evidence: Path, reads: Mapping[str, list[str]]) -> dict[str, str]:
    """Of each requirement that reads, why the kept files do not give its result again; empty where they do."""
    reading = [one for one in report.results if one.access is Access.READ]
    try:
        found = again.judge_again(evidence, report.results)
    except again.CannotJudge as error:
        return {one.id: str(error) for one in reading}
    return {one.id: "" if found.gives(one) else found.why_unlike(one, reads.get(one.id, ())) for one in reading}


def _list_read(snapshot: Snapshot, key: str) -> bundle.ListRead:
    listing = snapshot.listing(key)
    trouble = listing.trouble or ("not served" if not listing.served else "" if listing.collected else "not read")
    try:
        data = msgspec.json.encode(listing.items)
    except UnicodeEncodeError:  # a lone surrogate in a custom object
        data = repr(listing.items).encode("utf-8", "backslashreplace")
    return bundle.ListRead(resource=key, objects=len(listing.items), digest=hashlib.sha256(data).hexdigest(), trouble=trouble)


def _path(item: Object) -> tuple[str, str]:
    if isinstance(item, dict):
        metadata = item.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    return item.metadata.namespace, item.metadata.name
