"""A report folder: written whole or not at all, and read back. It names nodes, tenants and images, so it is its user's alone.

``report.json`` is the source of truth and is written first; every other file is a view of it.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from fixtures.system import private_files
from fixtures.system.file_search import folder_problem
from fixtures.text import typed, users_files
from fixtures.verdict.chaos_record import CHAOS_SCHEMA_VERSION, ChaosReport, decode_chaos
from fixtures.verdict.record import SCHEMA_VERSION, Record, Report, decode_report, encode
from reports.formats import allure, ctrf, html, junit, markdown, openmetrics, sarif
from reports.safe_text import encodable, one_line, redact

JSON_NAME = "report.json"
CHAOS_NAME = "chaos.json"
HTML_NAME = "report.html"
ALLURE_NAME = "allure-results"
MAX_BYTES = 256 << 20
"""Of a record that is read: the subjects that a record keeps of ten thousand nodes take a few megabytes."""

Writer = Callable[[Report, ChaosReport | None], str]

_WRITERS: dict[str, Writer] = {
    HTML_NAME: html.render,
    "junit.xml": junit.render,
    "ctrf.json": ctrf.render,
    "report.md": markdown.render,
    "metrics.prom": openmetrics.render,
    "report.sarif": sarif.render,
}


class ReportError(Exception):
    """A report that cannot be read or written. The message is one line that says which file and why."""


class _Version(msgspec.Struct, rename="camel"):
    schema_version: str


def clear(folder: Path) -> None:
    """Remove every file that :func:`write_all` writes, the record first. Raises ``OSError`` once all that can go has gone."""
    failed: OSError | None = None
    for name in (JSON_NAME, CHAOS_NAME, *_WRITERS):
        try:
            (folder / name).unlink(missing_ok=True)
        except OSError as error:
            failed = failed or error
    shutil.rmtree(folder / ALLURE_NAME, ignore_errors=True)
    if failed:
        raise failed


def write_all(report: Report, folder: Path, chaos: ChaosReport | None = None, *, views: bool = True) -> None:
    """Write every format of ``report`` to ``folder``, made when missing; files of an earlier run there are replaced.

    ``chaos`` is the record of the run's chaos experiments: ``chaos.json``, and a part of every view. Without ``views`` only the records
    are written.

    Raises ``ReportError`` when a file could not be written; the others are written all the same.
    """
    problems: list[str] = []
    try:
        private_files.make_folder(folder)
        write_atomically(folder / JSON_NAME, to_json(report))
    except OSError as error:
        raise ReportError(f"{folder}: cannot write the report: {error.strerror or error}") from error
    if chaos is None:
        (folder / CHAOS_NAME).unlink(missing_ok=True)
    else:
        try:
            write_atomically(folder / CHAOS_NAME, to_json(chaos))
        except OSError as error:
            problems.append(f"{CHAOS_NAME}: {error.strerror or error}")
    if views:
        problems += _write_views(report, chaos, folder)
    if problems:
        raise ReportError(f"{folder}: not every format could be written: {'; '.join(problems)}")


def each_view(report: Report, chaos: ChaosReport | None) -> Iterator[tuple[str, bytes]]:
    """Each view that is one file, and what this version makes of the record for it."""
    for name, render in _WRITERS.items():
        yield name, render(report, chaos).encode("utf-8", "backslashreplace")


def _write_views(report: Report, chaos: ChaosReport | None, folder: Path) -> Iterator[str]:
    """Yields what could not be written: one broken view must not cost the reader the others."""
    for name, render in _WRITERS.items():
        try:
            write_atomically(folder / name, render(report, chaos).encode("utf-8", "backslashreplace"))
        except Exception as error:
            yield f"{name}: {type(error).__name__}: {one_line(str(error), 300)}"
    try:
        _write_allure(report, chaos, folder / ALLURE_NAME)
    except Exception as error:
        yield f"{ALLURE_NAME}: {type(error).__name__}: {one_line(str(error), 300)}"


def load(folder_or_file: Path) -> Report:
    """Read ``report.json``, given itself or its folder. Raises ``ReportError`` with one line."""
    path = folder_or_file if folder_problem(folder_or_file) else folder_or_file / JSON_NAME
    try:
        data = _read(path)
    except OSError as error:
        raise ReportError(f"{path}: cannot read the report: {error.strerror or error}") from error
    try:
        version = typed.decode(data, _Version).schema_version
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ReportError(f"{path}: not a report.json: {one_line(str(error), 300)}") from error
    if version.split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise ReportError(f"{path}: schemaVersion {one_line(version, 40)} is not one this suite reads ({SCHEMA_VERSION})")
    try:
        return decode_report(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ReportError(f"{path}: not a report.json of schema {one_line(version, 40)}: {one_line(str(error), 300)}") from error


def load_chaos(folder: Path) -> ChaosReport | None:
    """Read ``chaos.json`` of a report folder; None when there is none. Raises ``ReportError`` when it is not one."""
    path = folder / CHAOS_NAME
    try:
        data = _read(path)
        version = typed.decode(data, _Version).schema_version
        if version.split(".")[0] == CHAOS_SCHEMA_VERSION.split(".")[0]:
            return decode_chaos(data)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ReportError(f"{path}: not a chaos.json: {one_line(str(error), 300)}") from error
    raise ReportError(f"{path}: schemaVersion {one_line(version, 40)} is not one this suite reads ({CHAOS_SCHEMA_VERSION})")


def _read(path: Path) -> bytes:
    """The whole file. Raises ``OSError``, and ``ReportError`` for more than a record has."""
    data = users_files.read(path, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ReportError(f"{path}: more than {MAX_BYTES:,} bytes, which no report has")
    return data


def load_run(folder_or_file: Path) -> tuple[Report, ChaosReport | None]:
    """Both records of a run, given ``report.json`` or its folder. Raises ``ReportError``, also when they are of two runs."""
    report = load(folder_or_file)
    folder = folder_or_file.parent if folder_problem(folder_or_file) else folder_or_file
    chaos = load_chaos(folder)
    if chaos is not None and chaos.run.id != report.run.id:
        of, other = one_line(chaos.run.id, 80), one_line(report.run.id, 80)
        raise ReportError(f"{folder / CHAOS_NAME}: of run {of}, and not of {other} as the report beside it")
    return report, chaos


def to_json(record: Record) -> bytes:
    """A record as its file has it: credentials redacted, lone surrogates (not UTF-8) spelled out, otherwise as it is."""
    try:
        data = encode(record)
    except UnicodeEncodeError:
        data = encode(typed.convert(encodable(msgspec.to_builtins(record)), type(record)))
    text = data.decode()
    redacted = redact(text)
    return data if redacted == text else redacted.encode()


def write_atomically(path: Path, data: bytes, mode: int = private_files.FILE_MODE) -> None:
    """Write ``data`` beside ``path`` and rename it there, so that no reader ever sees half a file. Raises ``OSError``."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_allure(report: Report, chaos: ChaosReport | None, folder: Path) -> None:
    """Fill a fresh folder and swap it in: results of an earlier run would be counted twice."""
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        allure.write(report, temporary, chaos)
        if folder.exists():
            shutil.rmtree(folder)
        temporary.replace(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
