from typing import Any

import pytest

from conformance.psa.namespaces import VIOLATING, LetThrough, check_enforcement, let_through
from fixtures.kubernetes.models import Namespace
from fixtures.kubernetes.podsecurity import LATEST, NEWEST_MINOR, Level, LevelVersion, evaluate
from fixtures.kubernetes.podsecurity.registry import BASELINE, RESTRICTED, Check
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_namespace, a_pod, a_policy, a_scope
from tests.tables import each_row

PREFIX = "pod-security.kubernetes.io/"


def labelled(name: str = "team-a", **modes: str) -> Namespace:
    return a_namespace(name, {PREFIX + mode.replace("_", "-"): value for mode, value in modes.items()})


def judged(*namespaces: Namespace, **more: Any) -> list[Finding]:
    return list(check_enforcement(a_scope(namespaces=namespaces, **more)))


@each_row
def test_a_namespace_below_the_level_does_not(modes: dict[str, str], words: str) -> None:
    [finding] = judged(labelled(**modes))
    assert finding.outcome is Outcome.BAD
    assert words in finding.message


def test_an_exception_of_the_policy_lowers_the_level_of_its_tenant_only() -> None:
    policy = a_policy(tenants={"podSecurityExceptions": {"team-rdma": "baseline"}})
    namespaces = [labelled("team-rdma", enforce="baseline"), labelled("team-a", enforce="baseline")]
    outcomes = {f.subject.name: f.outcome for f in check_enforcement(a_scope(policy, namespaces=namespaces))}
    assert outcomes == {"team-rdma": Outcome.OK, "team-a": Outcome.BAD}


@each_row
def test_a_level_at_a_version_that_lacks_its_controls_is_none(level: str, version: str, admitted: str) -> None:
    [finding] = judged(labelled(enforce=level, enforce_version=version, warn=level, audit=level))
    assert finding.outcome is Outcome.BAD
    assert f"{level}:{version} admits pods" in finding.message
    assert admitted in finding.message


@pytest.mark.parametrize("version", ["v1.25", "v1.30", "v1.36", "v1.99"])
def test_a_version_that_is_as_strict_as_the_stable_level_conforms(version: str) -> None:
    [finding] = judged(labelled(enforce="restricted", enforce_version=version, warn="restricted", audit="restricted"))
    assert finding.outcome is Outcome.OK
    assert ("probe or lifecycle host" in finding.message) is (version in ("v1.25", "v1.30"))


def test_an_old_version_is_held_to_the_controls_of_the_level_that_the_policy_asks_for() -> None:
    policy = a_policy(tenants={"podSecurity": "baseline"})
    namespaces = [
        labelled("old", enforce="restricted", enforce_version="v1.18"),
        labelled("new", enforce="baseline", enforce_version="v1.19"),
    ]
    outcomes = {f.subject.name: f.outcome for f in check_enforcement(a_scope(policy, namespaces=namespaces))}
    assert outcomes == {"old": Outcome.BAD, "new": Outcome.OK}  # before 1.19 only annotations choose a seccomp profile


@pytest.mark.parametrize("modes", [{}, {"enforce": "privileged"}, {"enforce": "baseline", "enforce_version": "v1.0"}])
def test_the_level_privileged_asks_for_nothing(modes: dict[str, str]) -> None:
    policy = a_policy(tenants={"podSecurityExceptions": {"team-a": "privileged"}})
    [finding] = check_enforcement(a_scope(policy, namespaces=[labelled(**modes)]))
    assert finding.outcome is Outcome.OK
    assert finding.expected.startswith("nothing")


@each_row
def test_a_tenant_that_may_lock_memory_is_waived_where_its_pods_can_exist(modes: dict[str, str], outcome: Outcome) -> None:
    policy = a_policy(tenants={"ipcLock": ["team-rdma"]})
    namespaces = [labelled("team-rdma", **modes), labelled("team-a", enforce="privileged")]
    outcomes = {f.subject.name: f.outcome for f in check_enforcement(a_scope(policy, namespaces=namespaces))}
    assert outcomes == {"team-rdma": outcome, "team-a": Outcome.BAD}


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


# -- pinned versions


@pytest.mark.parametrize("check", [*BASELINE, *RESTRICTED], ids=lambda check: check.id)
def test_every_control_has_a_pod_that_violates_it_and_no_other(check: Check) -> None:
    assert [found.check_id for found in evaluate(VIOLATING[check.id], {}, check.level)] == [check.id]


@pytest.mark.parametrize("level", Level)
def test_a_level_holds_itself_at_the_newest_version(level: Level) -> None:
    assert let_through(level, LevelVersion(level, LATEST), None) == LetThrough()
    assert let_through(level, LevelVersion(level, f"v1.{NEWEST_MINOR}"), None) == LetThrough()


def test_what_came_after_the_level_was_stable_is_told_apart() -> None:
    assert let_through(Level.RESTRICTED, LevelVersion(Level.RESTRICTED, "v1.33"), 36) == LetThrough(new=("probe or lifecycle host",))
    assert let_through(Level.RESTRICTED, LevelVersion(Level.RESTRICTED, "v1.33"), 33) == LetThrough()
