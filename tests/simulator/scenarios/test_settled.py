"""A built cluster is settled: with every program running beside it, nothing in it changes."""

import asyncio

import pytest

from fixtures.simulator.config.scenario import parse_simulate, scenario_names
from fixtures.simulator.simulated_cluster import SimulatedCluster

WINDOW = 0.8  # seconds in which programs list, adopt and would act
RENEWED = {"coordination.k8s.io/leases"}


async def changes(name: str) -> tuple[list[str], int]:
    scenario, defects = parse_simulate(name)
    cluster = SimulatedCluster(scenario, defects)
    keys = sorted({resource.key for resource in cluster.store.registry if resource.key not in RENEWED})
    before = {key: {id(entry): entry.name for entry in cluster.store.entries(key)} for key in keys}
    await cluster.start()
    try:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(cluster.failure(), WINDOW)
        changed = []
        for key in keys:
            after = {id(entry): entry.name for entry in cluster.store.entries(key)}
            changed += [
                f"{key} {name}" for entry, name in {**before[key], **after}.items() if entry not in before[key] or entry not in after
            ]
        return changed, sum(map(len, before.values()))
    finally:
        await cluster.stop()


@pytest.mark.parametrize("name", scenario_names())
def test_programs_leave_a_settled_cluster_alone(name: str) -> None:
    changed, total = asyncio.run(changes(name))
    assert changed == []
    assert total > 80
