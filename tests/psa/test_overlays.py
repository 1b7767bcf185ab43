"""Pod specs that a controller merges with others: what they state is judged, and nobody blames them for what they lack."""

from collections.abc import Iterable
from typing import Any

import pytest

from conformance.psa.bypass import check_bypass
from conformance.psa.standards import check_standards
from conformance.req.checks import check_whole_devices
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.snapshot.state import Listing, Snapshot
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_policy, a_scope, a_snapshot, a_workload
from tests.tables import each_row

ONE = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
MAIN: Json = {"name": "main", "resources": ONE}
WORKER: Json = {"name": "worker-container", "resources": ONE}


def llm(kind: str = "LLMInferenceService", **template: Any) -> Scope:
    """A scope over one object as KServe's samples write it."""
    item = {"metadata": {"name": "llama", "namespace": "team-a"}, "spec": {"template": {"containers": [MAIN], **template}}}
    served = Listing(key=f"serving.kserve.io/{kind.lower()}s", kind=kind, items=[item])
    known = a_snapshot()
    return Scope(Snapshot([*map(known.listing, known._listings), served], taken_at=known.taken_at, version=known.version), a_policy())


def several_nodes(worker: Json = WORKER, **more: Any) -> Scope:
    """A scope over an InferenceService on several nodes."""
    predictor = {"model": {"modelFormat": {"name": "huggingface"}, "resources": ONE}, "workerSpec": {"containers": [worker], **more}}
    return a_scope(inferenceservices=[a_workload("InferenceService", "llama", {"predictor": predictor})])


def worst(findings: Iterable[Finding]) -> Finding:
    """The finding that decides."""
    order = (Outcome.BAD, Outcome.UNDECIDED, Outcome.NOT_JUDGED, Outcome.OK)
    return min(findings, key=lambda finding: order.index(finding.outcome))


@pytest.mark.parametrize(
    "scope",
    [
        llm(),
        llm(containers=[{**MAIN, "image": "vllm:1"}]),
        llm(containers=[{**MAIN, "image": " "}]),
        llm(containers=[{"name": "side", "image": "proxy"}, MAIN]),
        llm("LLMInferenceServiceConfig", containers=[{**MAIN, "image": "vllm:1"}]),
        llm("ServingRuntime", containers=[{**MAIN, "image": "vllm:1"}]),
        several_nodes(),
        several_nodes({**WORKER, "image": "vllm:1"}),
    ],
    ids=["sample", "own image", "blank image", "one of two", "base", "runtime", "worker", "worker's own image"],
)
def test_a_patch_of_a_pod_is_not_blamed_for_what_its_base_may_have(scope: Scope) -> None:
    finding = worst(check_standards(scope))
    assert finding.outcome is Outcome.NOT_JUDGED
    assert "only a part of a pod" in finding.message
    assert worst(check_whole_devices(scope)).outcome is Outcome.OK
    assert worst(check_bypass(scope)).outcome is Outcome.OK


@pytest.mark.parametrize("make", [llm, several_nodes])
@each_row
def test_what_a_patch_states_is_judged(make: Any, stated: Json) -> None:
    for check in (check_standards, check_bypass):
        assert worst(check(make(**stated))).outcome is Outcome.BAD


@pytest.mark.parametrize("scope", [several_nodes({**WORKER, "resources": {"requests": ONE["requests"]}})])
def test_a_limit_may_come_from_the_base(scope: Scope) -> None:
    assert worst(check_whole_devices(scope)).outcome is Outcome.UNDECIDED


def test_a_patch_with_a_runtime_class_may_get_its_device_from_the_base() -> None:
    finding = worst(check_bypass(several_nodes({"name": "worker-container"}, runtimeClassName="nvidia")))
    assert finding.outcome is Outcome.UNDECIDED
    assert "unless what completes this part asks for one" in finding.message


def test_a_pod_that_lacks_nothing_is_judged_as_a_whole() -> None:
    ray = {"headGroupSpec": {"template": {"spec": {"containers": [{**MAIN, "image": "ray:1"}]}}}}
    assert worst(check_standards(a_scope(rayclusters=[a_workload("RayCluster", "tune", ray)]))).outcome is Outcome.BAD
    custom = {"predictor": {"containers": [{**MAIN, "image": "own:1"}]}}
    assert worst(check_standards(a_scope(inferenceservices=[a_workload("InferenceService", "own", custom)]))).outcome is Outcome.BAD
