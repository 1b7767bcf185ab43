"""The sampler: whatever a signal does, the others have their say, and silence is seen as silence; labels that nodes had in turn."""

import json
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from chaos.model.conditions import parse_condition
from chaos.model.plan import Target
from chaos.observe.sampler import MAX_VALUE, MEMORY, NodeHistory, Sampler, await_sample, steady_since
from chaos.observe.signals import SIGNALS
from chaos.observe.view import NoData, Reading, Sample
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.model.platform.agents import DRIVER_PAUSE
from tests.chaos.ledger.simulated_cluster import plan, world
from tests.chaos.observe.made_up_cluster import Read, World, node
from tests.chaos.observe.made_up_cluster import plan as made_up_plan
from tests.tables import each_row
from tests.troubles import Trouble


def reading() -> Reading:
    return object.__new__(Reading)


@pytest.mark.parametrize(
    "bad",
    [NoData("not served"), ApiTrouble("Timeout", "no answer"), KeyError("hostile"), "x" * MAX_VALUE, object()],
)
def test_a_signal_without_data_is_an_error_of_the_sample_and_no_value(tmp_path: Path, bad: object) -> None:
    def signal(reading: Reading) -> Any:
        if isinstance(bad, Exception):
            raise bad
        return bad

    with Sampler(reading, {"bad": signal, "good": lambda _: {"n": 1}}, tmp_path / "samples.jsonl", 0.01) as sampler:
        assert sampler.wait(lambda samples: len(samples) >= 3, 30)
    lines = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert all(line["values"] == {"good": {"n": 1}} for line in lines)
    assert all(0 < len(line["errors"]["bad"]) <= 300 for line in lines)


def test_a_sampler_that_dies_says_so_and_wakes_who_waits(tmp_path: Path) -> None:
    def broken() -> Reading:
        raise OSError("disk")

    with Sampler(broken, {}, tmp_path / "samples.jsonl", 0.01) as sampler:
        assert not sampler.wait(lambda samples: False, 30)
        assert "disk" in sampler.failure


def test_a_wait_ends_at_its_deadline(tmp_path: Path) -> None:
    held = threading.Event()
    with Sampler(reading, {"slow": lambda _: held.wait(60)}, tmp_path / "samples.jsonl", 0.01) as sampler:
        assert not sampler.wait(lambda samples: bool(samples), sampler.now + 0.2)
        held.set()


def test_its_pace_is_the_period_or_what_the_slowest_of_its_last_samples_took(tmp_path: Path) -> None:
    sampler = Sampler(reading, {}, tmp_path / "samples.jsonl", 0.25)
    assert sampler.pace == 0.25
    for took, pace in ((0.1, 0.25), (4.0, 4.0), (0.1, 4.0), (0.1, 4.0), (0.1, 4.0), (0.1, 4.0), (0.1, 0.25)):
        sampler.samples.append(Sample(t=0.0, at="", took=took))
        assert sampler.pace == pace


def test_what_was_brought_about_is_waited_for_until_a_later_sample_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    assert not await_sample(path, 0.1)
    old, new = (json.dumps({"at": f"20{year}-01-01T00:00:00+00:00"}) + "\n" for year in (20, 90))
    path.write_text(old)
    assert not await_sample(path, 0.1)
    path.write_text(old + new[:-1])
    assert not await_sample(path, 0.1)
    path.write_text(old + new)
    assert await_sample(path, 30)
    path.write_text(old)
    assert await_sample(path, 30, datetime(2019, 1, 1, tzinfo=UTC))


def test_a_running_sampler_is_seen(tmp_path: Path) -> None:
    with Sampler(reading, {}, tmp_path / "samples.jsonl", 0.01):
        assert await_sample(tmp_path / "samples.jsonl", 30)


def test_the_steady_stretch_begins_after_the_last_sample_that_was_not() -> None:
    steady = parse_condition({"signal": "n", "equals": "baseline"})
    samples = [Sample(t=float(t), at="", took=0.0, values={} if n is None else {"n": n}) for t, n in enumerate([1, 2, 1, None, 1, 1])]
    assert steady_since(samples, steady, {"n": 1}) == 4.0
    assert steady_since(samples[:4], steady, {"n": 1}) is None
    assert steady_since([], steady, {"n": 1}) is None


STATE = "dgxc.nvidia.com/nvsentinel-state"
ON_GPU_1 = Target(kind="nodes", name="gpu-1", uid="uid-gpu-1", node="gpu-1")


def label(cluster: Cluster, labels: dict[str, str | None]) -> None:
    answer = cluster.patch("nodes", "gpu-1", {"metadata": {"labels": labels}})
    assert answer.ok, answer.message


def await_labels(history: NodeHistory, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(history.labels("gpu-1")) < count and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert len(history.labels("gpu-1")) == count


def test_labels_that_are_lost_and_restored_between_two_samples_have_changed_twice(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _), NodeHistory(cluster) as history:
        reading = Reading(cluster, plan(ON_GPU_1), {MEMORY: history})
        assert SIGNALS["node.labels.changes"](reading) == 0
        label(cluster, {"nvidia.com/gpu.product": None})
        label(cluster, {"nvidia.com/gpu.product": "H100"})
        await_labels(history, 3)
        again = Reading(cluster, plan(ON_GPU_1), {MEMORY: history})
        assert SIGNALS["node.labels.changes"](again) == 2


def test_only_the_mark_of_the_driver_s_manager_is_a_pause_and_it_counts_however_soon_it_goes(tmp_path: Path) -> None:
    plugin, exporter = (f"nvidia.com/gpu.deploy.{agent}" for agent in ("device-plugin", "dcgm-exporter"))
    with world(tmp_path) as (cluster, _), NodeHistory(cluster) as history:
        label(cluster, {plugin: "true", exporter: "true"})
        history.labels("gpu-1")
        for key, value in (("team", "research"), (plugin, "paused-for-mig-change"), (plugin, "false"), (plugin, "true")):
            label(cluster, {key: value})
        await_labels(history, 5)
        assert SIGNALS["node.driver.pauses"](Reading(cluster, plan(ON_GPU_1), {MEMORY: history})) == 0
        for agent, value in (
            (plugin, DRIVER_PAUSE),
            (exporter, DRIVER_PAUSE),
            (exporter, "true"),
            (plugin, "true"),
            (plugin, DRIVER_PAUSE),
        ):
            label(cluster, {agent: value})
        await_labels(history, 10)
        assert SIGNALS["node.driver.pauses"](Reading(cluster, plan(ON_GPU_1), {MEMORY: history})) == 2


def test_states_that_no_sample_saw_are_in_the_history_in_order(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _), NodeHistory(cluster) as history:
        history.labels("gpu-1")
        for state, mig in (("quarantined", "success"), ("draining", "pending"), (None, "success")):
            label(cluster, {STATE: state, "nvidia.com/mig.config.state": mig})
        await_labels(history, 4)
        reading = Reading(cluster, plan(ON_GPU_1), {MEMORY: history})
        assert SIGNALS["remediation.history"](reading) == ["quarantined", "draining"]
        assert SIGNALS["mig.states"](reading) == ["success", "pending", "success"]
        assert SIGNALS["remediation.in.order"](reading) is True


def test_a_watch_that_breaks_off_is_resumed_without_a_loss(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _), NodeHistory(cluster) as history:
        history.labels("gpu-1")
        history._watches["gpu-1"]._stream._response.shutdown()  # type: ignore[union-attr]
        label(cluster, {"x": "1"})
        label(cluster, {"x": "2"})
        await_labels(history, 3)


def test_a_watch_that_is_refused_is_no_data_and_never_a_quiet_node(tmp_path: Path) -> None:
    with world(tmp_path, Trouble(verb="watch", resource="nodes", status=403, times=99)) as (cluster, _), NodeHistory(cluster) as history:
        for _ in range(2):
            with pytest.raises(ApiTrouble, match="403"):
                SIGNALS["node.labels.changes"](Reading(cluster, plan(ON_GPU_1), {MEMORY: history}))


@each_row
def test_a_state_that_was_missed_is_no_disorder(states: list[str], ordered: bool) -> None:
    read = Read(World(nodes=[node("a")]), made_up_plan())
    for state in states:
        read = read.again(World(nodes=[node("a", labels={STATE: state} if state else {})]))
        found = SIGNALS["remediation.in.order"](read)  # type: ignore[arg-type]
    assert found is ordered
