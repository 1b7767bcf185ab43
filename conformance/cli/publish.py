"""``gpu-conformance publish``: label nodes with the verdict of a report until a time, and take such labels away."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from conformance.cli import target
from conformance.cli.arguments import Parser, complain, tell, whole_number
from conformance.cli.commands import command_parser
from conformance.delivery import node_labels
from conformance.delivery.node_labels import MAX_HOURS, Change, NodeVerdict, NotPublished
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble, ClusterUnreachable
from fixtures.model.nodes.work import is_fence_key
from fixtures.policy.allowlist import cluster_uid
from fixtures.policy.policy_file import PolicyError, build_policy, read_policy_file
from fixtures.text.globs import matches
from reports.folder import ReportError, load

PROGRAM = "gpu-conformance publish"
HOURS = whole_number(1, MAX_HOURS)
"""Reads for how many hours labels hold."""


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    parser.add_argument("report", nargs="?", type=Path, help="report.json or its folder")
    target.add_options(parser)
    hours = f"how long the labels hold from the beginning of the run on, at most {MAX_HOURS}; default: 26"
    parser.add_argument("--hours", metavar="N", type=HOURS, default=26, help=hours)
    parser.add_argument("--policy", metavar="FILE", default="", help="its publish.maxAgeHours says how old the run may be; default: 24 h")
    parser.add_argument("--sweep", action="store_true", help="remove labels that have expired")
    parser.add_argument("--remove", action="store_true", help="remove the labels from every node")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")


def main(argv: Sequence[str]) -> int:
    """Exit 0; 4 when the report may not be published here; 10 when the cluster could not be asked; 11 when a label could not be set."""
    arguments = command_parser("publish").parse_args(argv[1:])
    if sum((arguments.report is not None, arguments.sweep, arguments.remove)) != 1:
        return complain(PROGRAM, "give a REPORT, --sweep or --remove, and one of them only")
    try:
        cluster = target.open_cluster(arguments)
        wanted = _wanted(cluster, arguments)
        for change in wanted:
            tell(f"node {change.node}: " + ", ".join(_shown(key, value) for key, value in change.labels.items()))
        problems = [] if arguments.dry_run else node_labels.apply(cluster, wanted)
    except (ClusterUnreachable, PolicyError, ReportError, NotPublished) as error:
        return complain(PROGRAM, error)
    except ApiTrouble as error:
        complain(PROGRAM, error.message)
        return 10
    for problem in problems:
        complain(PROGRAM, problem)
    tell(f"{len(wanted) - len(problems)} nodes {'would change' if arguments.dry_run else 'changed'}")
    return 11 if problems else 0


def _wanted(cluster: Cluster, arguments: argparse.Namespace) -> list[Change]:
    now = time.time()
    if arguments.report is None:
        return node_labels.expired(node_labels.read_nodes(cluster), now, everything=arguments.remove)
    report, policy = load(arguments.report), build_policy(read_policy_file(Path(arguments.policy)) if arguments.policy else {})
    node_labels.check(report, cluster_uid(cluster), cluster.probe())
    until, nodes = node_labels.until(report, arguments.hours, policy.publish.max_age_hours, now), node_labels.read_nodes(cluster)
    others = node_labels.of_other_machines(report, nodes)
    for name, why in sorted(others.items()):
        tell(f"node {name}: {why}")
    verdicts = node_labels.held_back(report, node_labels.verdicts(report), nodes)
    resources = policy.accelerators.resources

    def is_fence(key: str) -> bool:
        return is_fence_key(key, policy.fence.taint_keys, lambda name: matches(name, resources))

    for name, why in sorted(node_labels.out_of_work(nodes, is_fence).items()):
        if verdicts.get(name) is NodeVerdict.PASSED:
            tell(f"node {name}: it passed and is not to be used now, so its label says unknown: {why}")
            verdicts[name] = NodeVerdict.UNKNOWN
    return node_labels.changes(nodes, {name: one for name, one in verdicts.items() if name not in others}, until)


def _shown(key: str, value: str | None) -> str:
    return f"{key}-" if value is None else f"{key}={value}"
