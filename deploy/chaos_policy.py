"""The ValidatingAdmissionPolicy of the chaos account: it creates and deletes only in its own namespaces, which RBAC cannot express.

A ValidatingAdmissionPolicy, which binds that account alone. What experiments break and put back is elsewhere, and stays allowed:
pods may be deleted anywhere (agents), and ConfigMaps, Services and disruption budgets deleted and created again (operands).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from chaos.cluster import namespaces
from chaos.ledger.undos.objects import CREATED, DELETED
from deploy.rights import NAMESPACE
from fixtures.ownership.owned import CLUSTER_SCOPED_KEYS
from fixtures.probes.namespace_limits import NETWORK_POLICIES, QUOTAS

ACCOUNT = "gpu-conformance-chaos"
NAME = "gpu-conformance-chaos"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"

WITHIN = (
    *(key for key in CREATED if key not in (*DELETED, *CLUSTER_SCOPED_KEYS, "pods")),
    NETWORK_POLICIES,
    QUOTAS,
    "kueue.x-k8s.io/workloads",
)
"""Kinds that are created and deleted in the account's own namespaces alone; those that no namespace holds have such names themselves."""


_ONE_DEVICE = " && ".join(f"has(object.spec.deviceSelector{part})" for part in ("", ".driver", ".pool", ".device"))
"""A DeviceTaintRule without a name taints all devices of its pool, driver or cluster."""


def documents() -> list[dict[str, Any]]:
    """The policy and its binding."""
    own, scoped = namespaces.SHARED, [key.rpartition("/")[2] for key in CLUSTER_SCOPED_KEYS]
    name = "request.operation == 'CREATE' ? (has(object.metadata.name) ? object.metadata.name : '') : request.name"
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                *_rules(("pods",), "CREATE"),
                *_rules(WITHIN, "CREATE", "DELETE"),
                *_rules(CLUSTER_SCOPED_KEYS, "CREATE", "UPDATE", "DELETE"),
            ]
        },
        "matchConditions": [{"name": "the-account", "expression": f"request.userInfo.username == '{USER}'"}],
        "variables": [{"name": "place", "expression": f"request.resource.resource in {scoped} ? ({name}) : request.namespace"}],
        "validations": [
            {
                "expression": f"variables.place == '{own}' || variables.place.startsWith('{own}-')",
                "message": f"experiments create and delete in namespaces of their own: {own}-*",
                "reason": "Forbidden",
            },
            {
                "expression": f"request.resource.resource != 'devicetaintrules' || request.operation == 'DELETE' || ({_ONE_DEVICE})",
                "message": "experiments taint one device, named by driver, pool and device",
                "reason": "Forbidden",
            },
        ],
    }
    version, meta = "admissionregistration.k8s.io/v1", {"name": NAME}
    bound = {"policyName": NAME, "validationActions": ["Deny"]}
    return [
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": meta, "spec": spec},
        {"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": dict(meta), "spec": bound},
    ]


def _rules(keys: tuple[str, ...], *operations: str) -> list[dict[str, Any]]:
    """A rule for each API group."""
    groups: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        group, _, resource = key.rpartition("/")
        groups[group].append(resource)
    return [
        {"apiGroups": [group], "apiVersions": ["*"], "operations": list(operations), "resources": resources}
        for group, resources in groups.items()
    ]
