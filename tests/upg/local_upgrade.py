"""``make upgrade-local``: a real upgrade of the control plane under simulated GPU nodes, with the gate of ``deploy/ci`` around it.

etcd's data, the nodes and everything that runs on them stay; etcd and the Kubernetes programs are replaced by those of the next
minor. The gate has to let that upgrade stay. Then the API server is started as an upgrade leaves it that lost an admission plugin,
and the gate has to stop that.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from fixtures.cluster.client import Cluster
from fixtures.localcluster.control_plane import components
from fixtures.localcluster.control_plane.control_plane import ControlPlane
from fixtures.localcluster.install.release import DEFAULT_MINOR, Binaries, BinariesMissing, find, minors
from fixtures.localcluster.local_cluster import LocalCluster

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy" / "ci" / "upgrade-gate.sh"
START_SECONDS = 60.0
PHASE_SECONDS = 900
LOST_PLUGIN = "ResourceQuota"
"""REQ-07 asks the API server whether a quota on devices is enforced."""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One call of the script."""

    name: str
    code: int
    output: str
    seconds: float

    @property
    def last_line(self) -> str:
        """What the gate decides, in the phases that ask it."""
        return self.output.rstrip().rpartition("\n")[2]


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it. The versions are those that the API server states."""

    version_before: str
    version_after: str
    before: Phase
    healthy: Phase
    regression: Phase

    @property
    def holds(self) -> bool:
        """Whether the healthy upgrade may stay and the regression may not."""
        stopped = self.regression.code == 1 and "new failure: REQ-07" in self.regression.output
        return self.before.code == 0 and self.healthy.code == 0 and stopped


def replace_programs(plane: ControlPlane, binaries: Binaries, *flags: str) -> None:
    """End etcd and the Kubernetes programs, clients first, and start those of ``binaries`` on the same data, port and keys."""
    for process in reversed(plane._processes):
        process.stop(START_SECONDS)
    plane._processes.clear()
    layout, deadline = plane.layout, time.monotonic() + START_SECONDS
    plane._run("etcd", components.command("etcd", binaries, layout))
    plane._run("kube-apiserver", components.command("kube-apiserver", binaries, layout, *flags)).until(plane._ready, START_SECONDS)
    for name, further in (("kube-controller-manager", [components.controllers(node_lifecycle=True)]), ("kube-scheduler", [])):
        plane._run(name, components.command(name, binaries, layout, *further))
    plane.version = Cluster.from_kubeconfig(plane.kubeconfig).probe()
    plane._wait_for_controllers(Cluster.from_kubeconfig(plane.kubeconfig), deadline)


def upgrade(older: Binaries, newer: Binaries, folder: Path, *, run_options: str = "", tell: Callable[[str], None] = print) -> Upgrade:
    """Start ``older``, judge, upgrade to ``newer``, judge, break the API server, judge. Everything lives below ``folder``."""
    with LocalCluster.start(None, "healthy", folder / "cluster", older.paths["kube-apiserver"].parent) as cluster:
        policy = folder / "policy.json"
        policy.write_bytes(msgspec.json.encode(cluster.policy))
        settings = {
            "GPU_CONFORMANCE": f"{sys.executable} -m conformance.cli.main",
            "GATE_KUBECONFIG": str(cluster.kubeconfig),
            "GATE_FOLDER": str(folder / "upgrade-gate"),
            "GATE_POLICY": str(policy),
            "GATE_SETTLE": "60",
            "GATE_RUN": run_options,
        }
        tell(f"Kubernetes {cluster.version} runs, with the nodes of healthy")
        before = _phase("before", settings, tell)
        plane, version_before = cluster.plane, cluster.plane.version
        replace_programs(plane, newer)
        version_after = plane.version
        tell(f"upgraded to {version_after}")
        healthy = _phase("after", settings, tell)
        replace_programs(plane, newer, "--disable-admission-plugins", LOST_PLUGIN)
        tell(f"planted: the API server of {version_after} runs without the admission plugin {LOST_PLUGIN}")
        regression = _phase("after", settings, tell)
    return Upgrade(version_before=version_before, version_after=version_after, before=before, healthy=healthy, regression=regression)


def _phase(name: str, settings: dict[str, str], tell: Callable[[str], None]) -> Phase:
    started = time.monotonic()
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "GITHUB_"))}
    done = subprocess.run(
        ["sh", str(SCRIPT), name],
        env={**kept, **settings},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PHASE_SECONDS,
        check=False,
    )
    phase = Phase(name=name, code=done.returncode, output=done.stdout, seconds=round(time.monotonic() - started, 1))
    tell(f"upgrade-gate.sh {name}: exit code {phase.code} after {phase.seconds:.0f} s; {phase.last_line[:200]}")
    return phase


def main(arguments: Sequence[str]) -> int:
    """Exit 0 when the gate decides rightly, 1 when not, 4 when a minor is not built."""
    parser = argparse.ArgumentParser(prog="make upgrade-local", description=(__doc__ or "").partition("\n\n")[0])
    known = minors()
    parser.add_argument("older", nargs="?", default=known[known.index(DEFAULT_MINOR) + 1], help="minor to start with")
    parser.add_argument("newer", nargs="?", default=DEFAULT_MINOR, help="minor to upgrade to")
    parser.add_argument("--run-options", default="", help="more options of the runs, in one word")
    chosen = parser.parse_args(arguments)
    try:
        older, newer = find(chosen.older), find(chosen.newer)
    except BinariesMissing as error:
        print(error, file=sys.stderr)
        return 4
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-upgrade-") as folder:
        done = upgrade(older, newer, Path(folder), run_options=chosen.run_options)
    for phase in (done.before, done.healthy, done.regression):
        print(f"\n--- {phase.name}: exit code {phase.code}\n{phase.output[-6000:]}")
    print(f"{done.version_before} -> {done.version_after}: {'the gate decided rightly' if done.holds else 'THE GATE DECIDED WRONGLY'}")
    return 0 if done.holds else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
