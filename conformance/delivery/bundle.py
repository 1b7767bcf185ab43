"""A report folder as one archive. The same folder gives the same bytes."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

MAX_FILES = 20_000
FILE_MODE = 0o644


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
