import json
from typing import Any

from conformance.inv.rights import check_custom_kinds, check_rights, rights
from conformance.requirement import Needs
from fixtures.cluster.access import Review, Right, ask_rights, read_review
from fixtures.cluster.client import Answer
from fixtures.cluster.trouble import ApiTrouble
from fixtures.snapshot.custom_kinds import DEFINITIONS
from fixtures.snapshot.state import Listing, Snapshot
from fixtures.verdict.findings import Outcome
from tests.builders import a_snapshot


def answer(body: object, status: int = 201) -> Answer:
    return Answer(status=status, body=json.dumps(body).encode())


class Reviewer:
    """Stands for a cluster: allows all but what is denied, breaks on what is broken."""

    def __init__(self, denied: set[str], broken: set[str] = frozenset()) -> None:  # type: ignore[assignment]
        self.denied = denied
        self.broken = broken
        self.asked: list[dict[str, str]] = []

    def request(self, method: str, path: str, *, body: dict[str, dict[str, dict[str, str]]]) -> Answer:
        assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        attributes = body["spec"]["resourceAttributes"]
        self.asked.append(attributes)
        name = f"{attributes['verb']} {attributes['resource']}"
        if name in self.broken:
            raise ApiTrouble("Timeout", "no answer")
        return answer({"status": {"allowed": name not in self.denied, "reason": "RBAC says so"}})


def test_every_read_and_write_becomes_one_right() -> None:
    needs = Needs(
        reads={"nodes": ["A-01"], "apps/daemonsets": ["A-01", "B-01"], "resource.k8s.io/resourceslices": ["C-01"]},
        writes={
            "create pods": ["D-01"],
            "get pods/log": ["D-01"],
            "list pods": ["D-01"],
            "update kueue.x-k8s.io/workloads/status": ["E-01"],
        },
    )
    found = {str(right): right for right in rights(needs, a_snapshot())}
    assert set(found) == {
        "list nodes",
        "list apps/daemonsets",
        "list resource.k8s.io/resourceslices",
        "create pods",
        "get pods/log",
        "list pods",
        "update kueue.x-k8s.io/workloads/status",
    }
    assert found["list apps/daemonsets"].needed_by == ("A-01", "B-01")
    assert found["get pods/log"].review()["spec"]["resourceAttributes"] == {
        "verb": "get",
        "group": "",
        "resource": "pods",
        "subresource": "log",
    }


def test_kinds_that_are_not_served_need_no_right() -> None:
    snapshot = Snapshot([Listing(key="ray.io/rayclusters", served=False)], taken_at=0.0)
    assert rights(Needs(reads={"ray.io/rayclusters": ["REQ-02"]}, writes={}), snapshot) == []


def test_writes_of_kinds_that_are_not_served_need_no_right_either() -> None:
    writes = {
        "create kueue.x-k8s.io/localqueues": ["GANG-02"],
        "update kueue.x-k8s.io/workloads/status": ["GANG-02"],
        "delete ray.io/rayclusters": ["X-01"],
        "create scheduling.volcano.sh/podgroups": ["GANG-02"],
        "create pods": ["GANG-02"],
        "get pods/log": ["ISO-01"],
        "watch events": ["OBS-06"],
    }
    kept = ["create pods", "create scheduling.volcano.sh/podgroups", "get pods/log", "watch events"]
    discovered = {"pods": "v1", "events": "v1", "scheduling.volcano.sh/podgroups": "v1beta1"}
    snapshot = Snapshot([Listing(key="ray.io/rayclusters", served=False)], taken_at=0.0, versions=discovered)
    assert [str(right) for right in rights(Needs(reads={}, writes=writes), snapshot)] == sorted(kept)


def test_without_discovery_only_what_a_list_showed_to_be_missing_is_left_out() -> None:
    snapshot = Snapshot([Listing(key="kueue.x-k8s.io/workloads", served=False)], taken_at=0.0)
    needs = Needs(reads={}, writes={"delete kueue.x-k8s.io/workloads": ["GANG-02"], "create kueue.x-k8s.io/localqueues": ["GANG-02"]})
    assert [str(right) for right in rights(needs, snapshot)] == ["create kueue.x-k8s.io/localqueues"]


def test_a_missing_right_names_the_requirements_it_stops() -> None:
    needs = Needs(reads={"pods": ["FENCE-02", "REQ-03"], "nodes": ["INV-01"]}, writes={})
    reviewer = Reviewer({"list pods"})
    findings = list(check_rights(ask_rights(reviewer, rights(needs, a_snapshot()))))  # type: ignore[arg-type]
    missing = [finding for finding in findings if finding.outcome is not Outcome.OK]
    assert [(finding.outcome, str(finding.subject)) for finding in missing] == [(Outcome.UNDECIDED, "right list pods")]
    assert missing[0].message == "the caller may not list pods (RBAC says so), so FENCE-02, REQ-03 cannot be judged"
    assert len(findings) == len(reviewer.asked) == 2


def test_no_answer_is_undecided_and_the_others_are_still_asked() -> None:
    needs = Needs(reads={"pods": ["X-01"], "nodes": ["X-02"]}, writes={})
    findings = list(check_rights(ask_rights(Reviewer(set(), {"list nodes"}), rights(needs, a_snapshot()))))  # type: ignore[arg-type]
    assert sorted(finding.outcome for finding in findings) == [Outcome.OK, Outcome.UNDECIDED]


def test_answers_that_are_none_do_not_allow() -> None:
    right = Right(verb="list", group="", resource="pods", needed_by=("X-01",))
    for broken in (answer({}, 403), answer({"status": {}}), answer({"status": "yes"}), answer([]), Answer(status=201, body=b"\xff{")):
        assert read_review(right, broken).allowed is None
    assert read_review(right, answer({"status": {"allowed": False, "evaluationError": "role gone"}})) == Review(
        right=right, allowed=False, reason="role gone"
    )


def test_a_custom_kind_that_was_refused_is_reported_and_harms_nothing() -> None:
    listings = [
        Listing[Any](key="kubeflow.org/mxjobs", kind="MXJob", trouble="Forbidden"),
        Listing[Any](key="kubeflow.org/notebooks", kind="Notebook"),
        Listing[Any](key="example.com/things", kind="Thing", trouble="InternalError"),
    ]
    needs = Needs(reads={DEFINITIONS: ["REQ-02", "PSA-05"]}, writes={})
    [finding] = check_custom_kinds(Snapshot(listings, taken_at=0.0), needs)
    assert (finding.outcome, finding.subject.name) == (Outcome.NOT_JUDGED, "list kubeflow.org/mxjobs")
    assert "may not list mxjobs.kubeflow.org, so REQ-02, PSA-05 do not judge" in finding.message
