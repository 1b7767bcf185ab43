"""``gpu-conformance diff A B`` and ``gpu-conformance report DIR``: views of records, no cluster needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conformance.cli.arguments import Parser, complain
from reports.diff.runs import accept, compare, regressions, render
from reports.folder import ReportError, load_run, write_all


def main(argv: Sequence[str]) -> int:
    """Exit 0, or 1 when the second report has a regression against the first, 4 when a file is no report.

    What was judged and is not any more is a regression, unless ``--accept-not-judged`` names it.
    """
    parser = Parser(prog="gpu-conformance")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    diff = commands.add_parser("diff", help="compare two reports (files or run folders)")
    diff.add_argument("before", type=Path)
    diff.add_argument("after", type=Path)
    diff.add_argument(
        "--accept-not-judged",
        metavar="GLOB",
        action="append",
        default=[],
        help="accept that a requirement, area, experiment or subject is no longer judged ('NET', 'Node gpu-3', 'ADV-01 Node gpu-3')",
    )
    report = commands.add_parser("report", help="write HTML and all other views of a report again")
    report.add_argument("folder", type=Path)
    arguments = parser.parse_args(argv)
    try:
        if arguments.command == "report":
            record, chaos = load_run(arguments.folder)
            write_all(record, arguments.folder, chaos)
            print(arguments.folder / "report.html")
            return 0
        (before, chaos_before), (after, chaos_after) = load_run(arguments.before), load_run(arguments.after)
        difference = accept(compare(before, after, chaos_before, chaos_after), arguments.accept_not_judged)
    except ReportError as error:
        return complain("gpu-conformance", error)
    print(render(difference))
    return 1 if regressions(difference) else 0
