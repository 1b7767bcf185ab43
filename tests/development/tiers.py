"""``make quick``, ``make test`` and ``make test-all``: the project's own tests, and what they cost beside one run of the suite.

Steps run one after the other; one that fails stops none. Tests with the mark ``test_all`` belong to ``make test-all`` alone, and those with
the mark ``real_node``, too, to a step of their own: an emulated machine beside busy workers is too slow to be judged. The cost is in CPU
seconds, because wall time depends on what else the machine does.
"""

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.development.check import ROOT, changed_files
from tests.development.reach import reached

BARS = {"test": 50, "test-all": 150}
"""What a tier may cost, in runs of ``make conformance``."""

_NOT_HANDED_ON = ("ARGS", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "PYTHONDONTWRITEBYTECODE")
"""Without kept bytecode, each of the hundreds of processes compiles all modules anew."""
_PR_SET_CHILD_SUBREAPER = 36
_LAST_PROCESSES_SECONDS = 20


class Step(msgspec.Struct, frozen=True):
    """A command of a tier."""

    name: str
    command: Sequence[str]


class Done(msgspec.Struct, frozen=True):
    """A step's end: its exit status, and the CPU seconds of all of its processes."""

    name: str
    status: int
    cpu: float


LINT = Step("lint", ["make", "--no-print-directory", "lint"])
CONFORMANCE = Step("conformance", ["make", "--no-print-directory", "conformance"])
REAL_NODE, LONG = "real node", "long tests"
PROCESSORS = os.cpu_count() or 1


def short_tests(more: Sequence[str], files: Sequence[str] = ("tests",)) -> Step:
    """Tests of ``make test``: they compute, so that each processor has one worker."""
    return _tests("tests", "not test_all", PROCESSORS, [*more, *files])


def real_node_tests(more: Sequence[str]) -> Step:
    """Tests with a virtual machine, which has the processors to itself."""
    return _tests(REAL_NODE, "real_node", 1, [*more, *_files("real_node")])


def long_tests(more: Sequence[str]) -> Step:
    """Tests that only ``make test-all`` has: many of them wait, so that there are more workers than processors."""
    return _tests(LONG, "test_all and not real_node", 3 * PROCESSORS, [*more, *_files("test_all")])


def _files(mark: str) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py") if f"mark.{mark}" in path.read_text())


def _tests(name: str, marked: str, workers: int, more: Sequence[str]) -> Step:
    return Step(name, [sys.executable, "-m", "pytest", "-m", marked, "-n", str(workers), "--dist", "loadgroup", *more])


def steps(tier: str, more: Sequence[str] = (), root: Path = ROOT) -> list[Step]:
    """The steps of ``quick``, ``test`` or ``test-all``; ``more`` are options for pytest."""
    if tier == "test-all":
        return [*steps("test", more), real_node_tests(more), long_tests(more)]
    changed = changed_files(root) if tier == "quick" else []
    files = reached(root, changed) if tier == "quick" else None
    if files is None:
        return [LINT, CONFORMANCE, short_tests(more)]
    print(f"{len(changed)} changed files reach {len(files)} test files", flush=True)
    judged = [] if all(path.startswith("tests/") for path in changed) else [CONFORMANCE]
    return [LINT, *judged, *([short_tests(more, files)] if files else [])]


def run(step: Step) -> Done:
    """Run a step with its output as it is. The processes that it leaves behind count too, once they have ended."""
    print(f"\n== {step.name}", flush=True)
    before = _children()
    environment = {key: value for key, value in os.environ.items() if key not in _NOT_HANDED_ON}
    status = subprocess.run(step.command, cwd=ROOT, env=environment, check=False).returncode
    _reap()
    return Done(step.name, status, _children() - before)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _reap() -> None:
    """Wait for processes whose parents have ended: runs and simulators are forked by one that outlives its worker for a moment."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(_LAST_PROCESSES_SECONDS)
    try:
        with contextlib.suppress(ChildProcessError, TimeoutError):
            while True:
                os.wait()
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def cost(tier: str, done: Sequence[Done]) -> str:
    """What a tier has cost: CPU seconds, and how many runs of ``make conformance`` that is."""
    total = sum(one.cpu for one in done)
    parts = ", ".join(f"{one.name} {one.cpu:.0f}" for one in done)
    conformance = next((one.cpu for one in done if one.name == CONFORMANCE.name and not one.status), 0.0)
    ratio = f", {total / conformance:.0f} times make conformance" if conformance else ""
    bar = f" (bar: {BARS[tier]})" if ratio and tier in BARS else ""
    return f"make {tier}: {total:.0f} CPU seconds{ratio}{bar}: {parts}"


def main(arguments: Sequence[str]) -> int:
    """Run a tier and say what it has cost. Exit 0 when every step has passed, 1 when not."""
    tier, *more = arguments
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans come to this process, which knows what they have used
    done = [run(step) for step in steps(tier, more)]
    print()
    if tier == "test-all":
        print(cost("test", [one for one in done if one.name not in (REAL_NODE, LONG)]))
    print(cost(tier, done))
    if failed := [one.name for one in done if one.status]:
        print(f"make {tier}: failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
