"""Opens the cluster that a command outside pytest names. It is never taken from the environment."""

from __future__ import annotations

import argparse
from pathlib import Path

from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ClusterUnreachable

NAME_IT = "name the cluster: --kubeconfig FILE or --in-cluster (none is taken from the environment)"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Register the options that :func:`open_cluster` reads."""
    parser.add_argument("--kubeconfig", metavar="FILE", default="", help="a live cluster (never taken from the environment)")
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig; default: its current context")
    parser.add_argument("--in-cluster", action="store_true", help="the cluster that this process runs in")


def is_named(arguments: argparse.Namespace) -> bool:
    """Whether the arguments name one cluster, and not two."""
    return bool(arguments.kubeconfig) != bool(arguments.in_cluster)


def open_cluster(arguments: argparse.Namespace) -> Cluster:
    """A session with the cluster, which has answered. Raises :class:`ClusterUnreachable`, also when none or two are named."""
    if not is_named(arguments):
        raise ClusterUnreachable(NAME_IT)
    cluster = Cluster.in_cluster() if arguments.in_cluster else Cluster.from_kubeconfig(Path(arguments.kubeconfig), arguments.context)
    cluster.probe()
    return cluster
