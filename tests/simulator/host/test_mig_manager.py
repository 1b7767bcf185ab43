"""Reconfiguration of MIG devices: its states, its refusal, and what a killed manager leaves to the next."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.simulator.host.scene import NODES, Scene, scene
from tests.simulator.programs.small_cluster import pod
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

NODE = "a100-0"
CONFIG = "nvidia.com/mig.config"
STATE = "nvidia.com/mig.config.state"
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"


async def _seen(at: Scene, done: str, begun: asyncio.Event | None = None, seconds: float = PATIENCE) -> list[tuple[str, str]]:
    """State and the plugin's deploy label, each pair as it came, until the state is ``done`` and the label restored.

    ``begun`` is set once they are watched.
    """
    seen: list[tuple[str, str]] = []

    def take(obj: dict[str, Any]) -> bool:
        if begun is not None:
            begun.set()
        labels = obj["metadata"]["labels"]
        pair = (labels[STATE], labels[PLUGIN])
        if not seen or seen[-1] != pair:
            seen.append(pair)
        return len(seen) > 1 and pair == (done, "true")

    await at.until(f"{NODES}/{NODE}", take, seconds)
    return seen


def test_a_new_layout_is_applied_with_the_agents_away_and_is_advertised_and_labelled() -> None:
    async def scenario() -> None:
        async with scene() as at:
            begun = asyncio.Event()
            watching = asyncio.create_task(_seen(at, "success", begun))
            await asyncio.wait_for(begun.wait(), PATIENCE)
            await at.set_labels(NODE, {CONFIG: "all-1g.10gb"})
            assert await watching == [("success", "true"), ("pending", "paused-for-mig-change"), ("success", "true")]
            assert [len(gpu.instances) for gpu in at.hosts[NODE].hardware.gpus] == [7, 7]

            def advertised(obj: dict[str, Any]) -> bool:
                amounts = obj["status"]["allocatable"]
                gone = amounts.get("nvidia.com/mig-3g.40gb", "0") == "0"
                return bool(amounts.get("nvidia.com/mig-1g.10gb") == "14" and gone)

            await at.until(f"{NODES}/{NODE}", advertised)
            labels = await at.node(NODE, lambda labels: labels.get("nvidia.com/mig-1g.10gb.count") == "14")
            assert "nvidia.com/mig-3g.40gb.count" not in labels

    asyncio.run(scenario())


def test_a_node_in_use_and_an_unknown_config_are_refused() -> None:
    async def scenario() -> None:
        async with scene() as at:
            layout = at.hosts[NODE].hardware
            await at.set_labels(NODE, {CONFIG: "all-9g.90gb"})
            assert (await _seen(at, "failed"))[-1] == ("failed", "true")
            user = pod("user", "sleep infinity", {"nvidia.com/mig-1g.10gb": 1})
            await at.until(f"{NODES}/{NODE}", lambda obj: obj["status"]["allocatable"].get("nvidia.com/mig-1g.10gb") == "4")
            await at.client.create("/api/v1/namespaces/default/pods", user)
            await at.until("/api/v1/namespaces/default/pods/user", lambda obj: obj["status"].get("phase") == "Running")
            await at.set_labels(NODE, {CONFIG: "all-1g.10gb"})
            await at.node(NODE, lambda labels: labels[STATE] == "pending")
            assert (await _seen(at, "failed"))[-1] == ("failed", "true")
            assert at.hosts[NODE].hardware == layout
            assert (await at.client.get("/api/v1/namespaces/default/pods/user"))["status"]["phase"] == "Running"

    asyncio.run(scenario())


@pytest.mark.parametrize("broken", [False, True])
def test_the_next_manager_goes_on_where_a_killed_one_was(broken: bool) -> None:
    async def scenario() -> None:
        async with scene(mig_manager_leaves_paused=broken) as at:
            await at.set_labels(NODE, {CONFIG: "all-1g.10gb"})
            await at.node(NODE, lambda labels: labels[STATE] == "pending")
            old = await at.kill("nvidia-mig-manager", NODE)
            if broken:
                await at.ready_again("nvidia-mig-manager", old)
                with pytest.raises(TimeoutError):
                    await at.node(NODE, lambda labels: labels[STATE] != "pending", 5)
                assert (await at.labels(NODE))[PLUGIN] == "paused-for-mig-change"
                return
            await at.node(NODE, lambda labels: labels[STATE] == "success" and labels[PLUGIN] == "true")
            assert [len(gpu.instances) for gpu in at.hosts[NODE].hardware.gpus] == [7, 7]

    asyncio.run(scenario())
