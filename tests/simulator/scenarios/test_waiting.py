"""Workloads that wait: Pending for a node that has their devices and not free, and nothing but that node would do."""

from collections import Counter
from datetime import UTC, datetime

import msgspec
import pytest

from fixtures.simulator.api.objects import Json
from fixtures.simulator.builder import build
from fixtures.simulator.config.scenario import Scenario, ScenarioError, load_scenario, scenario_names
from fixtures.simulator.pods.amounts import thousandths
from tests.tables import each_row

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
DEVICES = ("nvidia.com/", "amd.com/")
WAITING = [name for name in scenario_names() if any(w.waiting for tenant in load_scenario(name).tenants for w in tenant.workloads)]


def a_scenario(*workloads: Json, count: int = 2, quota: Json | None = None) -> Scenario:
    return msgspec.convert(
        {
            "name": "small",
            "description": "",
            "pools": [{"name": "h100", "count": count, "product": "H100", "gpus": 8}, {"name": "cpu"}],
            "tenants": [{"namespace": "team-vision", "quota": quota or {"pods": "40"}, "workloads": list(workloads)}],
        },
        Scenario,
    )


def a_workload(name: str, devices: int, **more: object) -> Json:
    return {"name": name, "kind": "Job", "resources": {"nvidia.com/gpu": str(devices)}, **more}


def pods_of(objects: list[Json], phase: str) -> list[Json]:
    return [item for item in objects if item["kind"] == "Pod" and item["status"]["phase"] == phase]


def devices(pod: Json) -> Counter[str]:
    asked = pod["spec"]["containers"][0]["resources"].get("requests", {})
    return Counter({name: thousandths(quantity) for name, quantity in asked.items() if name.startswith(DEVICES)})


@pytest.mark.parametrize("name", WAITING)
def test_a_waiting_pod_asks_for_what_its_node_has_and_others_hold(name: str) -> None:
    objects = build(load_scenario(name), now=NOW)
    nodes = {item["metadata"]["name"]: item for item in objects if item["kind"] == "Node"}
    pending = pods_of(objects, "Pending")
    assert pending
    for pod in pending:
        assert "nodeName" not in pod["spec"]
        node = nodes[pod["spec"]["nodeSelector"]["kubernetes.io/hostname"]]
        taken: Counter[str] = Counter()
        for other in pods_of(objects, "Running"):
            if other["spec"]["nodeName"] == node["metadata"]["name"]:
                taken += devices(other)
        ((resource, wanted),) = devices(pod).items()
        has = thousandths(node["status"]["allocatable"][resource])
        assert has - taken[resource] < wanted <= has
        (condition,) = pod["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
        assert condition["message"].startswith(f"0/{len(nodes)} nodes are available: 1 Insufficient {resource}, ")
        events = [item for item in objects if item["kind"] == "Event" and item["involvedObject"]["uid"] == pod["metadata"]["uid"]]
        assert [(event["reason"], event["type"], event["message"]) for event in events] == [
            ("FailedScheduling", "Warning", condition["message"])
        ]


def test_a_job_that_waits_has_active_pods_and_none_ready_and_is_counted_by_the_quota() -> None:
    quota = {"requests.nvidia.com/gpu": "16", "pods": "10"}
    objects = build(a_scenario(a_workload("first", 2), a_workload("second", 8, waiting=True, replicas=1), quota=quota), now=NOW)
    jobs = {item["metadata"]["name"]: item["status"] for item in objects if item["kind"] == "Job"}
    assert (jobs["first"]["active"], jobs["first"]["ready"]) == (1, 1)
    assert (jobs["second"]["active"], jobs["second"]["ready"]) == (1, 0)
    (found,) = [item for item in objects if item["kind"] == "ResourceQuota"]
    assert found["status"]["used"] == {"requests.nvidia.com/gpu": "10", "pods": "2"}


@each_row
def test_what_would_not_wait_is_refused(workloads: list[Json], words: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        build(a_scenario(*workloads), now=NOW)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
