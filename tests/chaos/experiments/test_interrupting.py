"""An agent that is killed while it has nothing to do was not interrupted, and the verdict says so."""

import copy
from pathlib import Path

import msgspec
import pytest

from chaos.model.experiment import Experiment
from fixtures.verdict.record import Verdict
from tests.chaos.experiments.test_end_to_end import SCENARIO, campaign_on
from tests.chaos.shipped import EXPERIMENTS


def idle(experiment: Experiment) -> Experiment:
    """A13 without the reconfiguration that it is to interrupt."""
    document = copy.deepcopy(experiment.document)
    document["method"] = [activity for activity in document["method"] if activity["provider"]["func"] in ("watch_before", "kill_at_work")]
    document["extensions"][0] |= {"undo": ["agent.restarted"], "detect": None, "expect": []}
    extension = msgspec.structs.replace(experiment.extension, undo=("agent.restarted",), detect=None, expect=())
    return msgspec.structs.replace(experiment, document=document, extension=extension)


@pytest.mark.test_all
def test_a_manager_that_is_killed_at_rest_was_not_interrupted(tmp_path: Path) -> None:
    with campaign_on(SCENARIO, tmp_path) as campaign:
        result = campaign.carry_out(idle(EXPERIMENTS["A13"]))
    assert (result.verdict, result.reason_codes) == (Verdict.INCONCLUSIVE, ["FaultNotLanded"]), result.message
    assert "it was not under way just before" in result.message
