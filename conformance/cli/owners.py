"""``gpu-conformance owners``: who holds which device, by the exporter's labels and by everybody else's word. Reads only.

Exit codes: 0 they agree, 1 somewhere they do not, 4 usage, 10 no page of metrics or no answer.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from tabulate import tabulate

from conformance.catalogue import load_catalogue
from conformance.cli import target
from conformance.cli.arguments import Parser, complain, show, show_json, tell
from conformance.cli.commands import command_parser
from conformance.obs.attribution import Row, owner_flaws, owner_rows, pods_on, shares
from conformance.obs.scraping import Scraper
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble, ClusterUnreachable
from fixtures.model.cluster import Scope
from fixtures.model.devices.held import held_on
from fixtures.policy.platforms import chosen_by_marks
from fixtures.policy.policy_file import PolicyError, build_policy, read_policy_file
from fixtures.snapshot.collect import collect
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from reports.safe_text import one_line

PROGRAM = "gpu-conformance owners"
INCONCLUSIVE = 10


class Owners(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one node's devices."""

    node: str
    problem: str = ""
    disagreements: list[str] = []
    devices: list[Row] = []


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    target.add_options(parser)
    parser.add_argument("--policy", metavar="FILE", default="", help="its metrics.exporters names exporters that are not known")
    parser.add_argument("--node", metavar="NAME", default="", help="only this node")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def main(argv: Sequence[str]) -> int:
    """Read, compare and print."""
    arguments = command_parser("owners").parse_args(argv[1:])
    try:
        policy = read_policy_file(Path(arguments.policy)) if arguments.policy else {}
        cluster = target.open_cluster(arguments)
        snapshot = collect(cluster, load_catalogue().get("OBS-09").lists, version=cluster.probe())
        scope = Scope(snapshot, build_policy(*(one.policy for one in chosen_by_marks(snapshot)), policy))
        found = list(_owners(scope, cluster, arguments.node))
    except (ClusterUnreachable, PolicyError) as error:
        return complain(PROGRAM, error)
    except (ApiTrouble, Inconclusive, NotApplicable) as error:
        complain(PROGRAM, error.message)
        return INCONCLUSIVE
    if arguments.json:
        show_json(msgspec.to_builtins(found))
    else:
        rows = [[one_line(text, 80) for text in (one.node, row.device, row.exporter, row.others)] for one in found for row in one.devices]
        show(tabulate(rows, headers=("node", "device", "by the exporter", "by others")))
        for one in found:
            for text in filter(None, (one.problem, *one.disagreements)):
                tell(one_line(f"{one.node}: {text}", 400))
    if any(one.disagreements for one in found):
        return 1
    return 0 if any(one.devices for one in found) else INCONCLUSIVE


def _owners(scope: Scope, cluster: Cluster, only: str) -> Iterator[Owners]:
    scraper = Scraper(cluster, scope)
    nodes = [node for node in scope.accelerator_nodes if only in ("", node.name)]
    pages = scraper.now(node.name for node in nodes)
    for node in nodes:
        one = pages.get(node.name)
        if one is None or one.page is None:
            yield Owners(node=node.name, problem=one.why if one else "no exporter that is known runs on it")
            continue
        held = held_on(scope, node, pods_on(cluster, node.name))
        flaws = owner_flaws(one.page, held, shared=shares(scope, node))
        yield Owners(node=node.name, disagreements=[flaw.text for flaw in flaws], devices=owner_rows(held, one.page))
