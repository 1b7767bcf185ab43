"""``gpu-conformance job``: a run in the cluster, as the Job of ``deploy/`` starts it. It runs the suite and hands the results on."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from conformance.cli import publish, target
from conformance.cli.arguments import Parser, complain, tell, whole_number
from conformance.cli.commands import command_parser
from conformance.delivery.bundle import DeliveryError
from conformance.delivery.destinations import Destination, Kind, deliver, parse
from conformance.delivery.outcome import Outcome, line, outcome_of
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ClusterUnreachable
from fixtures.verdict.record import Report
from reports.folder import ReportError, load

PROGRAM = "gpu-conformance job"
INTERNAL_ERROR = 3
MAX_KEPT = 99_999


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    target.add_options(parser)
    parser.add_argument(
        "--to", metavar="KIND=PLACE", action="append", default=[], type=_destination, help="where the results go, see below; repeatable"
    )
    parser.add_argument("--publish", metavar="HOURS", type=publish.HOURS, help="label the nodes with their verdict for so many hours")
    parser.add_argument(
        "--keep", metavar="N", type=whole_number(1, MAX_KEPT), default=30, help="how many runs stay in a folder; default: 30"
    )
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="-- PYTEST OPTIONS", help="options of the run")


def main(argv: Sequence[str]) -> int:
    """The run's exit code; 3 when the run was good and left no report, or its results could not be handed on."""
    arguments = command_parser("job").parse_args(argv[1:])
    given = arguments.options[1:] if arguments.options[:1] == ["--"] else arguments.options
    if any(option.partition("=")[0] == "--report-dir" for option in given):
        return complain(PROGRAM, "--report-dir is not for a job: say where its results go by --to")
    if not target.is_named(arguments):
        return complain(PROGRAM, target.NAME_IT)
    named = ["--in-cluster"] if arguments.in_cluster else ["--kubeconfig", arguments.kubeconfig]
    named += ["--context", arguments.context] if arguments.context else []
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-job-") as work:
        folder = Path(work) / "report"
        code = _run([*named, "--report-dir", str(folder), *given])
        report = _report(folder)
        outcome = outcome_of(report, code)
        _hand_on(arguments, folder, outcome)
        if report is not None and arguments.publish and publish.main(["publish", str(folder), "--hours", str(arguments.publish), *named]):
            outcome.undelivered.append("node labels")
    if outcome.undelivered and outcome.exit_code == 0:
        outcome.exit_code = INTERNAL_ERROR
    tell(line(outcome))
    return outcome.exit_code


def _run(options: list[str]) -> int:
    """The suite in a process of its own, which gets the signals that end this one: it removes what it made before it ends."""
    command = [sys.executable, "-m", "conformance.cli.main", "run", *options]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as child:

        def forward(number: int, _frame: FrameType | None) -> None:
            child.send_signal(number)

        before = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        try:
            code = child.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    return code if code >= 0 else INTERNAL_ERROR  # killed, by lack of memory for one


def _report(folder: Path) -> Report | None:
    try:
        return load(folder)
    except ReportError as error:
        complain(PROGRAM, error)
        return None


def _hand_on(arguments: argparse.Namespace, folder: Path, outcome: Outcome) -> None:
    """Each destination once; one that fails costs the others nothing."""
    cluster: Cluster | None = None
    try:
        if any(destination.kind is Kind.CONFIG_MAP for destination in arguments.to):
            cluster = target.open_cluster(arguments)
    except ClusterUnreachable as error:
        complain(PROGRAM, error)
    for destination in arguments.to:
        try:
            outcome.delivered.append(deliver(destination, folder, outcome, cluster, keep=arguments.keep))
        except DeliveryError as error:
            complain(PROGRAM, error)
            outcome.undelivered.append(str(destination.kind))


def _destination(text: str) -> Destination:
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
