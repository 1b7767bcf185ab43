"""What lets one run act on a cluster at a time, and what stops it: a lock of this machine, the Lease and its halt, the abort flag."""

import errno
import fcntl
import hashlib
import os
import socket
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from chaos.cluster import namespaces
from chaos.cluster.requests import accepted, read
from chaos.model.records import Aborted, LeaseRefused, now
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.model.objects import annotations_of, lease_fields, uid_of, version_of
from fixtures.ownership import owned
from fixtures.ownership.proof_record import shows_life
from fixtures.system.process import Process
from fixtures.text.sentences import plain

FILE = "abort"
"""Its name in the folder of an experiment."""


class AbortFlag:
    """Set by parent or child to stop the experiment; checked before every act and between sub-steps."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def set(self, reason: str) -> None:
        """Stop the experiment. The first reason is kept."""
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        draft.write_text(reason, encoding="utf-8")
        try:
            os.link(draft, self.path)  # fails where one is: no reason is overwritten, none is read half-written
        except FileExistsError:
            pass
        finally:
            draft.unlink()

    @property
    def reason(self) -> str:
        """Why it is set; empty while it is not."""
        try:
            return self.path.read_text(encoding="utf-8") or "aborted"
        except FileNotFoundError:
            return ""

    def check(self) -> None:
        """Raises :class:`Aborted` when it is set."""
        if reason := self.reason:
            raise Aborted(reason)


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


KEY = "coordination.k8s.io/leases"
NAME = "gpu-conformance-chaos"
HALT = "gpu-conformance.io/halt"
HALTED_BY = "gpu-conformance.io/halted-by"
SECONDS = 15
"""How long a Lease lasts that is not renewed."""

_MOST_SECONDS = 3600
"""A Lease that says more was written by nobody of ours: a run renews it every few seconds."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds the Lease: a process, for a run. Its host's name says little: clones and pods of many machines share one."""

    process: Process
    run_id: str

    @classmethod
    def me(cls, run_id: str) -> "Holder":
        """This process."""
        return cls(process=Process.me(), run_id=run_id)

    @classmethod
    def parse(cls, text: str) -> "Holder | None":
        """A holder identity that a run wrote; None for anybody else's."""
        name, _, run_id = text.rpartition("/")
        process = Process.parse(name)
        return None if process is None or not run_id else cls(process=process, run_id=run_id)

    def __str__(self) -> str:
        return f"{self.process}/{self.run_id}"


class LeaseView(msgspec.Struct, frozen=True, kw_only=True):
    """The Lease as it is. ``halted`` is who halted, when; empty when nobody has."""

    uid: str
    version: str
    identity: str
    renewed: datetime | None
    seconds: int
    halted: str

    @property
    def holder(self) -> Holder | None:
        """Its holder, when it is a run of the suite."""
        return Holder.parse(self.identity)

    def age(self) -> timedelta | None:
        """Since when it was not renewed, by this machine's clock; None when it never was."""
        return None if self.renewed is None else datetime.now(UTC) - self.renewed

    def held(self) -> bool | None:
        """Whether its holder is alive; None when only watching it tells."""
        age = self.age()
        if not self.identity or (self.holder is not None and self.holder.process.ended):
            return False
        return shows_life(None if age is None else age.total_seconds(), self.seconds)


def parse_lease(lease: Json) -> LeaseView:
    """Read a Lease."""
    annotations, (holder, moment, seconds) = annotations_of(lease), lease_fields(lease)
    try:
        renewed = datetime.fromisoformat(moment)
    except ValueError:
        renewed = None
    return LeaseView(
        uid=uid_of(lease),
        version=version_of(lease),
        identity=plain(holder),
        renewed=renewed if renewed is not None and renewed.tzinfo is not None else None,
        seconds=seconds if 0 < seconds <= _MOST_SECONDS else SECONDS,
        halted=plain(annotations.get(HALTED_BY) or "somebody") if annotations.get(HALT, "").lower() == "true" else "",
    )


def read_lease(cluster: Cluster) -> LeaseView | None:
    """The Lease, or None when there is none in the namespace that is proven to be the suite's. Raises ApiTrouble."""
    space = namespaces.find_shared(cluster)
    found = read(cluster, KEY, NAME, space) if space else None
    return None if found is None else parse_lease(found)


def must_hold(cluster: Cluster, run_id: str) -> None:
    """For whoever acts in the run's name. Raises :class:`Aborted` unless the run holds the Lease, unexpired and not halted."""
    try:
        lease = read_lease(cluster)
    except ApiTrouble as trouble:
        raise Aborted(f"the Lease cannot be read: {trouble.message}") from trouble
    if lease is None or lease.holder is None or lease.holder.run_id != run_id:
        raise Aborted(f"the Lease {namespaces.SHARED}/{NAME} is not held by this run but by {lease.identity if lease else 'nobody'}")
    if lease.halted:
        raise Aborted(f"halted by {lease.halted}")
    age = lease.age()
    if age is None or age.total_seconds() > lease.seconds:
        raise Aborted(f"the Lease {namespaces.SHARED}/{NAME} is no longer renewed")


def halt(cluster: Cluster, *, on: bool = True, administrators: str = "") -> None:
    """Halt whatever runs on the cluster and let nothing start, or lift that. Needs no hold on the Lease.

    ``administrators`` is the UID of an administrator's namespace, as :func:`chaos.cluster.namespaces.ensure_shared` takes it.

    Raises ApiTrouble.
    """
    who = f"{socket.gethostname()} at {now()}"
    annotations = {HALT: "true", HALTED_BY: who} if on else {HALT: None, HALTED_BY: None}
    for _ in range(2):
        space = namespaces.ensure_shared(cluster, administrators) if on else namespaces.find_shared(cluster)
        if not space:
            return
        answer = cluster.patch(KEY, NAME, {"metadata": {"annotations": annotations}}, space)
        if answer.status == 404 and not on:
            break
        if answer.status == 404:
            metadata = {"name": NAME, "labels": {owned.MANAGED_BY: owned.SUITE}, "annotations": annotations}
            answer = cluster.create(KEY, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}, namespace=space)
        if answer.status != 409:
            accepted(answer, "halt")
            break
    lease = read_lease(cluster)  # whatever was answered: a webhook or a proxy may drop what was written
    if bool(lease and lease.halted) is not on:
        shown = "no Lease" if lease is None else f"a Lease {'without' if on else 'with'} the annotation {HALT}"
        raise ApiTrouble("NotKept", f"halt: the cluster shows {shown}")
