"""What a cluster shows of whose namespaces are an experiment's to touch, for entries that no run's proof lists."""

from __future__ import annotations

import contextlib
from collections.abc import Collection

import msgspec

from chaos.ledger.bounds import Terms
from chaos.observe.components import is_openshift, operators_in
from chaos.observe.view import NoData, View
from conformance.scope.platform_namespaces import OPERATORS, Operator
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import KINDS

_CLUSTER_POLICY = KINDS["nvidia.com/clusterpolicies"].kind


def shown_by(cluster: Cluster, terms: Terms, *, vouched: frozenset[str], unproven: Collection[str]) -> Terms:
    """The terms with what the cluster shows. ``vouched``: digests that proofs list; ``unproven``: runs that the cluster holds no proof of.

    Without any of those the cluster is not read. What cannot be read shows nothing.
    """
    reach = msgspec.structs.replace(terms.reach, vouched=vouched)
    if unproven:
        view, openshift = View.of(cluster), False
        operators: list[Operator] = []
        for key in OPERATORS:
            with contextlib.suppress(NoData):
                operators += operators_in(view, (key,))
        with contextlib.suppress(NoData):
            openshift = is_openshift(view)
        reach = msgspec.structs.replace(
            reach,
            openshift=openshift,
            homes=frozenset(namespace for operator in operators for namespace in operator.homes),
            operators={one.uid: frozenset(one.homes) for one in operators if one.uid and one.kind == _CLUSTER_POLICY},
        )
    return msgspec.structs.replace(terms, reach=reach)
