"""Every platform's healthy cluster is green with the presets that its own marks choose, and only true things are said without them."""

import json

import pytest

from fixtures.policy.model import Policy
from fixtures.policy.platforms import chosen_by_marks
from fixtures.verdict.record import Verdict
from tests.judging import judge
from tests.platforms.clusters import CLUSTERS, Cluster, with_quotas
from tests.platforms.dra_clusters import DRA_CLUSTERS
from tests.platforms.judged import NOT_GREEN, not_green, snapshot_as_served
from tests.requirements_offline import policy_over

FEWEST_PASSED = 20


def test_there_is_a_cluster_of_every_platform() -> None:
    assert len(CLUSTERS) == 23


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_healthy_cluster_is_green_with_the_presets_that_its_marks_choose(name: str) -> None:
    cluster: Cluster = CLUSTERS[name]()
    snapshot = snapshot_as_served(with_quotas(cluster.objects))
    assert [chosen.name for chosen in chosen_by_marks(snapshot)] == cluster.presets
    assert {id_: result.message for id_, result in not_green(snapshot, policy_over(snapshot, cluster.policy)).items()} == {}


@pytest.mark.parametrize("name", CLUSTERS)
def test_without_policy_and_preset_every_red_line_is_one_that_is_true(name: str) -> None:
    cluster: Cluster = CLUSTERS[name]()
    found = not_green(snapshot_as_served(with_quotas(cluster.objects)), Policy())
    assert {id_: result.message for id_, result in found.items() if id_ not in cluster.red} == {}
    assert found.keys() == cluster.red.keys()


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("fpga-xilinx_u250_gen3x16_xdma_shell_4_1-0", "fpga-xilinx_u250_gen3x16_base_4-0", "INV-06"),
        ("4.6.21", "4.6.20", "INV-06"),
        ("NoSchedule", "PreferNoSchedule", "FENCE-01"),
    ],
)
def test_devices_that_a_policy_alone_names_are_compared_with_their_peers(old: str, new: str, wrong: str) -> None:
    """A card with another shell in its flash, one with older firmware, and a node without a fence."""
    cluster = CLUSTERS["fpga"]()
    objects = [json.loads(json.dumps(one).replace(old, new)) if one["metadata"]["name"] == "u250-2" else one for one in cluster.objects]
    snapshot = snapshot_as_served(with_quotas(objects))
    assert list(not_green(snapshot, policy_over(snapshot, cluster.policy))) == [wrong]


@pytest.mark.parametrize("name", CLUSTERS)
def test_most_of_what_reads_is_judged(name: str) -> None:
    """A cluster without subjects would be green too."""
    cluster: Cluster = CLUSTERS[name]()
    snapshot = snapshot_as_served(with_quotas(cluster.objects))
    passed = [id_ for id_, result in judge(snapshot, policy_over(snapshot, cluster.policy)).items() if result.verdict is Verdict.PASSED]
    assert len(passed) >= FEWEST_PASSED, passed


WAITING = {"driver_in_roll_out": {"OPS-02", "DRA-02"}}
"""Requirements that ask again later."""
ABOUT_CLAIMS = {"DRA-01", "DRA-02", "DRA-03", "DRA-04", "DRA-07", "DRA-11"}


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
