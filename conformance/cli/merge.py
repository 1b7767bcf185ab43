"""``gpu-conformance merge REPORT...``: one report of many clusters."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from conformance.cli.arguments import Parser, complain, tell
from conformance.cli.commands import command_parser
from reports.folder import ReportError
from reports.merge import views
from reports.merge.fleet import code, merge
from reports.merge.views import read, write


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    parser.add_argument("reports", nargs="+", metavar="REPORT", help="report.json or its folder; NAME=REPORT names the cluster")
    parser.add_argument("--into", metavar="DIR", type=Path, default=Path("out/fleet"), help="folder of the result; default: out/fleet")
    parser.add_argument("--max-age", metavar="HOURS", type=_hours, help="say which runs are older; default: none is too old")
    parser.add_argument("--gate", action="store_true", help="end with the exit code of the worst cluster, or 10 if one was not judged")


def main(argv: Sequence[str]) -> int:
    """Exit 0, or 4 when no report could be read. With ``--gate``: the exit code of the worst cluster, and 10 where one was not judged."""
    arguments = command_parser("merge").parse_args(argv[1:])
    found = read(arguments.reports)
    fleet = merge(found.named, unreadable=found.unreadable, now=datetime.now(UTC), max_age=arguments.max_age)
    if not found.named:
        return complain("gpu-conformance merge", f"no report could be read: {'; '.join(found.unreadable[:3])}")
    try:
        paths = write(fleet, arguments.into)
    except ReportError as error:
        return complain("gpu-conformance merge", error)
    tell(views.sentence(fleet))
    tell(*fleet.unreadable, *fleet.notes, paths[-1])
    return code(fleet) if arguments.gate else 0


def _hours(text: str) -> timedelta:
    """A length of time in hours. Raises :class:`argparse.ArgumentTypeError`."""
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0 < hours <= 24 * 366:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours from above 0 to {24 * 366}")
    return timedelta(hours=hours)
