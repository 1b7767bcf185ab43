"""Results in an object store, by a presigned PUT URL: no credentials of the store reach the suite.

The URL is a credential itself. It comes from a file (a mounted Secret), is sent to its own host alone, and is never shown.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import urllib3
import urllib3.exceptions

from conformance.delivery.bundle import DeliveryError, archive
from fixtures.text import users_files

MAX_URL = 8192
CA_FILE = "SSL_CERT_FILE"
"""Names a file with the certificates of a store whose CA is private, as it does for other programs."""

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


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
    """Send the archive of the folder. Redirects are not followed. Raises :class:`DeliveryError` and ``OSError``."""
    url = read_url(file)
    host = urlsplit(url).hostname
    pool = urllib3.PoolManager(ca_certs=os.environ.get(CA_FILE) or _certificates(), retries=False)
    try:
        answer = pool.request(
            "PUT",
            url,
            body=archive(folder),
            headers={"Content-Type": "application/gzip", "User-Agent": "gpu-conformance"},
            timeout=urllib3.Timeout(connect=10.0, read=seconds),
            redirect=False,
            preload_content=False,
        )
        answer.release_conn()
    except urllib3.exceptions.HTTPError as error:
        raise DeliveryError(f"cannot send to {host}: {type(error).__name__}") from None  # its text has the URL
    if not 200 <= answer.status < 300:
        raise DeliveryError(f"{host} refused the results: {answer.status}")
    return f"object store {host}"


def _certificates() -> str:
    import certifi  # comes with the official Kubernetes client

    return certifi.where()
