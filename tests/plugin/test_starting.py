"""A record holds the command as somebody typed it."""

import pytest

from conformance.plugin.options import OPTIONS, SUITE, as_typed


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        (["conformance", "--simulate", "healthy"], "pytest conformance --simulate healthy"),
        ([*OPTIONS, str(SUITE), "--read-only"], "gpu-conformance run --read-only"),
        ([*OPTIONS, str(SUITE.parent / "chaos"), "--chaos", "--simulate", "resilience"], "gpu-conformance chaos run --simulate resilience"),
        (["chaos", "--chaos", "--stop-if", "command ./slo hush", "-q"], "pytest chaos --chaos --stop-if (set, not shown) -q"),
        (["chaos", "--steady-if=http https://a.example/?hush", "-q"], "pytest chaos --steady-if=(set, not shown) -q"),
        ([], "pytest"),
    ],
)
def test_a_command_is_recorded_as_it_was_typed(given: list[str], typed: str) -> None:
    assert " ".join(as_typed(given)) == typed
