"""Processes of an experiment: the child that acts, how it is ended for certain, and the suite itself.

The suite is run read-only for the areas that an experiment touches.

The handover says where the cluster is, never its credentials. A child is ended by SIGUSR1, a grace for its rollbacks, and SIGKILL to its
whole group. Never SIGTERM, which chaostoolkit takes for a failed activity and goes on after, and never SIGUSR2, which skips the rollbacks
(docs/facts/chaostoolkit.md#signals-and-rollbacks).
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import yaml

from chaos.ledger.bounds import Terms
from chaos.model.records import Ending, Sent
from chaos.verdict.artefacts import Conformance, Requirement
from conformance.plugin.options import OPTIONS, SUITE
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json
from fixtures.policy.model import Policy
from fixtures.system import private_files
from fixtures.tables.rows import ALL
from fixtures.text import typed
from fixtures.verdict.record import Report, Verdict, decode_report

NAME = "handover.json"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How to open the cluster: the file, and the context in it. Tokens and keys stay in the file."""

    kubeconfig: str = ""
    context: str | None = None
    in_cluster: bool = False
    versions: dict[str, str] = {}

    def open(self) -> Cluster:
        """A session. Raises :class:`fixtures.cluster.trouble.ClusterUnreachable`."""
        cluster = Cluster.in_cluster() if self.in_cluster else Cluster.from_kubeconfig(Path(self.kubeconfig), self.context)
        cluster.learn_versions(self.versions)
        return cluster


class Handover(msgspec.Struct, frozen=True, kw_only=True):
    """The child's orders beside plan and experiment. ``parent`` is the process without which it ends.

    ``terms`` are those on which its entries will be carried out, by whoever does.
    """

    access: Access
    parent: int
    terms: Terms


def write_handover(folder: Path, handover: Handover) -> None:
    """Write the orders, readable by this user only."""
    private_files.write(folder / NAME, msgspec.json.encode(handover))


def take_handover(folder: Path) -> Handover:
    """Read the orders, which are given once: they go with being read."""
    orders = typed.decode((folder / NAME).read_bytes(), Handover)
    withdraw_handover(folder)
    return orders


def withdraw_handover(folder: Path) -> None:
    """Take back orders that nobody has read. Safe to repeat."""
    (folder / NAME).unlink(missing_ok=True)


KILL_SECONDS = 10.0
"""How long a killed process may take to be gone; then it hangs in the kernel, and that is said."""


class Stop:
    """A request to end the experiment, from a signal handler or any thread. The first reason is kept. Closed by its owner."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = threading.RLock()  # a signal handler may interrupt the main thread inside the lock
        self.reason = ""
        self.interrupted = False

    def request(self, reason: str, *, interrupted: bool = False) -> None:
        """Ask for the end. ``interrupted``: by a person or the system, so that nothing else is to start either."""
        with self._lock:
            self.interrupted |= interrupted
            if not self.reason:
                self.reason = reason
                with contextlib.suppress(OSError):
                    os.write(self._write, b"!")

    def fileno(self) -> int:
        """Readable once the end was asked for."""
        return self._read

    def wait(self, seconds: float) -> bool:
        """Whether the end is asked for within that time."""
        return bool(select.select([self._read], [], [], max(seconds, 0.0))[0])

    def close(self) -> None:
        """Give the pipe back."""
        for descriptor in (self._read, self._write):
            with contextlib.suppress(OSError):
                os.close(descriptor)


def supervise(process: subprocess.Popen[bytes], *stops: Stop, seconds: float, grace: float) -> Ending:
    """Wait for the end of a child that leads its own session, and bring it about after ``seconds`` or when one of ``stops`` asks for it."""
    ending = Ending()
    descriptor = os.pidfd_open(process.pid)
    try:
        ready, _, _ = select.select([descriptor, *(stop.fileno() for stop in stops)], [], [], max(seconds, 0.0))
        if descriptor not in ready:
            ending.deadline_passed = not ready
            ending.stopped = next(filter(None, (stop.reason for stop in stops)), f"deadline of {seconds:g} s")
            _send(process, signal.SIGUSR1, ending)
            select.select([descriptor], [], [], grace)
    finally:
        os.close(descriptor)
        end_process(process, ending)
    return ending


def end_process(process: subprocess.Popen[bytes], ending: Ending) -> None:
    """Kill whatever is left of the child and its group. Does not raise: what comes next is undoing."""
    if process.poll() is None:
        ending.stopped = ending.stopped or "the runner was interrupted"
        _send(process, signal.SIGKILL, ending)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # grandchildren, which outlive an orderly end too
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(KILL_SECONDS)
    ending.code = process.returncode


def _send(process: subprocess.Popen[bytes], number: signal.Signals, ending: Ending) -> None:
    ending.sent = [*ending.sent, Sent(signal=number.name, at=time.time(), why=ending.stopped)]
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300.0


def policy_document(policy: Policy, names: Iterable[str]) -> Json:
    """The policy as a document, in which the namespaces that the run makes for itself are no tenants'."""
    more = (*policy.tenants.more_infrastructure, *names)
    tenants = msgspec.structs.replace(policy.tenants, more_infrastructure=more)
    document: Json = msgspec.to_builtins(msgspec.structs.replace(policy, tenants=tenants))
    return document


class ConformanceCheck:
    """Judges areas on one cluster. What was read after one experiment is what was before the next, if nothing happened between."""

    def __init__(self, access: Access, policy: Policy, stop: Stop, *, seconds: float = SECONDS) -> None:
        self._access = access
        self._policy = policy
        self._stop = stop
        self._seconds = seconds
        self._last: tuple[frozenset[str], Conformance] | None = None

    def forget(self) -> None:
        """Something happened: the next reading is a fresh one."""
        self._last = None

    def judge(self, areas: Iterable[str], own: Iterable[str] = ()) -> Conformance:
        """The verdicts of the areas' requirements now. ``own`` are the experiment's namespaces.

        Does not raise: why there are none is part of the answer.
        """
        wanted = frozenset(areas)
        if self._last is not None and wanted <= self._last[0]:
            known = self._last[1]
            kept = {id_: one for id_, one in known.requirements.items() if id_.partition("-")[0].lower() in wanted}
            return msgspec.structs.replace(known, requirements=kept)
        found = self._read(sorted(wanted), own)
        self._last = (wanted, found) if not found.trouble else None
        return found

    def _read(self, areas: Sequence[str], own: Iterable[str]) -> Conformance:
        with TemporaryDirectory(prefix="gpu-conformance-chaos-") as name:
            folder = Path(name)
            (folder / "policy.yaml").write_text(yaml.safe_dump(policy_document(self._policy, own)), encoding="utf-8")
            with (folder / "log").open("wb") as log:
                process = subprocess.Popen(
                    self._command(areas, folder), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
                ending = supervise(process, self._stop, seconds=self._seconds, grace=2.0)
            return _result(folder, ending.stopped or f"exit code {ending.code}")

    def _command(self, areas: Sequence[str], folder: Path) -> list[str]:
        target = ["--in-cluster"] if self._access.in_cluster else ["--kubeconfig", self._access.kubeconfig]
        if self._access.context is not None and not self._access.in_cluster:
            target += ["--context", self._access.context]
        paths = [str(SUITE / area) for area in areas]
        options = ["--read-only", "-q", "--report-dir", str(folder / "report"), "--record-only", "--policy", str(folder / "policy.yaml")]
        options += [f"--tables={folder}" for folder in {one.path.parent for one in ALL if one.path}]
        return [sys.executable, "-m", "pytest", *OPTIONS, *paths, *target, *options]


def _result(folder: Path, ended: str) -> Conformance:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    try:
        report: Report = decode_report((folder / "report" / "report.json").read_bytes())
    except (OSError, msgspec.MsgspecError) as error:
        lines = (folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return Conformance(at=at, trouble=f"no report ({ended}): {lines[-1][:300] if lines else error}")
    found = {result.id: Requirement(verdict=result.verdict, message=result.message[:300]) for result in report.results}
    judged = {id_: one for id_, one in found.items() if one.verdict is not Verdict.NOT_APPLICABLE}
    return Conformance(at=at, requirements=judged)
