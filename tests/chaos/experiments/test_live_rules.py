"""Every experiment that is offered on a live cluster, planned by a live cluster's rules: it names durations, and its gates can be open.

The clusters are embedded ones, told to be live: nothing is carried out.
"""

from collections.abc import Iterator

import msgspec
import pytest

from chaos.engine.campaign import CampaignSetup, plan_now
from chaos.safety.admission import gate_results
from chaos.safety.gates import settings_of
from fixtures.verdict.record import TargetKind
from tests.chaos.engine.stage import Stage, stage
from tests.chaos.experiments.test_end_to_end import ELSEWHERE, SCENARIO
from tests.chaos.shipped import EXPERIMENTS

pytestmark = pytest.mark.test_all

LIVE = {id_: one for id_, one in EXPERIMENTS.items() if TargetKind.LIVE in one.extension.fidelity}
GIVEN_ALONE = {"D18", "N10"}
"""Of level 4: their node is one that an administrator has cordoned (test_live_reset.py)."""


@pytest.fixture(scope="module", params=sorted({SCENARIO, *ELSEWHERE.values()}))
def on(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Stage]]:
    with stage(tmp_path_factory.mktemp("cluster"), request.param) as found:
        for node in found.cluster.each("nodes"):
            label = {"metadata": {"labels": {"gpu-conformance.io/chaos": "allowed"}}}
            assert found.cluster.patch("nodes", node["metadata"]["name"], label).ok
        yield request.param, found


def test_every_gate_opens_by_the_rules_of_a_live_cluster(on: tuple[str, Stage], tmp_path_factory: pytest.TempPathFactory) -> None:
    scenario, found = on
    closed = dict[str, str]()
    for id_, experiment in LIVE.items():
        if ELSEWHERE.get(id_, SCENARIO) == scenario and id_ not in GIVEN_ALONE:
            where = as_live(found, tmp_path_factory)
            plan = plan_now(where, experiment)
            assert plan.seconds["recovery"] == experiment.extension.durations(TargetKind.LIVE)["recovery"]
            gates = gate_results(where.cluster, where.policy, where.settings, experiment, plan, ours=False, steady="")
            closed |= {f"{id_} {gate.name}": gate.message for gate in gates if not gate.ok}
    assert closed == {}


def as_live(on: Stage, tmp_path_factory: pytest.TempPathFactory) -> CampaignSetup:
    where = on.where(tmp_path_factory.mktemp("run"))
    target = msgspec.structs.replace(where.target, kind=TargetKind.LIVE)
    chaos = msgspec.structs.replace(where.policy.chaos, remediation=("nvsentinel",))
    policy = msgspec.structs.replace(where.policy, chaos=chaos)
    settings = settings_of(policy, clusters=(target.cluster_uid,), max_level=4, confirm=target.cluster_uid)
    return msgspec.structs.replace(where, target=target, policy=policy, settings=settings, ours=False)
