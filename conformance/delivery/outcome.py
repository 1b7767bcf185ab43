"""The outcome of a run in one line of a log, for programs, and its report folder as one archive: the same folder gives the same bytes."""

import gzip
import io
import json
import tarfile
from pathlib import Path

import msgspec

from fixtures.verdict.coverage import is_judged
from fixtures.verdict.record import Record, Report, Verdict
from reports import phrases
from reports.safe_text import NAME_LIMIT, one_line

OUTCOME_VERSION = "1.0"
MAX_NAMED = 100
NO_REPORT = 3

MAX_FILES = 20_000
FILE_MODE = 0o644


class Outcome(Record, kw_only=True):
    """One run. ``simulated`` says that it is no result of a real cluster; ``failed`` names requirements, at most 100."""

    schema_version: str = OUTCOME_VERSION
    run_id: str = ""
    started_at: str = ""
    target: str = ""
    simulated: bool = False
    cluster_uid: str = ""
    kubernetes_version: str = ""
    verdict: Verdict | None = None
    headline: str = ""
    exit_code: int
    judged: int = 0
    requirements: int = 0
    failed: list[str] = msgspec.field(default_factory=list)
    delivered: list[str] = msgspec.field(default_factory=list)
    undelivered: list[str] = msgspec.field(default_factory=list)


def outcome_of(report: Report | None, exit_code: int) -> Outcome:
    """The outcome of a run that ended with ``exit_code``; without a report only that is known, and nothing was judged."""
    if report is None and exit_code == 0:
        return Outcome(exit_code=NO_REPORT, headline="nothing was judged: the run ended without a report")
    if report is None:
        return Outcome(exit_code=exit_code, headline=phrases.exit_meaning(exit_code))
    target = report.target
    judged = report.scope.judged if report.scope else sum(is_judged(result) for result in report.results)
    return Outcome(
        run_id=one_line(report.run.id, NAME_LIMIT),
        started_at=one_line(report.run.started_at, NAME_LIMIT),
        target=target.kind.value,
        simulated=target.simulated,
        cluster_uid=one_line(target.cluster_uid, NAME_LIMIT),
        kubernetes_version=one_line(target.kubernetes_version, NAME_LIMIT),
        verdict=report.verdict,
        headline=phrases.headline(report),
        exit_code=exit_code,
        judged=judged,
        requirements=report.scope.requirements if report.scope else len(report.results),
        failed=[one_line(result.id, 60) for result in report.results if result.verdict is Verdict.FAILED][:MAX_NAMED],
    )


def line(outcome: Outcome) -> str:
    """``{"gpuConformance": {...}}``: one line in ASCII, whatever the cluster's names are."""
    return json.dumps({"gpuConformance": msgspec.to_builtins(outcome)}, separators=(",", ":"))


class DeliveryError(Exception):
    """Results that could not be handed on. The message is one line."""


def archive(folder: Path) -> bytes:
    """All regular files below ``folder`` as a ``.tar.gz``: sorted, without owners and times. Links are left out.

    Raises :class:`DeliveryError` if the folder has more files than a report can have.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    if len(paths) > MAX_FILES:
        raise DeliveryError(f"{len(paths):,} files are more than a report has")
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in paths:
            data = path.read_bytes()
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size, entry.mode = len(data), FILE_MODE
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()
