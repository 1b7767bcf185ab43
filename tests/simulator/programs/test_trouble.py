import pytest

from tests.simulator.programs.small_cluster import SmallCluster, hardware, in_cluster, pod
from tests.troubles import Trouble

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    "troubles",
    [
        [Trouble("list", "pods", 500, 2), Trouble("list", "nodes", 429, 1)],
        [Trouble("watch", "pods", "drop", 3), Trouble("watch", "nodes", 410, 1)],
        [Trouble("create", "pods", 500, 0), Trouble("patch", "pods", 503, 2), Trouble("patch", "pods", "drop", 1)],
        [Trouble("create", "events", 500, 20)],
    ],
)
def test_programs_live_through_an_api_in_trouble(troubles: list[Trouble]) -> None:
    @in_cluster(hardware("a", 2), troubles=troubles)
    async def scenario(cluster: SmallCluster) -> None:
        await cluster.start(pod("p", "nvidia-smi -L; exit 0", {GPU: 2}))
        ended = await cluster.phase("p", "Succeeded", "Failed")
        assert ended["status"]["phase"] == "Succeeded"
        assert (await cluster.log("p")).count("UUID: GPU-") == 2

    scenario()
