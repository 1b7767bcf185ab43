"""``python -m tests.hostile.faults --runs 200``: runs, experiments and commands through the fault proxy; writes out/faults.json."""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import msgspec

from fixtures.verdict.record import Report
from tests.hostile.faults.campaign import Outcome, suffered, usual
from tests.hostile.faults.commands import told
from tests.hostile.faults.experiments import endured
from tests.hostile.faults.plans import ordeal


def main() -> int:
    """Exit 0 when no run did anything wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.faults")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--experiments", type=int, default=40)
    parser.add_argument("--commands", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the others count on")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("out/faults.json"))
    arguments = parser.parse_args()
    ordeals = [ordeal(seed) for seed in _seeds(arguments.seed, arguments.runs)]
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-faults-") as name, ThreadPoolExecutor(arguments.jobs) as pool:
        root = Path(name)
        simulated = sorted({one.simulate for one in ordeals})
        made = pool.map(lambda pair: usual(pair[1], _folder(root / f"usual-{pair[0]}")), enumerate(simulated))
        expected: dict[str, Report] = dict(zip(simulated, made, strict=True))
        outcomes: list[Outcome] = []
        runs = pool.map(lambda one: suffered(one, expected[one.simulate], _folder(root / str(one.seed))), ordeals)
        experiments = pool.map(
            lambda seed: endured(seed, _folder(root / f"experiment-{seed}")), _seeds(arguments.seed, arguments.experiments)
        )
        commands = pool.map(lambda seed: told(seed, _folder(root / f"command-{seed}")), _seeds(arguments.seed, arguments.commands))
        for outcome in chain(runs, experiments, commands):
            outcomes.append(outcome)
            _tell(outcome)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(outcomes), indent=2) + b"\n")
    bad = [outcome for outcome in outcomes if outcome.wrong]
    costly = sum(outcome.changed > 0 for outcome in outcomes)
    met = sum(outcome.befell > 0 for outcome in outcomes)
    print(f"{len(outcomes)} runs, {met} of which met a fault; {costly} ended otherwise than without, {len(bad)} did something wrong")
    return 1 if bad else 0


def _seeds(first: int, count: int) -> range:
    return range(first, first + count)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _tell(outcome: Outcome) -> None:
    mark = "WRONG" if outcome.wrong else "ok"
    print(f"{mark:<6} seed {outcome.seed} {outcome.simulate}: exit {outcome.exit_code}, {outcome.changed} changed, {outcome.seconds:.0f} s")
    for fault in outcome.faults if outcome.wrong else ():
        print(f"       {fault}")
    for line in outcome.wrong:
        print(f"       {line}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
