"""``gpu-conformance diff``, ``gate``, ``report``, ``merge``, ``history`` and ``cncf``: views of records, no cluster needed."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from conformance.catalogue import CatalogueError, load_catalogue
from conformance.cli import gate_formats
from conformance.cli.arguments import Parser, add_columns, complain, narrow, show, tell, whole_number, width
from conformance.cli.commands import command_parser
from conformance.coverage.run import floor_of
from fixtures.policy.model import Policy
from fixtures.policy.policy_file import PolicyError, build_policy, read_policy_file
from fixtures.verdict.coverage import Floor
from fixtures.verdict.record import Report
from reports.cncf import product
from reports.cncf.programme import CncfError
from reports.diff import gate
from reports.diff.of_nodes import about_nodes
from reports.diff.runs import Difference, accept, compare, regressions, render
from reports.folder import ReportError, load, load_run, write_all, write_atomically
from reports.formats import policy_report, rows
from reports.merge import fleet as fleets
from reports.merge import history, history_views, views
from reports.safe_text import one_line

MAX_COUNT = 99_999
"""More requirements than any catalogue has."""


def options(parser: Parser, command: str) -> None:
    """Give the parser the arguments of one of these commands."""
    if command in ("merge", "cncf", "history"):
        {"merge": _merge_options, "cncf": _cncf_options, "history": _history_options}[command](parser)
        return
    if command == "report":
        parser.add_argument("folder", type=Path, metavar="DIR", help="a run's folder, with report.json or chaos.json")
        words = "print one more view and write none: rows for a table, or objects of wgpolicyk8s.io; default: write the folder's own views"
        parser.add_argument("--as", dest="view", choices=("csv", "policyreport"), help=words)
        return
    parser.add_argument("before", type=Path, metavar="BEFORE", help="a report.json, or a run's folder")
    parser.add_argument("after", type=Path, metavar="AFTER", help="the same of the later run")
    parser.add_argument(
        "--accept-not-judged",
        metavar="GLOB",
        action="append",
        default=[],
        help="accept that a requirement, area, experiment or subject is no longer judged ('NET', 'Node gpu-3', 'ADV-01 Node gpu-3')",
    )
    add_columns(parser, "120")
    parser.set_defaults(columns=120)
    if command == "gate":
        parser.add_argument(
            "--node", metavar="NAME", action="append", default=[], help="compare what the runs say of this node; repeatable"
        )
        parser.add_argument("--another-cluster", action="store_true", help="compare reports of two clusters; default: refuse them")
        for option, words in (
            ("--min-judged", "requirements that the later run must have judged"),
            ("--max-inconclusive", "requirements that may be inconclusive in the later run"),
            ("--max-not-applicable", "requirements that may have nothing to judge in the later run"),
        ):
            parser.add_argument(option, metavar="N", type=whole_number(0, MAX_COUNT), help=f"{words}; default: the policy's gate")
        parser.add_argument("--require", metavar="ID[,ID...]", action="append", default=[], help="requirements that must have passed")
        parser.add_argument(
            "--format", choices=gate_formats.FORMATS, default="text", help="md is a comment for a pull request; default: text"
        )
        parser.add_argument("--policy", metavar="FILE", help="takes bounds and required ids from this policy, where no option gives one")


def main(argv: Sequence[str]) -> int:
    """Exit 0, or 1 when the second report has a regression against the first, 4 when a file is no report.

    What was judged and is not any more is a regression, unless ``--accept-not-judged`` names it. ``gate`` also ends with 10 when
    the runs do not tell enough, and with 11 when the later one left something behind.
    """
    if argv[0] in ("merge", "cncf", "history"):
        return {"merge": _merge, "cncf": _cncf, "history": _history}[argv[0]](argv)
    arguments = command_parser(argv[0]).parse_args(argv[1:])
    try:
        if argv[0] == "report":
            record, chaos = load_run(arguments.folder)
            if arguments.view:
                show({"csv": rows.render, "policyreport": policy_report.render}[arguments.view](record), end="")
                return 0
            write_all(record, arguments.folder, chaos)
            tell(arguments.folder / "report.html")
            return 0
        (before, chaos_before), (after, chaos_after) = load_run(arguments.before), load_run(arguments.after)
        if argv[0] == "gate" and arguments.node:
            before, after = (_of_nodes(report, arguments.node) for report in (before, after))
            chaos_before = chaos_after = None
        difference = compare(before, after, chaos_before, chaos_after)
    except ReportError as error:
        return complain("gpu-conformance", error)
    if argv[0] == "gate":
        return _gate(arguments, before, after, difference)
    difference = accept(difference, arguments.accept_not_judged)
    show(narrow(render(difference), arguments.columns))
    return 1 if regressions(difference) else 0


def _of_nodes(report: Report, nodes: Sequence[str]) -> Report:
    """The report as one about these nodes. Raises :class:`ReportError` for one that has no such node."""
    if missing := [name for name in nodes if name not in {row.node for row in report.inventory}]:
        raise ReportError(f"run {one_line(report.run.id, 80)} judged no node {missing[0]}")
    return about_nodes(report, nodes)


def _gate(arguments: argparse.Namespace, before: Report, after: Report, difference: Difference) -> int:
    if not arguments.another_cluster and (why := gate.unlike(before.target, after.target)):
        return complain("gpu-conformance gate", f"{why}; {gate.ON_PURPOSE}")
    try:
        floor = _floor(arguments)
    except (PolicyError, CatalogueError) as error:
        return complain("gpu-conformance gate", error)
    decision = gate.decide(before, after, difference, floor, arguments.accept_not_judged)
    text = gate_formats.written(decision, arguments.format)
    show(narrow(text, arguments.columns) if arguments.format == "text" else text, end="")
    return int(decision.code)


def _floor(arguments: argparse.Namespace) -> Floor:
    """What the options bound, else the policy. Raises :class:`PolicyError` and :class:`CatalogueError`."""
    policy = build_policy(read_policy_file(Path(arguments.policy))) if arguments.policy else Policy()
    required = [*(id_.strip() for text in arguments.require for id_ in text.split(",") if id_.strip()), *policy.required]
    known = load_catalogue()
    for area in policy.gate.areas:
        try:
            known.check_area(area)
        except CatalogueError as error:
            raise CatalogueError(f"policy: gate.areas: {error}") from None
    return floor_of(
        policy.gate,
        required=tuple(known.get(id_).id for id_ in required),
        min_judged=arguments.min_judged,
        max_inconclusive=arguments.max_inconclusive,
        max_not_applicable=arguments.max_not_applicable,
    )


def _merge_options(parser: Parser) -> None:
    parser.add_argument("reports", nargs="+", metavar="REPORT", help="report.json or its folder; NAME=REPORT names the cluster")
    parser.add_argument("--into", metavar="DIR", type=Path, default=Path("out/fleet"), help="folder of the result; default: out/fleet")
    parser.add_argument("--max-age", metavar="HOURS", type=_hours, help="say which runs are older; default: none is too old")
    parser.add_argument("--gate", action="store_true", help="end with the exit code of the worst cluster, or 10 if one was not judged")


def _merge(argv: Sequence[str]) -> int:
    """Exit 0, or 4 when no report could be read. With ``--gate``: the exit code of the worst cluster, and 10 where one was not judged."""
    arguments = command_parser("merge").parse_args(argv[1:])
    unreadable: list[str] = []
    fleet = fleets.merge(views.read(arguments.reports, unreadable), unreadable=unreadable, now=datetime.now(UTC), max_age=arguments.max_age)
    if not fleet.clusters and not fleet.simulated_clusters:
        return complain("gpu-conformance merge", f"no report could be read: {'; '.join(unreadable[:3])}")
    try:
        paths = views.write(fleet, arguments.into)
    except ReportError as error:
        return complain("gpu-conformance merge", error)
    tell(views.sentence(fleet))
    tell(*fleet.unreadable, *fleet.notes, paths[-1])
    return fleets.code(fleet) if arguments.gate else 0


def _hours(text: str) -> timedelta:
    """A length of time in hours. Raises :class:`argparse.ArgumentTypeError`."""
    try:
        hours = float(text)
    except ValueError:
        hours = 0.0
    if not 0 < hours <= 24 * 366:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of hours from above 0 to {24 * 366}")
    return timedelta(hours=hours)


def _history_options(parser: Parser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of report folders, such as out or a job's volume")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the history as a page too")
    add_columns(parser)


def _history(argv: Sequence[str]) -> int:
    """Exit 0, or 4 where the folder has no run."""
    arguments = command_parser("history").parse_args(argv[1:])
    now = datetime.now(UTC)
    try:
        found = history.read(arguments.folder)
        if not found.entries:
            return complain("gpu-conformance history", "; ".join(found.problems[:3]) or f"{arguments.folder}: no run is here")
        if arguments.html:
            write_atomically(arguments.html, history_views.to_html(found, now).encode("utf-8", "backslashreplace"))
    except (ReportError, OSError) as error:
        return complain("gpu-conformance history", error)
    show(history_views.to_text(found, now, width(arguments.columns)), end="")
    return 0


def _cncf_options(parser: Parser) -> None:
    parser.add_argument("report", type=Path, metavar="REPORT", help="report.json of a run on a live cluster, or its folder")
    parser.add_argument("--checklist", type=Path, metavar="FILE", help="checklist, or a PRODUCT.yaml that was begun, to fill in")
    parser.add_argument("--into", metavar="DIR", type=Path, default=Path("out/cncf"), help="folder of the result; default: out/cncf")


def _cncf(argv: Sequence[str]) -> int:
    """Exit 0, or 4 where the report is of no live cluster, or of a release without a checklist."""
    arguments = command_parser("cncf").parse_args(argv[1:])
    try:
        entries = product.write(load(arguments.report), arguments.into, arguments.checklist)
    except (CncfError, ReportError) as error:
        return complain("gpu-conformance cncf", error)
    for one in entries:
        tell(f"{one.level:<6} {one.item.id:<28} {one.status or 'not judged'}")
    tell(arguments.into / product.NAME)
    return 0
