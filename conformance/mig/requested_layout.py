"""Which layout a node's ``mig.config`` asks for, and where that is written (docs/facts/mig.md#configurations)."""

from __future__ import annotations

import msgspec

from conformance.mig.mig_nodes import MigNode
from conformance.mig.mig_parted import PartedError, Requested, Row, parse, requested
from fixtures.kubernetes.models import ConfigMap, Json
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.cluster import Scope
from fixtures.model.devices import mig_geometry
from fixtures.model.platform.namespaces import CLUSTER_POLICIES, operators_of

STATIC = "default-mig-parted-config"
KEY = "config.yaml"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one node: a layout, or the problem. ``missing``: the place was read and does not hold the name.

    ``read``: the answer is a ConfigMap's of the cluster, not what NVIDIA ships under the name.
    """

    wanted: Requested | None = None
    source: str
    problem: str = ""
    missing: bool = False
    read: bool = True


class Requests:
    """Looks up configurations: the node's own generated map, else the operator's, else NVIDIA's standard names."""

    def __init__(self, scope: Scope) -> None:
        homes, maps = _homes(scope), scope.snapshot.listing("configmaps").items
        self._maps: dict[str, list[ConfigMap]] = {}
        for item in maps:
            if item.namespace in homes or (not homes and scope.platform_workloads.admits(item.namespace)):
                self._maps.setdefault(item.name, []).append(item)
        self._static = _named(scope) or STATIC
        self._parsed: dict[str, dict[str, tuple[Row, ...]] | PartedError] = {}

    def of(self, node: MigNode) -> Request:
        """What the node's ``mig.config`` asks for on its product."""
        name = node.view.mig_config
        found = self._maps.get(f"{node.node.name}-mig-config") or self._maps.get(self._static) or []
        if not found:
            return _standard(node, name)
        if len(found) > 1:
            names = " and ".join(sorted(f"{item.namespace}/{item.name}" for item in found))
            return Request(source="ConfigMaps", problem=f"ConfigMaps {names} could both be the mig-parted ConfigMap")
        [holder] = found
        source = f"ConfigMap {holder.namespace}/{holder.name}"
        configs = self._read(holder)
        if isinstance(configs, PartedError):
            return Request(source=source, problem=f"{source} cannot be read: {configs}")
        if name not in configs:
            return Request(source=source, problem=f"{source} has no configuration {name!r}", missing=True)
        wanted = requested(configs, name, node.model)
        if wanted is None:
            return Request(source=source, problem=f"{name!r} of {source} has no entry for {node.model or 'its product'}", missing=True)
        return Request(wanted=wanted, source=source)

    def _read(self, holder: ConfigMap) -> dict[str, tuple[Row, ...]] | PartedError:
        if holder.name not in self._parsed:
            data = holder.data or {}
            text = data.get(KEY) or (next(iter(data.values())) if len(data) == 1 else "")
            try:
                self._parsed[holder.name] = parse(text)
            except PartedError as error:
                self._parsed[holder.name] = error
        return self._parsed[holder.name]


def _standard(node: MigNode, name: str) -> Request:
    source = "NVIDIA's standard configurations"
    layout = mig_geometry.config_layout(node.model, name)
    if layout is None:
        problem = f"no ConfigMap of mig-parted was found, and {name!r} on {node.model or 'its product'} is no standard configuration"
        return Request(source=source, problem=problem, read=False)
    row = Row(filters=(), devices=None, enabled=name != "all-disabled", layout=layout)
    return Request(wanted=Requested(rows=(row,)), source=source, read=False)


def _homes(scope: Scope) -> set[str]:
    """Namespaces of the operator's operands, as ClusterPolicies tell."""
    return {operator.namespace for operator in operators_of(_policies(scope)) if operator.namespace}


def _policies(scope: Scope) -> list[tuple[str, Json]]:
    """ClusterPolicies that their operator acts upon, with their kind."""
    items = scope.snapshot.listing(CLUSTER_POLICIES).objects
    return [("ClusterPolicy", item) for item in items if operators_of([("ClusterPolicy", item)])]


def _named(scope: Scope) -> str:
    for _, policy in _policies(scope):
        if value := text_of(mapping(policy, "spec", "migManager", "config").get("name")):
            return value
    return ""
