"""``gpu-conformance cncf REPORT``: what a run on a live cluster shows of CNCF's AI conformance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conformance.cli.arguments import Parser, complain, tell
from conformance.cli.commands import command_parser
from reports.cncf.product import NAME, write
from reports.cncf.programme import CncfError
from reports.folder import ReportError, load


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    parser.add_argument("report", type=Path, metavar="REPORT", help="report.json of a run on a live cluster, or its folder")
    parser.add_argument("--checklist", type=Path, metavar="FILE", help="checklist, or a PRODUCT.yaml that was begun, to fill in")
    parser.add_argument("--into", metavar="DIR", type=Path, default=Path("out/cncf"), help="folder of the result; default: out/cncf")


def main(argv: Sequence[str]) -> int:
    """Exit 0, or 4 where the report is of no live cluster, or of a release without a checklist."""
    arguments = command_parser("cncf").parse_args(argv[1:])
    try:
        entries = write(load(arguments.report), arguments.into, arguments.checklist)
    except (CncfError, ReportError) as error:
        return complain("gpu-conformance cncf", error)
    for one in entries:
        tell(f"{one.level:<6} {one.item.id:<28} {one.status or 'not judged'}")
    tell(arguments.into / NAME)
    return 0
