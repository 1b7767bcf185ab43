"""Runs of some requirements of the suite against a target, as a user starts them."""

import importlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec
import yaml

from conformance.matrix.detection import run_pytest
from fixtures.verdict.record import Report, Verdict, decode_report
from tests.endtoend.runs import ROOT, environment
from tests.simulator.localcluster.rights.targets import Target

RUN_SECONDS = 400
PACE = {"probes": {"windowSeconds": 1.0, "startSeconds": 60.0}}


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a run. ``output`` is for people."""

    code: int
    verdicts: dict[str, Verdict]
    messages: dict[str, str]
    residue: list[str]
    output: str


@cache
def node_ids() -> dict[str, str]:
    """pytest's name of the test of each requirement."""
    found = {}
    for file in sorted((ROOT / "conformance").glob("*/test_*.py")):
        module = importlib.import_module(f"conformance.{file.parent.name}.{file.stem}")
        for name, function in vars(module).items():
            for mark in getattr(function, "pytestmark", ()):
                if mark.name == "requirement":
                    found[str(mark.args[0])] = f"{file}::{name}"
    return found


def run(target: Target, folder: Path, ids: Iterable[str], *arguments: str) -> Run:
    """Judge the requirements ``ids``. Raises RuntimeError when there is no report."""
    folder.mkdir(parents=True, exist_ok=True)
    policy = folder / "policy.yaml"
    policy.write_text(yaml.safe_dump({**target.policy, **PACE}), encoding="utf-8")
    nodes = node_ids()
    command = ["-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider"]
    command += ["--kubeconfig", str(target.kubeconfig), "--policy", str(policy), "--report-dir", str(folder), "--record-only", *arguments]
    command += [nodes[id_] for id_ in ids]
    done = run_pytest(command, cwd=folder, environment=environment(), log=folder / "run.log", seconds=RUN_SECONDS)
    file = folder / "report.json"
    if not file.is_file():
        raise RuntimeError(f"no report: {done.output}")
    report: Report = decode_report(file.read_bytes())
    file.unlink()
    return Run(
        code=done.code,
        verdicts={result.id: result.verdict for result in report.results},
        messages={result.id: f"{result.reason_code}: {result.message}" for result in report.results},
        residue=report.residue,
        output=done.output,
    )
