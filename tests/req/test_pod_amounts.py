"""What a pod counts for, held against the scheduler's rule: the containers, or any init container with the sidecars before it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.observe.device_requests import requested_devices
from conformance.devices.fitting import requests_of
from conformance.devices.requests import held
from conformance.req.checks import check_whole_devices
from fixtures.verdict.findings import Outcome
from tests.builders import a_container, a_node, a_pod, a_pod_spec, a_scope

NAMES = ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "rdma/ib")
_AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5), max_size=3)
_INIT = st.tuples(st.booleans(), _AMOUNTS)


@given(st.lists(_INIT, max_size=5), st.lists(_AMOUNTS, max_size=3))
def test_every_pod_counts_for_the_larger_of_its_containers_and_its_start(
    init: list[tuple[bool, dict[str, int]]], main: list[dict[str, int]]
) -> None:
    starting = [
        {**a_container(f"i{number}", devices=own), **({"restartPolicy": "Always"} if sidecar else {})}
        for number, (sidecar, own) in enumerate(init)
    ]
    spec = a_pod_spec(initContainers=starting, containers=[a_container(f"c{number}", devices=own) for number, own in enumerate(main)])
    for name in NAMES:
        sidecars = [own.get(name, 0) * sidecar for sidecar, own in init]
        starts = [own.get(name, 0) + sum(sidecars[:number]) for number, (sidecar, own) in enumerate(init) if not sidecar]
        wanted = max([sum(sidecars) + sum(own.get(name, 0) for own in main), *starts])
        assert held(spec).get(name, 0) == wanted
        assert requests_of(spec).get(name, 0) == wanted


@pytest.mark.parametrize(
    ("amount", "count"),
    [("2", 2), (3, 3), ("2000m", 2), ("1k", 1000), ("0", 0), ("1500m", 1), ("two", 1), ("0x1", 1), ("-1", 1), ("", 1), (1.5, 1), (True, 1)],
)
def test_what_a_pod_asks_for_has_one_answer_and_what_the_api_refuses_is_not_none(amount: Any, count: int) -> None:
    """Chaos keeps away from what is busy, requirements count what is free: both by the same reader."""
    pod = a_pod(node="gpu-0", devices={"nvidia.com/gpu": 0})
    pod.spec.containers[0].resources.limits = pod.spec.containers[0].resources.requests = {"nvidia.com/gpu": amount}
    assert held(pod.spec) == {"nvidia.com/gpu": count}
    assert requests_of(pod.spec).get("nvidia.com/gpu", 0) == count
    asked = {"resources": {"limits": {"nvidia.com/gpu": amount}}}
    assert requested_devices({"spec": {"containers": [asked]}}, lambda _: True).get("nvidia.com/gpu", 0) == count
    scope = a_scope(nodes=[a_node()], pods=[pod])
    assert scope.device_demand_of(pod).devices is (count > 0)
    refused = count == 1
    found = [finding.outcome for finding in check_whole_devices(scope)]
    assert found == [Outcome.BAD if refused else Outcome.OK]
