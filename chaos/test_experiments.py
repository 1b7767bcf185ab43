"""Every chaos experiment as a test; selected with ``--chaos`` only."""

import pytest

from chaos.engine.campaign import Campaign
from chaos.engine.turns import Turn
from chaos.surface.chaos_run import SESSION, record_result
from conformance.plugin import waiting
from fixtures.verdict.record import Verdict


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each selected experiment, or for each of them on each node of a pool."""
    found = metafunc.config.stash[SESSION].turns
    metafunc.parametrize("turn", found, ids=[turn.id for turn in found])


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> Campaign:
    """The run of experiments that holds the cluster."""
    found = request.config.stash[SESSION].campaign
    if found is None:
        raise RuntimeError("the run of experiments was not opened")
    return found


def test_experiment(turn: Turn, campaign: Campaign, request: pytest.FixtureRequest) -> None:
    """Inject, watch, undo, judge. Anything but passed and not applicable fails. What an earlier run has passed is taken over."""
    waiting.begin(request.config, turn.id)
    try:
        result = request.config.stash[SESSION].carried.get(turn.id) or campaign.carry_out(turn.experiment, turn.node)
    except BaseException as error:  # a timeout's alarm, say: it was undone, and counts
        record_result(request, campaign.cut_short(turn.experiment, error, turn.node))
        raise
    record_result(request, result)
    if result.verdict is Verdict.NOT_APPLICABLE:
        pytest.skip(f"{', '.join(result.reason_codes)}: {result.message}")
    if result.verdict is not Verdict.PASSED:
        lines = [f"{result.id} {result.title}", f"{result.verdict} {', '.join(result.reason_codes)}: {result.message}"]
        lines += [f"  {one.verdict}: {one.name}: {one.message}" for one in result.findings if one.verdict is not Verdict.PASSED][:20]
        lines.append(f"artefacts: {result.artefacts}")
        pytest.fail("\n".join(lines), pytrace=False)
