"""What the parent hands to the child that acts: where the cluster is, never its credentials."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from chaos.ledger.bounds import Terms
from fixtures.cluster.client import Cluster
from fixtures.text import typed

NAME = "handover.json"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How to open the cluster: the file, and the context in it. Tokens and keys stay in the file."""

    kubeconfig: str = ""
    context: str | None = None
    in_cluster: bool = False
    versions: dict[str, str] = {}

    def open(self) -> Cluster:
        """A session. Raises :class:`fixtures.cluster.trouble.ClusterUnreachable`."""
        cluster = Cluster.in_cluster() if self.in_cluster else Cluster.from_kubeconfig(Path(self.kubeconfig), self.context)
        cluster.learn_versions(self.versions)
        return cluster


class Handover(msgspec.Struct, frozen=True, kw_only=True):
    """The child's orders beside plan and experiment. ``parent`` is the process without which it ends.

    ``terms`` are those on which its entries will be carried out, by whoever does.
    """

    access: Access
    parent: int
    terms: Terms


def write_handover(folder: Path, handover: Handover) -> None:
    """Write the orders, readable by this user only."""
    descriptor = os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(handover))


def take_handover(folder: Path) -> Handover:
    """Read the orders, which are given once: they go with being read."""
    orders = typed.decode((folder / NAME).read_bytes(), Handover)
    withdraw_handover(folder)
    return orders


def withdraw_handover(folder: Path) -> None:
    """Take back orders that nobody has read. Safe to repeat."""
    (folder / NAME).unlink(missing_ok=True)
