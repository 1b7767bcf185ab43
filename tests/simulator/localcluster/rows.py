"""Rows of the local matrix: a scenario or some of its defects, judged on the embedded cluster and on real Kubernetes."""

import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from conformance.matrix.detection import run_pytest
from fixtures.localcluster.nodes.attach import parse
from fixtures.simulator.config.scenario import ScenarioError, defect_names, load_scenario, scenario_names
from fixtures.verdict.record import Report, Result, Verdict, decode_report
from tests.simulator.localcluster.known import cannot_exist, reason_of
from tests.simulator.localcluster.packing import Pack

ROOT = Path(__file__).resolve().parents[3]
ROW_SECONDS = 300.0
RED = (Verdict.FAILED, Verdict.WARNED)
JUDGED = (0, 1, 10, 11)
"""Exit codes of runs that came to their end; the records of others lack requirements, on both sides alike."""


class Differing(msgspec.Struct, rename="camel", kw_only=True):
    """One requirement that real Kubernetes decides otherwise. ``known`` is why, empty when nobody knows."""

    id: str
    embedded: str
    real: str
    known: str
    message: str = ""


class Row(msgspec.Struct, rename="camel", kw_only=True):
    """One run on either cluster. ``names`` are the scenario or the defects; ``trouble`` is why there is nothing to compare."""

    simulate: str
    names: tuple[str, ...]
    compared: int = 0
    equal: int = 0
    differing: list[Differing] = []
    cannot_exist: str = ""
    trouble: str = ""
    seconds: float = 0.0

    @property
    def unknown(self) -> bool:
        """Whether something about it is not accounted for."""
        return bool(self.trouble) or any(not one.known for one in self.differing)


def all_names() -> list[str]:
    """Every healthy scenario, then every defect. A fleet is a matter of size, and made of what the others are made of."""
    return [name for name in scenario_names() if load_scenario(name).fleet is None] + defect_names()


def judge(pack: Pack, minor: str, folder: Path) -> list[Row]:
    """Judge both clusters. Defects that hide or exclude each other are judged apart: a row for each half, and so on."""
    started = time.monotonic()
    row = Row(simulate=pack.spec, names=pack.names)
    if reason := refusal(pack.spec):
        if len(pack.defects) > 1:
            return [row for half in pack.halves for row in judge(half, minor, folder)]
        row.cannot_exist = cannot_exist(pack.names)
        row.trouble = "" if row.cannot_exist else f"refused: {reason}"
        return [row]
    into = folder / pack.names[0]
    if len(pack.defects) > 1:
        embedded = record(into / "embedded", "--simulate", pack.spec)
        if not isinstance(embedded, str) and not hides_nothing(pack, embedded.results):
            return [row for half in pack.halves for row in judge(half, minor, into)]
        real = record(into / "local", f"--local={minor}", "--simulate", pack.spec)
    else:
        with ThreadPoolExecutor(1) as beside:
            simulated = beside.submit(record, into / "embedded", "--simulate", pack.spec)
            real = record(into / "local", f"--local={minor}", "--simulate", pack.spec)
        embedded = simulated.result()
    if isinstance(embedded, str) or isinstance(real, str):
        row.trouble = " / ".join(one for one in (embedded, real) if isinstance(one, str))
    else:
        fill(row, embedded.results, real.results)
    row.seconds = round(time.monotonic() - started, 1)
    return [row]


def hides_nothing(pack: Pack, embedded: Iterable[Result]) -> bool:
    """Whether exactly the requirements of its defects are red, each because of one of them."""
    return {result.id for result in embedded if result.verdict in RED} == pack.trips


def refusal(spec: str) -> str:
    """Why the node side of a real control plane refuses a row; empty when it does not."""
    try:
        parse(spec)
    except ScenarioError as error:
        return str(error)
    return ""


def fill(row: Row, embedded: Iterable[Result], real: Iterable[Result]) -> None:
    """Compare verdict by verdict. A requirement that one side has not judged at all is a difference too."""
    ours, theirs = ({result.id: result for result in results} for results in (embedded, real))
    for id_ in sorted(ours.keys() | theirs.keys()):
        row.compared += 1
        one, other = ours.get(id_), theirs.get(id_)
        first, second = (str(result.verdict) if result else "absent" for result in (one, other))
        if first == second:
            row.equal += 1
            continue
        known = reason_of(row.names, id_, first, second)
        message = other.message if other else ""
        row.differing.append(Differing(id=id_, embedded=first, real=second, known=known, message=message))


def record(folder: Path, *arguments: str, suite: Sequence[str] = ("conformance",)) -> Report | str:
    """The record of one run of the suite, in a process of its own; or what it said instead."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    paths = [str(ROOT / name) for name in suite]
    command = ["-q", "-c", str(ROOT / "pyproject.toml"), *paths, *arguments, "--report-dir", str(folder), "--record-only"]
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = run_pytest(command, cwd=ROOT, environment=kept, log=folder.with_suffix(".log"), seconds=ROW_SECONDS)
    except TimeoutError as error:
        return str(error)
    file = folder / "report.json"
    if file.is_file() and (report := decode_report(file.read_bytes())).exit_code in JUDGED and report.results:
        return report
    reported = [line for line in done.output.splitlines() if line.strip()]
    return f"{' '.join(arguments)}: no complete record (exit {done.code}): {' | '.join(reported[-6:])[:900]}"
