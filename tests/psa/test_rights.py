"""PSA-06 and 07: rights of tenants, and of controllers of the stack."""

import msgspec
import pytest

from conformance.psa.rights import check_controllers, check_tenants_rights
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Finding
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.builders import a_container, a_daemonset, a_namespace, a_node, a_policy, a_scope, a_spec, a_workload
from tests.tables import each_row

POLICY = {"metadata": {"name": "cluster-policy"}, "spec": {}, "status": {"state": "ready", "namespace": "gpu-operator"}}
RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """A binding: what its role allows, whom it is given to and where. ``observed`` is a part of what is found, empty: nothing wrong."""

    subject: Json = msgspec.field(default_factory=lambda: {"kind": "Group", "name": "system:authenticated"})
    rule: Json = {}
    namespace: str = "gpu-operator"
    labels: dict[str, str] = {}
    tenants: dict[str, list[str]] = {}
    observed: str = ""


def found(row: Row, role: str = "ClusterRole") -> list[Finding]:
    where = {"namespace": row.namespace} if row.namespace else {}
    roles = [{"metadata": {"name": "maker"}, "rules": [{**RULE, **row.rule}]}]
    binding = {"metadata": {"name": "b", **where}, "roleRef": {"kind": role, "name": "maker"}, "subjects": [row.subject]}
    default = {"metadata": {"name": "cluster-admin"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}, "subjects": []}
    scope = a_scope(
        a_policy(tenants=row.tenants),
        clusterpolicies=[POLICY],
        namespaces=[a_namespace("gpu-operator", row.labels), a_namespace("team-a")],
        clusterroles=roles,
        rolebindings=[binding] if row.namespace else [],
        clusterrolebindings=[default, *([] if row.namespace else [binding])],
    )
    return list(check_tenants_rights(scope))


@each_row
def test_a_binding(row: Row) -> None:
    findings = found(row)
    assert [one.cause for one in findings] == (["TenantsInPrivilegedNamespace"] if row.observed else [""])
    assert row.observed in findings[0].observed


def test_a_namespace_that_holds_its_pods_to_a_level_is_not_judged() -> None:
    assert found(Row(labels={"pod-security.kubernetes.io/enforce": "baseline"})) == []


def test_a_role_that_is_not_there_gives_nothing() -> None:
    assert [one.cause for one in found(Row(), role="Role")] == [""]


def test_without_any_binding_something_else_decides() -> None:
    with pytest.raises(Inconclusive):
        list(check_tenants_rights(a_scope(namespaces=[a_namespace("kube-system")])))


class ControllerRow(msgspec.Struct, forbid_unknown_fields=True):
    """A controller beside the agents by what its pods have, and what is found of it."""

    outcome: str
    spec: Json = {}
    container: Json = {}
    path: str = ""
    read_only: bool = False
    observed: str = ""


@each_row
def test_a_controller(row: ControllerRow) -> None:
    mounts = [{"name": "host", "mountPath": "/host", "readOnly": row.read_only}] if row.path else []
    volumes = [{"name": "host", "hostPath": {"path": row.path}}] if row.path else []
    spec = a_spec(containers=[a_container("manager", volumeMounts=mounts, **row.container)], volumes=volumes, **row.spec)
    operator = a_workload("Deployment", "gpu-operator", {"template": {"spec": spec}}, "gpu-operator")
    tenants = a_workload("Deployment", "web", {"template": {"spec": a_spec(hostPID=True)}}, "team-a")
    scope = a_scope(nodes=[a_node()], daemonsets=[a_daemonset()], deployments=[operator, tenants], clusterpolicies=[POLICY])
    (finding,) = check_controllers(scope)
    assert (finding.outcome.value, finding.cause) == (row.outcome, "ControllerOnHost" if row.outcome == "bad" else "")
    assert row.observed in finding.observed


def test_where_no_stack_is_there_is_no_controller_of_it() -> None:
    with pytest.raises(NotApplicable):
        list(check_controllers(a_scope(nodes=[a_node()])))
