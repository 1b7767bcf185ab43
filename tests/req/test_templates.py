from typing import Any

import pytest

from conformance.common_findings import unread
from conformance.fence.checks import check_blanket_tolerations
from conformance.psa.bypass import check_bypass
from conformance.psa.standards import check_standards
from conformance.req.checks import check_whole_devices
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.demand.pod_templates import templates, templates_in
from fixtures.model.demand.template import MAX_DEPTH, MAX_PATH, Template
from fixtures.snapshot.state import Listing, Snapshot
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.builders import a_container, a_daemonset, a_pod, a_policy, a_scope, a_snapshot, a_spec, a_toleration, a_workload
from tests.findings import only
from tests.tables import each_row, table

TEMPLATE = {"metadata": {"annotations": {"a": "b"}}, "spec": a_spec(devices=1)}

TABLE = table(__file__)
SHAPES: dict[str, tuple[Json, list[str]]] = TABLE["SHAPES"]


@pytest.mark.parametrize("key", SHAPES)
def test_templates_of_a_kind_are_found_where_they_are(key: str) -> None:
    spec, paths = SHAPES[key]
    found = list(templates_in(key, a_workload("K", "w", spec)))
    assert [template.path for template in found] == paths
    assert not any(template.trouble for template in found)
    assert all(template.namespace == "team-a" for template in found)
    devices = [c for template in found for c in template.spec.containers if "nvidia.com/gpu" in (c.resources.limits or {})]
    assert devices
    if paths[0].endswith("template.spec"):
        assert found[0].annotations == {"a": "b"}


def test_one_finding_s_place_tells_templates_of_one_object_apart() -> None:
    head, worker = templates_in("ray.io/rayclusters", a_workload("RayCluster", "r", SHAPES["ray.io/rayclusters"][0]))
    assert head.place != worker.place
    (plain,) = templates_in("apps/deployments", a_workload("Deployment", "d", {"template": TEMPLATE}))
    assert plain.place == plain.subject


def test_a_refused_list_is_trouble_and_an_uncollected_one_is_inconclusive() -> None:
    refused = list(templates(a_scope(trouble={"ray.io/rayclusters": "Forbidden"})))
    assert [template.trouble for template in refused] == ["ray.io/rayclusters could not be listed: refused"]
    assert unread(refused[0]).outcome is Outcome.UNDECIDED
    with pytest.raises(Inconclusive):
        list(templates(Scope(Snapshot([], taken_at=0), a_policy())))


def test_a_saved_snapshot_is_judged_by_what_it_holds() -> None:
    assert [template.path for template in templates(a_scope(offline=True, pods=[a_pod()]))] == ["spec"]
    with pytest.raises(NotApplicable):
        list(templates(a_scope(offline=True, nodes=[])))


def test_what_cannot_be_read_is_reported_and_the_rest_is_found() -> None:
    spec = {"a": {"containers": [{"name": 3, "resources": "lots"}]}, "b": {"spec": a_spec(devices=1)}}
    found = list(templates_in("apps/deployments", a_workload("Deployment", "d", spec)))
    assert [bool(template.trouble) for template in found] == [True, False]
    assert list(templates_in("batch/jobs", {"metadata": None, "spec": "no"}))[0].trouble  # noqa: RUF015


def test_live_pods_and_daemonsets_come_too_and_finished_pods_do_not() -> None:
    scope = a_scope(pods=[a_pod("runs", node="gpu-0"), a_pod("done", phase="Succeeded")], daemonsets=[a_daemonset("agent")])
    assert [template.subject.name for template in templates(scope)] == ["agent", "runs"]


# -- Pod templates in kinds that the suite does not know by name, through every requirement that judges templates


MORE = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}}
ONE = {"limits": {"nvidia.com/gpu": "1"}}


def having(spec: Any, kind: str = "Thing", namespace: str = "team-a", **snapshot: Any) -> Scope:
    """A scope over one object of a kind that nobody knows."""
    item = {"metadata": {"name": "x", "namespace": namespace}, "spec": spec}
    return of(Listing(key=f"example.com/{kind.lower()}s", kind=kind, items=[item]), **snapshot)


def of(*listings: Listing[Any], **snapshot: Any) -> Scope:
    known = a_snapshot(**snapshot)
    every = [known.listing(key) for key in known._listings]
    return Scope(Snapshot([*every, *listings], taken_at=known.taken_at, version=known.version, offline=known.offline), a_policy())


WORKFLOW = {"entrypoint": "t", "templates": [{"name": "t", "container": {"image": "train", "command": ["x"], "resources": MORE}}]}
NIM = {"image": {"repository": "nim", "tag": "1"}, "replicas": 1, "resources": MORE}


@each_row
def test_request_and_limit_that_differ_are_found_in_any_kind(spec: Json, path: str) -> None:
    finding = only(check_whole_devices(having(spec)))
    assert finding.outcome is Outcome.BAD
    assert finding.subject.name == f"x {path}".strip()


@each_row
def test_what_a_controller_may_complete_is_no_fault(spec: Json, outcome: Outcome) -> None:
    assert only(check_whole_devices(having(spec))).outcome is outcome


@each_row
def test_what_is_no_pod_is_no_template(spec: Any) -> None:
    assert list(templates(having(spec))) == []


@each_row
def test_what_others_create_from_a_resource_is_judged_where_it_is(spec: Json) -> None:
    assert list(templates(having(spec))) == []


def test_a_pod_as_a_template_is_one_though_it_has_a_name() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod-template"}, "spec": a_spec(tolerations=["*"])}
    assert only(check_blanket_tolerations(having({"podTemplate": pod}))).outcome is Outcome.BAD


def test_blanket_tolerations_are_found_beside_an_image_that_is_no_text() -> None:
    bad = only(check_blanket_tolerations(having({**NIM, "tolerations": [a_toleration("*")]})))
    assert bad.outcome is Outcome.BAD
    assert bad.source == "spec.tolerations"
    assert only(check_blanket_tolerations(having({"pod": {"tolerations": [a_toleration("*")]}}))).outcome is Outcome.BAD
    assert list(check_blanket_tolerations(having(WORKFLOW))) == []  # a container has no tolerations
    assert list(check_blanket_tolerations(having({"tolerations": [a_toleration("*")]}, namespace="gpu-operator"))) == []


@each_row
def test_bypasses_are_found_in_any_kind(spec: Json, words: str) -> None:
    finding = only(check_bypass(having(spec)))
    assert finding.outcome is Outcome.BAD
    assert words in finding.message


def test_a_runtime_class_alone_is_no_bypass_for_its_containers_are_elsewhere() -> None:
    assert only(check_bypass(having({"runtimeClassName": "nvidia"}))).outcome is Outcome.OK
    assert only(check_bypass(having({"runtimeClassName": "nvidia", "image": "x", "command": ["a"]}))).outcome is Outcome.BAD


def test_a_whole_pod_is_held_to_the_level_and_a_part_to_what_baseline_forbids() -> None:
    whole = only(check_standards(having({"template": {"spec": a_spec(devices=1)}})))
    assert whole.outcome is Outcome.BAD
    part = only(check_standards(having({"image": "x", "resources": ONE})))
    assert part.outcome is Outcome.NOT_JUDGED
    assert "only a part of a pod" in part.message
    open_part = only(check_standards(having({"image": "x", "resources": ONE, "securityContext": {"privileged": True}})))
    assert open_part.outcome is Outcome.BAD
    assert "violates baseline (privileged) whatever completes it" in open_part.message


@each_row
def test_kinds_that_were_not_read_are_reported(trouble: str, outcome: Outcome, words: str) -> None:
    finding = only(check_whole_devices(of(Listing(key="example.com/things", kind="Thing", trouble=trouble, message="why"))))
    assert finding.outcome is outcome
    assert words in finding.message


def test_what_a_saved_snapshot_does_not_hold_of_a_custom_kind_is_reported() -> None:
    absent = Listing[Any](key="example.com/things", kind="Thing", collected=False)
    finding = only(check_whole_devices(of(absent, offline=True, pods=[])))
    assert (finding.outcome, "the snapshot does not hold them" in finding.message) == (Outcome.NOT_JUDGED, True)


@pytest.mark.parametrize("known", [True, False])
def test_depth_width_and_paths_are_bounded_and_reported(known: bool) -> None:
    def found(spec: Json) -> list[Template]:
        return list(templates_in("apps/deployments", a_workload("Deployment", "d", spec)) if known else templates(having(spec)))

    spec: Json = {"containers": [a_container(devices=1)]}
    for _ in range(MAX_DEPTH + 5):
        spec = {"deeper" * 20: spec}
    [deep] = found(spec)
    assert "too deep" in deep.trouble
    assert len(deep.path) <= MAX_PATH
    assert any(template.trouble for template in found({"many": [{"x": {}} for _ in range(30_000)], "template": TEMPLATE}))
