"""The detection matrix: every healthy scenario is green, every defect turns exactly its requirements red.

Each row is one run of the suite, as a user would start it, in a process of its own. It is forked from one that has its libraries
loaded: importing them is a third of a short run. That one has opened no cluster and has run no test; a user's run starts with
``pytest``. Why: docs/decisions/runs-made-by-the-hundred-are-forked.md.
"""

import atexit
import contextlib
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import msgspec

from fixtures.simulator import interface as simulator
from fixtures.simulator.interface import Defect, load_defect
from fixtures.verdict.findings import COMPARISON
from fixtures.verdict.record import Report, Result, Verdict, decode_report

RED = (Verdict.FAILED, Verdict.WARNED)
NOT_GREEN = (*RED, Verdict.INCONCLUSIVE, Verdict.ERROR)
COMPARED = "healthy"
"""The scenario that is judged twice, the second time against the first. So are the defects that trip the comparison."""

ROW_SECONDS = 240.0
SUITE = Path(__file__).resolve().parents[1]

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


class MatrixError(Exception):
    """A row gave no report. The message holds the end of what the run printed."""


class ScenarioRow(msgspec.Struct, rename="camel", kw_only=True):
    """A healthy scenario: everything that is not green is a false alarm."""

    name: str
    verdict: Verdict
    false_alarms: list[str]
    judged: list[str]


class DefectRow(msgspec.Struct, rename="camel", kw_only=True):
    """A defect: the ids it names, the ids that turned red, the ids that could not be judged."""

    name: str
    scenario: str
    expected: list[str]
    red: list[str]
    undecided: list[str]
    detected: bool


class Matrix(msgspec.Struct, rename="camel", kw_only=True):
    """The whole matrix. ``never_judged`` are requirements that no healthy scenario judges."""

    scenarios: list[ScenarioRow]
    defects: list[DefectRow]
    requirements: int
    without_defect: list[str]
    never_judged: list[str]

    @property
    def holds(self) -> bool:
        """Whether the bars hold: all detected, no false alarm, nothing without defect or never judged."""
        return (
            all(row.detected for row in self.defects)
            and not any(row.false_alarms for row in self.scenarios)
            and not self.without_defect
            and not self.never_judged
        )


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """What to run: scenarios and defects in full, and scenarios in which one requirement is judged alone."""

    scenarios: Sequence[str]
    defects: Sequence[str]
    alone: Sequence[str] = ()
    requirement: str = ""  # the one that is judged in ``alone``


def rows_of(requirement: str, *, scenarios: Iterable[str], defects: Mapping[str, Defect]) -> Rows:
    """The rows about one requirement: its defects and their scenarios in full, and all other scenarios with only it."""
    tripping = {name: plan for name, plan in defects.items() if requirement in plan.trips}
    whole = {plan.scenario for plan in tripping.values()}
    return Rows(
        scenarios=[name for name in scenarios if name in whole],
        defects=list(tripping),
        alone=[name for name in scenarios if name not in whole],
        requirement=requirement,
    )


def run_matrix(rows: Rows, requirements: Iterable[str], *, jobs: int, tell: Callable[[str], None]) -> Matrix:
    """Run all rows, ``jobs`` at a time. Raises :class:`MatrixError` when a row gives no report."""
    known = list(requirements)
    plans = {name: load_defect(name) for name in rows.defects}
    healthy: list[ScenarioRow] = []
    broken: list[DefectRow] = []
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-matrix-") as folder, ThreadPoolExecutor(jobs) as pool:
        run = Runner(Path(folder))
        futures: list[Future[Any]] = [pool.submit(scenario_row, run, name) for name in rows.scenarios]
        futures += [pool.submit(defect_row, run, name) for name in plans]
        futures += [pool.submit(scenario_row, run, name, rows.requirement) for name in rows.alone]
        for done, future in enumerate(as_completed(futures), 1):
            row: ScenarioRow | DefectRow = future.result()
            if isinstance(row, ScenarioRow):
                healthy.append(row)
                state = f"false alarms: {', '.join(row.false_alarms)}" if row.false_alarms else "green"
            else:
                broken.append(row)
                state = "detected" if row.detected else f"NOT as stated: expected {row.expected}, red {row.red}"
            tell(f"{done:3}/{len(futures)} {row.name:<44} {state}")
    tripped = {id_ for plan in plans.values() for id_ in plan.trips}
    judged = {id_ for row in healthy for id_ in row.judged}
    return Matrix(
        scenarios=sorted(healthy, key=lambda row: row.name),
        defects=sorted(broken, key=lambda row: row.name),
        requirements=len(known),
        without_defect=[id_ for id_ in known if id_ not in tripped],
        never_judged=[id_ for id_ in known if id_ not in judged] if healthy else [],
    )


def scenario_row(run: "Runner", name: str, only: str = "") -> ScenarioRow:
    """Judge a healthy scenario, by all requirements or by one."""
    report = run(name, only, compared=name == COMPARED and not only)
    return ScenarioRow(
        name=name,
        verdict=report.verdict,
        false_alarms=[result.id for result in report.results if result.verdict in NOT_GREEN],
        judged=[result.id for result in report.results if result.verdict is Verdict.PASSED and result.judged],
    )


def defect_row(run: "Runner", name: str) -> DefectRow:
    """Judge a defect in its scenario."""
    plan = load_defect(name)
    scenario, trips = plan.scenario, plan.trips
    report = run(f"{scenario},{name}", compared=COMPARISON in trips)
    red = [result.id for result in report.results if result.verdict in RED or (plan.denied and _is_named_undecided(result, trips))]
    undecided = [result.id for result in report.results if result.verdict in (Verdict.INCONCLUSIVE, Verdict.ERROR)]
    return DefectRow(
        name=name, scenario=scenario, expected=sorted(trips), red=sorted(red), undecided=undecided, detected=sorted(red) == sorted(trips)
    )


def _is_named_undecided(result: Result, trips: Iterable[str]) -> bool:
    """Whether a defect is found by what it leaves undecided: a right that is missing is no fault of the cluster's, and never failed."""
    return result.verdict is Verdict.INCONCLUSIVE and result.id in trips


class Runner:
    """Runs the suite against a simulated cluster, each time in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
        if self._environment.pop("PYTHONDONTWRITEBYTECODE", ""):
            self._environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")  # compiled once for all rows, and gone with the folder

    def __call__(self, simulate: str, only: str = "", *, compared: bool = False) -> Report:
        """The record of one run, of one requirement where ``only`` names it. Raises :class:`MatrixError` when there is none.

        ``compared``: its baseline is a run of the scenario without defects.
        """
        name = simulate.replace(",", "+").replace(":", "+")
        if not compared:
            return self._run(simulate, name, only, ())
        self._run(simulate.partition(",")[0], f"{name}-before", "", ())
        return self._run(simulate, name, only, ("--baseline", str(self._folder / f"{name}-before")))

    def _run(self, simulate: str, name: str, only: str, more: Sequence[str]) -> Report:
        report_dir = self._folder / name
        arguments = ["-q", "-c", str(SUITE.parent / "pyproject.toml"), str(SUITE), "--simulate", simulate]
        arguments += ["--access", "hardware", "--report-dir", str(report_dir), "--record-only", *(("--only", only) if only else ()), *more]
        try:
            done = run_pytest(
                arguments, cwd=SUITE.parent, environment=self._environment, log=self._folder / f"{name}.log", seconds=ROW_SECONDS
            )
        except TimeoutError as error:
            raise MatrixError(f"{simulate}: {error}") from None
        report = report_dir / "report.json"
        if not report.is_file():
            raise MatrixError(f"{simulate}: no report (exit {done.code}): {done.output[-1500:]}")
        return decode_report(report.read_bytes())


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
