"""OPS-13, first part: a stack whose operator or agents run has the object that configures it.

Facts: docs/facts/gpu-operator.md#custom-resources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.images import repository
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import mapping
from fixtures.model.cluster import Scope, matches
from fixtures.model.demand.pod_templates import templates_in
from fixtures.model.nodes.marks import adapter_labels
from fixtures.model.platform.namespaces import CLUSTER_POLICIES, is_heeded
from fixtures.text.ages import ask_again, duration
from fixtures.text.sentences import listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding
from fixtures.verdict.subjects import Subject


class _Stack(msgspec.Struct, frozen=True, kw_only=True):
    """An operator: globs of its image, the kinds that configure it, and the kinds whose objects may be all that it is there for."""

    name: str
    images: tuple[str, ...]
    owners: tuple[str, ...]
    keys: tuple[str, ...]
    others: tuple[str, ...] = ()


_STACKS = (
    _Stack(
        name="NVIDIA's GPU operator",
        images=("*nvidia*/gpu-operator", "gpu-operator", "*/cloud-native/gpu-operator"),
        owners=("ClusterPolicy", "GPUCluster"),
        keys=(CLUSTER_POLICIES, "nvidia.com/gpuclusters"),
    ),
    _Stack(
        name="AMD's GPU operator",
        images=("*rocm/gpu-operator", "*amd*/gpu-operator"),
        owners=("DeviceConfig",),
        keys=("amd.com/deviceconfigs",),
    ),
    _Stack(
        name="NVIDIA's network operator",
        images=("*/network-operator",),
        owners=("NicClusterPolicy",),
        keys=("mellanox.com/nicclusterpolicies",),
        others=("sriovnetwork.openshift.io/sriovnetworknodepolicies",),
    ),
)

_MADE_BY_ITSELF = "default"
"""The policy that the SR-IOV operator makes when it starts, and that configures nothing."""


def check_configured(scope: Scope) -> Iterator[Finding]:
    """One finding per stack of which an operator or agents run."""
    for stack in _STACKS:
        objects = [item for key in stack.keys for item in scope.snapshot.listing(key).objects]
        operators, owned = _operators(scope, stack), _owned(scope, stack)
        if not operators and not owned:
            continue
        place, source = Subject("Operator", stack.name), "Deployments, owners of DaemonSets, objects of the stack's kinds"
        observed = ", ".join([*operators, *(f"DaemonSet {name}" for name in owned)][:6])
        expected = f"a {' or '.join(stack.owners)} that is not ignored"
        about = About(place, source, expected)
        if active := [item for item in objects if is_heeded(item)]:
            names = listed(str(mapping(item.get("metadata")).get("name")) for item in active)
            yield about.ok(names)
        elif not owned and (young := _young(scope, operators)):
            yield about.undecided(f"{observed}: no {' or '.join(stack.owners)} yet; {young}", cause=CHANGE_UNDER_WAY)
        elif not owned and (why := _without_work(scope, stack)):
            yield about.not_judged(f"it runs without a {' or '.join(stack.owners)}, and {why}")
        else:
            message = f"{observed} run, and no {' or '.join(stack.owners)} tells them what to do: nodes that join or restart get no agents"
            yield about.bad(message, cause="OperatorObjectMissing", observed=observed)


def _without_work(scope: Scope, stack: _Stack) -> str:
    """Why an operator needs none of the objects that configure its agents, as a clause, or empty."""
    for key in stack.others:
        names = [str(mapping(item.get("metadata")).get("name")) for item in scope.snapshot.listing(key).objects]
        if made := sorted(set(names) - {_MADE_BY_ITSELF}):
            return f"{KINDS[key].kind} {listed(made, 3)} configures the network instead"
    if not scope.accelerator_nodes:
        return "the cluster has no accelerator node"
    if stack.others and not any(adapter_labels(node) or any(map(scope.is_rdma, node.status.capacity)) for node in scope.snapshot.nodes):
        return "no node has a label or a resource of an adapter for it"
    return ""


def _operators(scope: Scope, stack: _Stack) -> dict[str, float | None]:
    """Deployments of the stack's operator that want a pod, and when each was created (Unix seconds)."""
    found: dict[str, float | None] = {}
    for item in scope.snapshot.listing("apps/deployments").objects:
        meta = mapping(item.get("metadata"))
        name, namespace = str(meta.get("name")), str(meta.get("namespace"))
        if mapping(item.get("spec")).get("replicas") == 0 or not scope.platform_workloads.admits(namespace):
            continue
        images = {container.image for template in templates_in("apps/deployments", item) for container in template.spec.containers}
        if any(matches(repository(image), stack.images) for image in images):
            found[f"Deployment {namespace}/{name}"] = unix(str(meta.get("creationTimestamp")))
    return found


def _owned(scope: Scope, stack: _Stack) -> list[str]:
    """DaemonSets that an object of the stack owns or owned."""
    items = [item for item in scope.snapshot.daemonsets if scope.platform_workloads.admits(item.namespace)]
    return [f"{item.namespace}/{item.name}" for item in items if any(owner.kind in stack.owners for owner in item.metadata.owners)]


def _young(scope: Scope, operators: Mapping[str, float | None]) -> str:
    """Whether an operator was installed a moment ago, as a clause; its object comes second."""
    created, limit = [at for at in operators.values() if at is not None], scope.policy.accelerators.new_node_minutes * 60
    age = scope.snapshot.taken_at - max(created) if created else limit
    return f"installed {duration(age)} ago: {ask_again(age, limit)}" if age < limit else ""
