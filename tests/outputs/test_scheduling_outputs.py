import json

import pytest

from conformance.cli.inspect import inspect
from conformance.outputs import captured_objects, events
from conformance.outputs.captured_objects import GangState
from conformance.outputs.events import ReasonKind
from tests.outputs.lookalikes import lookalike
from tests.tables import each_row


@each_row
def test_reasons(text: str, kind: ReasonKind, detail: str) -> None:
    assert events.classify(text) == (kind, detail)
    message = events.parse_unschedulable(f"0/7 nodes are available: 3 {text}. preemption: 0/7 nodes are available: 7 No.")
    assert [(reason.count, reason.kind, reason.text) for reason in message.reasons] == [(3, kind, text)]
    assert (message.total, message.postfilter) == (7, "preemption: 0/7 nodes are available: 7 No.")


def test_a_pod_placed_later_is_good() -> None:
    text = lookalike("events-get").replace("pod/other-0", "pod/trainer-0")
    assert inspect("events", text).reason_code == "PLACED_AFTER_WAITING"


def event(reason: str, message: str) -> dict[str, object]:
    return {"kind": "Event", "type": "Warning", "reason": reason, "message": message, "involvedObject": {"kind": "Pod", "name": "p"}}


FULL = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/2 nodes are available: 2 Insufficient x.y/z.",
}
SHARES = "Allocate failed: maximum request size for shared resources is 1; found 2"
FLAVOR = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor f, 4 more needed"
HELD = "3/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable"


@pytest.mark.parametrize(
    ("document", "verdict", "code"),
    [
        ({"kind": "List", "items": [event("FailedScheduling", "0/1 nodes are available: 1 Too many pods.")]}, "bad", "UNSCHEDULABLE"),
        (event("UnexpectedAdmissionError", SHARES), "bad", "ADMISSION_FAILED"),
        (event("OutOfnvidia.com/gpu", "Node didn't have enough resource: nvidia.com/gpu"), "bad", "ADMISSION_FAILED"),
        (event("Pending", FLAVOR), "undecidable", "QUOTA_PENDING"),
        (event("Unschedulable", HELD), "undecidable", "GANG_HELD"),
        (event("Pulled", "image pulled"), "undecidable", "NO_SCHEDULING_EVENT"),
        (event("Scheduled", "Successfully assigned a/p to n"), "good", "PLACED"),
        ({"kind": "Pod", "metadata": {"name": "p"}, "status": {"conditions": [FULL]}}, "bad", "UNSCHEDULABLE"),
    ],
)
def test_event_objects(document: object, verdict: str, code: str) -> None:
    result = inspect("events", json.dumps(document))
    assert (result.verdict, result.reason_code) == (verdict, code)


def slice_object(**spec: object) -> dict[str, object]:
    base = {"driver": "gpu.nvidia.com", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1}, "devices": []}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": base | spec}


DEVICE = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "gpu.nvidia.com/uuid": {"string": "GPU-1"}}}


@pytest.mark.parametrize(
    ("spec", "verdict", "code"),
    [
        ({"devices": [DEVICE]}, "good", "COMPLETE"),
        ({"devices": [DEVICE, DEVICE]}, "bad", "DUPLICATE"),
        ({"devices": ["..."]}, "undecidable", "INCOMPLETE_TEXT"),
        ({"devices": [DEVICE], "pool": {"name": "n"}}, "undecidable", "INCOMPLETE_TEXT"),
        ({"devices": [DEVICE], "pool": {"name": "n", "generation": 1, "resourceSliceCount": 4}}, "bad", "INCOMPLETE_POOL"),
        ({"devices": None}, "undecidable", "INCOMPLETE_TEXT"),
        ({"devices": []}, "bad", "NO_DEVICES"),
        ({"devices": [DEVICE | {"taints": [{"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoExecute"}]}]}, "bad", "TAINTED"),
        ({"devices": [{"name": "g", "basic": {"taints": [{"key": "gpu-lost", "effect": "NoSchedule"}]}}]}, "bad", "TAINTED"),
        ({"devices": [DEVICE | {"taints": [{"key": "note", "value": "warm", "effect": "None"}]}]}, "good", "COMPLETE"),
        ({"devices": [DEVICE | {"taints": [{"key": "note", "effect": "NoReschedule"}]}]}, "undecidable", "TAINTED"),
        ({"devices": [DEVICE | {"taints": [{"key": "note"}]}]}, "undecidable", "TAINTED"),
        ({"devices": [DEVICE | {"attributes": {"x.y/healthy": {"bool": False}}}]}, "bad", "TAINTED"),
        ({"devices": "wild", "pool": 7, "driver": []}, "undecidable", "INCOMPLETE_TEXT"),
    ],
)
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


def unschedulable(message: str) -> dict[str, str]:
    return {"type": "Unschedulable", "status": "True", "message": message}


@each_row
def test_pod_group_states(status: dict[str, object], state: GangState, verdict: str) -> None:
    item = {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": 4}, "status": status}
    assert captured_objects.group_of(item).state is state
    assert inspect("podgroup", json.dumps(item)).verdict == verdict


def test_a_pod_group_of_another_scheduler_is_not_judged_by_volcanos_phases() -> None:
    for api in ("scheduling.x-k8s.io/v1alpha1", "scheduling.run.ai/v2alpha2", "scheduling.k8s.io/v1beta1"):
        item = {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": "g"}, "status": {"phase": "Scheduling"}}
        result = inspect("podgroup", json.dumps(item))
        assert (result.verdict, result.reason_code) == ("undecidable", "OTHER_SCHEDULER")
    volcano_group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "status": {"phase": "Unknown"}}
    assert inspect("podgroup", json.dumps(volcano_group)).verdict == "bad"
