"""Results as files for others: a volume, the textfile collector of node_exporter, Sonobuoy."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from conformance.delivery.bundle import FILE_MODE, DeliveryError, archive
from conformance.delivery.outcome import Outcome, line
from fixtures.ownership.owned import is_run_id

METRICS = "metrics.prom"
TEXTFILE = "gpu_conformance.prom"
SONOBUOY_RESULTS, SONOBUOY_DONE = "results.tar.gz", "done"
_RUN_FOLDER = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
"""Ids as runs make them. A folder of any other name is somebody else's, and stays."""


def copy(folder: Path, into: Path, outcome: Outcome, *, keep: int) -> str:
    """Copy the report to ``into/<run id>`` in one step, and the outcome to ``into/latest.json``. Keeps the last ``keep`` runs."""
    if not into.is_dir():
        raise DeliveryError("no such folder")
    if not is_run_id(outcome.run_id):
        raise DeliveryError("the run has no report")
    target = into / outcome.run_id
    fresh = Path(tempfile.mkdtemp(prefix=".copy-", dir=into))
    try:
        shutil.copytree(folder, fresh / "report", symlinks=True)
        if target.exists():
            shutil.rmtree(target)
        (fresh / "report").replace(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    write_public(into / "latest.json", (line(outcome) + "\n").encode())
    runs = sorted(path for path in into.iterdir() if _RUN_FOLDER.fullmatch(path.name) and path.is_dir() and not path.is_symlink())
    old = [path for path in runs[:-keep] if path != target]
    for path in old:
        shutil.rmtree(path)
    return f"folder {target}" + (f", {len(old)} older removed" if old else "")


def textfile(folder: Path, into: Path) -> str:
    """Put the metrics where node_exporter collects them: in one step, readable by another user, under a name that ends in ``.prom``."""
    source = folder / METRICS
    if not source.is_file():
        raise DeliveryError("the run wrote no metrics")
    write_public(into / TEXTFILE, source.read_bytes())
    return f"metrics {into / TEXTFILE}"


def sonobuoy(folder: Path, into: Path) -> str:
    """Put the archive into Sonobuoy's folder, and then the file that names it: Sonobuoy's worker waits for that one."""
    into.mkdir(parents=True, exist_ok=True)
    results = into / SONOBUOY_RESULTS
    write_public(results, archive(folder))
    write_public(into / SONOBUOY_DONE, str(results).encode())
    return f"Sonobuoy {results}"


def write_public(path: Path, data: bytes) -> None:
    """Write a file that others read, in one step; the temporary one has no ending that a collector looks for. Raises ``OSError``."""
    handle, name = tempfile.mkstemp(prefix=".gpu-conformance-", suffix=".part", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), FILE_MODE)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
