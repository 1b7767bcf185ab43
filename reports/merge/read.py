"""Reads the reports of a fleet and writes its views. One report that cannot be read costs nobody the others."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from fixtures.system import private_files
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report
from reports.folder import ReportError, load, load_chaos, write_atomically
from reports.merge import views
from reports.merge.fleet import Fleet, Named


class Read(msgspec.Struct):
    """What was read, and a sentence for each report that could not be."""

    named: list[Named]
    unreadable: list[str]


def read(arguments: Iterable[str]) -> Read:
    """Reports by path of a ``report.json`` or its folder, or ``NAME=PATH``. A path that exists is never taken apart."""
    found = Read([], [])
    for argument in arguments:
        name, path = "", Path(argument)
        if not os.path.exists(path) and "=" in argument:
            name, _, rest = argument.partition("=")
            path = Path(rest)
        try:
            report = load(path)
            found.named.append(Named(report, name, _experiments(path, report)))
        except ReportError as error:
            found.unreadable.append(str(error))
    return found


def _experiments(path: Path, report: Report) -> ChaosReport | None:
    """What the same run says of its experiments, if it stands beside the report: only words of the row depend on it."""
    try:
        chaos = load_chaos(path if path.is_dir() else path.parent)
    except ReportError:
        return None
    return chaos if chaos is not None and chaos.run.id == report.run.id else None


def write(fleet: Fleet, folder: Path) -> list[Path]:
    """Write all views to a folder. Returns their paths. Raises ``ReportError``."""
    texts = {
        "fleet.json": views.to_json(fleet),
        "fleet.md": views.to_markdown(fleet).encode("utf-8", "backslashreplace"),
        "fleet.html": views.to_html(fleet).encode("utf-8", "backslashreplace"),
    }
    try:
        private_files.make_folder(folder)
        for name, data in texts.items():
            write_atomically(folder / name, data)
    except OSError as error:
        raise ReportError(f"{folder}: cannot write the report of the fleet: {error.strerror or error}") from error
    return [folder / name for name in texts]
