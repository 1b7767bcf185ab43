import pytest

from conformance.psa.pinned_versions import VIOLATING, LetThrough, let_through
from fixtures.kubernetes.podsecurity import LATEST, NEWEST_MINOR, Level, LevelVersion, evaluate
from fixtures.kubernetes.podsecurity.registry import BASELINE, RESTRICTED, Check


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
