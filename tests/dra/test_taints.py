"""DRA-04: taints of devices, their age, who set them, and claims that got the device all the same."""

from typing import Any

from conformance.dra.pools import check_taints
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_cpu_node, a_pod, a_scope
from tests.dra import a_claim, a_device, a_slice
from tests.tables import each_row

NOW = 1_790_000_000.0
WEEK_AGO, HOUR_AGO = "2026-09-14T14:13:20Z", "2026-09-21T13:13:20Z"


def a_taint(added: str = WEEK_AGO, effect: str = "NoSchedule", key: str = "gpu.nvidia.com/xid", value: str = "48") -> Json:
    return {"key": key, "value": value, "effect": effect, "timeAdded": added} if added else {"key": key, "effect": effect}


def judged(taint: Json | None = None, **items: Any) -> Finding:
    devices = [a_device("gpu-0", taints=[taint] if taint else ()), a_device("gpu-1")]
    scope = a_scope(nodes=[a_cpu_node("gpu-0")], resourceslices=[a_slice("gpu-0", devices=devices)], **items)
    return next(one for one in check_taints(scope, NOW) if one.subject.kind == "Node")


@each_row
def test_a_taint_is_stale_by_its_age(taint: Json | None, outcome: Outcome) -> None:
    assert judged(taint).outcome is outcome


def a_rule(key: str, name: str = "rule-1", created: str = WEEK_AGO, **spec: Any) -> Json:
    chosen = {"deviceSelector": {"pool": "gpu-0", "device": "gpu-1"}, "taint": {"key": key, "effect": "NoSchedule"}, **spec}
    fields = [{"manager": "nvsentinel", "time": created}]
    return {"metadata": {"name": name, "creationTimestamp": created, "managedFields": fields}, "spec": chosen}


@each_row
def test_a_rule_may_reserve_devices_for_ever_but_not_repair_them(rule: Json, outcome: Outcome) -> None:
    finding = judged(devicetaintrules=[a_rule(**rule)])
    assert finding.outcome is outcome
    assert "written by nvsentinel" in finding.observed


def test_a_rule_for_every_device_is_advised_against() -> None:
    rule = a_rule("example.com/reserved", name="drain-one", deviceSelector={}, taint={"key": "k", "effect": "NoExecute"})
    scope = a_scope(nodes=[a_cpu_node("gpu-0")], resourceslices=[a_slice("gpu-0")], devicetaintrules=[rule])
    stated = [one for one in check_taints(scope, NOW) if one.subject.kind == "DeviceTaintRule"]
    assert [(one.subject.name, one.outcome) for one in stated] == [("drain-one", Outcome.ADVISED)]


HOUR = a_taint(HOUR_AGO, "NoExecute")
TOLERATED = {"tolerations": [{"key": "gpu.nvidia.com/xid", "operator": "Exists"}]}


@each_row
def test_pods_end_that_a_taint_evicts(taint: Json, pod: Json, request_: Json, outcome: Outcome) -> None:
    claim = a_claim("c", device="gpu-0")
    claim["metadata"]["creationTimestamp"] = WEEK_AGO
    claim["spec"]["devices"]["requests"] = [{"name": "devices", **request_}]
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "train-0", "uid": "uid-team-a-train-0"}]
    finding = judged(taint, resourceclaims=[claim], pods=[a_pod(node="gpu-0", **{"status": {"startTime": WEEK_AGO}, **pod})])
    assert finding.outcome is outcome
    assert (outcome is Outcome.BAD) is ("pod team-a/train-0 goes on using gpu-0 1 h after" in finding.message)


def test_a_rule_without_a_selector_is_advised_against() -> None:
    rule = a_rule("example.com/all")
    del rule["spec"]["deviceSelector"]
    scope = a_scope(nodes=[a_cpu_node("gpu-0")], resourceslices=[a_slice("gpu-0")], devicetaintrules=[rule])
    assert [one.outcome for one in check_taints(scope, NOW)] == [Outcome.OK, Outcome.ADVISED]


@each_row
def test_no_claim_is_given_a_device_after_it_was_tainted(created: str, result: Json, outcome: Outcome) -> None:
    claim = a_claim("late", device="gpu-0", **result)
    claim["metadata"]["creationTimestamp"] = created
    assert judged(a_taint(HOUR_AGO), resourceclaims=[claim]).outcome is outcome


def test_the_moment_of_the_allocation_tells_where_the_claim_is_older() -> None:
    claim = a_claim("old", device="gpu-0")
    claim["metadata"]["creationTimestamp"] = WEEK_AGO
    claim["status"]["allocation"]["allocationTimestamp"] = "2026-09-21T14:00:00Z"
    assert "team-a/old was given gpu-0" in judged(a_taint(HOUR_AGO), resourceclaims=[claim]).message
