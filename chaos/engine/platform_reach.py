"""What a cluster shows of whose namespaces are an experiment's to touch, for entries that no run's proof lists."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from chaos.ledger.bounds import Terms
from chaos.observe.components import standing_of
from chaos.observe.view import View
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import KINDS

_CLUSTER_POLICY = KINDS["nvidia.com/clusterpolicies"].kind


def shown_by(cluster: Cluster, terms: Terms, *, vouched: frozenset[str], unproven: Collection[str]) -> Terms:
    """The terms with what the cluster shows. ``vouched``: digests that proofs list; ``unproven``: runs that the cluster holds no proof of.

    Without any of those the cluster is not read. What cannot be read shows nothing.
    """
    reach = msgspec.structs.replace(terms.reach, vouched=vouched)
    if unproven:
        standing = standing_of(View.of(cluster), reach.tenants, whole=False)
        reach = msgspec.structs.replace(reach, standing=standing, operators=standing.homes_of(_CLUSTER_POLICY))
    return msgspec.structs.replace(terms, reach=reach)
