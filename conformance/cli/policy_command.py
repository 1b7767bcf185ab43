"""``gpu-conformance policy init``: print a policy that is drafted from a live cluster or a saved snapshot.

Exit codes: 0 printed, 4 usage, 10 nodes, pods or namespaces could not be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conformance.cli import target
from conformance.cli.arguments import Parser, complain, show
from conformance.cli.commands import command_parser
from conformance.cli.policy_draft import KEYS, draft
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ClusterUnreachable
from fixtures.policy.platforms import PresetError, chosen_by_marks, named
from fixtures.snapshot.collect import collect
from fixtures.snapshot.files import SnapshotError, load_files
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.subjects import Inconclusive, NotApplicable

PROGRAM = "gpu-conformance policy"
USAGE, INCONCLUSIVE = 4, 10


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    parser.add_argument("action", choices=["init"], help="draft a policy")
    target.add_options(parser)
    parser.add_argument("--snapshot", metavar="PATH", default="", help="a file or folder of 'kubectl get' output instead of a live cluster")
    parser.add_argument("--platform", metavar="NAME[,NAME]", default="", help="presets by name; default: the cluster's own marks choose")


def main(argv: Sequence[str]) -> int:
    """Read, draft and print."""
    arguments = command_parser("policy").parse_args(argv[1:])
    try:
        by_name = named((name.strip() for name in arguments.platform.split(",") if name.strip()), "--platform")
        if arguments.snapshot and (arguments.kubeconfig or arguments.in_cluster):
            return complain(PROGRAM, "--snapshot and a live cluster: one target at a time")
        snapshot = load_files(Path(arguments.snapshot)) if arguments.snapshot else _read(target.open_cluster(arguments))
    except (ClusterUnreachable, PresetError, SnapshotError) as error:
        return complain(PROGRAM, error)
    try:
        text = draft(snapshot, by_name if arguments.platform else chosen_by_marks(snapshot))
    except (Inconclusive, NotApplicable) as error:
        complain(PROGRAM, error.message)
        return INCONCLUSIVE
    show(text, end="")
    return 0


def _read(cluster: Cluster) -> Snapshot:
    return collect(cluster, KEYS, version=cluster.probe())
