"""The end of a run: look for what it left behind, decide, write the record and its views."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import msgspec
import pytest

from conformance import unjudged, unmatched, unread
from conformance.missing_areas import missing_areas
from conformance.plugin.baseline import compare_with
from conformance.plugin.gate import ExitCode, decide, judge_chaos, summarise
from conformance.plugin.state import State
from conformance.policy_file import digest
from conformance.products import product_of
from conformance.reach import without_devices
from conformance.scope import Scope
from conformance.shortfalls import Floor, shortfalls
from conformance.version import VERSION
from fixtures import ownership, private_files
from fixtures.belongings import belongings, remove
from fixtures.chaos_record import ChaosReport
from fixtures.cluster import Cluster
from fixtures.coverage import Asked, measure
from fixtures.evidence import Inconclusive, NotApplicable
from fixtures.models import Node
from fixtures.ownership import PRIORITY_CLASSES
from fixtures.proof import ProofView, proof_files, read_files, read_proofs
from fixtures.record import Access, Coverage, InventoryRow, Report, Requests, Result, Run, Suite, Verdict
from fixtures.trouble import ApiTrouble


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
        ),
        verdict=verdict,
        exit_code=int(code),
        scope=coverage,
        summary=summarise(results),
        inventory=_inventory(state),
        results=results,
        requests=state.opened.cluster.requests() if state.opened.cluster is not None else Requests(),
        residue=state.residue,
    )
    if state.baseline is not None and report.exit_code != ExitCode.INTERRUPTED:
        compare_with(state.baseline, report, state.options.accept_not_judged)
    return report, _write(state, report)


def _coverage(state: State, results: list[Result]) -> Coverage | None:
    """How much of the catalogue was judged, and what is missing from it; None for a run about chaos experiments alone."""
    if not results and state.chaos is not None:
        return None
    asked = [Asked(id=one.id, title=one.title, area=one.area, level=one.level) for one in state.catalogue.by_id.values()]
    found = measure(asked, results, state.left_out)
    gate = state.opened.policy.gate
    floor = Floor(minimum=gate.minimum_judged, areas=gate.areas, source="gate.minimumJudged")
    if state.options.min_judged is not None:
        floor = msgspec.structs.replace(floor, minimum=state.options.min_judged, source="--min-judged")
    found.shortfalls = list(shortfalls(found, results, floor))
    if results and state.has_snapshot:
        scope = Scope(state.snapshot, state.opened.policy)
        told = [
            _as_read(unmatched.shortfalls(scope)),
            _as_read(unjudged.snapshot_gaps(scope, found, state.catalogue)),
            unread.one_namespace(state.snapshot),
        ]
        if unjudged.is_whole(found):
            told.append(_as_read(unjudged.accelerators(scope, results)))
            told.append(_as_read(unjudged.probes(scope, found, state.catalogue, state.options.access)))
            told.append(_as_read(_missing_areas(state)))
        found.shortfalls = list(dict.fromkeys([*found.shortfalls, *chain.from_iterable(told)]))
        found.notes = [
            *unread.notes(state.catalogue.by_id.values(), state.snapshot),
            *_as_read(unmatched.notes(scope)),
            *unjudged.unknown_resources(scope),
        ]
    return found


def _as_read(sentences: Iterable[str]) -> Iterator[str]:
    """The sentences; the last one tells of a kind that could not be read, where one needs it."""
    try:
        yield from sentences
    except (Inconclusive, NotApplicable) as error:
        yield error.message


def _missing_areas(state: State) -> Iterator[str]:
    """What the cluster has and the catalogue has no requirement for."""
    if state.has_snapshot and state.snapshot.served("nodes") and not state.snapshot.listing("nodes").trouble:
        yield from missing_areas(state.scope, {one.area for one in state.catalogue.by_id.values()})


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
        found = belongings(cluster, views, state.run_id, keys=keys)
        state.residue += remove(cluster, found, views)
        state.complaints += [f"{item} carries this run's labels, and the run did not create it: left as it is" for item in found.unproven]
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
    """What vouches for the run: its PriorityClasses, and its folder."""
    view = ProofView(run_id=state.run_id)
    if PRIORITY_CLASSES not in state.never_created:
        view = read_proofs(cluster, state.run_id).get(state.run_id, view)
    if state.report_folder is not None:
        view = view.merged(read_files(proof_files(state.report_folder))[0].get(state.run_id, ProofView(run_id=state.run_id)))
    return view


def created_keys(state: State) -> list[str]:
    """Cluster-scoped kinds that the selected requirements create, and the class that vouches for what they create."""
    created = {right.removeprefix("create ") for right in state.needs.writes if right.startswith("create ")}
    return [key for key in ownership.CLUSTER_SCOPED_KEYS if key in created or (created and key == PRIORITY_CLASSES)]


def _inventory(state: State) -> list[InventoryRow]:
    if not state.has_snapshot or state.snapshot.listing("nodes").trouble or not state.snapshot.listing("nodes").collected:
        return []
    scope = state.scope
    rows: list[InventoryRow] = []
    try:
        found = sorted(scope.sources.items())
    except (Inconclusive, NotApplicable):  # requirements say why; the inventory holds nothing that is half known
        return rows
    for name, sources in found:
        node = state.snapshot.node_by_name.get(name)
        reason = scope.why_not_judged(node) or without_devices(scope, node) if node else "no such node"
        rows.append(
            InventoryRow(
                node=name,
                sources=[*(source for source, yes in sources.items() if yes), *scope.marks.get(name, ())],
                product=node.metadata.label.get("nvidia.com/gpu.product", "") or product_of(scope, node) if node else "",
                capacity=_capacity(scope, node) if node else {},
                judged=not reason,
                message=reason,
            )
        )
    return rows


def _capacity(scope: Scope, node: Node) -> dict[str, str]:
    """Devices by resource name, and by the DRA driver that publishes them."""
    published = {item.driver: str(len(item.devices)) for item in scope.publishers.get(node.name, ())}
    return {**{key: str(count) for key, count in scope.device_capacity(node).items()}, **published}


def _write(state: State, report: Report) -> int:
    from reports.write import JSON_NAME, ReportError, write_all  # imported late: jinja2 and friends are not needed before

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
