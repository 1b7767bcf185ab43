"""Judges the ``read`` requirements of a run again, from what ``--evidence`` kept: a process of its own, without a cluster.

The process is a worker of pytest's without a main process. It gets target, policy, waivers and snapshot as a worker of ``-n`` does.
"""

import contextlib
import hashlib
import io
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from conformance.plugin.opening import WORKER_KEY, WorkerHandover
from conformance.plugin.options import OPTIONS, SUITE
from conformance.plugin.session import RESULT_ATTRIBUTE, State
from fixtures.policy.policy_file import without_values
from fixtures.text import json_text, typed, users_files
from fixtures.text.json_text import NotJson
from fixtures.verdict.record import Access, Result, encode
from reports.evidence.bundle import JUDGING, SNAPSHOT
from reports.evidence.redaction import safe_object

SECONDS = 300.0
MAX_BYTES = 64 << 20
"""Of the snapshot. A larger one is not kept."""


_JUDGES_NOTHING = tuple(
    f"{name}/" for name in ("conformance/cli", "conformance/delivery", "conformance/matrix", "fixtures/simulator", "fixtures/localcluster")
)
"""Commands, and what an installed suite may lack."""


class CannotJudge(Exception):
    """Nothing can be judged again. One line that says why."""


class Judging(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a run judged: target, policy and waivers, and the options beside them. ``tables`` is :func:`tables_digest` of its suite."""

    handover: WorkerHandover
    access: Access
    strict: bool = False
    require: tuple[str, ...] = ()
    tables: str


def tables_digest() -> str:
    """SHA-256 of everything by which this suite judges: its requirements, checks, causes, models and presets."""
    digest = hashlib.sha256()
    for folder in (SUITE, SUITE.parent / "fixtures"):
        for path in sorted(path for pattern in ("*.py", "*.yaml") for path in folder.rglob(pattern)):
            name = path.relative_to(SUITE.parent).as_posix()
            if not name.startswith(_JUDGES_NOTHING):
                digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def kept(state: State) -> dict[str, bytes]:
    """The files to keep of a run, by name; nothing where the snapshot is too large."""
    given, options, known = state.opened.handover, state.options, state.catalogue
    required = [name for name in options.require if known.get(name).access is Access.READ]
    handover = _offline(given)
    handover.policy = without_values(given.policy)
    judging = Judging(handover=handover, access=options.access, strict=options.strict, require=tuple(required), tables=tables_digest())
    snapshot = msgspec.json.encode(safe_object(msgspec.json.decode(state.snapshot.to_json())))
    if len(snapshot) > MAX_BYTES:
        return {}
    return {JUDGING: msgspec.json.format(msgspec.json.encode(judging), indent=1) + b"\n", SNAPSHOT: snapshot}


def _offline(given: WorkerHandover) -> WorkerHandover:
    """What of a handover is kept: nothing that reaches a cluster or names a file."""
    return WorkerHandover(target=given.target, run_id=given.run_id, policy=given.policy, waivers=given.waivers)


def read_judging(folder: Path) -> Judging:
    """How the run of an evidence folder judged. Raises :class:`CannotJudge`, also for one that would have a cluster reached.

    Whoever made the folder may name a kubeconfig, and a kubeconfig may name a program to run.
    """
    try:
        judging: Judging = json_text.decode(users_files.read(folder / JUDGING, MAX_BYTES), Judging)
    except (OSError, NotJson) as error:
        raise CannotJudge(f"{JUDGING}: {error}") from None
    if judging.handover != _offline(judging.handover):
        raise CannotJudge(f"{JUDGING}: names a cluster to reach or a file to read, which no run keeps")
    return judging


def judge_again(folder: Path, results: Iterable[Result]) -> dict[str, Result]:
    """Those of the results that only read, judged again, by their ids. Raises :class:`CannotJudge`."""
    reading = [result.id for result in results if result.access is Access.READ]
    if not reading:
        return {}
    command = [sys.executable, "-m", "conformance.plugin.again", str(folder.resolve()), ",".join(reading)]
    try:
        done = subprocess.run(command, cwd=SUITE.parent, capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise CannotJudge(f"judging again takes longer than {SECONDS:.0f} s") from None
    if done.returncode:
        raise CannotJudge(done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:300] or f"ended with {done.returncode}")
    return {result.id: result for result in typed.decode(done.stdout, list[Result])}


def comparable(result: Result) -> bytes:
    """A result as bytes, without how long it took and where its test stands."""
    return encode(msgspec.structs.replace(result, duration_seconds=0.0, line=0))


class _Worker:
    """Makes this process a worker, and takes its results."""

    def __init__(self, handover: WorkerHandover) -> None:
        self._handover = msgspec.json.encode(handover).decode()
        self.results: list[Result] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Hand over what a main process would, before the suite's plugin is configured."""
        config.workerinput = {"workerid": "again", WORKER_KEY: self._handover}  # type: ignore[attr-defined]
        config.workeroutput = {}  # type: ignore[attr-defined]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the result of a requirement."""
        if text := getattr(report, RESULT_ATTRIBUTE, None):
            self.results.append(typed.decode(text.encode(), Result))


def main(folder: Path, reading: str) -> int:
    """Print the results as JSON. Exit 1 with one line on stderr where nothing was judged."""
    try:
        judging = read_judging(folder)
        worker = _Worker(msgspec.structs.replace(judging.handover, snapshot_file=str(folder / SNAPSHOT)))
        printed = io.StringIO()
        options = [f"--snapshot={folder}", f"--only={reading}", f"--access={judging.access}", *(["--strict"] if judging.strict else [])]
        options += [f"--require={name}" for name in judging.require]
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            pytest.main([*OPTIONS, str(SUITE), *options], plugins=[worker])
        if not worker.results:
            raise CannotJudge(printed.getvalue().strip().rpartition("\n")[2] or "no requirement was judged")
    except CannotJudge as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(worker.results))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
