"""``python -m tests.chaos.selfcheck``: seeded bugs, control runs and kills; writes ``out/chaos-selfcheck.json``.

Ends with 0 when every bug was caught, no control run failed and nothing was left after any kill.
"""

import argparse
import itertools
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from chaos.catalogue import load_all
from chaos.model.experiment import Experiment
from chaos.model.pairs import pairs_of
from fixtures.simulator.config.scenario import Defect
from fixtures.verdict.record import Verdict
from tests.chaos.selfcheck import bugs, controls, kills
from tests.chaos.selfcheck.bugs import BugRow
from tests.chaos.selfcheck.controls import ControlRow
from tests.chaos.selfcheck.kills import Kill
from tests.chaos.selfcheck.runs import ROOT, Finished, Stage, run

PARTS = ("clean", "bugs", "controls", "kills")
LEAST_CONTROLS = 20


class SelfCheck(msgspec.Struct, kw_only=True, rename="camel"):
    """``out/chaos-selfcheck.json``. ``residue`` counts kills after which something was not as before."""

    schema_version: str = "1.0"
    seed: int = 0
    kills: int = 0
    residue: int = 0
    seeded_bugs: int = 0
    caught: int = 0
    control_runs: int = 0
    false_failures: int = 0
    clean: dict[str, str] = {}
    duration_seconds: float = 0.0
    killed: dict[str, int] = {}
    kill_stages: dict[str, int] = {}
    kill_rows: list[Kill] = []
    bug_rows: list[BugRow] = []
    control_rows: list[ControlRow] = []

    @property
    def ok(self) -> bool:
        """Whether all bars are met by what was run."""
        clean = all(verdict == Verdict.PASSED.value for verdict in self.clean.values())
        return clean and not self.residue and self.caught == self.seeded_bugs and not self.false_failures


def main() -> int:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.selfcheck", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--controls", type=int, help="default: every experiment once, and at least 20 runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=PARTS, action="append", help="default: all parts")
    parser.add_argument("--experiment", action="append", default=[], metavar="ID")
    parser.add_argument("--json", type=Path, default=ROOT / "out" / "chaos-selfcheck.json")
    options = parser.parse_args()
    began = time.monotonic()
    known = load_all()
    experiments = [one for one in (*known, *pairs_of(known)) if not options.experiment or one.id in options.experiment]
    parts = tuple(options.only or PARTS)
    folder = Path(tempfile.mkdtemp(prefix="gpu-conformance-selfcheck-"))
    found = SelfCheck(seed=options.seed)
    seeded = [bug for bug in bugs.seeded() if not options.experiment or set(bug.experiments) & set(options.experiment)]
    durations: dict[str, float] = {}
    if {"clean", "kills"} & set(parts):  # kills are drawn from the time that an undisturbed run takes
        durations = clean(experiments, seeded, folder, found, options.jobs)
    able = [one for one in experiments if not durations or one.id in durations]
    if "bugs" in parts:
        check_bugs(seeded, {one.id for one in experiments}, folder, found, options.jobs)
    if "controls" in parts:
        count = max(LEAST_CONTROLS, len(able)) if options.controls is None else options.controls
        check_controls(able, seeded, folder, found, count, options.jobs)
    if "kills" in parts:
        check_kills(able, seeded, durations, folder, found, options)
    found.duration_seconds = round(time.monotonic() - began, 1)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    shutil.rmtree(folder, ignore_errors=True)
    print(
        f"kills {found.kills}, residue {found.residue}; seeded bugs {found.seeded_bugs}, caught {found.caught}; "
        f"control runs {found.control_runs}, false failures {found.false_failures}; {found.duration_seconds:.0f} s; {options.json}"
    )
    return 0 if found.ok else 1


def clean(experiments: list[Experiment], seeded: list[Defect], folder: Path, found: SelfCheck, jobs: int) -> dict[str, float]:
    """Every experiment once on a healthy cluster: it must pass. Seconds that each took, for those that did."""
    durations: dict[str, float] = {}

    def judge(share: tuple[str, list[str]]) -> Finished:
        scenario, ids = share
        return run(folder / f"clean-{ids[0]}", "--simulate", scenario, ids=ids, seconds=60.0 * len(ids) + 60.0)

    shares = _shares(experiments, seeded, jobs)
    with ThreadPoolExecutor(jobs) as pool:
        for (_, ids), finished in zip(shares, pool.map(judge, shares), strict=True):
            for id_ in ids:
                result = finished.result(id_)
                found.clean[id_] = result.verdict.value if result else f"exit code {finished.code}"
                if result is not None and result.verdict is Verdict.PASSED:
                    durations[id_] = result.duration_seconds
                else:
                    say(f"clean   {id_:5} {found.clean[id_]}: {result.message if result else finished.tail}")
    say(f"clean   {len(durations)} of {len(experiments)} experiments pass without a bug")
    return durations


def check_bugs(seeded: list[Defect], known: set[str], folder: Path, found: SelfCheck, jobs: int) -> None:
    """Every bug, by every experiment that is meant for it. A bug is caught when each of them fails because of it."""
    wanted = [(bug, id_) for bug in seeded for id_ in bug.experiments if id_ in known]
    with ThreadPoolExecutor(jobs) as pool:
        rows = pool.map(lambda pair: bugs.check(pair[0], pair[1], folder / f"{pair[0].name}-{pair[1]}"), wanted)
        for row in rows:
            found.bug_rows.append(row)
            say(f"bug     {row.bug:40} {row.experiment:5} {row.verdict:13} {'; '.join(row.reasons)[:100]}")
            if row.output:
                say(row.output)
    found.seeded_bugs = len(seeded)
    found.caught = len({row.bug for row in found.bug_rows} - {row.bug for row in found.bug_rows if not row.caught})


def check_controls(experiments: list[Experiment], seeded: list[Defect], folder: Path, found: SelfCheck, count: int, jobs: int) -> None:
    """Control runs of the experiments in turn."""
    documents = controls.write(experiments, folder / "controls")
    turns: dict[int, list[Experiment]] = {}
    for index, experiment in enumerate(itertools.islice(itertools.cycle(experiments), count if experiments else 0)):
        turns.setdefault(index // len(experiments), []).append(experiment)
    shares = [(turn, scenario, ids) for turn, chosen in turns.items() for scenario, ids in _shares(chosen, seeded, jobs)]

    def judge(share: tuple[int, str, list[str]]) -> list[ControlRow]:
        turn, scenario, ids = share
        return controls.check(ids, scenario, folder / f"control-{turn}-{ids[0]}", documents, turn)

    with ThreadPoolExecutor(jobs) as pool:
        for rows in pool.map(judge, shares):
            for row in rows:
                found.control_rows.append(row)
                say(f"control {row.experiment:5} {row.verdict:13} {row.message[:400]}")
    found.control_runs = len(found.control_rows)
    found.false_failures = sum(row.false_failure for row in found.control_rows)


def check_kills(
    experiments: list[Experiment],
    seeded: list[Defect],
    durations: dict[str, float],
    folder: Path,
    found: SelfCheck,
    options: argparse.Namespace,
) -> None:
    """Kills over all experiments in turn, by workers that have a cluster each."""
    if not experiments:
        return
    order = list(itertools.islice(itertools.cycle([one.id for one in experiments]), options.kills))
    shares = [order[worker :: options.jobs] for worker in range(options.jobs)]
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = [
            pool.submit(_worker, share, seeded, durations, folder / f"kills-{worker}", random.Random(f"{options.seed}/{worker}"))
            for worker, share in enumerate(shares)
        ]
        for future in futures:
            found.kill_rows += future.result()
    found.kills = len(found.kill_rows)
    found.residue = sum(bool(row.residue) for row in found.kill_rows)
    found.killed = dict(Counter(row.victim for row in found.kill_rows))
    found.kill_stages = dict(Counter(row.stage for row in found.kill_rows))


def _worker(ids: Iterable[str], seeded: list[Defect], durations: dict[str, float], folder: Path, chance: random.Random) -> list[Kill]:
    rows: list[Kill] = []
    stages: dict[str, Stage] = {}
    try:
        for turn, id_ in enumerate(ids):
            scenario = bugs.scenario_of(id_, seeded)
            if scenario not in stages:
                stages[scenario] = Stage(scenario, folder / f"cluster-{turn}")
            row = kills.kill_once(stages[scenario], id_, durations[id_], chance, folder / f"{turn}-{id_}")
            rows.append(row)
            say(
                f"kill    {row.experiment:5} {row.victim:6} {row.seconds:6.2f} s {row.stage:8} {'; '.join(row.residue)[:400] or 'restored'}"
            )
            if row.residue:  # the next kill starts from a cluster that nobody has left anything on
                stages.pop(scenario).stop()
    finally:
        for stage in stages.values():
            stage.stop()
    return rows


def _shares(experiments: list[Experiment], seeded: list[Defect], jobs: int) -> list[tuple[str, list[str]]]:
    """Scenario and ids of runs that together are all experiments: every scenario's in ``jobs`` parts of a cluster each."""
    found: dict[str, list[str]] = {}
    for experiment in experiments:
        found.setdefault(bugs.scenario_of(experiment.id, seeded), []).append(experiment.id)
    return [(scenario, ids[part::jobs]) for scenario, ids in found.items() for part in range(min(jobs, len(ids)))]


def say(line: str) -> None:
    """Progress, at once."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
