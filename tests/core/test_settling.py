"""Clusters in motion: what is just being changed is asked again, what takes too long is not."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from conformance.common_findings import overdue, still_moving, unless_settling
from conformance.ops.rollout import check_rolled_out
from fixtures.kubernetes.models import ContainerStatus, Node, Pod
from fixtures.kubernetes.times import moment
from fixtures.model.cluster import subject
from fixtures.model.nodes.changes import change_under_way
from fixtures.model.platform.agents import max_unavailable, replaces_by_itself
from fixtures.text.sentences import duration
from fixtures.verdict.findings import About, Finding, Outcome, advised, bad, ok
from tests.builders import a_daemonset, a_node, a_pod, a_policy, a_scope
from tests.tables import each_row

NAME = "nvidia-device-plugin-daemonset"
MINUTE = 60.0


def ago(minutes: float, now: float) -> str:
    return datetime.fromtimestamp(now - minutes * MINUTE, UTC).isoformat()


NOW = a_scope(nodes=[]).snapshot.taken_at


def joined(node: Node, minutes: float) -> Node:
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, creation_timestamp=ago(minutes, NOW)))


def plugin(node: str, *, age: float = 600, ready: bool = True, deleted: float | None = None) -> Pod:
    status = {"conditions": [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": ago(min(age, 500), NOW)}]}
    pod = a_pod(f"{NAME}-{node}", "gpu-operator", node=node, owner=f"DaemonSet/{NAME}", status=status)
    meta = msgspec.structs.replace(
        pod.metadata, creation_timestamp=ago(age, NOW), deletion_timestamp=None if deleted is None else ago(deleted, NOW)
    )
    return msgspec.structs.replace(pod, metadata=meta)


# -- ages


def test_a_state_waits_until_it_is_older_than_its_limit_and_is_undecided_where_its_age_is_not_known() -> None:
    def found(since: float | None, **words: Any) -> tuple[Outcome, str, str] | float:
        one = overdue(About(subject(a_node())), since, 1000, 600, "it waits", cause="AgeUnknown", **words)
        return (one.outcome, one.message, one.cause) if isinstance(one, Finding) else one

    assert found(399) == 601
    assert found(400) == (Outcome.UNDECIDED, "it waits for 10 min; ask again in 60 s", "ChangeUnderWay")
    assert found(1001, rest="; why") == (Outcome.UNDECIDED, "it waits for 0 s; ask again in 10 min; why", "ChangeUnderWay")
    assert found(950, aged=True) == (Outcome.UNDECIDED, "it waits: ask again in 10 min", "ChangeUnderWay")
    assert found(950, quiet=True) == (Outcome.NOT_JUDGED, "it waits for 50 s; ask again in 10 min", "")
    assert found(None) == (Outcome.UNDECIDED, "it waits, and nothing says since when", "AgeUnknown")
    assert found(None, unknown="who knows", quiet=True) == (Outcome.UNDECIDED, "who knows", "AgeUnknown")


# -- nodes


@each_row
def test_labels_that_say_that_somebody_is_at_work(labels: dict[str, str], under_way: bool) -> None:
    assert bool(change_under_way(a_node(labels=labels), a_policy(), NOW)) is under_way


def test_a_reboot_is_a_change_for_as_long_as_the_policy_says() -> None:
    def turned(minutes: float, ready: bool) -> str:
        node = a_node(ready=ready)
        (condition,) = node.status.conditions
        condition.last_transition_time = ago(minutes, NOW)
        return change_under_way(node, a_policy(), NOW)

    assert "NotReady for 3 min; ask again in 12 min" in turned(3, False)
    assert "Ready again for 3 min" in turned(3, True)
    assert (turned(16, False), turned(16, True)) == ("", "")


def settled(*findings: Finding, **world: Any) -> list[str]:
    return [finding.outcome.value for finding in unless_settling(a_scope(**world), findings)]


def test_findings_about_a_node_that_is_being_changed_are_asked_again_and_no_others() -> None:
    new, old = joined(a_node("gpu-0"), 1), joined(a_node("gpu-1"), 600)
    wrong = {"cause": "DeviceMissing", "observed": "0", "expected": "8"}
    found = [bad(subject(new), **wrong), advised(subject(new), **wrong), ok(subject(new)), bad(subject(old), **wrong)]
    assert settled(*found, nodes=[new, old]) == ["undecided", "undecided", "ok", "bad"]


def test_findings_about_a_node_whose_plugin_is_starting_are_asked_again() -> None:
    node, wrong = a_node("gpu-0"), {"cause": "DeviceMissing", "observed": "0", "expected": "8"}
    world: dict[str, Any] = {"nodes": [node], "apps__daemonsets": [a_daemonset()]}
    assert settled(bad(subject(node), **wrong), pods=[plugin("gpu-0", age=0.25, ready=False)], **world) == ["undecided"]
    assert settled(bad(subject(node), **wrong), pods=[plugin("gpu-0", age=0.25)], **world) == ["undecided"]
    assert settled(bad(subject(node), **wrong), pods=[plugin("gpu-0", age=10)], **world) == ["bad"]
    assert settled(bad(subject(node), **wrong), pods=[plugin("gpu-0", age=30, ready=False)], **world) == ["bad"]


# -- roll-outs


def rolled(
    *pods: Pod, names: int = 4, status: dict[str, int] | None = None, strategy: dict[str, Any] | None = None, **node: Any
) -> Finding:
    nodes = [a_node(f"gpu-{n}", **node) for n in range(names)]
    item = a_daemonset(desired=names, status=status)
    item = msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, update_strategy=strategy or {}))
    (finding,) = check_rolled_out(a_scope(nodes=nodes, apps__daemonsets=[item], pods=pods))
    return finding


def others(count: int = 3) -> list[Pod]:
    return [plugin(f"gpu-{n}") for n in range(count)]


SHORT = {"numberReady": 3, "numberAvailable": 3}


def test_a_pod_that_is_fifteen_seconds_old_is_a_roll_out_under_way_and_an_old_one_is_stuck() -> None:
    young = rolled(*others(), plugin("gpu-3", age=0.25, ready=False), status=SHORT)
    assert young.outcome.value == "undecided"
    assert "ask again in 15 min" in young.message
    assert rolled(*others(), plugin("gpu-3", age=40, ready=False), status=SHORT).outcome.value == "bad"


@each_row
def test_a_pod_that_became_unready_a_moment_ago_is_asked_again_unless_it_crashes_all_the_time(
    minutes: float, container: dict[str, Any], expected: str
) -> None:
    pod = plugin("gpu-3", ready=False)
    pod.status.conditions[0].last_transition_time = ago(minutes, NOW)  # type: ignore[index]
    pod.status.container_statuses = [msgspec.convert({"name": "main", **container}, ContainerStatus)]
    assert rolled(*others(), pod, status=SHORT).outcome.value == expected


def test_agents_of_a_node_that_reboots_wait_and_those_of_one_that_never_came_back_do_not() -> None:
    def rebooted(minutes: float) -> str:
        world = [a_node(f"gpu-{n}", ready=n != 3) for n in range(4)]
        world[3].status.conditions[0].last_transition_time = ago(minutes, NOW)
        pods, item = [*others(), plugin("gpu-3", ready=False)], a_daemonset(desired=4, status=SHORT)
        (finding,) = check_rolled_out(a_scope(nodes=world, apps__daemonsets=[item], pods=pods))
        return finding.outcome.value

    assert (rebooted(3), rebooted(20)) == ("undecided", "bad")


def test_a_roll_out_beyond_its_own_bound_fails_at_once() -> None:
    pods = [*others(2), plugin("gpu-2", age=0.25, ready=False), plugin("gpu-3", age=0.25, ready=False)]
    status = {"numberReady": 2, "numberAvailable": 2}
    assert rolled(*pods, status=status).outcome.value == "bad"
    half = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}
    assert rolled(*pods, status=status, strategy=half).outcome.value == "undecided"


def test_a_pod_that_is_missing_between_two_of_a_roll_out_is_asked_again() -> None:
    assert rolled(plugin("gpu-0", age=1), *others(3)[1:], status=SHORT).outcome.value == "undecided"
    assert rolled(*others(), status=SHORT).outcome.value == "bad"
    assert rolled(*others(), plugin("gpu-3", deleted=0.5), status=SHORT).outcome.value == "undecided"


def test_pods_of_an_older_template_are_a_roll_out_or_one_that_stopped_or_somebody_elses_task() -> None:
    behind = {"updatedNumberScheduled": 1}
    assert rolled(*others(), plugin("gpu-3", age=1), status=behind).outcome.value == "undecided"
    assert rolled(*others(4), status=behind).outcome.value == "bad"
    waiting = rolled(*others(4), status=behind, strategy={"type": "OnDelete"})
    assert waiting.outcome.value == "advised"
    assert "OnDelete" in waiting.message


def test_a_taint_that_came_while_its_pod_runs_fails_nothing() -> None:
    """The real controller goes on counting the node until it looks again, and then counts its pod as misscheduled."""
    nodes = [a_node("gpu-0"), a_node("gpu-1", taints=["nvidia.com/gpu=present:NoSchedule", "ToBeDeletedByClusterAutoscaler=1:NoSchedule"])]
    pods = [plugin("gpu-0"), plugin("gpu-1")]
    for desired in (1, 2):
        (finding,) = check_rolled_out(a_scope(nodes=nodes, apps__daemonsets=[a_daemonset(desired=desired)], pods=pods))
        assert finding.outcome.value == "ok", finding.message
    (finding,) = check_rolled_out(a_scope(nodes=nodes, apps__daemonsets=[a_daemonset(desired=1)], pods=pods[:1]))
    assert "ToBeDeletedByClusterAutoscaler" in finding.message


@each_row
def test_how_many_nodes_a_roll_out_may_take_at_once(value: object, desired: int, nodes: int) -> None:
    item = a_daemonset(desired=desired)
    strategy = {"rollingUpdate": {"maxUnavailable": value}} if value is not None else {}
    item = msgspec.structs.replace(item, spec=msgspec.structs.replace(item.spec, update_strategy=strategy))
    assert max_unavailable(item) == nodes
    assert replaces_by_itself(item)


def test_a_run_that_settles_waits_for_objects_that_became_unready_a_moment_ago() -> None:
    def waits(minutes: float, state: str = "notReady") -> bool:
        conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": ago(minutes, NOW)}]
        policy = {"metadata": {"name": "cluster-policy"}, "status": {"state": state, "conditions": conditions}}
        return any(text.startswith("ClusterPolicy cluster-policy: so for") for text in still_moving(a_scope(clusterpolicies=[policy])))

    assert (waits(3), waits(20), waits(3, "ignored")) == (True, False, False)


# -- Times as clusters write them, and ages as every message says them


@each_row
def test_times_are_read_as_clusters_write_them(text: object, wanted: float | None) -> None:
    assert moment(text) == wanted


@each_row
def test_a_duration_is_as_short_as_it_can_be_reported(seconds: float, words: str) -> None:
    assert duration(seconds) == words
