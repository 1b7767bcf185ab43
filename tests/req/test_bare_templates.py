"""Templates of ReplicaSets and PodTemplates that no other object made, and of custom resources beside ``spec``."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.fence.checks import check_blanket_tolerations
from conformance.psa.bypass import check_bypass
from conformance.psa.standards import check_standards
from conformance.req.checks import check_whole_devices
from fixtures.cluster.kinds import BARE_KEYS, WORKLOAD_KEYS
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.demand.pod_templates import templates
from fixtures.snapshot.collect import collect
from fixtures.snapshot.custom_kinds import DEFINITIONS
from fixtures.snapshot.files import load_files
from fixtures.verdict.findings import Outcome
from fixtures.verdict.record import Verdict
from tests.builders import a_container, a_policy, a_scope
from tests.core.test_custom_kinds import a_definition
from tests.core.test_missing_kinds import saved
from tests.served import served
from tests.tables import each_row

MORE = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}
OPEN: Json = {
    "spec": {
        "containers": [{"name": "c", "image": "i", "resources": MORE, "securityContext": {"privileged": True}}],
        "tolerations": [{"operator": "Exists"}],
    }
}
DECENT: Json = {"spec": {"containers": [a_container()]}}
POD: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "team-b"}, "spec": {}, "status": {"phase": "Failed"}}
CHECKS = (check_whole_devices, check_blanket_tolerations, check_standards, check_bypass)


def a_set(name: str = "web", template: Json = OPEN, owner: Json | None = None) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "team-a", "uid": name} | ({"ownerReferences": [owner]} if owner else {}),
        "spec": {"replicas": 0, "template": template},
    }


def a_pod_template(template: Json = OPEN, owner: Json | None = None) -> Json:
    found = a_set("later", template, owner)
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": found["metadata"], "template": template}


def owned_by(api_version: str, kind: str, **more: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": "web", "uid": "9", "controller": True, **more}


def outcomes(scope: Scope) -> list[list[Outcome]]:
    return [[finding.outcome for finding in check(scope)] for check in CHECKS]


@pytest.mark.parametrize("objects", [{"replicasets": [a_set()]}, {"podtemplates": [a_pod_template()]}], ids=list)
def test_a_template_that_runs_nothing_yet_is_judged(objects: Any) -> None:
    assert outcomes(a_scope(**objects)) == [[Outcome.BAD]] * 4
    [template] = templates(a_scope(**objects))
    assert template.path in ("spec.template.spec", "template.spec")


def test_decent_ones_pass() -> None:
    scope = a_scope(replicasets=[a_set(template=DECENT)], podtemplates=[a_pod_template(DECENT)])
    assert outcomes(scope) == [[], [Outcome.OK] * 2, [], [Outcome.OK] * 2]


@each_row
def test_what_a_controller_made_is_judged_at_its_owner(owner: Json, judged: bool) -> None:
    definitions = [a_definition("rollouts", "argoproj.io", "Rollout")]
    assert bool(list(templates(a_scope(replicasets=[a_set(owner=owner)], customresourcedefinitions=definitions)))) is judged


def test_without_definitions_a_custom_owner_is_believed() -> None:
    scope = a_scope(podtemplates=[a_pod_template(owner=owned_by("kueue.x-k8s.io/v1beta1", "Workload"))], offline=True, pods=[])
    assert list(templates(scope)) == []


def test_replica_sets_of_deployments_are_not_kept(tmp_path: Path) -> None:
    made = [a_set(f"web-{index}", owner=owned_by("apps/v1", "Deployment")) for index in range(3)]
    with served(tmp_path, [*made, a_set("bare"), a_pod_template()]) as (cluster, _):
        snapshot = collect(cluster, [*WORKLOAD_KEYS, *BARE_KEYS, "pods", DEFINITIONS], version="v1.36.3")
    assert [item["metadata"]["name"] for item in snapshot.listing("apps/replicasets").objects] == ["bare"]
    assert {template.subject.name for template in templates(Scope(snapshot, a_policy()))} == {"bare", "later"}


def test_a_snapshot_without_them_is_judged_and_says_so() -> None:
    cluster, full = saved("showcase")
    less = cluster.judged(without=BARE_KEYS, ids=["FENCE-03", "PSA-05"])
    for id_, result in less.items():
        assert result.verdict is full[id_].verdict is Verdict.PASSED
        assert "the snapshot holds no apps/replicasets" in result.message
        assert "the snapshot holds no" not in full[id_].message


@each_row
def test_a_custom_resource_is_searched_beside_its_spec(tmp_path: Path, content: Json, path: str) -> None:
    item = {"apiVersion": "example.com/v1", "kind": "Job", "metadata": {"name": "x", "namespace": "team-a"}, **content}
    item["status"] = {"template": OPEN}
    definition = a_definition("jobs", "example.com", "Job", None)
    with served(tmp_path, [definition, item]) as (cluster, _):
        live = collect(cluster, [*WORKLOAD_KEYS, "pods", DEFINITIONS], version="v1.36.3")
    (tmp_path / "saved.json").write_bytes(msgspec.json.encode([definition, item, POD]))
    for snapshot in (live, load_files(tmp_path / "saved.json")):
        [template] = templates(Scope(snapshot, a_policy()))
        assert template.path == path
        [finding] = check_whole_devices(Scope(snapshot, a_policy()))
        assert finding.outcome is Outcome.BAD
