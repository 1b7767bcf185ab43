"""Runs of the suite in processes forked from one that has its libraries loaded: importing them is a third of a short run.

The parent process has opened no cluster and has run no test. This is for programs that make many runs, such as the detection matrix; a
user's run starts with ``pytest``. Why: docs/decisions/runs-made-by-the-hundred-are-forked.md.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from fixtures.simulator import interface as simulator

_SUITE = Path(__file__).resolve().parents[1]
_REWRITTEN = "hooks.py"
LIBRARIES = (
    "pytest",
    "unittest",
    "execnet",
    "packaging.version",
    "pdb",
    "rich.table",
    "tomllib",
    "fixtures.snapshot.collect",
    simulator.PROGRAM,
    "chaos.surface.chaos_run",
    "reports.folder",
    "reports.formats.allure",
    "reports.terminal.summary",
    *(
        f"conformance.{file.parent.name}.{file.stem}"
        for file in sorted(_SUITE.glob("*/[!_]*.py"))
        if not file.name.startswith("test_") and file.name != _REWRITTEN and file.parent.name not in ("cli", "matrix")
    ),
)
"""What a run imports, but for the hooks and tests: pytest rewrites their assertions while it imports them."""

END_SECONDS = 30.0
"""How long a run that took too long may take to clean up."""

_PROCESSES = multiprocessing.get_context("forkserver")


class Finished(msgspec.Struct, kw_only=True):
    """Exit code and output of a run."""

    code: int
    output: str


def run_pytest(arguments: Sequence[str], *, cwd: Path, environment: Mapping[str, str], log: Path, seconds: float) -> Finished:
    """Run ``pytest ARGUMENTS`` with its output in ``log``. Raises :class:`TimeoutError` after ``seconds``; the run was ended then."""
    log.write_bytes(b"")  # there is one, also of a run that dies at once
    _PROCESSES.set_forkserver_preload(list(LIBRARIES))
    process = _PROCESSES.Process(target=_run, args=(list(arguments), str(cwd), dict(environment), str(log)))
    process.start()
    try:
        process.join(seconds)
        if process.exitcode is None:
            raise TimeoutError(f"pytest {' '.join(arguments)}: no end within {seconds:.0f} s")
    finally:
        for end in (process.terminate, process.kill):
            if process.exitcode is None:
                end()
                process.join(END_SECONDS)
    # Not closed: runs are started from several threads, and multiprocessing polls all its children at each start.
    code = process.exitcode
    return Finished(code=-1 if code is None else code, output=log.read_text(encoding="utf-8", errors="replace"))


def _run(arguments: list[str], cwd: str, environment: dict[str, str], log: str) -> None:
    """In the new process: what an interpreter does between its start and its end."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    sys.pycache_prefix = environment.get("PYTHONPYCACHEPREFIX") or None
    with Path(log).open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    simulator.fork_simulators("fork")
    import pytest

    code = 1
    with contextlib.suppress(KeyboardInterrupt):
        code = int(pytest.main(arguments))
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()  # a process of multiprocessing ends without them
    sys.exit(code)
