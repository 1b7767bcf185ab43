"""The ValidatingAdmissionPolicy of the suite's account: RBAC grants kinds, and this narrows them to names and fields of a run.

Everything that the account writes is refused unless a validation allows it, so a right that somebody adds later gives nothing more.
A dry-run changes nothing and stays free: probes ask with it for pods that must be refused.
"""

from typing import Any

from conformance.delivery.node_labels import LABEL, UNTIL
from deploy.rights import ACCOUNT, CONFIG_MAP, NAMESPACE, RELEASE, RESULTS, admission_policy
from deploy.templates import Format, Json, resolved
from fixtures.model.nodes.health import CONFORMANT
from fixtures.model.nodes.releases import PREFIX, RELEASED, RELEASING
from fixtures.ownership.owned import RUN_NAME

NAME = "gpu-conformance"

_LABELS = f"['{LABEL}', '{UNTIL}']"
_NO_DRY_RUN = "!has(request.dryRun) || !request.dryRun"


def _kind(resource: str, group: str = "") -> str:
    return f"(request.resource.group == '{group}' && request.resource.resource == '{resource}')"


def _same(*fields: str, of: str = "metadata") -> str:
    """Whether fields of the metadata, or ``of`` another part, are what they were."""
    return " && ".join(
        f"has(object.{of}.{field}) == has(oldObject.{of}.{field}) && "
        f"(!has(object.{of}.{field}) || object.{of}.{field} == oldObject.{of}.{field})"
        for field in fields
    )


_NAMESPACES, _NODES, _PODS, _SERVICES = (_kind(name) for name in ("namespaces", "nodes", "pods", "services"))
_CLASSES = _kind("priorityclasses", "scheduling.k8s.io")
_QUEUES = _kind("clusterqueues", "kueue.x-k8s.io")
_CLAIMS = "(request.resource.group == 'resource.k8s.io' && request.resource.resource in ['resourceclaims', 'resourceclaimtemplates'])"

_VARIABLES = {
    "name": "request.operation == 'CREATE' ? (has(object.metadata) && has(object.metadata.name) ? object.metadata.name : '')"
    " : (has(request.name) ? request.name : '')",
    "space": f"has(request.namespace) && !{_NAMESPACES} ? request.namespace : ''",
    "own": f"(variables.space == '' ? variables.name : variables.space).matches('^{RUN_NAME}$')",
    "writes": "request.operation in ['CREATE', 'UPDATE']",
    "containers": f"variables.writes && {_PODS} ? object.spec.containers"
    " + (has(object.spec.initContainers) ? object.spec.initContainers : []) : []",
    "before": f"{_NODES} && has(oldObject.metadata.labels) ? oldObject.metadata.labels : {{}}",
    "after": f"{_NODES} && has(object.metadata.labels) ? object.metadata.labels : {{}}",
    "noted": f"{_NODES} && has(oldObject.metadata.annotations) ? oldObject.metadata.annotations : {{}}",
    "notes": f"{_NODES} && has(object.metadata.annotations) ? object.metadata.annotations : {{}}",
    "tainted": f"{_NODES} && has(oldObject.spec.taints) ? oldObject.spec.taints : []",
    "taints": f"{_NODES} && has(object.spec.taints) ? object.spec.taints : []",
    "claims": f"variables.writes && {_CLAIMS} ? (request.resource.resource == 'resourceclaims' ? [object.spec] : [object.spec.spec]) : []",
}

_LABELS_ALONE = (
    f"{_NODES} && request.operation == 'UPDATE' && (!has(request.subResource) || request.subResource == '')"
    f" && object.spec == oldObject.spec && {_same('annotations', 'finalizers', 'ownerReferences')}"
    f" && variables.after.all(key, key in {_LABELS} || (key in variables.before && variables.before[key] == variables.after[key]))"
    f" && variables.before.all(key, key in {_LABELS} || key in variables.after)"
)
"""RBAC cannot limit a patch of nodes to some labels."""

_SPEC = ("podCIDR", "podCIDRs", "providerID", "unschedulable", "configSource", "externalID")
_NOTES = f"['{RELEASING}', '{RELEASED}']"
_RELEASE_ALONE = (
    f"{_NODES} && request.operation == 'UPDATE' && (!has(request.subResource) || request.subResource == '')"
    f" && {_same('labels', 'finalizers', 'ownerReferences')} && {_same(*_SPEC, of='spec')}"
    f" && variables.notes.all(key, key in {_NOTES} || (key in variables.noted && variables.noted[key] == variables.notes[key]))"
    f" && variables.noted.all(key, key in {_NOTES} || key in variables.notes)"
    f" && variables.taints.all(one, one in variables.tainted)"
    f" && variables.tainted.all(one, one.key.startsWith('{PREFIX}') || one in variables.taints)"
)
"""Nor one of their taints to the suite's own: it takes those off, and sets none."""

_STATUS = ("capacity", "allocatable", "phase", "addresses", "daemonEndpoints", "nodeInfo", "images", "volumesInUse", "volumesAttached")
_OTHERS = f"status.conditions.filter(one, one.type != '{CONFORMANT}')"
_CONDITION_ALONE = (
    f"{_NODES} && request.operation == 'UPDATE' && has(request.subResource) && request.subResource == 'status'"
    f" && has(object.status.conditions) && has(oldObject.status.conditions) && object.{_OTHERS} == oldObject.{_OTHERS}"
    f" && {_same(*_STATUS, of='status')} && {_same('labels', 'annotations')}"
)
"""Nor one of their status to a condition."""

_THE_RESULTS = (
    f"{_kind('configmaps')} && request.operation in ['CREATE', 'UPDATE']"
    " && variables.name != '' && variables.space == '%s' && variables.name == '%s'"
)

_A_PAGE = f"request.operation == 'CONNECT' && {_PODS} && has(request.subResource) && request.subResource == 'proxy'"
"""Pages of metrics exporters are read through the API server. RBAC grants GET alone; exec, attach and port-forward stay refused."""

_HOST = (
    *(f"(!has(object.spec.{field}) || !object.spec.{field})" for field in ("hostNetwork", "hostPID", "hostIPC")),
    "(!has(object.spec.volumes) || object.spec.volumes.all(one, !has(one.hostPath)))",
    "(!has(object.spec.securityContext) || !has(object.spec.securityContext.windowsOptions))",
    "variables.containers.all(one, !has(one.ports) || one.ports.all(port, !has(port.hostPort) || port.hostPort == 0))",
    "variables.containers.all(one, !has(one.securityContext) || ("
    "(!has(one.securityContext.privileged) || !one.securityContext.privileged)"
    " && !has(one.securityContext.windowsOptions)"
    " && (!has(one.securityContext.procMount) || one.securityContext.procMount == 'Default')"
    " && (!has(one.securityContext.capabilities) || !has(one.securityContext.capabilities.add)"
    " || one.securityContext.capabilities.add.all(added, added == 'IPC_LOCK'))))",
)
"""What a pod may have of its node: nothing. IPC_LOCK is for the pods of the two-node run (the policy's ``network.ipcLock``)."""

_YIELDS = (
    "(!has(object.spec.nodeName) || object.spec.nodeName == '')",
    "((has(object.spec.priority) && object.spec.priority < 0)"
    " || (has(object.spec.preemptionPolicy) && object.spec.preemptionPolicy == 'Never'))",
)


def tree() -> list[Any]:
    """The policy and its binding, for a namespace and a ConfigMap of results that are still to be filled in."""
    creating = f"!(variables.writes && {_PODS})"
    allowed = (_LABELS_ALONE, _CONDITION_ALONE, _RELEASE_ALONE, _A_PAGE, _THE_RESULTS)
    validations = [
        (
            Format(f"variables.own || {' || '.join(f'({one})' for one in allowed)}", (RELEASE, CONFIG_MAP)),
            _OWN_ALONE,
        ),
        (
            f"{creating} || ({' && '.join(_HOST)})",
            "a probe has no host namespace, hostPath, host port, privilege, or capability but IPC_LOCK",
        ),
        (f"{creating} || ({' && '.join(_YIELDS)})", "a scheduler places each probe, and no probe preempts another pod"),
        (
            f"!(variables.writes && {_SERVICES}) || (has(object.spec.clusterIP) && object.spec.clusterIP == 'None'"
            " && (!has(object.spec.externalIPs) || object.spec.externalIPs.size() == 0))",
            "a run's Services are headless, without external addresses",
        ),
        (
            f"!(variables.writes && {_CLASSES}) || (object.value < 0 && (!has(object.globalDefault) || !object.globalDefault)"
            " && has(object.preemptionPolicy) && object.preemptionPolicy == 'Never')",
            "a run's PriorityClass is below zero, preempts nothing, and is nobody's default",
        ),
        (
            f"!(variables.writes && {_QUEUES}) || (!has(object.spec.cohort) && !has(object.spec.cohortName))",
            "a run's ClusterQueue is in no cohort",
        ),
        (
            "variables.claims.all(one, !has(one.devices) || !has(one.devices.requests) || one.devices.requests.all(asked,"
            " (!has(asked.adminAccess) || !asked.adminAccess)"
            " && (!has(asked.exactly) || !has(asked.exactly.adminAccess) || !asked.exactly.adminAccess)))",
            "a run claims no device with admin access",
        ),
    ]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}],
            "excludeResourceRules": [
                {
                    "apiGroups": ["authorization.k8s.io", "authentication.k8s.io"],  # questions: they store nothing
                    "apiVersions": ["*"],
                    "operations": ["*"],
                    "resources": ["*"],
                }
            ],
        },
        "matchConditions": [
            {
                "name": "the-account",
                "expression": Format(f"request.userInfo.username == 'system:serviceaccount:%s:{ACCOUNT}'", (RELEASE,)),
            },
            {"name": "no-dry-run", "expression": _NO_DRY_RUN},
        ],
        "variables": [{"name": name, "expression": expression} for name, expression in _VARIABLES.items()],
        "validations": [{"expression": expression, "message": message, "reason": "Forbidden"} for expression, message in validations],
    }
    return admission_policy(NAME, spec)


_OWN_ALONE = "the suite writes only in namespaces, and to cluster-wide objects, whose names a run gives"


def documents() -> list[Json]:
    """The same for the namespace and the ConfigMap that ``deploy/`` names."""
    values = {"Values": {"results": {"configMap": RESULTS}}, "Release": {"Namespace": NAMESPACE}}
    return [resolved(document, values) for document in tree()]
