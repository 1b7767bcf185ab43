from __future__ import annotations

from typing import Any

import pytest

from conformance.psa.namespaces import check_enforcement
from fixtures.evidence import Finding, Outcome
from fixtures.models import Namespace
from tests.builders import a_namespace, a_pod, a_policy, a_scope

PREFIX = "pod-security.kubernetes.io/"


def labelled(name: str = "team-a", **modes: str) -> Namespace:
    return a_namespace(name, {PREFIX + mode.replace("_", "-"): value for mode, value in modes.items()})


def judged(*namespaces: Namespace, **more: Any) -> list[Finding]:
    return list(check_enforcement(a_scope(namespaces=namespaces, **more)))


def test_a_pinned_namespace_with_all_modes_conforms_without_advice() -> None:
    [finding] = judged(labelled(enforce="restricted", enforce_version="v1.36", warn="restricted", audit="restricted"))
    assert finding.outcome is Outcome.OK
    assert finding.message == ""
    assert "enforce=restricted" in finding.observed


def test_an_unpinned_namespace_conforms_and_is_told_so() -> None:
    [finding] = judged(labelled(enforce="restricted"))
    assert finding.outcome is Outcome.OK
    assert "pinned" in finding.message
    assert "warn and audit" in finding.message


@pytest.mark.parametrize(
    ("modes", "words"),
    [
        ({}, "no enforce label"),
        ({"warn": "restricted", "audit": "restricted"}, "no enforce label"),
        ({"enforce": "baseline"}, "enforces baseline"),
        ({"enforce": "privileged"}, "enforces privileged"),
        ({"enforce": "Restricted"}, "is no level"),
    ],
)
def test_a_namespace_below_the_level_does_not(modes: dict[str, str], words: str) -> None:
    [finding] = judged(labelled(**modes))
    assert finding.outcome is Outcome.BAD
    assert words in finding.message


def test_an_exception_of_the_policy_lowers_the_level_of_its_tenant_only() -> None:
    policy = a_policy(tenants={"podSecurityExceptions": {"team-rdma": "baseline"}})
    namespaces = [labelled("team-rdma", enforce="baseline"), labelled("team-a", enforce="baseline")]
    outcomes = {f.subject.name: f.outcome for f in check_enforcement(a_scope(policy, namespaces=namespaces))}
    assert outcomes == {"team-rdma": Outcome.OK, "team-a": Outcome.BAD}


def test_infrastructure_is_no_tenant() -> None:
    assert judged(a_namespace("kube-system"), a_namespace("gpu-operator"), a_namespace("gpu-conformance")) == []


def test_the_empty_default_namespace_is_not_judged_and_a_used_one_is() -> None:
    assert [f.outcome for f in judged(a_namespace("default"))] == [Outcome.NOT_JUDGED]
    assert [f.outcome for f in judged(a_namespace("default"), pods=[a_pod(namespace="default")])] == [Outcome.BAD]
    policy = a_policy(tenants={"namespaces": ["default"]})
    assert [f.outcome for f in check_enforcement(a_scope(policy, namespaces=[a_namespace("default")]))] == [Outcome.BAD]


def test_a_namespace_that_goes_away_is_not_judged() -> None:
    leaving = labelled()
    leaving.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    assert [f.outcome for f in judged(leaving)] == [Outcome.NOT_JUDGED]


def test_hostile_labels_are_shown_bounded() -> None:
    [finding] = judged(labelled(enforce="x" * 5000, enforce_version="v1." + "9" * 400))
    assert finding.outcome is Outcome.BAD
    assert len(finding.observed) <= 300
