"""Events and states of pods that have a node and do not start there."""

import json

from conformance.cli.inspect import inspect
from conformance.outputs.events import Obstacle, obstacle
from tests.tables import each_row

CDI = (
    "Error: failed to create containerd task: failed to create shim task: OCI runtime create failed: could not apply required modification "
    "to OCI specification: error modifying OCI spec: failed to inject CDI devices: unresolvable CDI devices management.nvidia.com/gpu=GPU-7"
)


def described(*rows: tuple[str, str, str, str]) -> str:
    head = "Events:\n  Type     Reason      Age      From      Message\n  ----     ------      ----     ----      -------\n"
    return head + "".join(f"  {type_:<8} {reason:<24} {age:<22} kubelet            {message}\n" for type_, reason, age, message in rows)


SCHEDULED = ("Normal", "Scheduled", "24m", "Successfully assigned team/train-0 to gpu-1")
STARTED = ("Normal", "Started", "10s", "Started container cuda")


def judged(text: str) -> tuple[str, str]:
    result = inspect("events", text)
    return result.verdict.value, result.reason_code


@each_row
def test_a_pod_that_is_placed_and_does_not_start(reason: str, message: str, what: str) -> None:
    text = described(SCHEDULED, ("Warning", reason, "4m43s (x93 over 24m)", message))
    result = inspect("events", text)
    assert (result.verdict, result.reason_code) == ("bad", "START_FAILED")
    assert what in result.message
    rows = f"LAST SEEN   TYPE      REASON   OBJECT   MESSAGE\n4m   Warning   {reason}   pod/train-0   {message}\n"
    again = (
        rows + f"5m   Warning   {reason}   pod/train-0   {message}\n24m  Normal  Scheduled  pod/train-0  Successfully assigned a/b to n\n"
    )
    assert judged(again) == ("bad", "START_FAILED"), "in whatever order they are listed"


def test_a_program_that_ends_again_and_again_is_not_well_for_having_started() -> None:
    crash = ("Warning", "BackOff", "1m (x9 over 10m)", "Back-off restarting failed container cuda in pod train-0")
    assert judged(described(SCHEDULED, crash, STARTED)) == ("bad", "START_FAILED")


def test_what_may_pass_by_itself_is_undecided_once() -> None:
    mount = ("Warning", "FailedMount", "3s", 'MountVolume.SetUp failed for volume "data" : object "team"/"cfg" not registered')
    assert judged(described(SCHEDULED, mount)) == ("undecidable", "START_FAILED")
    assert judged(described(SCHEDULED, mount, mount)) == ("bad", "START_FAILED")
    assert judged(described(SCHEDULED, ("Warning", "Failed", "3s", CDI))) == ("bad", "START_FAILED"), "devices do not resolve later"


def test_a_pod_of_describe_that_waited_and_was_placed() -> None:
    waited = ("Warning", "FailedScheduling", "30m", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
    assert judged(described(waited, SCHEDULED)) == ("good", "PLACED_AFTER_WAITING")
    assert judged(described(waited)) == ("bad", "UNSCHEDULABLE")


def pod(state: dict[str, object], restarts: int = 0) -> str:
    status = {"containerStatuses": [{"name": "cuda", "restartCount": restarts, "state": state}]}
    return json.dumps({"kind": "Pod", "metadata": {"name": "p"}, "status": status})


@each_row
def test_the_state_of_a_container(state: dict[str, object], expected: tuple[str, str]) -> None:
    assert judged(pod(state)) == expected


def test_events_of_the_api_in_the_order_of_their_times() -> None:
    def item(reason: str, message: str, at: str) -> dict[str, object]:
        about = {"kind": "Event", "type": "x", "involvedObject": {"kind": "Pod", "name": "p"}, "count": 2}
        return {**about, "reason": reason, "message": message, "lastTimestamp": at}

    failed = item("Failed", CDI, "2026-01-01T10:00:00Z")
    started = item("Started", "Started container", "2026-01-01T10:05:00Z")
    for items in ([failed, started], [started, failed]):
        assert judged(json.dumps({"kind": "List", "items": items})) == ("good", "PLACED")
    started["lastTimestamp"] = "2026-01-01T09:00:00Z"
    assert judged(json.dumps({"kind": "List", "items": [failed, started]})) == ("bad", "START_FAILED")
    started["lastTimestamp"] = "never"
    assert judged(json.dumps({"kind": "List", "items": [started, failed]})) == ("bad", "START_FAILED")


def test_what_is_no_obstacle() -> None:
    for reason, message in (("Pulled", "image present"), ("Killing", "Stopping container"), ("Unhealthy", "Readiness failed"), ("", "ok")):
        assert obstacle(reason, message) is None
    assert obstacle("Failed", "Error: failed to inject CDI devices") is Obstacle.DEVICES
