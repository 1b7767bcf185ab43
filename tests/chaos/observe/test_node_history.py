"""What began and ended between two samples is known all the same: a watch tells it."""

import threading
import time
from pathlib import Path

import pytest

from chaos.model.plan import Target
from chaos.observe.sampler import MEMORY, NodeHistory
from chaos.observe.signals import SIGNALS
from chaos.observe.view import Reading
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from tests.chaos.ledger.simulated_cluster import plan, world
from tests.chaos.observe.made_up_cluster import Read, World, node
from tests.chaos.observe.made_up_cluster import plan as made_up_plan
from tests.troubles import Trouble

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


@pytest.mark.parametrize(
    ("states", "ordered"),
    [
        ([""], True),
        (["quarantined", "draining", "drain-succeeded", "remediating", "remediation-succeeded", ""], True),
        (["draining", "draining", "remediating", "remediation-succeeded"], True),
        (["draining", "quarantined"], False),
        (["draining", "drain-succeeded", "draining"], False),
        (["quarantined", "draining", "drain-failed"], False),
    ],
)
def test_a_state_that_was_missed_is_no_disorder(states: list[str], ordered: bool) -> None:
    read = Read(World(nodes=[node("a")]), made_up_plan())
    for state in states:
        read = read.again(World(nodes=[node("a", labels={STATE: state} if state else {})]))
        found = SIGNALS["remediation.in.order"](read)  # type: ignore[arg-type]
    assert found is ordered
