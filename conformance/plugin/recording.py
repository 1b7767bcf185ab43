"""The end of a run: look for what it left behind, decide, write the record and its views."""

import contextlib
import os
import shlex
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from conformance import causes
from conformance.coverage.run import coverage_of_run, floor_of
from conformance.known.inventory import inventory
from conformance.plugin import progress
from conformance.plugin.baseline import account_for_waivers, compare_with, difference_from, judge_comparison, of_nodes
from conformance.plugin.options import as_typed, left_out
from conformance.plugin.session import State
from conformance.plugin.verdict import ExitCode, decide, judge_chaos, summarise, unjudged
from conformance.version import VERSION
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.ownership.proof_record import ProofView
from fixtures.ownership.read_proofs import find_leftovers, proof_files, read_files, read_proofs, remove
from fixtures.policy.allowlist import is_another
from fixtures.policy.policy_file import digest, policy_text
from fixtures.system import private_files
from fixtures.tables.rows import ALL
from fixtures.text.sentences import few
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.findings import COMPARISON
from fixtures.verdict.record import (
    Access,
    AppliedPreset,
    Cause,
    Coverage,
    Report,
    Requests,
    Result,
    Run,
    Suite,
    TargetKind,
    UsedTable,
    Verdict,
)

RECORD = "report.json"


def lost_workers(names: list[str]) -> str:
    """That workers of ``-n`` are gone, a sentence without a full stop."""
    which = "a worker of -n was" if len(names) == 1 else f"{len(names)} workers of -n were"
    return f"{which} killed or crashed ({', '.join(names)}): the kernel kills one that takes too much memory; fewer workers take less"


def write_unopened(folder: Path, sentence: str) -> None:
    """Write a junit.xml with one error to the report folder of a run whose target cannot be opened, over an earlier run's report."""
    from reports.formats.junit import unopened  # imported late: most targets open

    with contextlib.suppress(OSError):  # the exit code says it all the same
        private_files.make_folder(folder)
        if (folder / RECORD).exists():
            _forget_earlier_run(folder)
        (folder / "junit.xml").write_text(unopened(sentence), encoding="utf-8")


def prepare_folder(state: State, config: pytest.Config) -> None:
    """Make the report folder before anything is judged. Raises :class:`pytest.UsageError` when it cannot be made."""
    chosen = state.options.report_dir
    folder = Path(chosen) if chosen else config.invocation_params.dir / "out" / state.run_id
    try:
        private_files.make_folder(folder)
        if (folder / RECORD).exists():  # or the files are somebody else's
            _forget_earlier_run(folder)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise pytest.UsageError(f"--report-dir {folder}: {error.strerror or error}") from None
    _prepare_evidence(state, folder)
    _prepare_allure(state)
    state.report_folder = folder
    state.opened.handover.folder = str(folder.resolve())


def _forget_earlier_run(folder: Path) -> None:
    """Remove the files of an earlier run: its verdict and its views must not be taken for this one's."""
    from reports.folder import clear  # imported late: most folders are new

    clear(folder)


def _prepare_evidence(state: State, folder: Path) -> None:
    """Begin the evidence of the run, and remove that of an earlier one. Raises :class:`pytest.UsageError` when it cannot be written."""
    if not state.options.evidence and not (folder / "evidence").exists():
        return
    from reports.evidence import bundle  # imported late: most runs keep no evidence

    try:
        bundle.prepare(folder, wanted=state.options.evidence)
    except bundle.EvidenceError as error:
        raise pytest.UsageError(f"--evidence: {error}") from None


def _prepare_allure(state: State) -> None:
    """Make the folder of ``--alluredir``. Raises :class:`pytest.UsageError` when it cannot be made."""
    if not state.options.alluredir:
        return
    from reports.formats import allure

    folder = Path(state.options.alluredir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if state.options.clean_alluredir:
            allure.clear(folder)
    except OSError as error:
        raise pytest.UsageError(f"--alluredir {folder}: {error.strerror or error}") from None


def finish(state: State, config: pytest.Config, pytest_exit: int) -> tuple[Report, int]:
    """Sweep, decide and write. Returns the record and the exit code; 3 when not even ``report.json`` could be written."""
    state.other_cluster_uid = state.opened.other_cluster_uid()
    state.another_cluster = _another_cluster(state)
    if state.another_cluster and state.chaos is not None:
        state.complaints.append(state.another_cluster)  # experiments have no scope that says it
    if state.chaos is not None:
        state.complaints += state.failures  # as above
    sweep(state, workers=bool(getattr(config.option, "tx", None)))
    report = _record(state, config, pytest_exit)
    baseline, options = state.baseline, state.options
    if baseline is not None and report.exit_code == ExitCode.INTERRUPTED:
        state.results.pop(COMPARISON, None)  # what the run did not reach cannot be compared
        report = _record(state, config, pytest_exit)
    elif baseline is not None:
        if state.chosen:
            baseline = of_nodes(baseline, state.chosen, {one.id for one in state.catalogue.by_id.values() if not one.of_nodes})
        difference = difference_from(
            baseline, report, chaos_record(state, report), options.accept_not_judged, another_cluster=options.another_cluster
        )
        if report.results or difference.refused:
            pending = state.results.get(COMPARISON) or unjudged(state.catalogue.get(COMPARISON))
            found = judge_comparison(pending, baseline.report, report, difference, state.opened.handover.waivers)
            state.results[COMPARISON], difference = found.result, found.difference
            progress.show(config, state.results[COMPARISON], len(state.results), max(state.planned, len(state.results)))
            report = _record(state, config, pytest_exit)
            if report.scope is not None:
                report.scope.notes.append(state.results[COMPARISON].message)
        compare_with(baseline.report, report, difference)
    if _has_history(report):
        from reports.merge import history  # imported late, like all of reports/

        earlier = Path(state.options.history) if state.options.history else _history_folder(state)
        report.causes_since = history.held_since(report, earlier, baseline.report if baseline else None)
    return report, _write(state, report)


def _another_cluster(state: State) -> str:
    """One sentence if the address now leads to another cluster than at the beginning, and what follows from that."""
    if not state.other_cluster_uid:
        return ""
    another = is_another(state.other_cluster_uid, state.opened.target.cluster_uid)
    return f"{another}: which of them the results are about is not known, nor what is left in the first"


def _record(state: State, config: pytest.Config, pytest_exit: int) -> Report:
    """The record of what was judged so far."""
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
        two_clusters=bool(state.another_cluster),
        failures=bool(state.failures),
    )
    report = Report(
        suite=Suite(version=VERSION),
        target=state.opened.target,
        run=Run(
            id=state.run_id,
            started_at=datetime.fromtimestamp(state.started, UTC).isoformat(timespec="seconds"),
            duration_seconds=round(time.time() - state.started, 3),
            command=shlex.join(as_typed([str(argument) for argument in config.invocation_params.args])),
            policy_digest=digest(state.opened.policy),
            presets=[AppliedPreset(name=one.name, why=one.why) for one in state.opened.presets],
            tables=[UsedTable(name=one.name, date=one.table.date, own=one.own) for one in ALL],
        ),
        verdict=verdict,
        exit_code=int(code),
        scope=coverage,
        summary=summarise(results),
        inventory=inventory(state.scope) if state.has_snapshot else [],
        results=results,
        causes=causes.met(code for result in results for code in (*(subject.cause for subject in result.subjects), result.cause)),
        requests=state.opened.cluster.requests() if state.opened.cluster is not None else Requests(),
        residue=state.residue,
        policy=policy_text(state.opened.policy),
        other_cluster_uid=state.other_cluster_uid,
    )
    account_for_waivers(state.opened.handover.waivers, report)
    return report


def _coverage(state: State, results: list[Result]) -> Coverage | None:
    """How much of the catalogue was judged; None for a run about chaos experiments alone."""
    if not results and state.chaos is not None:
        return None
    options = state.options
    chosen = {one.id: option for one in state.catalogue.by_id.values() if (option := left_out(one, options))}  # workers may say nothing
    floor = floor_of(
        state.opened.policy.gate,
        required=tuple(state.required),
        min_judged=options.min_judged,
        max_inconclusive=options.max_inconclusive,
        max_not_applicable=options.max_not_applicable,
    )
    found = coverage_of_run(
        state.catalogue,
        results,
        {**chosen, **state.left_out},
        access=options.access,
        floor=floor,
        scope=state.scope if state.has_snapshot else None,
    )
    if state.lost_workers and any(one.cause is Cause.CUT_SHORT for one in found.not_judged):
        found.shortfalls.insert(0, lost_workers(state.lost_workers))
    if state.another_cluster:
        found.shortfalls.insert(0, state.another_cluster)
    found.notes[:0] = state.failures
    return found


def chaos_record(state: State, report: Report) -> ChaosReport | None:
    """The record of chaos experiments; None when the run was not about any."""
    if state.chaos is None:
        return None
    verdict, code = judge_chaos(state.chaos)
    if state.another_cluster:
        verdict, code = Verdict.INCONCLUSIVE, ExitCode.INCONCLUSIVE
    if report.verdict is Verdict.ERROR and not any(result.verdict is Verdict.ERROR for result in report.results):
        verdict, code = Verdict.ERROR, ExitCode.INTERNAL_ERROR  # of the run, and so of its experiments too
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
    """Write the record and whatever else was asked for. Nothing that goes wrong here ends a run without its last line."""
    from reports.formats import markdown  # imported late: jinja2 and friends are not needed before

    folder = state.report_folder
    if folder is None:
        return report.exit_code
    problems = _write_formats(state, report, folder)
    late = [] if problems else _write_evidence(state, report, folder)
    state.complaints += problems + late
    if (problems or late) and (report.exit_code == ExitCode.CONFORMANT or not (folder / RECORD).is_file()):
        _take_back(state, report, folder)
    if not (folder / RECORD).is_file():
        return report.exit_code
    if problems:  # evidence has the digest of the record, and is written of the last one
        state.complaints += _write_evidence(state, report, folder)
    if problem := markdown.append_to_step(report, chaos_record(state, report), os.environ):
        state.complaints.append(problem)
    if not state.options.report_dir:
        _point_latest(state, folder)
    _add_to_history(state, report)
    return report.exit_code


def _has_history(report: Report) -> bool:
    """Whether earlier runs say anything of it: not of a cluster that it made itself, of a saved one, or of one that was exchanged."""
    target = report.target
    return not (target.scenario or target.kind in (TargetKind.LOCAL, TargetKind.SNAPSHOT) or report.other_cluster_uid) and bool(
        report.results
    )


def _history_folder(state: State) -> Path | None:
    """Where the run's history is: beside its folder. One that ``--report-dir`` names may be anywhere, and has one only where it is kept."""
    if state.report_folder is None:
        return None
    folder = state.report_folder.parent
    return folder if not state.options.report_dir or (folder / "history.jsonl").is_file() else None


def _add_to_history(state: State, report: Report) -> None:
    from reports.merge import history

    folder = _history_folder(state)
    if folder is None or state.options.record_only or not _has_history(report):
        return
    try:
        history.append(report, folder)
    except OSError as error:
        state.complaints.append(f"{folder / history.NAME} lacks this run: {error.strerror or error}")


def _take_back(state: State, report: Report, folder: Path) -> None:
    """A run whose report is not whole is never green: whoever waits for a view of it would see nothing, or an older one.

    What was written says that the run was good, and fills the disk. So it goes first, and what then has room says what happened.
    """
    from reports.folder import clear

    report.verdict, report.exit_code = Verdict.ERROR, int(ExitCode.INTERNAL_ERROR)
    if report.scope is not None:
        report.scope.notes.append("not everything that was asked for could be written")
    with contextlib.suppress(OSError):  # what can go has gone
        clear(folder)
    again = _write_formats(state, report, folder)
    state.complaints += [problem for problem in again if problem not in state.complaints]


def _write_formats(state: State, report: Report, folder: Path) -> list[str]:
    """Write the record, its views and Allure's results. Returns what went wrong."""
    from reports.folder import ReportError, write_all
    from reports.formats import allure

    chaos = chaos_record(state, report)
    problems = []
    try:
        write_all(report, folder, chaos, views=not state.options.record_only)
    except ReportError as error:
        problems.append(str(error))
    if state.options.alluredir:
        try:
            allure.write(report, Path(state.options.alluredir), chaos)
        except Exception as error:  # as of every other view: one that is broken costs the reader no other
            problems.append(f"--alluredir {state.options.alluredir}: {_words(error)}")
    return problems


def _write_evidence(state: State, report: Report, folder: Path) -> list[str]:
    """Write the evidence where it was asked for. Returns what went wrong."""
    if not state.options.evidence:
        return []
    from conformance.plugin import again
    from conformance.plugin.evidence import write_evidence

    reads = {result.id: state.catalogue.get(result.id).lists for result in report.results}
    try:
        kept = again.kept(state) if state.has_snapshot else {}
        write_evidence(report, folder, state.snapshot if state.has_snapshot else None, reads, kept)
    except Exception as error:  # as above
        return [f"--evidence: {_words(error)}"]
    return []


def _words(error: Exception) -> str:
    from reports.safe_text import one_line

    return one_line(str(error) or type(error).__name__, 300)


def _point_latest(state: State, folder: Path) -> None:
    """``out/latest`` is a link to the newest run's folder, swapped in one step. Where that cannot be, the run is no worse for it."""
    fresh = folder.parent / f".latest-{folder.name}"
    latest = folder.parent / "latest"
    try:
        fresh.symlink_to(folder.name)
        fresh.replace(latest)
    except OSError as error:
        state.complaints.append(f"{latest} does not point at this run: {error.strerror or error}")
        with contextlib.suppress(OSError):
            fresh.unlink()


def sweep(state: State, *, workers: bool) -> None:
    """Look at what the cluster shows of the run, and remove it. What then stays, or may, is residue (exit code 11).

    What the run remembers does not count: an interrupted worker's memory is lost, and what it could not remove may be gone. Only
    kinds that a selected requirement creates are looked for: for others the caller may have no right. A kind that was never
    created for lack of rights leaves nothing.
    """
    cluster = state.opened.cluster
    keys = tuple(key for key in created_keys(state) if key not in state.never_created)
    if cluster is None or state.options.access is Access.READ or not keys:
        return
    try:
        views = {state.run_id: _proof_of(state, cluster)}
        found = find_leftovers(cluster, views, state.run_id, keys=keys)
        state.residue += remove(cluster, found, views)
        look_alikes = [f"{item} carries this run's labels, and the run did not create it: left as it is" for item in found.unproven]
        state.complaints += few(look_alikes, "that carry this run's labels, and that the run did not create: left as they are")
    except ApiTrouble as trouble:
        if _may_have_created(state) if workers else state.began:
            state.residue.append(f"cannot tell what is left of run {state.run_id}: {trouble.message}")
        return
    if not state.residue:
        for file in proof_files(state.report_folder) if state.report_folder else ():
            file.unlink(missing_ok=True)  # of a worker that ended without a word


def _may_have_created(state: State) -> bool:
    """Whether a worker may have created anything. What a killed one did is not known: a requirement without a result may have begun."""
    probed = (result.access is not Access.READ and result.verdict is not Verdict.NOT_APPLICABLE for result in state.results.values())
    return any(probed) or len(state.results) < state.planned


def _proof_of(state: State, cluster: Cluster) -> ProofView:
    """The proofs of the run: its PriorityClasses, and its folder."""
    view = ProofView(run_id=state.run_id)
    if PRIORITY_CLASSES not in state.never_created:
        view = read_proofs(cluster, state.run_id).get(state.run_id, view)
    if state.report_folder is not None:
        view = view.merged(read_files(proof_files(state.report_folder))[0].get(state.run_id, ProofView(run_id=state.run_id)))
    return view


def created_keys(state: State) -> list[str]:
    """Cluster-scoped kinds that the selected requirements create, and the PriorityClass that proves what they create."""
    created = {right.removeprefix("create ") for right in state.needs.writes if right.startswith("create ")}
    return [key for key in owned.CLUSTER_SCOPED_KEYS if key in created or (created and key == PRIORITY_CLASSES)]
