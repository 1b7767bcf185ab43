"""The shell command that saves everything of a cluster that requirements read: one file for each kind that the cluster serves."""

from __future__ import annotations

import textwrap

from conformance.catalogue import Catalogue
from fixtures.cluster.kinds import KINDS, kubectl_name
from fixtures.snapshot.folder import INCOMPLETE, SERVED, TAKEN_AT
from fixtures.verdict.record import Access

FOLDER = "dump"
_WIDTH = 128


def snapshot_keys(catalogue: Catalogue) -> list[str]:
    """Resource keys that ``read`` requirements read, in the order of :data:`KINDS`."""
    read = {"nodes", "pods", "namespaces"}
    for requirement in catalogue.by_id.values():
        if requirement.access is Access.READ:
            read.update(requirement.lists)
    return [key for key in KINDS if key in read]


def snapshot_command(catalogue: Catalogue) -> str:
    """The command, for a POSIX shell; lines end with a backslash. It fails at once where its folder is there already.

    A kind that the cluster does not serve is left out by name, for kubectl refuses the whole command that names one. A list that
    is refused leaves an empty file, which says nothing of its kind.
    """
    names = textwrap.wrap(" ".join(kubectl_name(key) for key in snapshot_keys(catalogue)), _WIDTH, break_on_hyphens=False)
    lines = [
        f"mkdir {FOLDER} && date -u +%FT%TZ > {FOLDER}/{TAKEN_AT} &&",
        f"{{ kubectl api-resources --verbs=list -o name || echo {INCOMPLETE}; }} > {FOLDER}/{SERVED} &&",
        "for kind in",
        *(f"  {line}" for line in names),
        f"; do if grep -Fqx $kind {FOLDER}/{SERVED}; then",
        f"  kubectl get $kind -A --show-managed-fields -o json > {FOLDER}/$kind.json; fi; done",
    ]
    return " \\\n".join(lines)
