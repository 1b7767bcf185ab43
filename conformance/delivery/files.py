"""Results as files for others: a volume, the textfile collector of node_exporter, Sonobuoy, an object store.

The store takes them by a presigned PUT URL, so that none of its credentials reach the suite. The URL is a credential itself: it comes
from a file (a mounted Secret), is sent to its own host alone, and is never shown.
"""

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import urllib3
import urllib3.exceptions

from conformance.delivery.outcome import FILE_MODE, DeliveryError, Outcome, archive, line
from fixtures.ownership.owned import is_run_id
from fixtures.text import users_files
from reports.folder import ReportError, load, write_atomically
from reports.merge import history

METRICS = "metrics.prom"
TEXTFILE = "gpu_conformance.prom"
SONOBUOY_RESULTS, SONOBUOY_DONE = "results.tar.gz", "done"
_RUN_FOLDER = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
"""Ids as runs make them. A folder of any other name is somebody else's, and stays."""

MAX_URL = 8192
CA_FILE = "SSL_CERT_FILE"
"""Names a file with the certificates of a store whose CA is private, as it does for other programs."""

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


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
    with contextlib.suppress(ReportError):  # a run that left no record has no place in a history
        history.append(load(target), into)
    write_atomically(into / "latest.json", (line(outcome) + "\n").encode(), FILE_MODE)
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
    write_atomically(into / TEXTFILE, source.read_bytes(), FILE_MODE)
    return f"metrics {into / TEXTFILE}"


def sonobuoy(folder: Path, into: Path) -> str:
    """Put the archive into Sonobuoy's folder, and then the file that names it: Sonobuoy's worker waits for that one."""
    into.mkdir(parents=True, exist_ok=True)
    results = into / SONOBUOY_RESULTS
    write_atomically(results, archive(folder), FILE_MODE)
    write_atomically(into / SONOBUOY_DONE, str(results).encode(), FILE_MODE)
    return f"Sonobuoy {results}"


def read_url(file: Path) -> str:
    """The URL in the file. Raises :class:`DeliveryError`, which never shows it, and ``OSError``."""
    raw = users_files.read(file, MAX_URL + 1)
    try:
        text = raw.decode("ascii").strip()
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise DeliveryError("the file holds no URL") from None
    if len(raw) > MAX_URL or not host or not text.isprintable() or " " in text:
        raise DeliveryError("the file holds no URL")
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOOPBACK):
        raise DeliveryError("the URL must begin with https://")
    return text


def put(folder: Path, file: Path, *, seconds: float = 120.0) -> str:
    """Send the archive of the folder to the URL in the file. Raises :class:`DeliveryError` and ``OSError``."""
    return f"object store {send('PUT', file, archive(folder), 'application/gzip', seconds=seconds)}"


def send(method: str, file: Path, body: bytes, content: str, *, seconds: float) -> str:
    """Send to the URL in the file, once; redirects are not followed. Returns the host. Raises :class:`DeliveryError` and ``OSError``."""
    url = read_url(file)
    host = urlsplit(url).hostname
    pool = urllib3.PoolManager(ca_certs=os.environ.get(CA_FILE) or _certificates(), retries=False)
    try:
        answer = pool.request(
            method,
            url,
            body=body,
            headers={"Content-Type": content, "User-Agent": "gpu-conformance"},
            timeout=urllib3.Timeout(connect=10.0, read=seconds),
            redirect=False,
            preload_content=False,
        )
        answer.release_conn()
    except urllib3.exceptions.HTTPError as error:
        raise DeliveryError(f"cannot send to {host}: {type(error).__name__}") from None  # its text has the URL
    if not 200 <= answer.status < 300:
        raise DeliveryError(f"{host} refused the results: {answer.status}")
    return str(host)


def _certificates() -> str:
    import certifi  # comes with the official Kubernetes client

    return certifi.where()
