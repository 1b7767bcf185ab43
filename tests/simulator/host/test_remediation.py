"""NVSentinel's look-alike: which faults it believes, the states a node goes through, and what stops it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fixtures.simulator.config.hardware import PRODUCTS, gpus
from fixtures.simulator.operators.health_monitors import active
from fixtures.simulator.operators.remediation import OPT_OUTS, STATE
from fixtures.simulator.operators.xid_lines import believe, read
from tests.simulator.host.injector import injector
from tests.simulator.host.scene import NODES, Scene, scene, soon
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

NODE = "h100-2"
BREAKER = "/api/v1/namespaces/nvsentinel/configmaps/circuit-breaker"
GPUS = gpus("n", PRODUCTS["H100"], 8)
LINE = "NVRM: Xid (PCI:0000:20:00): 79, pid='<unknown>', GPU has fallen off the bus."

FOREIGN = [
    "NVRM: Xid (PCI:0000:f1:00): 79, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:20:00): 31, pid=77, MMU Fault",
    "NVRM: Xid (PCI:0000:20:00): 999, never heard of",
    "NVRM: Xid (PCI:0000:20:00): seventy-nine, what",
    "NVRM: Xid (PCI:0000:20:00) 79",
    "mlx5_core: Xid (PCI:0000:20:00): 79, not the driver's prefix",
    "usb 1-1: NVRM: Xid (PCI:0000:20:00): 79, quoted by another",
    "NVRM: Xid (PCI:zzzz:20:00): 79, x",
    "",
]


def test_a_record_names_device_and_code() -> None:
    assert read(LINE, GPUS) == (GPUS[1], 79)
    assert read("NVRM: Xid (PCI:00000000:18:00.0): 48, DBE", GPUS) == (GPUS[0], 48)


@pytest.mark.parametrize("line", FOREIGN)
def test_no_other_record_is_believed(line: str) -> None:
    assert read(line, GPUS) is None


def test_the_defect_believes_foreign_records() -> None:
    assert sum(believe(line, GPUS) is not None for line in FOREIGN) >= 6


async def _states(at: Scene, begun: asyncio.Event, node: str = NODE, seconds: float = PATIENCE) -> list[str]:
    """The states a node goes through until it is back in service; ``begun`` is set once they are watched."""
    seen: list[str] = []

    def take(obj: dict[str, Any]) -> bool:
        begun.set()
        state = obj["metadata"]["labels"].get(STATE, "")
        if state and (not seen or seen[-1] != state):
            seen.append(state)
        return bool(seen) and not state and not obj["spec"].get("unschedulable")

    await at.until(f"{NODES}/{node}", take, seconds)
    return seen


LOOP = ["quarantined", "draining", "drain-succeeded", "remediating", "remediation-succeeded"]


@pytest.mark.parametrize("how", ["log", "dcgm", "mode"])
def test_a_fault_goes_round_the_whole_loop(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with scene() as at:
            host = at.hosts[NODE]
            uuid = host.hardware.gpus[1].uuid
            resets, heal = list[str](), host.heal

            def reset(uuid: str) -> None:
                resets.append(uuid)
                heal(uuid)

            monkeypatch.setattr(host, "heal", reset)
            node = await at.client.get(f"{NODES}/{NODE}")
            begun = asyncio.Event()
            watching = asyncio.create_task(_states(at, begun))
            await asyncio.wait_for(begun.wait(), PATIENCE)
            if how == "log":
                script = "nsenter --target 1 --mount -- sh -c 'echo \"" + LINE.replace("'", "") + "\" > /dev/kmsg'"
                await at.client.create("/api/v1/namespaces/kube-system/pods", injector("i", script, NODE))
            elif how == "dcgm":
                host.inject(1, 230, "79")
            else:
                host.fail(uuid, host.modes[uuid].LOST, 79)
            assert await watching == LOOP
            assert resets == [uuid]
            after = await at.client.get(f"{NODES}/{NODE}")
            assert not active(after)
            assert after["metadata"]["labels"] == node["metadata"]["labels"]
            assert host.modes[uuid] == "healthy"
            others, _ = await at.client.list(NODES)
            assert not any(STATE in obj["metadata"]["labels"] for obj in others)

    asyncio.run(scenario())


def test_a_drain_waits_for_a_disruption_budget() -> None:
    async def scenario() -> None:
        async with scene() as at:
            busy = "h100-0"
            chat, _ = await at.client.list("/api/v1/namespaces/team-assistant/pods", {"labelSelector": "app=chat"})
            assert {pod["spec"]["nodeName"] for pod in chat} == {busy}
            budget = {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "keep"},
                "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "chat"}}},
            }
            path = "/apis/policy/v1/namespaces/team-assistant/poddisruptionbudgets"
            old, _ = await at.client.list(path)
            for item in old:
                await at.client.delete(f"{path}/{item['metadata']['name']}")
            await at.client.create(path, budget)
            await at.until(f"{path}/keep", lambda obj: (obj.get("status") or {}).get("currentHealthy") == 2)
            at.hosts[busy].log(LINE)
            await at.node(busy, lambda labels: labels.get(STATE) == "draining")
            with pytest.raises(TimeoutError):
                await at.node(busy, lambda labels: labels.get(STATE) == "drain-succeeded", 4)
            still, _ = await at.client.list("/api/v1/namespaces/team-assistant/pods", {"labelSelector": "app=chat"})
            assert {pod["metadata"]["uid"] for pod in still} == {pod["metadata"]["uid"] for pod in chat}
            await at.client.delete(f"{path}/keep")
            await at.node(busy, lambda labels: labels.get(STATE) == "drain-succeeded")

    asyncio.run(scenario())


def test_lines_that_are_not_believed_change_nothing_and_neither_does_silence() -> None:
    async def scenario() -> None:
        async with scene() as at:
            before, _ = await at.client.list(NODES)
            for line in FOREIGN:
                at.hosts[NODE].log(line)
            await asyncio.sleep(2)
            after, _ = await at.client.list(NODES)
            assert [(o["metadata"]["labels"], o["spec"]) for o in after] == [(o["metadata"]["labels"], o["spec"]) for o in before]
            assert not any(active(obj) for obj in after)

    asyncio.run(scenario())


@pytest.mark.parametrize("label", OPT_OUTS)
def test_an_opted_out_node_is_only_told_about_and_a_dry_run_acts_on_nothing(label: str) -> None:
    async def scenario() -> None:
        async with scene() as at:
            settings = "/api/v1/namespaces/nvsentinel/configmaps/nvsentinel-settings"
            await at.set_labels(NODE, {label: "false"})
            at.hosts[NODE].log(LINE)
            await at.until(f"{NODES}/{NODE}", active)
            await at.client.patch(settings, {"data": {"dryRun": "true"}})
            await at.set_labels(NODE, {label: None})
            at.hosts["t4-0"].log("NVRM: Xid (PCI:0000:18:00): 79, x")
            await at.until(f"{NODES}/t4-0", active)
            with pytest.raises(TimeoutError):
                await at.node(NODE, lambda labels: STATE in labels, 3)
            await at.client.patch(settings, {"data": {"dryRun": "false"}})
            await at.node(NODE, lambda labels: STATE in labels)

    asyncio.run(scenario())


def test_the_breaker_stops_cordons_at_half_of_the_nodes() -> None:
    async def scenario() -> None:
        async with scene() as at:
            for name in ("h100-0", "h100-1", "h100-2", "t4-0"):
                at.hosts[name].log("NVRM: Xid (PCI:0000:18:00): 79, x")
            await at.until(BREAKER, lambda obj: obj["data"]["status"] == "TRIPPED")
            found, _ = await at.client.list(NODES)
            assert sum(bool(obj["spec"].get("unschedulable")) for obj in found) == 2
            assert sum(bool(active(obj)) for obj in found) == 4

    asyncio.run(scenario())


def test_a_killed_controller_goes_on_where_it_was() -> None:
    async def scenario() -> None:
        async with scene() as at:
            begun = asyncio.Event()
            watching = asyncio.create_task(_states(at, begun))
            await asyncio.wait_for(begun.wait(), PATIENCE)
            at.hosts[NODE].log(LINE)
            await at.node(NODE, lambda labels: labels.get(STATE) == "draining")
            for app in ("node-drainer", "fault-quarantine"):
                await at.kill(app, namespace="nvsentinel")
            assert await watching == LOOP

    asyncio.run(scenario())


def test_the_defects_of_monitors_and_remediation() -> None:
    async def blind() -> None:
        async with scene(log_monitor_blind=True) as at:
            at.hosts[NODE].log(LINE)
            with pytest.raises(TimeoutError):
                await at.until(f"{NODES}/{NODE}", active, 3)

    async def believer() -> None:
        async with scene(log_monitor_believes_anything=True) as at:
            at.hosts[NODE].log(FOREIGN[0])
            await at.until(f"{NODES}/{NODE}", active)

    async def keeper() -> None:
        async with scene(remediation_never_uncordons=True) as at:
            at.hosts[NODE].log(LINE)
            await at.node(NODE, lambda labels: labels.get(STATE) == "remediation-succeeded")
            with pytest.raises(TimeoutError):
                await at.until(f"{NODES}/{NODE}", lambda obj: not obj["spec"].get("unschedulable"), 3)

    async def ghost() -> None:
        async with scene(remediation_without_fault=True) as at:
            cordoned: list[str] = []

            def take(obj: dict[str, Any]) -> bool:
                cordoned.extend([obj["metadata"]["name"]] if obj["spec"].get("unschedulable") else [])
                return bool(cordoned) and not obj["spec"].get("unschedulable") and STATE not in obj["metadata"]["labels"]

            first = min(name for name, host in at.hosts.items() if host.hardware.gpus)
            await at.until(f"{NODES}/{first}", take)
            assert cordoned

    for case in (blind, believer, keeper, ghost):
        asyncio.run(case())


def test_the_machine_is_asked_only_when_its_clients_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with scene() as at:
            host = at.hosts[NODE]
            assert any(not client.compute for client in host.clients())
            there: list[int] = []  # clients at each reset
            monkeypatch.setattr(host, "heal", lambda uuid: there.append(len(list(host.clients()))))
            host.log(LINE)
            await soon(lambda: there)
            assert there == [0]

    asyncio.run(scenario())
