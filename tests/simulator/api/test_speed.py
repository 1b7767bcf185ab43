"""Lists of a large cluster are joined from cached bytes, and seeding it is quick: in processor time, however busy the machine is."""

from __future__ import annotations

import json
import time

import pytest

from fixtures.simulator.api.objects import Json
from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store.store import Store
from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import Web

NODES, PODS_PER_NODE = 300, 10


def large_pod(name: str, node: str) -> Json:
    env = [{"name": f"SETTING_{index}", "value": f"value of setting {index} of {name}"} for index in range(25)]
    containers = [
        {"name": f"c{index}", "image": "registry.example/training:1.2.3", "env": env, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        for index in range(2)
    ]
    statuses = [{"name": f"c{index}", "ready": True, "restartCount": 0, "state": {"running": {}}} for index in range(2)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "training", "node": node}},
        "spec": {"nodeName": node, "containers": containers},
        "status": {"phase": "Running", "containerStatuses": statuses},
    }


@pytest.fixture(scope="module")
def objects() -> list[Json]:
    nodes: list[Json] = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{index}"}} for index in range(NODES)]
    pods = [large_pod(f"p{node}-{index}", f"n{node}") for node in range(NODES) for index in range(PODS_PER_NODE)]
    return nodes + pods


def test_lists_of_thousands_of_pods(objects: list[Json]) -> None:
    store = Store()
    begun = time.process_time()
    assert len(json.dumps(objects)) > 9_000_000
    writing = time.process_time() - begun  # what this machine needs now to go over all of it once
    begun = time.process_time()
    for obj in objects:
        store.put_initial(obj)
    seeding = time.process_time() - begun
    with BackgroundServer(SimulatedServer(store)) as background:
        web = Web(background.url)
        times = []
        for _ in range(2):  # the first round encodes, the second one joins
            begun, token, count, size = time.process_time(), "", 0, 0
            while True:
                answer = web.pool.request("GET", f"{web.url}/api/v1/pods?limit=500&continue={token}")
                count, size = count + 1, size + len(answer.data)
                token = answer.data[:400].partition(b'"continue":"')[2].partition(b'"')[0].decode()
                if not token:
                    break
            times.append(time.process_time() - begun)
    assert count == NODES * PODS_PER_NODE / 500
    assert size > 9_000_000
    assert seeding < writing, f"seeding took {seeding:.2f} s, writing it as JSON {writing:.2f} s"
    assert times[1] < writing, f"reading took {times}, writing it as JSON {writing:.2f} s"
    assert times[1] < times[0]
