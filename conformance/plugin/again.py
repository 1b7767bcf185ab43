"""Judges the ``read`` requirements of a run again, from what ``--evidence`` kept: a process of its own, without a cluster.

The process is a worker of pytest's without a main process. It gets target, policy, waivers and snapshot as a worker of ``-n`` does.
"""

import contextlib
import hashlib
import io
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.plugin.answers import Answers, Kept
from conformance.plugin.opening import WORKER_KEY, WorkerHandover
from conformance.plugin.options import OPTIONS, SUITE
from conformance.plugin.session import REQUIREMENT, RESULT_ATTRIBUTE, STATE, State
from fixtures.policy.policy_file import without_values
from fixtures.snapshot.state import Snapshot
from fixtures.snapshot.values_read import ValueRead
from fixtures.text import json_text, typed, users_files
from fixtures.text.json_text import NotJson
from fixtures.text.sentences import listed
from fixtures.verdict.record import Access, Result, encode
from reports.evidence.bundle import ANSWERS, JUDGING, SNAPSHOT
from reports.evidence.redaction import is_whole, safe_object, safe_text, safe_value

SECONDS = 300.0
MAX_BYTES = 64 << 20
"""Of the snapshot. A larger one is not kept, and neither is a larger answer."""

MAX_VALUES = 16 << 20
"""Characters of all values of ConfigMaps that are kept: a thousand nodes may have a MIG configuration of 10 KB each."""

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
    nodes: tuple[str, ...] = ()
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
    judging = Judging(
        handover=handover,
        access=options.access,
        strict=options.strict,
        require=tuple(required),
        nodes=options.nodes,
        tables=tables_digest(),
    )
    snapshot = safe_snapshot(state.snapshot)
    if len(snapshot) > MAX_BYTES:
        return {}
    return {JUDGING: msgspec.json.format(msgspec.json.encode(judging), indent=1) + b"\n", SNAPSHOT: snapshot}


def safe_snapshot(snapshot: Snapshot) -> bytes:
    """A snapshot as JSON, without secrets: of ConfigMaps with those values that were read."""
    whole = msgspec.json.decode(snapshot.to_json())
    safe = safe_object(whole)
    _keep_values(whole, safe, snapshot.values_read)
    return msgspec.json.encode(safe)


def _keep_values(whole: Any, safe: Any, read: Collection[ValueRead]) -> None:
    """Put values of ConfigMaps that were read back into a snapshot from which all were taken, as far as there is room."""
    room = MAX_VALUES
    for listing, to in zip(whole[1], safe[1], strict=True):
        for item, kept in zip(listing["items"], to["items"], strict=True) if listing["key"] == "configmaps" else ():
            place = item["metadata"].get("namespace", ""), item["metadata"].get("name", "")
            for key, text in item.get("data", {}).items():
                if (*place, key) in read and len(text) <= room:
                    room -= len(text)
                    kept["data"][safe_text(key, 300)] = safe_value(text)


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


class Again(msgspec.Struct, kw_only=True):
    """Results of judging again, by id.

    ``hidden`` names values of ConfigMaps that this read and that are not kept whole, ``gaps`` say the same of answers, by id.
    """

    results: dict[str, Result] = {}
    hidden: tuple[str, ...] = ()
    gaps: dict[str, str] = {}

    def gives(self, result: Result) -> bool:
        """Whether the kept files give this result."""
        found = self.results.get(result.id)
        return found is not None and comparable(found) == comparable(result)

    def why_unlike(self, result: Result, lists: Collection[str]) -> str:
        """Why an honest run's result of a requirement that reads these lists may differ, as a clause."""
        if result.id in self.gaps:
            return self.gaps[result.id]
        if self.hidden and "configmaps" in lists:
            return f"a value that it reads is not kept whole: {listed(self.hidden, 3)}"
        return "what was taken from the kept lists decides it"


def judge_again(folder: Path, results: Iterable[Result]) -> Again:
    """Those of the results of a run that only read, judged again. Raises :class:`CannotJudge`."""
    selected = {result.id: result.access for result in results}
    if Access.READ not in selected.values():
        return Again()
    command = [sys.executable, "-m", "conformance.plugin.again", str(folder.resolve()), ",".join(selected)]
    try:
        done = subprocess.run(command, cwd=SUITE.parent, capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise CannotJudge(f"judging again takes longer than {SECONDS:.0f} s") from None
    if done.returncode:
        raise CannotJudge(done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:300] or f"ended with {done.returncode}")
    return typed.decode(done.stdout, Again)


def comparable(result: Result) -> bytes:
    """A result as bytes, without how long it took and where its test stands."""
    return encode(msgspec.structs.replace(result, duration_seconds=0.0, line=0))


class _Worker:
    """Makes this process a worker, and takes its results."""

    def __init__(self, handover: WorkerHandover, answers: Answers) -> None:
        self._handover = msgspec.json.encode(handover).decode()
        self._answers = answers
        self.again = Again(gaps=answers.gaps)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        """Hand over what a main process would, before the suite's plugin is configured."""
        config.workerinput = {"workerid": "again", WORKER_KEY: self._handover}  # type: ignore[attr-defined]
        config.workeroutput = {}  # type: ignore[attr-defined]

    def pytest_collection(self, session: pytest.Session) -> None:
        """Have kept answers given to whoever asks a cluster."""
        session.config.stash[STATE].answers = self._answers

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Pass over what does more than read. It is selected, because INV-03 judges what all that was selected needs."""
        session.items[:] = [item for item in session.items if item.stash[REQUIREMENT].access is Access.READ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the result of a requirement."""
        if text := getattr(report, RESULT_ATTRIBUTE, None):
            result = typed.decode(text.encode(), Result)
            self.again.results[result.id] = result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Name the values that were read and are not whole."""
        snapshot = session.config.stash[STATE].snapshot
        data = {(item.namespace, item.name): item.data or {} for item in snapshot.listing("configmaps").items}
        read = sorted(snapshot.values_read)
        self.again.hidden = tuple(f"{key} of ConfigMap {space}/{name}" for space, name, key in read if not is_whole(data[space, name][key]))


def read_answers(folder: Path) -> Answers:
    """The answers that an evidence folder keeps. Raises :class:`CannotJudge`."""
    path = folder / ANSWERS
    try:
        files = sorted(path.iterdir()) if path.is_dir() else []
        return Answers([json_text.decode(users_files.read(path, MAX_BYTES), Kept) for path in files])
    except (OSError, NotJson) as error:
        raise CannotJudge(f"{ANSWERS}: {error}") from None


def main(folder: Path, selected: str) -> int:
    """Print the results as JSON. Exit 1 with one line on stderr where nothing was judged."""
    try:
        judging = read_judging(folder)
        worker = _Worker(msgspec.structs.replace(judging.handover, snapshot_file=str(folder / SNAPSHOT)), read_answers(folder))
        printed = io.StringIO()
        options = [f"--snapshot={folder}", f"--only={selected}", f"--access={judging.access}", *(["--strict"] if judging.strict else [])]
        options += [f"--require={name}" for name in judging.require]
        options += [f"--nodes={','.join(judging.nodes)}"] if judging.nodes else []
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            pytest.main([*OPTIONS, str(SUITE), *options], plugins=[worker])
        if not worker.again.results:
            raise CannotJudge(printed.getvalue().strip().rpartition("\n")[2] or "no requirement was judged")
    except CannotJudge as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.buffer.write(msgspec.json.encode(worker.again))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
