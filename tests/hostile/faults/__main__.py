"""``python -m tests.hostile.faults --runs 200``: runs, experiments and commands through the fault proxy; writes out/faults.json."""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path

import msgspec

from tests.hostile.faults.campaign import Outcome, suffered, usual
from tests.hostile.faults.commands import COMMANDS, answered, stated
from tests.hostile.faults.experiments import endured, under
from tests.hostile.faults.plans import SCENARIOS, Ordeal, each_by_itself, ordeal
from tests.hostile.faults.proxy import Fault

Work = Callable[[Path], Outcome]
"""A run, an experiment or a command, in a folder of its own."""


def main() -> int:
    """Exit 0 when no run did anything wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.faults")
    parser.add_argument("--each", action="store_true", help="every fault by itself, whenever a question is asked, for every question")
    parser.add_argument("--simulate", default=SCENARIOS[0], help="what the runs of --each judge")
    parser.add_argument("--runs", type=int, help="at most; default: 200, or with --each all that there are")
    parser.add_argument("--experiments", type=int, help="at most; default: 40, or with --each all")
    parser.add_argument("--commands", type=int, help="at most; default: 40, or with --each all")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the others count on. With --each its place among all")
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("out/faults.json"))
    arguments = parser.parse_args()
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-faults-") as name, ThreadPoolExecutor(arguments.jobs) as pool:
        folders = map(Path(name).joinpath, map(str, range(sys.maxsize)))
        choose = _each if arguments.each else _seeded
        for outcome in pool.map(_done, choose(arguments, folders), folders):
            outcomes.append(outcome)
            _tell(outcome)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(outcomes), indent=2) + b"\n")
    bad = [outcome for outcome in outcomes if outcome.wrong]
    costly = sum(outcome.changed > 0 for outcome in outcomes)
    met = sum(outcome.befell > 0 for outcome in outcomes)
    print(f"{len(outcomes)} runs, {met} of which met a fault; {costly} ended otherwise than without, {len(bad)} did something wrong")
    return 1 if bad else 0


def _seeded(arguments: argparse.Namespace, folders: Iterator[Path]) -> Iterator[Work]:
    """Some faults in each, chosen by its seed."""

    def seeds(count: int | None, usually: int) -> range:
        return range(arguments.seed, arguments.seed + (usually if count is None else count))

    ordeals = [ordeal(seed) for seed in seeds(arguments.runs, 200)]
    expected = {simulated: usual(simulated, _made(next(folders))) for simulated in sorted({one.simulate for one in ordeals})}
    for one in ordeals:
        yield partial(suffered, one, expected[one.simulate])
    for seed in seeds(arguments.experiments, 40):
        yield partial(endured, seed)
    for seed in seeds(arguments.commands, 40):
        yield partial(stated, seed)


def _each(arguments: argparse.Namespace, folders: Iterator[Path]) -> Iterator[Work]:
    """Every fault by itself. What may be asked is found by one run, experiment or command without any."""

    def of(count: int | None, work: Iterable[Work]) -> Iterator[Work]:
        return islice(work, arguments.seed - 1, None if count is None else arguments.seed - 1 + count)

    def faults(alone: Work) -> Iterator[tuple[int, Fault]]:
        return enumerate(each_by_itself(_done(alone, next(folders)).asked), start=1)

    simulated = arguments.simulate
    expected = usual(simulated, _made(next(folders)))
    without = partial(suffered, Ordeal(seed=0, simulate=simulated, faults=()), expected)
    runs = [partial(suffered, Ordeal(seed=seed, simulate=simulated, faults=(one,)), expected) for seed, one in faults(without)]
    yield from of(arguments.runs, runs)
    yield from of(arguments.experiments, [partial(under, (one,), seed=seed) for seed, one in faults(partial(under, ()))])
    for command in COMMANDS:
        alone = [partial(answered, command, (one,), seed=seed) for seed, one in faults(partial(answered, command, ()))]
        yield from of(arguments.commands, alone)


def _done(work: Work, folder: Path) -> Outcome:
    began = time.monotonic()
    try:
        outcome = work(_made(folder))
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
