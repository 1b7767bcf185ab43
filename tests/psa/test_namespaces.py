from typing import Any

import pytest

from conformance.psa.namespaces import VIOLATING, LetThrough, check_enforcement, let_through
from fixtures.kubernetes.models import Json, Namespace
from fixtures.kubernetes.podsecurity import LATEST, NEWEST_MINOR, Level, LevelVersion, evaluate
from fixtures.kubernetes.podsecurity.registry import BASELINE, RESTRICTED, Check
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_namespace, a_pod, a_policy, a_scope
from tests.findings import by_name
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


@each_row
def test_what_the_policy_asks_of_a_tenant(
    tenants: Json, namespaces: dict[str, dict[str, str]], pods: list[str], expected: dict[str, Outcome]
) -> None:
    """``pods``: their namespaces. Before v1.19 only annotations choose a seccomp profile."""
    made = [labelled(name, **modes) for name, modes in namespaces.items()]
    scope = a_scope(a_policy(tenants=tenants), namespaces=made, pods=[a_pod(namespace=name) for name in pods])
    assert by_name(check_enforcement(scope)) == expected


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


def test_what_came_after_the_level_was_stable_is_reported_apart() -> None:
    assert let_through(Level.RESTRICTED, LevelVersion(Level.RESTRICTED, "v1.33"), 36) == LetThrough(new=("probe or lifecycle host",))
    assert let_through(Level.RESTRICTED, LevelVersion(Level.RESTRICTED, "v1.33"), 33) == LetThrough()
