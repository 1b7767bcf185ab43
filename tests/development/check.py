"""``make check REQ=FENCE-01``: what proves one requirement, while somebody works on it.

Jobs run at the same time: lint of what changed, the unit tests of the requirement's area, whether ``make docs`` is due, and the rows
of the detection matrix that tell of the requirement. :func:`jobs` is the list.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import msgspec

from conformance.catalogue import CatalogueError, load_catalogue

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
BASES = ("main", "origin/main")
"""Branches that a change is compared with, the first that is there."""

Command = Sequence[str]


class Job(msgspec.Struct, frozen=True):
    """Commands that run one after the other."""

    name: str
    commands: Sequence[Command]


class Done(msgspec.Struct, frozen=True):
    """A job's end: what it printed is worth reading where it failed."""

    name: str
    failed: bool
    output: str
    seconds: float


def changed_files(root: Path = ROOT) -> list[str]:
    """Files that differ from where this branch left main: uncommitted, untracked and deleted ones too. Paths are from ``root``."""
    base = next((found for branch in BASES if (found := _git(root, "merge-base", "HEAD", branch))), ["HEAD"])[0]
    differing = _git(root, "diff", "--name-only", "--no-renames", base)
    return sorted({*differing, *_git(root, "ls-files", "--others", "--exclude-standard")})


def _git(root: Path, *arguments: str) -> list[str]:
    """Lines of git's answer; none where git refuses."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def jobs(requirement: str, changed: Sequence[str]) -> list[Job]:
    """What a check of a requirement runs. Raises :class:`CatalogueError` naming the nearest known id."""
    area = load_catalogue().get(requirement).area.lower()
    python = [path for path in changed if path.endswith(".py") and (ROOT / path).is_file()]
    ruff = [[str(BIN / "ruff"), *command, *python] for command in (["check"], ["format", "--check"])] if python else []
    pytest = [sys.executable, "-m", "pytest", "-q", "-n", str(os.cpu_count() or 1), f"tests/{area}"]
    return [
        Job("lint", [*ruff, [str(BIN / "mypy")], [str(BIN / "lint-imports")]]),
        Job("unit tests", [pytest]),
        Job("make docs", [[sys.executable, "-m", "tests.development.generated", "--check"]]),
        Job("matrix", [[str(BIN / "gpu-conformance"), "matrix", "--requirement", requirement]]),
    ]


def run(job: Job, root: Path = ROOT) -> Done:
    """Run a job up to its first command that fails."""
    started = time.monotonic()
    output = ""
    for command in job.commands:
        done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        output += done.stdout
        if done.returncode:
            return Done(job.name, True, output, time.monotonic() - started)
    return Done(job.name, False, output, time.monotonic() - started)


def check(wanted: Sequence[Job], tell: Callable[[str], None], root: Path = ROOT) -> bool:
    """Run all jobs at once and tell of each as it ends. Returns whether all have passed."""
    good = True
    with ThreadPoolExecutor(len(wanted)) as pool:
        for future in as_completed([pool.submit(run, job, root) for job in wanted]):
            done = future.result()
            good = good and not done.failed
            last = done.output.rstrip().rpartition("\n")[2]
            tell(f"{'FAILED' if done.failed else 'passed'}  {done.name:<12}{done.seconds:4.0f} s  {last}")
            if done.failed:
                tell(done.output)
    return good


def main(arguments: Sequence[str]) -> int:
    """Exit 0 when all is well, 1 when not, 4 for an id that is not known."""
    if len(arguments) != 1:
        print("make check: name a requirement, such as REQ=FENCE-01", file=sys.stderr)
        return 4
    try:
        wanted = jobs(arguments[0], changed_files())
    except CatalogueError as error:
        print(f"make check: {error}", file=sys.stderr)
        return 4
    return 0 if check(wanted, print) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
