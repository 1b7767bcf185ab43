"""``python -m tests.hostile.faults --runs 200``: runs through the fault proxy; writes out/faults.json."""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import msgspec

from fixtures.verdict.record import Report
from tests.hostile.faults.campaign import Outcome, suffered, usual
from tests.hostile.faults.plans import SCENARIOS, Ordeal, each_by_itself, ordeal


def main() -> int:
    """Exit 0 when no run did anything wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.faults")
    parser.add_argument("--each", action="store_true", help="every fault by itself, whenever a question is asked, for every question")
    parser.add_argument("--simulate", default=SCENARIOS[0], help="what the runs of --each judge")
    parser.add_argument("--runs", type=int, help="at most; default: 200, or with --each all that there are")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the others count on. With --each its place among all")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("out/faults.json"))
    arguments = parser.parse_args()
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-faults-") as name, ThreadPoolExecutor(arguments.jobs) as pool:
        folders = map(Path(name).joinpath, map(str, range(sys.maxsize)))
        ordeals = list(_each(arguments, folders) if arguments.each else _seeded(arguments))
        expected = {simulated: usual(simulated, _made(next(folders))) for simulated in sorted({one.simulate for one in ordeals})}
        for outcome in pool.map(lambda one, folder: _done(one, expected[one.simulate], folder), ordeals, folders):
            outcomes.append(outcome)
            _tell(outcome)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(outcomes), indent=2) + b"\n")
    bad = [outcome for outcome in outcomes if outcome.wrong]
    costly = sum(outcome.changed > 0 for outcome in outcomes)
    met = sum(outcome.befell > 0 for outcome in outcomes)
    print(f"{len(outcomes)} runs, {met} of which met a fault; {costly} ended otherwise than without, {len(bad)} did something wrong")
    return 1 if bad else 0


def _seeded(arguments: argparse.Namespace) -> Iterator[Ordeal]:
    """Some faults in each, chosen by its seed."""
    count = 200 if arguments.runs is None else arguments.runs
    return map(ordeal, range(arguments.seed, arguments.seed + count))


def _each(arguments: argparse.Namespace, folders: Iterator[Path]) -> Iterator[Ordeal]:
    """Every fault by itself. What may be asked is found by one run without any."""
    simulated = arguments.simulate
    without = _done(Ordeal(seed=0, simulate=simulated, faults=()), usual(simulated, _made(next(folders))), next(folders))
    every = (Ordeal(seed=seed, simulate=simulated, faults=(one,)) for seed, one in enumerate(each_by_itself(without.asked), start=1))
    return islice(every, arguments.seed - 1, None if arguments.runs is None else arguments.seed - 1 + arguments.runs)


def _done(one: Ordeal, expected: Report, folder: Path) -> Outcome:
    began = time.monotonic()
    try:
        outcome = suffered(one, expected, _made(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    outcome.seconds = round(time.monotonic() - began, 1)
    return outcome


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


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
