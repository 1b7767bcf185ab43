"""Runs of the suite with a user's arguments, in processes of their own."""

import os
import sys
from pathlib import Path

import msgspec

from conformance.matrix.detection import run_pytest
from fixtures.verdict.record import Coverage, Report, Result, decode_report

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS = 240


class Finished(msgspec.Struct, kw_only=True):
    """Exit code, output and record of a run."""

    code: int
    output: str
    report: Report | None

    @property
    def record(self) -> Report:
        """The record of a run that has written one."""
        assert self.report is not None, self.output
        return self.report

    @property
    def scope(self) -> Coverage:
        """What its record says of what was judged."""
        assert self.record.scope is not None
        return self.record.scope

    @property
    def last_line(self) -> str:
        """The verdict's line: the last of all."""
        return self.output.rstrip().splitlines()[-1]

    def result(self, id_: str) -> Result:
        return next(result for result in self.record.results if result.id == id_)


def command(*arguments: str) -> list[str]:
    """As a user starts it."""
    return [sys.executable, "-m", "pytest", *_options(*arguments)]


def _options(*arguments: str) -> list[str]:
    return ["-c", str(ROOT / "pyproject.toml"), str(ROOT / "conformance"), *arguments]


def environment() -> dict[str, str]:
    """This process's environment without what tells of workers, terminals and CI systems.

    With a trap: a KUBECONFIG that must never be read.
    """
    foreign = ("PYTEST_", "COV_", "GITHUB_", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "COLUMNS")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    return {**kept, "KUBECONFIG": "/nonexistent/never-taken-from-the-environment"}


def run_for_record(folder: Path, *arguments: str, **variables: str) -> Finished:
    """:func:`run_suite` for tests that look at no view of the record: writing them is a fifth of a short run."""
    return run_suite(folder, "--record-only", *arguments, **variables)


def run_suite(folder: Path, *arguments: str, **variables: str) -> Finished:
    """Run the suite with a report folder of its own. ``variables`` are further ones of its environment."""
    report_dir = folder / "report"
    options = _options("--report-dir", str(report_dir), *arguments)
    done = run_pytest(options, cwd=folder, environment={**environment(), **variables}, log=folder / "run.log", seconds=RUN_SECONDS)
    file = report_dir / "report.json"
    report = decode_report(file.read_bytes()) if file.is_file() else None
    return Finished(code=done.code, output=done.output, report=report)
