"""The end of a run: look for what it left behind, decide, write the record and its views."""

from __future__ import annotations

import shlex
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conformance.coverage.run import coverage_of_run
from conformance.devices.node_inventory import inventory
from conformance.plugin.baseline import compare_with
from conformance.plugin.residue import sweep
from conformance.plugin.session import State
from conformance.plugin.verdict import ExitCode, decide, judge_chaos, summarise
from conformance.plugin.waivers import account_for_waivers
from conformance.policy.policy_file import digest
from conformance.version import VERSION
from fixtures.system import private_files
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import AppliedPreset, Coverage, Report, Requests, Result, Run, Suite, Verdict


def prepare_folder(state: State, config: pytest.Config) -> None:
    """Make the report folder before anything is judged. Raises :class:`pytest.UsageError` when it cannot be made."""
    chosen = state.options.report_dir
    folder = Path(chosen) if chosen else config.invocation_params.dir / "out" / state.run_id
    try:
        private_files.make_folder(folder)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise pytest.UsageError(f"--report-dir {folder}: {error.strerror or error}") from None
    state.report_folder = folder
    state.opened.handover.folder = str(folder.resolve())


def finish(state: State, config: pytest.Config, pytest_exit: int) -> tuple[Report, int]:
    """Sweep, decide and write. Returns the record and the exit code; 3 when not even ``report.json`` could be written."""
    sweep(state, workers=bool(getattr(config.option, "tx", None)))
    order = list(state.catalogue.by_id)
    results = sorted(state.results.values(), key=lambda result: order.index(result.id))
    coverage = _coverage(state, results)
    verdict, code = decide(
        results,
        strict=state.options.strict,
        required=state.required,
        pytest_exit=pytest_exit,
        residue=bool(state.residue),
        chaos=state.chaos,
        shortfalls=coverage.shortfalls if coverage else (),
    )
    report = Report(
        suite=Suite(version=VERSION),
        target=state.opened.target,
        run=Run(
            id=state.run_id,
            started_at=datetime.fromtimestamp(state.started, UTC).isoformat(timespec="seconds"),
            duration_seconds=round(time.time() - state.started, 3),
            command=shlex.join(["pytest", *config.invocation_params.args]),
            policy_digest=digest(state.opened.policy),
            presets=[AppliedPreset(name=one.name, why=one.why) for one in state.opened.presets],
        ),
        verdict=verdict,
        exit_code=int(code),
        scope=coverage,
        summary=summarise(results),
        inventory=inventory(state.scope) if state.has_snapshot else [],
        results=results,
        requests=state.opened.cluster.requests() if state.opened.cluster is not None else Requests(),
        residue=state.residue,
    )
    account_for_waivers(state.opened.handover.waivers, report)
    if state.baseline is not None and report.exit_code != ExitCode.INTERRUPTED:
        compare_with(state.baseline, report, state.options.accept_not_judged)
    return report, _write(state, report)


def _coverage(state: State, results: list[Result]) -> Coverage | None:
    """How much of the catalogue was judged; None for a run about chaos experiments alone."""
    if not results and state.chaos is not None:
        return None
    return coverage_of_run(
        state.catalogue,
        results,
        state.left_out,
        policy=state.opened.policy,
        access=state.options.access,
        min_judged=state.options.min_judged,
        scope=state.scope if state.has_snapshot else None,
    )


def chaos_record(state: State, report: Report) -> ChaosReport | None:
    """The record of chaos experiments; None when the run was not about any."""
    if state.chaos is None:
        return None
    verdict, code = judge_chaos(state.chaos)
    interrupted = report.exit_code in (ExitCode.INTERRUPTED, ExitCode.RESIDUE)
    return ChaosReport(
        suite=report.suite,
        target=report.target,
        run=report.run,
        verdict=verdict,
        exit_code=report.exit_code if interrupted else int(code),
        summary={str(verdict): sum(result.verdict is verdict for result in state.chaos) for verdict in Verdict},
        experiments=state.chaos,
        residue=report.residue,
    )


def _write(state: State, report: Report) -> int:
    from reports.folder import JSON_NAME, ReportError, write_all  # imported late: jinja2 and friends are not needed before

    folder = state.report_folder
    if folder is None:
        return report.exit_code
    try:
        write_all(report, folder, chaos_record(state, report))
    except ReportError as error:
        state.complaints.append(str(error))
        if not (folder / JSON_NAME).is_file():
            return int(ExitCode.INTERNAL_ERROR)
    if not state.options.report_dir:
        _point_latest(folder)
    return report.exit_code


def _point_latest(folder: Path) -> None:
    """``out/latest`` is a link to the newest run's folder, swapped in one step."""
    fresh = folder.parent / f".latest-{folder.name}"
    fresh.symlink_to(folder.name)
    fresh.replace(folder.parent / "latest")
