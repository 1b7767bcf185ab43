"""``gpu-conformance simulate SCENARIO``: serve the simulated cluster until interrupted, so that kubectl works."""

import signal
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from conformance.cli.arguments import Parser, complain, tell
from conformance.cli.commands import command_parser
from fixtures.simulator import interface as simulator
from fixtures.simulator.interface import ScenarioError, bug_names, defect_names, scenario_names


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    parser.add_argument("scenario", nargs="?", help="SCENARIO[:key=value][,DEFECT...]")
    parser.add_argument("--folder", metavar="DIR", help="write the kubeconfig into this folder; default: a temporary one")
    parser.add_argument("--list", action="store_true", help="list scenarios, defects and seeded bugs")


def main(argv: Sequence[str]) -> int:
    """Start the cluster, print its kubeconfig's path, wait for Ctrl-C or SIGTERM."""
    parser = command_parser("simulate")
    arguments = parser.parse_args(argv[1:])
    if arguments.list:
        tell("scenarios:", *(f"  {name}" for name in scenario_names()))
        tell("defects:", *(f"  {name}" for name in defect_names()))
        tell("seeded bugs, for chaos experiments:", *(f"  {name}" for name in bug_names()))
        return 0
    if not arguments.scenario:
        return complain(parser.prog, f"name a scenario: {', '.join(scenario_names())}")
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-") as temporary:
        folder = Path(arguments.folder or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            cluster = simulator.start(arguments.scenario, folder)
        except ScenarioError as error:
            return complain(parser.prog, error)
        tell(f"simulated cluster {arguments.scenario} at {cluster.server}")
        tell(f"export KUBECONFIG={cluster.kubeconfig}")
        try:
            ended.wait()
        finally:
            cluster.stop()
    return 0
