"""The ValidatingAdmissionPolicy of the chaos account: it creates, deletes and evicts in its own namespaces, which RBAC cannot express.

The policy binds that account alone. What experiments break and put back is elsewhere, and stays allowed: pods may be deleted anywhere
(agents), operands of a ClusterPolicy deleted and created again, and workloads scaled.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from chaos.cluster import namespaces
from chaos.cluster.requests import Right
from chaos.ledger.undos.objects import CREATED, OPERAND_KINDS
from chaos.ledger.undos.workloads import SCALED
from deploy.rights import NAMESPACE, admission_policy
from fixtures.ownership.owned import CLUSTER_SCOPED_KEYS
from fixtures.probes.namespace_limits import NETWORK_POLICIES, QUOTAS

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


def documents() -> list[dict[str, Any]]:
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
