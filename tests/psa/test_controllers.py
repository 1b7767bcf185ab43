"""PSA-07: controllers of the device stack and their nodes."""

import msgspec
import pytest

from conformance.psa.rights import check_controllers
from fixtures.kubernetes.models import Json
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_container, a_daemonset, a_node, a_scope, a_spec, a_workload
from tests.tables import each_row

POLICY = {"metadata": {"name": "cluster-policy"}, "spec": {}, "status": {"state": "ready", "namespace": "gpu-operator"}}


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """A controller beside the agents by what its pods have, and what is found of it."""

    outcome: str
    spec: Json = {}
    container: Json = {}
    path: str = ""
    read_only: bool = False
    observed: str = ""


@each_row
def test_a_controller(row: Row) -> None:
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
