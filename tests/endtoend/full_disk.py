"""A plugin for ``-p``: the disk of the report has room for ``GPU_CONFORMANCE_TEST_ROOM`` bytes below ``GPU_CONFORMANCE_TEST_DISK``."""

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fixtures.system import private_files
from reports import folder

ROOM = int(os.environ["GPU_CONFORMANCE_TEST_ROOM"])
DISK = Path(os.environ["GPU_CONFORMANCE_TEST_DISK"])


def _write(really: Callable[[Path, bytes], None], path: Path, data: bytes) -> None:
    """A file that is replaced takes its room until the new one is there."""
    used = sum(file.stat().st_size for file in DISK.rglob("*") if file.is_file())
    if used + len(data) > ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    really(path, data)


def pytest_configure() -> None:
    private_files.write = partial(_write, private_files.write)
    private_files.replace = partial(_write, private_files.replace)
    folder.write_atomically = partial(_write, folder.write_atomically)
