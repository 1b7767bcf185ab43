"""``gpu-conformance matrix``: the proof that no requirement passes vacuously."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from conformance.catalogue import CatalogueError, load_catalogue
from conformance.cli.arguments import Parser, complain, show, tell
from conformance.cli.commands import command_parser
from conformance.matrix.detection import Matrix, MatrixError, Rows, rows_of, run_matrix
from fixtures.simulator.interface import ScenarioError, defect_names, load_defect, load_scenario, scenario_names


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    parser.add_argument("--json", metavar="FILE", help="write the matrix to this file")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--only", metavar="NAME", nargs="+", default=[], help="only these scenarios and defects")
    chosen.add_argument("--requirement", metavar="ID", help="its defects, their scenarios, and only it in all other scenarios")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) * 2, help="how many runs at a time")


def main(argv: Sequence[str]) -> int:
    """Exit 0 when every bar holds, 1 when not, 4 for a wrong name."""
    parser = command_parser("matrix")
    arguments = parser.parse_args(argv[1:])
    try:
        catalogue = load_catalogue()
        scenarios = [name for name in scenario_names() if load_scenario(name).fleet is None]
        defects = defect_names()
        if arguments.requirement:
            plans = {name: load_defect(name) for name in defects}
            rows = rows_of(catalogue.get(arguments.requirement).id, scenarios=scenarios, defects=plans)
        else:
            rows = _named(arguments.only, scenarios, defects) if arguments.only else Rows(scenarios=scenarios, defects=defects)
        for name in rows.defects:
            for id_ in load_defect(name).trips:
                catalogue.get(id_)
        started = time.monotonic()
        matrix = run_matrix(rows, catalogue.by_id, jobs=max(arguments.jobs, 1), tell=tell)
    except (CatalogueError, ScenarioError) as error:
        return complain(parser.prog, error)
    except MatrixError as error:
        complain(parser.prog, error)
        return 3
    if arguments.json:
        path = Path(arguments.json)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(matrix), indent=2) + b"\n")
    return _conclude(matrix, time.monotonic() - started, partial=bool(arguments.only or arguments.requirement))


def _named(names: Sequence[str], scenarios: Sequence[str], defects: Sequence[str]) -> Rows:
    """The rows of these names. Raises :class:`ScenarioError` for one that is neither a healthy scenario nor a defect."""
    for name in names:
        if name not in scenarios:
            load_defect(name)
    return Rows(scenarios=[name for name in scenarios if name in names], defects=[name for name in defects if name in names])


def _conclude(matrix: Matrix, seconds: float, *, partial: bool) -> int:
    detected = sum(row.detected for row in matrix.defects)
    alarms = sum(len(row.false_alarms) for row in matrix.scenarios)
    show(
        f"\n{detected} of {len(matrix.defects)} defects detected exactly, "
        f"{alarms} false alarms in {len(matrix.scenarios)} scenarios, {seconds:.0f} s"
    )
    if partial:
        return 0 if detected == len(matrix.defects) and not alarms else 1
    if matrix.without_defect:
        show(f"without a defect: {', '.join(matrix.without_defect)}")
    if matrix.never_judged:
        show(f"judged by no healthy scenario: {', '.join(matrix.never_judged)}")
    return 0 if matrix.holds else 1
