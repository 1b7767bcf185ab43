"""``gpu-conformance tables``: dated tables that requirements judge by, and which of them nobody has compared with their sources lately."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from conformance.cli.arguments import Parser, tell
from conformance.cli.commands import command_parser
from fixtures.tables.dated import ALL, months_old


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    parser.add_argument("--check", action="store_true", help="exit with 1 if a table is older than half a year; default: list them all")


def main(argv: Sequence[str]) -> int:
    """Print each table with its month, or those that are too old."""
    arguments = command_parser("tables").parse_args(argv[1:])
    now = datetime.now(UTC)
    old = {name: table for name, table in ALL.items() if months_old(table, now.year, now.month) > 6}
    for name, table in (old if arguments.check else ALL).items():
        tell(f"{table.date}  {name}: {table.about}", *(f"         {source}" for source in table.sources))
    return 1 if arguments.check and old else 0
