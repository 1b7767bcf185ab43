"""``make upgrade-local``: real upgrades and roll-backs of the control plane under simulated GPU nodes, with the gate of ``deploy/ci``.

etcd's data, the nodes and everything that runs on them stay; the Kubernetes programs are replaced by those of the next minor of the
chain. The gate has to let each of these steps stay. After them it has to stop regressions that an upgrade can bring, each by name: the
programs start as one of the project's defects leaves them. The newest etcd stays on the way back: an older one does not start on its
data (https://etcd.io/docs/v3.7/downgrades/downgrade_3_7/).
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from fixtures.localcluster.control_plane.components import SCHEDULER_FILE
from fixtures.localcluster.control_plane.control_plane import HEALTHY, ControlPlane
from fixtures.localcluster.install.release import Binaries, BinariesMissing, UnknownMinor, find, minors, version_key
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.defects import behaviour_of
from fixtures.simulator.config.scenario import load_defect, load_scenario

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy" / "ci" / "upgrade-gate.sh"
SCENARIO = "healthy"
START_SECONDS = 60.0
PHASE_SECONDS = 900
REGRESSIONS = (
    "req-quota-not-enforced",
    "psa-enforcement-exempted",
    "fence-scheduler-ignores-taints",
    "gang-native-binds-what-fits",
    "obs-no-scheduling-events",
)
"""Defects of programs that an upgrade can bring. The last takes a right away, which no later start gives back."""
RUN_OPTIONS = "--only REQ-07,PSA-03,FENCE-05,GANG-03,OBS-06,INV"

_ID = re.compile(r"^  ([A-Z]+-\d+) ", re.MULTILINE)


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One call of the script. ``version`` is what the API server states, ``regression`` a defect or empty, ``due`` what that breaks."""

    phase: str
    version: str
    regression: str = ""
    due: tuple[str, ...] = ()
    code: int
    output: str
    seconds: float

    @property
    def named(self) -> list[str]:
        """Requirements that the gate names as new failures."""
        return sorted(set(_ID.findall(self.output.partition("\nnew failure (")[2].partition("\n\n")[0])))

    @property
    def holds(self) -> bool:
        """Whether the gate decided rightly: a regression is stopped by its own requirements, and nothing else is stopped."""
        if not self.regression:
            return self.code == 0 and not self.named
        return self.code == 1 and bool(self.named) and set(self.named) <= set(self.due)

    @property
    def text(self) -> str:
        """One line: what ran, and what the gate said of it."""
        decided = f"stopped by {', '.join(self.named)}" if self.named else f"exit code {self.code}"
        wrong = "" if self.holds else "  <- THE GATE DECIDED WRONGLY"
        return f"{self.version} {self.regression or 'healthy'}, {self.phase}: {decided} after {self.seconds:.0f} s{wrong}"


def replace_programs(plane: ControlPlane, binaries: Binaries, scheduler: bytes, behaviour: Behaviour = HEALTHY) -> None:
    """End etcd and the Kubernetes programs, clients first, and start those of ``binaries`` on the same data, port and keys.

    ``scheduler`` is the scheduler's configuration before ``behaviour`` changes it.
    """
    for process in reversed(plane._processes):
        process.stop(START_SECONDS)
    plane._processes.clear()
    (plane.folder / SCHEDULER_FILE).write_bytes(scheduler)
    plane._start(binaries, True, behaviour, time.monotonic() + START_SECONDS)


def upgrade(
    chain: Sequence[Binaries],
    regressions: Sequence[str],
    folder: Path,
    *,
    run_options: str = RUN_OPTIONS,
    tell: Callable[[str], None] = print,
) -> list[Step]:
    """Go along the chain with the gate around it, in files below ``folder``. The regressions are spread over the steps, in order."""
    scenario, newest = load_scenario(SCENARIO), max(chain, key=lambda one: version_key(one.version))
    taken: list[Step] = []
    stops = len(chain) - 1
    with LocalCluster.start(None, SCENARIO, folder / "cluster", chain[0].paths["kube-apiserver"].parent) as cluster:
        policy, plane = folder / "policy.json", cluster.plane
        policy.write_bytes(msgspec.json.encode(cluster.policy))
        scheduler = (plane.folder / SCHEDULER_FILE).read_bytes()
        settings = {
            "GPU_CONFORMANCE": f"{sys.executable} -m conformance.cli.main",
            "GATE_KUBECONFIG": str(cluster.kubeconfig),
            "GATE_FOLDER": str(folder / "upgrade-gate"),
            "GATE_POLICY": str(policy),
            "GATE_SETTLE": "60",
            "GATE_RUN": run_options,
        }

        def judge(phase: str, regression: str = "", due: Sequence[str] = ()) -> None:
            code, output, seconds = _gate(phase, settings)
            step = Step(
                phase=phase, version=plane.version, regression=regression, due=tuple(due), code=code, output=output, seconds=seconds
            )
            taken.append(step)
            tell(step.text)

        judge("before")
        for number, (before, binaries) in enumerate(pairwise(chain)):
            if version_key(binaries.version) < version_key(before.version):
                binaries = msgspec.structs.replace(binaries, paths={**binaries.paths, "etcd": newest.paths["etcd"]})
            replace_programs(plane, binaries, scheduler)
            judge("after")
            for name in regressions[len(regressions) * number // stops : len(regressions) * (number + 1) // stops]:
                defect = load_defect(name)
                replace_programs(plane, binaries, scheduler, behaviour_of(scenario, [defect]))
                judge("after", name, defect.trips)
    return taken


def _gate(phase: str, settings: dict[str, str]) -> tuple[int, str, float]:
    """Exit code, output and seconds of the script."""
    started = time.monotonic()
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "GITHUB_"))}
    done = subprocess.run(
        ["sh", str(SCRIPT), phase],
        env={**kept, **settings},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PHASE_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout, round(time.monotonic() - started, 1)


def there_and_back() -> list[str]:
    """Every pinned minor from the oldest to the newest, and back."""
    oldest_first = minors()[::-1]
    return [*oldest_first, *oldest_first[-2::-1]]


def main(arguments: Sequence[str]) -> int:
    """Exit 0 when the gate decides rightly at every step, 1 when not, 4 when a minor is not built."""
    parser = argparse.ArgumentParser(prog="make upgrade-local", description=(__doc__ or "").partition("\n\n")[0])
    known = there_and_back()
    parser.add_argument("minors", nargs="*", default=known, help=f"minors in turn, the first to start with; default: {' '.join(known)}")
    parser.add_argument("--run-options", default=RUN_OPTIONS, help="more options of the runs, in one word")
    chosen = parser.parse_args(arguments)
    if len(chosen.minors) < 2:
        parser.error("name two minors or more")
    try:
        chain = [find(minor) for minor in chosen.minors]
    except (BinariesMissing, UnknownMinor) as error:
        print(error, file=sys.stderr)
        return 4
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-upgrade-") as folder:
        taken = upgrade(chain, REGRESSIONS, Path(folder), run_options=chosen.run_options)
    wrong = [step for step in taken if not step.holds]
    for step in wrong:
        print(f"\n--- {step.text}\n{step.output[-6000:]}")
    print(f"{' -> '.join(chosen.minors)}: the gate decided rightly at {len(taken) - len(wrong)} of {len(taken)} steps")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
