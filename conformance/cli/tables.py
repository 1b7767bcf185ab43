"""``gpu-conformance tables``: dated tables that requirements judge by, and which of them nobody has compared with their sources lately."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from conformance.cli.arguments import Parser, tell
from conformance.cli.commands import command_parser
from fixtures.tables.dated import TablesError, choose
from fixtures.tables.rows import ALL


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    parser.add_argument("--check", action="store_true", help="exit with 1 if a table is older than half a year; default: list them all")
    parser.add_argument("--tables", metavar="DIR", default="", help="these stand in place of the suite's tables of their names")


def main(argv: Sequence[str]) -> int:
    """Print each table with its month, or those that are too old."""
    parser = command_parser("tables")
    arguments = parser.parse_args(argv[1:])
    try:
        if arguments.tables:
            choose(Path(arguments.tables), ALL)
    except TablesError as error:
        parser.error(f"--tables: {error}")
    now = datetime.now(UTC)
    old = [one for one in ALL if one.table.months_old(now.year, now.month) > 6]
    for one in old if arguments.check else ALL:
        own = " (from --tables)" if one.own else ""
        tell(f"{one.table.date}  {one.name}{own}: {one.table.about}", *(f"         {source}" for source in one.table.sources))
    return 1 if arguments.check and old else 0
