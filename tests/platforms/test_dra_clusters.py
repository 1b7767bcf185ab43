"""Healthy clusters of many drivers are green where devices are claimed, and judged by what is about claims."""

import pytest

from fixtures.policy.platforms import chosen_by_marks
from fixtures.verdict.record import Verdict
from tests.judging import judge
from tests.platforms.clusters import with_quotas
from tests.platforms.dra_clusters import DRA_CLUSTERS
from tests.platforms.judged import NOT_GREEN, snapshot_as_served
from tests.requirements_offline import policy_over

WAITING = {"driver_in_roll_out": {"OPS-02", "DRA-02"}}
"""Requirements that ask again later."""
ABOUT_CLAIMS = {"DRA-01", "DRA-02", "DRA-03", "DRA-04", "DRA-07", "DRA-11"}
FEWEST_PASSED = 20


@pytest.mark.parametrize("name", DRA_CLUSTERS)
def test_a_healthy_cluster_with_claims_is_green_and_judged(name: str) -> None:
    cluster = DRA_CLUSTERS[name]()
    snapshot = snapshot_as_served(with_quotas(cluster.objects))
    assert [chosen.name for chosen in chosen_by_marks(snapshot)] == cluster.presets
    results = judge(snapshot, policy_over(snapshot, cluster.policy))
    waiting = WAITING.get(name, set())
    assert {id_: one.message for id_, one in results.items() if one.verdict in NOT_GREEN and id_ not in waiting} == {}
    assert {id_ for id_, one in results.items() if one.verdict is Verdict.INCONCLUSIVE} == waiting
    passed = {id_ for id_, one in results.items() if one.verdict is Verdict.PASSED}
    assert len(passed) >= FEWEST_PASSED
    accelerators_by_claim = name != "dranet_beside_the_plugin"
    assert (passed | waiting >= ABOUT_CLAIMS) is accelerators_by_claim
