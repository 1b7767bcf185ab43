"""The rights that chaos experiments need, from what acts and undoes, which ``make docs`` writes.

Experiments have an account of their own, so that judging a cluster never takes the right to break it. It has the rights of
``gpu-conformance-read-only`` and these: reading is what the gates, the sampler and the leak scan do, writing is one verb for each
fault and all that its undo takes. Ledger and Lease are in one namespace, and so are the rights to them; a
ValidatingAdmissionPolicy keeps what is created, deleted and evicted in namespaces of its own (:mod:`deploy.chaos_policy`).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from chaos.cluster import injector, leak_scan, namespaces
from chaos.cluster.requests import Right
from chaos.ledger.registry import REGISTRY
from chaos.ledger.undos.agents import SLICES
from chaos.ledger.undos.objects import CREATED, OPERAND_KINDS, AbsentArgs, PresentArgs
from chaos.ledger.undos.workloads import SCALED, ReplicasArgs
from chaos.safety import gate_reading
from chaos.safety.admission import KEEPING
from deploy import chaos_policy
from deploy.chaos_policy import ACCOUNT
from deploy.rights import NAMESPACE, READ_ONLY, binding, cluster_role

FILE = Path(__file__).parent / "clusterrole-chaos.yaml"
ROLE = "gpu-conformance-chaos"

ACTS = (
    "delete pods",
    "create pods/eviction",
    "patch nodes",
    "delete nodes",
    f"delete {SLICES}",
    *(f"patch {key}" for key in SCALED),
    *(f"create {key}" for key in CREATED),
    *(f"delete {key}" for key in OPERAND_KINDS),
)
"""What the faults themselves ask for."""

SAMPLED = (
    "list apps/replicasets",
    "list apps/statefulsets",
    "list resource.k8s.io/resourceclaims",
    "list resource.k8s.io/resourceslices",
    "list resource.nvidia.com/computedomains",
    "list resource.k8s.io/devicetaintrules",
    *(f"{verb} kueue.x-k8s.io/workloads" for verb in ("list", "watch", "delete")),  # they hold pods of a namespace that goes
    "list kueue.x-k8s.io/clusterqueues",
    "list scheduling.volcano.sh/podgroups",
    "list nvidia.com/clusterpolicies",
    "list mellanox.com/nicclusterpolicies",
    "get pods/proxy",
    "get pods/log",
)
"""What planning and the sampler read beside what the gates do: metrics through the pod proxy, what canaries say."""

_HEADER = "# Written by `make docs` from chaos/ledger and chaos/safety; do not edit.\n"


def undo_rights() -> set[str]:
    """All that any undo may ask for, over every kind that it takes."""
    samples: dict[str, list[Any]] = {
        "object.absent": [AbsentArgs(key=key, name="x", run_id="x") for key in CREATED],
        "object.present": [PresentArgs(key=key, name="x", uid="x", saved={}) for key in OPERAND_KINDS],
        "workload.replicas": [ReplicasArgs(key=key, namespace="x", name="x", uid="x", prior=0, ours=0, ready=0) for key in SCALED],
        "workload.env": [],  # on the simulated cluster only (D3): a DaemonSet of a real control plane is not written to
    }
    return {text for name, undo in REGISTRY.items() for args in samples.get(name, [None]) for text in undo.rights(args)}


def everything() -> list[Right]:
    """Every right, each once. A right in a namespace that is also given cluster-wide is left out."""
    texts = {*ACTS, *SAMPLED, *gate_reading.READS, *leak_scan.READS, *injector.RIGHTS, *KEEPING, *undo_rights(), *_OWNERS, *_LEDGERS}
    rights = {Right.parse(text) for text in texts}
    wide = {str(right) for right in rights if not right.namespace}
    return sorted(
        (right for right in rights if not right.namespace or str(Right.parse(str(right).partition(" in ")[0])) not in wide), key=str
    )


_OWNERS = ("get apps/deployments", "get apps/daemonsets", "get nvidia.com/clusterpolicies")
"""Owners of deleted objects: named again only while they live."""

_LEDGERS = tuple(
    f"{verb} {key} in {namespaces.SHARED}"
    for key, verbs in (("configmaps", ("list",)), ("coordination.k8s.io/leases", ("list", "watch", "delete")))
    for verb in verbs
)


def documents() -> list[dict[str, Any]]:
    """The account, ClusterRole and Role with their bindings, the namespace that the Role is in, and the policy that bounds them."""
    rights = everything()
    wide = cluster_role(ROLE, _plain(right for right in rights if not right.namespace))
    role = {**cluster_role(ROLE, _plain(right for right in rights if right.namespace)), "kind": "Role"}
    role["metadata"] = {"name": ROLE, "namespace": namespaces.SHARED}
    bound, reading = binding(ROLE, account=ACCOUNT), binding(READ_ONLY, account=ACCOUNT, name=f"{ROLE}-reads")
    inside = {**bound, "kind": "RoleBinding", "metadata": {"name": ROLE, "namespace": namespaces.SHARED}}
    inside["roleRef"] = {**bound["roleRef"], "kind": "Role"}
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespaces.SHARED, "labels": labels}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}}
    return [account, wide, bound, reading, space, role, inside, *chaos_policy.documents()]


def _plain(rights: Iterable[Right]) -> list[tuple[str, str, str]]:
    return [(right.group, f"{right.resource}/{right.subresource}" if right.subresource else right.resource, right.verb) for right in rights]


def text() -> str:
    """The file."""
    return _HEADER + "---\n".join(yaml.safe_dump(document, sort_keys=False, width=140) for document in documents())
