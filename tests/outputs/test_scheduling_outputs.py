"""Events of pods that cannot be placed or do not start, and objects of schedulers and drivers captured as text."""

import json

from conformance.cli.inspect import inspect
from conformance.outputs import captured_objects, events
from conformance.outputs.captured_objects import GangState
from conformance.outputs.events import Obstacle, ReasonKind, obstacle
from conformance.outputs.inspection import InspectionFinding, Judged, concluded
from tests.outputs.lookalikes import lookalike
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


@each_row
def test_reasons(text: str, kind: ReasonKind, detail: str) -> None:
    assert events.classify(text) == (kind, detail)
    message = events.parse_unschedulable(f"0/7 nodes are available: 3 {text}. preemption: 0/7 nodes are available: 7 No.")
    assert [(reason.count, reason.kind, reason.text) for reason in message.reasons] == [(3, kind, text)]
    assert (message.total, message.postfilter) == (7, "preemption: 0/7 nodes are available: 7 No.")


def test_a_pod_placed_later_is_good() -> None:
    text = lookalike("events-get").replace("pod/other-0", "pod/trainer-0")
    assert inspect("events", text).reason_code == "PLACED_AFTER_WAITING"


@each_row
def test_event_objects(document: object, verdict: str, code: str) -> None:
    result = inspect("events", json.dumps(document))
    assert (result.verdict, result.reason_code) == (verdict, code)


def slice_object(**spec: object) -> dict[str, object]:
    base = {"driver": "gpu.nvidia.com", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}, "devices": []}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": base | spec}


DEVICE = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "gpu.nvidia.com/uuid": {"string": "GPU-1"}}}


@each_row
def test_slice_verdicts(spec: dict[str, object], verdict: str, code: str) -> None:
    result = inspect("resourceslice", json.dumps(slice_object(**spec)))
    assert (result.verdict, result.reason_code) == (verdict, code)


def test_an_object_of_the_api_without_devices_has_none() -> None:
    item = slice_object()
    spec = item["spec"]
    assert isinstance(spec, dict)
    del spec["devices"]
    assert inspect("resourceslice", json.dumps(item)).reason_code == "INCOMPLETE_TEXT"
    item["metadata"] = {"name": "s", "uid": "1", "resourceVersion": "7"}
    result = inspect("resourceslice", json.dumps(item))
    assert (result.verdict, result.reason_code) == ("bad", "NO_DEVICES")
    counters = item | {"spec": spec | {"sharedCounters": [{"name": "a"}], "pool": {"name": "n", "generation": 1, "resourceSliceCount": 2}}}
    devices = slice_object(devices=[DEVICE], pool={"name": "n", "generation": 1, "resourceSliceCount": 2})
    both = json.dumps({"kind": "List", "items": [counters, devices]})
    assert inspect("resourceslice", both).verdict == "good", "a slice of counters has no device, its pool has"


def test_one_tainted_device_among_many_nodes() -> None:
    items = [slice_object(pool={"name": f"n{node}", "generation": 1, "resourceSliceCount": 1}, devices=[DEVICE]) for node in range(4)]
    assert inspect("resourceslice", json.dumps({"kind": "List", "items": items})).verdict == "good"
    items[2] = slice_object(
        pool={"name": "n2", "generation": 1, "resourceSliceCount": 1},
        devices=[DEVICE | {"taints": [{"key": "gpu.nvidia.com/unhealthy", "effect": "NoSchedule"}]}],
    )
    result = inspect("resourceslice", json.dumps({"kind": "List", "items": items}))
    assert (result.verdict, result.facts["taintedDevices"]) == ("bad", 1)
    assert "pool n2: device gpu-0 has gpu.nvidia.com/unhealthy:NoSchedule" in result.message


@each_row
def test_pod_group_states(status: dict[str, object], state: GangState, verdict: str) -> None:
    item = {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": 4}, "status": status}
    assert captured_objects.group_of(item).doing is state
    assert inspect("podgroup", json.dumps(item)).verdict == verdict


def test_notes_alone_are_nothing_wrong() -> None:
    found = concluded("podgroup", [("NOTED", InspectionFinding("a", Judged.NOTE))], {}, ("FINE", "all well"))
    assert (found.verdict, found.reason_code) == (Judged.GOOD, "FINE")


def test_a_pod_group_of_another_scheduler_is_not_judged_by_volcanos_phases() -> None:
    for api in ("scheduling.x-k8s.io/v1alpha1", "scheduling.run.ai/v2alpha2", "scheduling.k8s.io/v1beta1"):
        item = {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": "g"}, "status": {"phase": "Scheduling"}}
        result = inspect("podgroup", json.dumps(item))
        assert (result.verdict, result.reason_code) == ("undecidable", "OTHER_SCHEDULER")
    volcano_group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "status": {"phase": "Unknown"}}
    assert inspect("podgroup", json.dumps(volcano_group)).verdict == "bad"
