"""A file lock that lets one run of a user on this machine act on a cluster; the system releases it when the process ends."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import tempfile
from pathlib import Path

from chaos.model.errors import LeaseRefused


class MachineLock:
    """An flock on a file of the temporary folder that is named after the cluster. The file goes when the lock is let go."""

    def __init__(self, cluster: str) -> None:
        digest = hashlib.sha256(cluster.encode()).hexdigest()[:16]
        self.path = Path(tempfile.gettempdir()) / f"gpu-conformance-chaos-{os.getuid()}-{digest}.lock"
        self._descriptor = -1

    def take(self) -> None:
        """Take it. Raises :class:`LeaseRefused` when another run has it, ``OSError`` when it has no file of this user's."""
        while self._descriptor < 0:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            if os.fstat(descriptor).st_uid != os.geteuid():
                os.close(descriptor)
                raise OSError(errno.EPERM, "another user's file")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                raise LeaseRefused("another run on this machine acts on this cluster; one run acts on a cluster at a time") from None
            if self._names(descriptor):
                self._descriptor = descriptor
            else:
                os.close(descriptor)  # removed by the run that had it, after it was opened here

    def let_go(self) -> None:
        """Remove the file and let go. Safe to repeat."""
        if self._descriptor >= 0:
            if self._names(self._descriptor):  # while it is held nobody else can hold what has this name, unless a cleaner took it away
                self.path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1

    def _names(self, descriptor: int) -> bool:
        """Whether the file that was locked is the one that others will find."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path, follow_symlinks=False))
        except FileNotFoundError:
            return False
