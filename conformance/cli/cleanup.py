"""``gpu-conformance cleanup``: remove what a killed run left, by run label and UID, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conformance.cli.arguments import Parser, complain
from fixtures import ownership
from fixtures.cluster import Cluster
from fixtures.discovery import discover
from fixtures.kinds import KINDS
from fixtures.trouble import ApiTrouble, ClusterUnreachable

RESIDUE = 11
INCONCLUSIVE = 10


def main(argv: Sequence[str]) -> int:
    """Find and remove. Exit 0 nothing left, 4 usage, 10 the cluster could not be asked, 11 something stays."""
    parser = Parser(prog="gpu-conformance cleanup")
    parser.add_argument("command")
    parser.add_argument("--kubeconfig", metavar="FILE", default="")
    parser.add_argument("--context", metavar="NAME")
    parser.add_argument("--in-cluster", action="store_true")
    parser.add_argument("--run", metavar="ID", default="", help="one run only; default: every run of the suite")
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed")
    arguments = parser.parse_args(argv)
    if bool(arguments.kubeconfig) == arguments.in_cluster:
        return complain(parser.prog, "name the cluster: --kubeconfig FILE or --in-cluster (none is taken from the environment)")
    if arguments.run and not ownership.is_run_id(arguments.run):
        return complain(parser.prog, f"--run {arguments.run!r}: not a run id")
    try:
        cluster = Cluster.in_cluster() if arguments.in_cluster else Cluster.from_kubeconfig(Path(arguments.kubeconfig), arguments.context)
        cluster.probe()
    except ClusterUnreachable as error:
        return complain(parser.prog, error)
    try:
        return _clean(cluster, arguments.run, arguments.dry_run)
    except ApiTrouble as trouble:
        complain(parser.prog, trouble.message)
        return INCONCLUSIVE


def _clean(cluster: Cluster, run_id: str, dry_run: bool) -> int:
    served = discover(cluster)
    cluster.learn_versions({key: served[key][0] for key in KINDS if key in served})
    found = ownership.find(cluster, run_id)
    if dry_run:
        for item in found:
            print(f"would remove {item}")
        return 0
    left = ownership.remove(cluster, found)
    for item in found:
        print(f"{'NOT removed' if item in left else 'removed'} {item}")
    if not found:
        print("nothing of the suite is left in the cluster")
    return RESIDUE if left else 0
