"""Records for the docs how experiments ended on the real local control plane: ``python -m chaos.surface.local_runs REPORT-DIR…``.

A report folder of ``pytest chaos --chaos --local`` tells which experiments ran there, on which Kubernetes, with which verdict. Each
outcome is kept with a digest of the document it was of: one that has changed since is shown as such.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from chaos.catalogue.selection import load_all
from chaos.model.experiment import Experiment
from chaos.verdict.artefacts import ArtefactError, Artefacts
from conformance.cli.arguments import complain
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
        prog="python -m chaos.surface.local_runs", description="Keep what experiments did on --local, for the docs."
    )
    parser.add_argument("folders", metavar="REPORT-DIR", nargs="+", type=Path)
    folders: list[Path] = parser.parse_args(arguments).folders
    experiments = {experiment.id: experiment for experiment in load_all()}
    runs = read_local_runs(FILE) if FILE.is_file() else {}
    try:
        for folder in folders:
            runs |= {run.id: run for run in outcomes_in(folder, experiments)}
    except ValueError as error:
        complain("chaos.surface.local_runs", error)
        return 1
    there = [id_ for id_, experiment in experiments.items() if TargetKind.LOCAL in experiment.extension.fidelity]
    kept = [runs[id_] for id_ in there if id_ in runs]
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
