"""How many nodes NVSentinel may cordon, by its settings, and whether its breaker is closed."""

from fixtures.model.platform.remediators import breaker_status, fence_limit
from tests.tables import each_row


@each_row
def test_the_limit_is_a_share_of_gpu_nodes_rounded_up(settings: str, gpus: int, others: int, limit: int | None) -> None:
    labelled = [{"metadata": {"labels": {"nvidia.com/gpu.present": "true"}}}] * gpus
    assert fence_limit({"data": {"config.toml": settings}}, [*labelled, *[{"metadata": {}}] * others]) == limit


@each_row
def test_a_breaker_is_closed_or_tripped_and_nothing_else(status: object, says: str) -> None:
    assert breaker_status({"data": {"status": status}}) == says


def test_what_is_not_there_says_nothing() -> None:
    assert breaker_status(None) == ""
    assert fence_limit(None, []) is None


def test_settings_of_a_megabyte_are_read_in_time() -> None:
    """By steps of each line, not of each pair of lines: nothing here is timed, a quadratic search would not end."""
    assert fence_limit({"data": {"config.toml": "\n" * 1_000_000 + "[circuitBreaker]\n" + "\n" * 1_000_000}}, []) is None
