"""Opens the cluster that a command outside pytest names. It is never taken from the environment."""

from __future__ import annotations

import argparse
from pathlib import Path

from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ClusterUnreachable


def add_options(parser: argparse.ArgumentParser) -> None:
    """Register the options that :func:`open_cluster` reads."""
    parser.add_argument("--kubeconfig", metavar="FILE", default="")
    parser.add_argument("--context", metavar="NAME")
    parser.add_argument("--in-cluster", action="store_true")


def open_cluster(arguments: argparse.Namespace) -> Cluster:
    """A session with the cluster, which has answered. Raises :class:`ClusterUnreachable`, also when none or two are named."""
    if bool(arguments.kubeconfig) == arguments.in_cluster:
        raise ClusterUnreachable("name the cluster: --kubeconfig FILE or --in-cluster (none is taken from the environment)")
    cluster = Cluster.in_cluster() if arguments.in_cluster else Cluster.from_kubeconfig(Path(arguments.kubeconfig), arguments.context)
    cluster.probe()
    return cluster
