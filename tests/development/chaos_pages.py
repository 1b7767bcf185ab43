"""Records for the docs how experiments ended on the real local control plane: ``python -m tests.development.chaos_pages REPORT-DIR…``.

A report folder of ``pytest chaos --chaos --local`` tells which experiments ran there, on which Kubernetes, with which verdict. Each
outcome is kept with a digest of the document it was of: one that has changed since is shown as such.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from chaos.catalogue import load_all
from chaos.model.experiment import Experiment, Level
from chaos.verdict.artefacts import ArtefactError, Artefacts
from conformance.cli.arguments import complain
from fixtures.simulator.interface import bug_names, load_defect
from fixtures.text import typed
from fixtures.verdict.chaos_record import ChaosResult, decode_chaos
from fixtures.verdict.record import TargetKind, Verdict
from reports import chaos_phrases

FILE = Path(__file__).resolve().parents[2] / "docs" / "chaos-local.json"
NEVER = "not run yet"


class LocalRun(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One experiment's last outcome there. ``seconds`` is how long it took, conformance before and after included.

    ``document`` is a digest of the experiment as it was run, ``reason`` the message of a verdict other than passed.
    """

    id: str
    verdict: Verdict
    kubernetes: str
    scenario: str
    date: str
    seconds: float
    recovery_seconds: float | None = None
    reason: str = ""
    document: str


def document_digest(document: Mapping[str, Any]) -> str:
    """A short digest of an experiment's document as JSON, whatever the order of its keys. YAML's numbers as keys are text in JSON."""
    plain = msgspec.json.decode(msgspec.json.encode(document))
    return hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()[:16]


def read_local_runs(file: Path = FILE) -> dict[str, LocalRun]:
    """The kept outcomes by id. Raises ``msgspec.MsgspecError`` for a file that holds something else."""
    return {run.id: run for run in typed.decode(file.read_bytes(), list[LocalRun])}


def outcomes_in(folder: Path, experiments: Mapping[str, Experiment]) -> list[LocalRun]:
    """The outcomes in a report folder, of experiments that its run carried out.

    Raises ``ValueError`` when its run was not on a local control plane, or is no run of chaos.
    """
    try:
        report = decode_chaos((folder / "chaos.json").read_bytes())
    except (OSError, msgspec.MsgspecError) as error:
        raise ValueError(f"{folder}: {error}") from None
    if report.target.kind is not TargetKind.LOCAL:
        raise ValueError(f"{folder}: a run on a {report.target.kind} target, expected one with --local")
    return [
        LocalRun(
            id=result.id,
            verdict=result.verdict,
            kubernetes=report.target.kubernetes_version,
            scenario=report.target.scenario,
            date=report.run.started_at[:10],
            seconds=round(result.duration_seconds, 1),
            recovery_seconds=None if result.recovery_seconds is None else round(result.recovery_seconds, 1),
            reason="" if result.verdict is Verdict.PASSED else result.message[:200],
            document=document_digest(_document(folder, result, experiments)),
        )
        for result in report.experiments
        if not {chaos_phrases.LEFT_OUT, chaos_phrases.CUT_SHORT} & set(result.reason_codes)
    ]


def outcome_words(experiment: Experiment, runs: Mapping[str, LocalRun]) -> str:
    """An experiment's outcome there, in a few words."""
    if TargetKind.LOCAL not in experiment.extension.fidelity:
        return "none"
    run = runs.get(experiment.id)
    if run is None:
        return NEVER
    words = str(run.verdict).replace("_", " ") + (f", {run.seconds:.0f} s" if run.seconds else "")
    return words if run.document == document_digest(experiment.document) else f"{words} (before its last change)"


def runs_summary(runs: Iterable[LocalRun]) -> str:
    """On what, and when, in a sentence for the docs."""
    found = list(runs)
    versions = ", ".join(sorted({run.kubernetes for run in found})) or "no Kubernetes"
    scenarios = ", ".join(sorted({f"`{run.scenario}`" for run in found})) or "none"
    dates = sorted({run.date for run in found})
    return f"On the real control plane: Kubernetes {versions}, scenario {scenarios}" + (f", last on {dates[-1]}." if dates else ".")


def _document(folder: Path, result: ChaosResult, experiments: Mapping[str, Experiment]) -> dict[str, Any]:
    """As it was run; what was never begun has left no document, and is the one that is there now."""
    try:
        return Artefacts(folder / "chaos" / result.id).experiment().document
    except ArtefactError:
        return experiments[result.id].document


def main(arguments: list[str] | None = None) -> int:
    """Take the outcomes of report folders over; those named later win."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.development.chaos_pages", description="Keep what experiments did on --local, for the docs."
    )
    parser.add_argument("folders", metavar="REPORT-DIR", nargs="+", type=Path)
    folders: list[Path] = parser.parse_args(arguments).folders
    experiments = {experiment.id: experiment for experiment in load_all()}
    runs = read_local_runs(FILE) if FILE.is_file() else {}
    try:
        for folder in folders:
            runs |= {run.id: run for run in outcomes_in(folder, experiments)}
    except ValueError as error:
        complain("tests.development.chaos_pages", error)
        return 1
    there = [id_ for id_, experiment in experiments.items() if TargetKind.LOCAL in experiment.extension.fidelity]
    kept = [runs[id_] for id_ in there if id_ in runs]
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
    return 0


PAGE = Path(__file__).resolve().parents[2] / "docs" / "chaos.md"
BUGS_BEGIN, BUGS_END = "<!-- seeded bugs: generated by make docs -->", "<!-- end of seeded bugs -->"
BEGIN, END = "<!-- experiments: generated by make docs -->", "<!-- end of experiments -->"
NONE = "none"
_KINDS = (TargetKind.SIMULATED, TargetKind.LOCAL, TargetKind.LIVE)


def experiments_table(experiments: Sequence[Experiment], runs: Mapping[str, LocalRun] | None = None) -> str:
    """One row for each experiment: what it asserts, its level, where it exists and as what, how it is undone, its bound.

    ``runs`` are the outcomes on the local control plane; None reads those that are kept.
    """
    kept = read_local_runs() if runs is None else runs
    lines = [
        "| id | asserts | level | needs | simulated / local / live | undone by | bound, live | on the real control plane |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [_row(experiment, kept) for experiment in experiments]
    return "\n".join(lines)


def levels_list() -> str:
    """What the levels mean."""
    return "\n".join(f"- **{level.value}**: {level.words}" for level in Level)


def bugs_table() -> str:
    """One row for each seeded bug of the simulated cluster: what is wrong with it, which experiments must turn red, whose report it is."""
    rows = [
        f"| {bug.name} | {_cell(bug.description)} | {', '.join(bug.experiments)} | {report_words(bug.source)} |"
        for bug in map(load_defect, bug_names())
    ]
    return "\n".join(["| bug | what is wrong | caught by | report |", "|---|---|---|---|", *rows])


def report_words(source: str) -> str:
    """A link to a report on GitHub, as GitHub abbreviates it; what was thought up here has none."""
    owner, name, _, number = source.removeprefix("https://github.com/").split("/") if source else ("", "", "", "")
    return f"[{owner}/{name}#{number}]({source})" if source else NONE


def render_page(text: str, experiments: Sequence[Experiment]) -> str:
    """The page with its tables renewed. Raises ValueError when the marks are not there."""
    runs = read_local_runs()
    text = _between(text, BEGIN, END, "\n\n".join((levels_list(), runs_summary(runs.values()), experiments_table(experiments, runs))))
    return _between(text, BUGS_BEGIN, BUGS_END, bugs_table())


def _between(text: str, begin: str, end: str, content: str) -> str:
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{PAGE.name} has lost its marks {begin!r} and {end!r}")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def _row(experiment: Experiment, runs: Mapping[str, LocalRun]) -> str:
    extension = experiment.extension
    fidelity = " / ".join(extension.fidelity.get(kind, NONE) for kind in _KINDS)
    undo = ", ".join(extension.undo) or "control run: nothing is done"
    bound = extension.durations(TargetKind.LIVE).get("recovery")
    bounded = f"{bound:g} s" if bound and TargetKind.LIVE in extension.fidelity else NONE
    needs = ", ".join(extension.needs) or NONE
    row = f"| {experiment.id} | {_cell(experiment.title)} | {extension.level} | {needs} | {fidelity} | {undo} | {bounded} "
    return f"{row}| {_cell(outcome_words(experiment, runs))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
