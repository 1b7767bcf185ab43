"""Claims of pods are followed to the driver behind them: only those of accelerators make a device pod (FENCE-02, FENCE-08, PSA-02)."""

from typing import Any

import pytest

from conformance.fence.checks import check_aimed, check_intruders
from conformance.psa.standards import check_standards
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.dra.claims import Request, requests
from fixtures.verdict.findings import Outcome
from tests.builders import a_node, a_pod, a_scope, a_spec
from tests.dra import a_claim, a_class, a_device, a_slice, a_template
from tests.tables import each_row

SELECTOR = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
NIC = {"name": "eth1", "attributes": {"dra.net/ifName": {"string": "eth1"}, "dra.net/mac": {"string": "aa:bb"}}}
NPU = {
    "name": "npu0",
    "attributes": {"uuid": {"string": "A-1"}, "productName": {"string": "RNGD"}},
    "capacity": {"memory": {"value": "48Gi"}},
}
OTHERS = (
    a_slice("gpu-0", "dra.net", [NIC]),
    a_slice("gpu-0", "vendor.example.com", [NIC]),
    a_slice("gpu-0", "chips.example.com", [NPU]),
    a_slice("gpu-0", "odd.example.com", [{"name": "d"}]),
)
GPU = a_slice("gpu-0", "gpu.nvidia.com", [a_device("gpu-0")])


def asking(pod: Pod, **items: Any) -> str:
    found = a_scope(nodes=[a_node()], pods=[pod], **{"resourceslices": [GPU, *OTHERS], **items}).device_demand_of(pod)
    return "yes" if found.devices else found.unknown or "no"


def web(claim: str = "", template: str = "", **more: Any) -> Pod:
    entry = {"name": "own", **({"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template})}
    return a_pod("web", node="gpu-0", resourceClaims=[entry], **more)


@each_row
def test_a_claim_is_what_its_driver_serves(driver: str, answer: str) -> None:
    classes = [a_class("any", driver)]
    assert asking(web("c"), resourceclaims=[a_claim("c", driver, device="d")], deviceclasses=[]) == answer  # by its allocation
    assert asking(web("c"), resourceclaims=[a_claim("c", device_class="any")], deviceclasses=classes) == answer
    assert asking(web(template="t"), resourceclaimtemplates=[a_template("t", "any")], deviceclasses=classes) == answer
    made = {"resourceClaimStatuses": [{"name": "own", "resourceClaimName": "c"}]}
    assert asking(web(template="gone", status=made), resourceclaims=[a_claim("c", device_class="any")], deviceclasses=classes) == answer


@each_row
def test_what_cannot_be_followed_is_undecided(items: Json, word: str) -> None:
    assert word in asking(web("c"), **items)
    items = {"resourceslices": [GPU, *OTHERS], **items}
    for check in (check_intruders, check_aimed):
        (finding,) = [one for one in check(a_scope(nodes=[a_node()], pods=[web("c")], **items)) if one.subject.name == "web"]
        assert finding.outcome is Outcome.UNDECIDED
        assert word in finding.message


@each_row
def test_classes_name_their_driver_in_many_ways(expression: str, answer: str) -> None:
    items = {"resourceclaims": [a_claim("c", device_class="any")], "deviceclasses": [a_class("any", expression=expression)]}
    assert asking(web("c"), **items) == answer


WISH: Json = {
    "deviceClassName": "gpu",
    "count": 3,
    "allocationMode": "ExactCount",
    "selectors": [{"cel": {"expression": "device.driver == 'x'"}}],
    "capacity": {"requests": {"memory": "10Gi", "shares": 2}},
    "tolerations": [{"operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 30}],
}
READ = Request(
    name="r", device_class="gpu", count=3, expressions=("device.driver == 'x'",), admin=False, capacity={"memory": "10Gi", "shares": "2"}
)
ALL = Request(name="r", device_class="gpu", count=0, expressions=(), admin=True)
ONE = Request(name="r", device_class="gpu", count=1, expressions=(), admin=False)


@pytest.mark.parametrize(("request_", "ways"), [
    ({"exactly": WISH}, [READ]),  # v1 and v1beta2
    (WISH, [READ]),  # v1beta1
    ({"exactly": {"deviceClassName": "gpu", "allocationMode": "All", "adminAccess": True}}, [ALL]),
    ({"deviceClassName": "gpu", "allocationMode": "All", "count": 0, "adminAccess": True}, [ALL]),
    ({"exactly": {"deviceClassName": "gpu"}}, [ONE]),
    ({"firstAvailable": [{**WISH, "name": "big"}, {"name": "any", "deviceClassName": "gpu"}]}, [READ, ONE]),
    ({"deviceClassName": "", "firstAvailable": [{"name": "any", "deviceClassName": "gpu"}]}, [ONE]),  # v1beta1
    ({"exactly": {"deviceClassName": "gpu", "count": True, "capacity": [1], "selectors": "?"}}, [ONE]),
])  # fmt: skip
def test_requests_are_read_in_every_shape(request_: Json, ways: list[Request]) -> None:
    assert requests({"devices": {"requests": [{"name": "r", **request_}]}}) == [ways]


@each_row
@pytest.mark.parametrize("check", [check_intruders, check_aimed])
def test_a_pod_is_a_device_pod_however_its_claim_asks(request_: Json, check: Any) -> None:
    """FENCE-02 lets it on accelerator nodes, and FENCE-08 wants it to choose them: by its claim, and by a template alike."""
    classes = [a_class("gpu", "gpu.nvidia.com"), a_class("net", "dra.net")]
    spec = {"devices": {"requests": [{"name": "r", **request_}]}}
    claim = {"metadata": {"name": "c", "namespace": "team-a"}, "spec": spec}
    template = {"metadata": {"name": "t", "namespace": "team-a"}, "spec": {"spec": spec}}
    for pod in (web("c", nodeSelector=SELECTOR), web(template="t", nodeSelector=SELECTOR)):
        items: Json = {"resourceclaims": [claim], "resourceclaimtemplates": [template], "deviceclasses": classes, "resourceslices": [GPU]}
        found = [one.outcome for one in check(a_scope(nodes=[a_node()], pods=[pod], **items)) if one.subject.name == "web"]
        assert set(found) <= {Outcome.OK}


def test_a_compliant_pod_with_an_unknown_claim_needs_no_decision() -> None:
    good: Json = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = a_spec(securityContext=good, resourceClaims=[{"name": "own", "resourceClaimName": "gone"}])
    spec["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    outcomes: dict[str, Outcome] = {}
    for name, body in (("good", spec), ("root", {**spec, "securityContext": {"runAsUser": 0}})):
        scope = a_scope(nodes=[a_node()], pods=[a_pod(name, **body)], resourceclaims=[])
        outcomes |= {finding.subject.name: finding.outcome for finding in check_standards(scope)}
    assert outcomes == {"good": Outcome.OK, "root": Outcome.UNDECIDED}
