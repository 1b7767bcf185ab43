"""One run of ``pytest chaos --chaos`` as a user starts it, and what it recorded."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import yaml

from chaos.model.experiment import OPT_IN_LABEL
from chaos.model.pairs import BETWEEN
from fixtures.cluster.client import Cluster
from fixtures.policy.allowlist import cluster_uid
from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.verdict.chaos_record import ChaosReport, ChaosResult, decode_chaos

ROOT = Path(__file__).resolve().parents[3]
RUN_SECONDS = 600.0
RESILIENCE = "resilience"
"""The scenario that experiments run on unless a seeded bug names another for them."""

TWO_TARGETS = Path(__file__).with_name("two_targets.yaml")
"""Policy for pairs of experiments that act on two objects."""


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A run that ended. ``report`` is None when it wrote none."""

    code: int
    output: str
    report: ChaosReport | None

    def result(self, id_: str) -> ChaosResult | None:
        """The entry of one experiment; None when there is none."""
        return next((one for one in self.report.experiments if one.id == id_), None) if self.report else None

    @property
    def tail(self) -> str:
        """The last words, for a row that went wrong."""
        return "\n".join(self.output.splitlines()[-15:])


def command(report: Path, *options: str, ids: Sequence[str] = (), confirm: str = "gpu-conformance") -> list[str]:
    """The command line of a run that may do everything."""
    chosen = ["--chaos-experiment", ",".join(ids)] if ids else []
    levels = ["--chaos-max-level", "4", "--chaos-confirm", confirm]
    if any(BETWEEN in id_ for id_ in ids) and "--policy" not in options:
        levels += ["--policy", str(TWO_TARGETS)]
    return [sys.executable, "-m", "pytest", "chaos", "--chaos", "--report-dir", str(report), *levels, *chosen, *options]


def start(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start it in a session of its own."""
    return subprocess.Popen(
        arguments,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "160", **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def run(
    report: Path,
    *options: str,
    ids: Sequence[str] = (),
    seconds: float = RUN_SECONDS,
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Run to the end. Raises ``subprocess.TimeoutExpired``."""
    process = start(command(report, *options, ids=ids), environment)
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return finished(process.returncode, output, report)


def finished(code: int, output: bytes, report: Path) -> Finished:
    """What a run left."""
    try:
        record = decode_chaos((report / "chaos.json").read_bytes())
    except (OSError, msgspec.MsgspecError):
        record = None
    return Finished(code=code, output=output.decode(errors="replace"), report=record)


class Stage:
    """An embedded cluster that outlives the runs on it, and the options with which a run may act on it."""

    def __init__(self, scenario: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.embedded = EmbeddedCluster.start(scenario, folder)
        policy = folder / "policy.yaml"
        two = {"maxTargets": 2, **(self.embedded.policy.get("chaos") or {})}
        policy.write_text(yaml.safe_dump({**self.embedded.policy, "chaos": two}), encoding="utf-8")
        self.cluster = Cluster.from_kubeconfig(self.embedded.kubeconfig)
        for node in self.cluster.each("nodes"):  # a kubeconfig's cluster says itself that it is simulated, which opts nothing in
            key, value = OPT_IN_LABEL
            self.cluster.patch("nodes", str(node["metadata"]["name"]), {"metadata": {"labels": {key: value}}})
        self.target = ["--kubeconfig", str(self.embedded.kubeconfig)]
        self.options = [*self.target, "--policy", str(policy), "--chaos-cluster", cluster_uid(self.cluster)]

    def command(self, report: Path, id_: str) -> list[str]:
        """A run of one experiment on this cluster."""
        return command(report, *self.options, ids=[id_], confirm=self.cluster.context)

    def stop(self) -> None:
        """End the cluster."""
        self.embedded.stop()
