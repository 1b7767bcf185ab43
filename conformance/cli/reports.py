"""``gpu-conformance diff A B``, ``gate BEFORE AFTER`` and ``report DIR``: views of records, no cluster needed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from conformance.cli.arguments import Parser, complain
from fixtures.verdict.record import Report
from reports.diff import gate
from reports.diff.runs import Difference, accept, compare, regressions, render
from reports.folder import ReportError, load_run, write_all


def main(argv: Sequence[str]) -> int:
    """Exit 0, or 1 when the second report has a regression against the first, 4 when a file is no report.

    What was judged and is not any more is a regression, unless ``--accept-not-judged`` names it. ``gate`` also ends with 10 when
    the runs do not tell enough, and with 11 when the later one left something behind.
    """
    parser = Parser(prog="gpu-conformance")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    diff = commands.add_parser("diff", help="compare two reports (files or run folders)")
    diff.add_argument("before", type=Path)
    diff.add_argument("after", type=Path)
    _accepts_losses(diff)
    between = commands.add_parser("gate", help="may an upgrade stay? Compare the report before it with the report after it")
    between.add_argument("before", type=Path)
    between.add_argument("after", type=Path)
    between.add_argument("--another-cluster", action="store_true", help="the reports are about two clusters on purpose")
    for option, words in (
        ("--min-judged", "requirements that the later run must have judged"),
        ("--max-inconclusive", "requirements that may be inconclusive in the later run"),
        ("--max-not-applicable", "requirements that may have nothing to judge in the later run"),
    ):
        between.add_argument(option, metavar="N", type=_count, help=words)
    _accepts_losses(between)
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
    if arguments.command == "gate":
        return _gate(arguments, before, after, difference)
    print(render(difference))
    return 1 if regressions(difference) else 0


def _gate(arguments: argparse.Namespace, before: Report, after: Report, difference: Difference) -> int:
    old, new = before.target, after.target
    if not arguments.another_cluster and (old.kind, old.cluster_uid) != (new.kind, new.cluster_uid):
        return complain("gpu-conformance gate", "the reports are about two clusters; if that is on purpose, say --another-cluster")
    budget = gate.Budget(
        min_judged=arguments.min_judged, max_inconclusive=arguments.max_inconclusive, max_not_applicable=arguments.max_not_applicable
    )
    decision = gate.decide(before, after, difference, budget)
    print(gate.render(decision), end="")
    return int(decision.code)


def _accepts_losses(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--accept-not-judged",
        metavar="GLOB",
        action="append",
        default=[],
        help="accept that a requirement, area, experiment or subject is no longer judged ('NET', 'Node gpu-3', 'ADV-01 Node gpu-3')",
    )


def _count(text: str) -> int:
    """A whole number from 0. Raises :class:`argparse.ArgumentTypeError`."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)
