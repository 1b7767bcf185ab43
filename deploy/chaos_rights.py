"""The rights that chaos experiments need, from what acts and undoes, which ``make docs`` writes.

Experiments have an account of their own, so that judging a cluster never takes the right to break it. It has the rights of
``gpu-conformance-read-only`` and these: reading is what the gates and the sampler do, writing is one verb for each fault and all
that its undo takes. Ledger and Lease are in one namespace, and so are the rights to them; a
ValidatingAdmissionPolicy keeps what is created, deleted and evicted in namespaces of its own, which RBAC
cannot express. What experiments break and put back is elsewhere, and stays allowed: pods may be deleted anywhere (agents), operands of a
ClusterPolicy deleted and created again, and workloads scaled.
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from chaos.cluster import injector, namespaces
from chaos.ledger.bounds import REGISTRY
from chaos.ledger.undos.agents import SLICES
from chaos.ledger.undos.objects import CREATED, OPERAND_KINDS, AbsentArgs, PresentArgs
from chaos.ledger.undos.workloads import SCALED, ReplicasArgs
from chaos.safety.admission import KEEPING, READS
from deploy.rights import NAMESPACE, READ_ONLY, admission_policy, binding, cluster_role
from fixtures.cluster.access import Right
from fixtures.ownership.owned import CLUSTER_SCOPED_KEYS
from fixtures.probes.namespace_limits import NETWORK_POLICIES, QUOTAS

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

ACCOUNT = "gpu-conformance-chaos"
NAME = "gpu-conformance-chaos"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"

WITHIN = (
    *(key for key in CREATED if key not in (*OPERAND_KINDS, *CLUSTER_SCOPED_KEYS, "pods")),
    NETWORK_POLICIES,
    QUOTAS,
    "kueue.x-k8s.io/workloads",
)
"""Kinds that are created and deleted in the account's own namespaces alone; those that no namespace holds have such names themselves."""


_ONE_DEVICE = " && ".join(f"has(object.spec.deviceSelector{part})" for part in ("", ".driver", ".pool", ".device"))
"""A DeviceTaintRule without a name taints all devices of its pool, driver or cluster."""

_OWNED = (
    "has(variables.subject.metadata.ownerReferences) && variables.subject.metadata.ownerReferences.exists("
    "owner, owner.kind == 'ClusterPolicy' && owner.apiVersion.startsWith('nvidia.com/'))"
)
"""Operands are what an operator made for its ClusterPolicy (:func:`chaos.plan.selectors.choose_operand`)."""

_SCALES = "object.spec.template == oldObject.spec.template && " + " && ".join(
    f"(has(object.metadata.{field}) ? object.metadata.{field} : {empty})"
    f" == (has(oldObject.metadata.{field}) ? oldObject.metadata.{field} : {empty})"
    for field, empty in (("labels", "{}"), ("ownerReferences", "[]"), ("finalizers", "[]"))
)
"""An owner that does not exist has a workload deleted, as surely as another template replaces its pods."""


def undo_rights() -> set[str]:
    """All that any undo may ask for, over every kind that it takes."""
    samples: dict[str, list[Any]] = {
        "object.absent": [AbsentArgs(key=key, name="x", run_id="x") for key in CREATED],
        "object.present": [PresentArgs(key=key, name="x", uid="x", saved={}) for key in OPERAND_KINDS],
        "workload.replicas": [ReplicasArgs(key=key, namespace="x", name="x", uid="x", prior=0, ours=0, ready=0) for key in SCALED],
        "workload.env": [],  # on the simulated cluster only (D3): a DaemonSet of a real control plane is not written to
        "breaker.closed": [],  # likewise (R2): who may patch ConfigMaps may patch every one
    }
    return {text for name, undo in REGISTRY.items() for args in samples.get(name, [None]) for text in undo.rights(args)}


def everything() -> list[Right]:
    """Every right, each once. A right in a namespace that is also given cluster-wide is left out."""
    texts = {*ACTS, *SAMPLED, *READS, *injector.RIGHTS, *KEEPING, *undo_rights(), *_OWNERS, *_LEDGERS}
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
    return [account, wide, bound, reading, space, role, inside, *admission()]


def _plain(rights: Iterable[Right]) -> list[tuple[str, str, str]]:
    return [(right.group, f"{right.resource}/{right.subresource}" if right.subresource else right.resource, right.verb) for right in rights]


def text() -> str:
    """The file."""
    return _HEADER + "---\n".join(yaml.safe_dump(document, sort_keys=False, width=140) for document in documents())


def admission() -> list[dict[str, Any]]:
    """The policy and its binding."""
    own, scoped, scaled = namespaces.SHARED, _resources(CLUSTER_SCOPED_KEYS), _resources(SCALED)
    operand = f"request.resource.resource in {_resources(OPERAND_KINDS)}"
    scaling = f"request.operation == 'UPDATE' && request.resource.resource in {scaled}"
    name = "request.operation == 'CREATE' ? (has(object.metadata.name) ? object.metadata.name : '') : request.name"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                *_rules(("pods",), "CREATE"),
                *_rules(("pods/eviction",), "CREATE"),
                *_rules((*WITHIN, *OPERAND_KINDS), "CREATE", "DELETE"),
                *_rules(SCALED, "UPDATE"),
                *_rules(CLUSTER_SCOPED_KEYS, "CREATE", "UPDATE", "DELETE"),
            ]
        },
        "matchConditions": [{"name": "the-account", "expression": f"request.userInfo.username == '{USER}'"}],
        "variables": [
            {"name": "place", "expression": f"request.resource.resource in {scoped} ? ({name}) : request.namespace"},
            {"name": "own", "expression": f"variables.place == '{own}' || variables.place.startsWith('{own}-')"},
            {"name": "subject", "expression": "request.operation == 'DELETE' ? oldObject : object"},
        ],
        "validations": [
            {
                "expression": f"variables.own || ({operand}) || ({scaling})",
                "message": f"experiments create and delete in namespaces of their own: {own}-*",
                "reason": "Forbidden",
            },
            {
                "expression": f"variables.own || !({operand}) || ({_OWNED})",
                "message": f"outside of {own}-*, experiments delete and restore only what a ClusterPolicy owns",
                "reason": "Forbidden",
            },
            {
                "expression": f"variables.own || !({scaling}) || ({_SCALES})",
                "message": f"outside of {own}-*, experiments only scale workloads",
                "reason": "Forbidden",
            },
            {
                "expression": f"request.resource.resource != 'devicetaintrules' || request.operation == 'DELETE' || ({_ONE_DEVICE})",
                "message": "experiments taint one device, named by driver, pool and device",
                "reason": "Forbidden",
            },
        ],
    }
    return admission_policy(NAME, spec)


def _resources(keys: tuple[str, ...]) -> list[str]:
    return [key.rpartition("/")[2] for key in keys]


def _rules(keys: tuple[str, ...], *operations: str) -> list[dict[str, Any]]:
    """A rule for each API group."""
    groups: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        right = Right.parse(f"create {key}")
        groups[right.group].append(f"{right.resource}/{right.subresource}" if right.subresource else right.resource)
    return [
        {"apiGroups": [group], "apiVersions": ["*"], "operations": list(operations), "resources": resources}
        for group, resources in groups.items()
    ]
