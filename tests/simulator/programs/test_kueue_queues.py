"""The status of Kueue's queues is written again after a write that the API refused."""

import asyncio
from typing import Any

import pytest

from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.api.objects import Json
from fixtures.simulator.client.watches import Cache
from fixtures.simulator.gangs.kueue.queue_status import QueueStatus
from fixtures.simulator.gangs.kueue.workloads import CLUSTER_QUEUES, LOCAL_QUEUES

RESOURCES = [{"name": "nvidia.com/gpu", "nominalQuota": "8"}]
QUEUE: Json = {
    "metadata": {"name": "queue"},
    "spec": {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "flavor", "resources": RESOURCES}]}]},
}
LOCAL: Json = {"metadata": {"name": "local", "namespace": "team"}, "spec": {"clusterQueue": "queue"}}
ASSIGNED = {"name": "main", "flavors": {"nvidia.com/gpu": "flavor"}, "resourceUsage": {"nvidia.com/gpu": "3"}, "count": 3}
ADMITTED: Json = {
    "metadata": {"name": "group", "namespace": "team"},
    "spec": {"queueName": "local"},
    "status": {
        "admission": {"clusterQueue": "queue", "podSetAssignments": [ASSIGNED]},
        "conditions": [{"type": kind, "status": "True"} for kind in ("QuotaReserved", "Admitted")],
    },
}


class Recorder:
    """A client that refuses the first writes, as many as it is told."""

    def __init__(self, refusals: int) -> None:
        self.written: list[tuple[str, Any]] = []
        self._refusals = refusals

    async def patch(self, path: str, body: Any) -> Json:
        if self._refusals:
            self._refusals -= 1
            raise ApiError(409, "Conflict", "the object has been modified")
        self.written.append((path.rpartition("/v1beta")[2].partition("/")[2], body["status"]["flavorsUsage"]))
        return {}


def caches() -> tuple[Cache, Cache]:
    clusters, locals_ = Cache(CLUSTER_QUEUES), Cache(LOCAL_QUEUES)
    clusters.items[("", "queue")] = QUEUE
    locals_.items[("team", "local")] = LOCAL
    return clusters, locals_


def test_a_refused_write_is_made_again_and_an_accepted_one_is_not() -> None:
    client = Recorder(refusals=1)
    status = QueueStatus(client, replaces=True)  # type: ignore[arg-type]

    async def passes() -> None:
        with pytest.raises(ApiError):
            await status.write(*caches(), [ADMITTED])
        for _ in range(2):
            await status.write(*caches(), [ADMITTED])

    asyncio.run(passes())
    used = [{"name": "flavor", "resources": [{"name": "nvidia.com/gpu", "total": "3", "borrowed": "0"}]}]
    assert client.written == [("namespaces/team/localqueues/local/status", used), ("clusterqueues/queue/status", used)]


def test_the_first_manager_leaves_what_it_finds() -> None:
    client = Recorder(refusals=0)
    asyncio.run(QueueStatus(client).write(*caches(), [ADMITTED]))  # type: ignore[arg-type]
    assert client.written == []
