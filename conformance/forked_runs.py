"""Runs of the suite in processes forked from one that has its libraries loaded: importing them is a third of a short run.

Nothing else is shared: the process that is forked from has opened no cluster and has run no test. A user's own runs start with
``pytest``; this is for those that make many, such as the detection matrix.
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

from fixtures.simulator import forked

_HERE = Path(__file__).resolve().parent
_REWRITTEN = ("hooks.py", "judging.py")
LIBRARIES = (
    "pytest",
    "unittest",
    "execnet",
    "allure_commons.model2",
    "packaging.version",
    "pdb",
    "rich.table",
    "tomllib",
    "fixtures.collect",
    "fixtures.simulator.__main__",
    "chaos.options",
    "reports.write",
    "reports.allure",
    "reports.terminal",
    *(
        f"conformance.{file.parent.name}.{file.stem}"
        for file in sorted(_HERE.glob("*/[!_]*.py"))
        if not file.name.startswith("test_") and file.name not in _REWRITTEN and file.parent.name != "cli"
    ),
)
"""What a run imports, but for the plugins and tests: pytest rewrites their assertions while it imports them."""

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
    code = process.exitcode
    process.close()
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
    forked.prepare("fork")
    import pytest

    code = 1
    with contextlib.suppress(KeyboardInterrupt):
        code = int(pytest.main(arguments))
    sys.stdout.flush()
    sys.stderr.flush()
    atexit._run_exitfuncs()  # a process of multiprocessing ends without them
    sys.exit(code)
