"""Pod specs against the standards; of those that a controller merges with others, what they state is judged, no more."""

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
from tests.builders import a_container, a_pod, a_policy, a_scope, a_snapshot, a_workload
from tests.tables import each_row

RESTRICTED: Json = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
POD: Json = {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
GPU = {"nvidia.com/gpu": "1"}
RDMA = {"nvidia.com/gpu": "1", "rdma/rdma_shared_device_a": "1"}


def compliant(name: str = "train-0", devices: Any = None, add: list[str] | None = None, **spec: Any) -> Any:
    security = {**RESTRICTED, "capabilities": {"drop": ["ALL"], **({"add": add} if add else {})}}
    containers = [a_container(devices=devices or GPU, securityContext=security)]
    return a_pod(name, **{"containers": containers, "securityContext": POD, **spec})


def judged(*pods: Any, policy: Any = None, **more: Any) -> list[Finding]:
    return list(check_standards(a_scope(policy, pods=pods, **more)))


@pytest.mark.parametrize("part", ["initContainers", "ephemeralContainers"])
def test_init_and_ephemeral_containers_are_judged_too(part: str) -> None:
    more: Json = {part: [{"name": "debug", "securityContext": {"privileged": True}}]}
    [finding] = judged(compliant(**more))
    assert finding.outcome is Outcome.BAD
    assert "privileged" in finding.message
    assert '"debug"' in finding.observed


def test_ipc_lock_is_for_rdma_pods_of_named_tenants_only() -> None:
    named = a_policy(tenants={"ipcLock": ["team-*"]})
    assert [f.outcome for f in judged(compliant(devices=RDMA, add=["IPC_LOCK"]), policy=named)] == [Outcome.OK]
    [unnamed] = judged(compliant(devices=RDMA, add=["IPC_LOCK"]))
    assert unnamed.outcome is Outcome.BAD
    [no_rdma] = judged(compliant(add=["IPC_LOCK"]), policy=named)
    assert no_rdma.outcome is Outcome.BAD
    assert "RDMA" in no_rdma.message
    [more] = judged(compliant(devices=RDMA, add=["IPC_LOCK", "SYS_ADMIN"]), policy=named)
    assert more.outcome is Outcome.BAD
    assert '"SYS_ADMIN"' in more.observed
    assert "IPC_LOCK" not in more.observed


def test_ipc_lock_violates_baseline_as_well() -> None:
    policy = a_policy(tenants={"podSecurity": "baseline"})
    [finding] = judged(compliant(devices=RDMA, add=["IPC_LOCK"]), policy=policy)
    assert finding.outcome is Outcome.BAD
    assert "non-default capabilities" in finding.message


def test_wild_security_contexts_count_as_not_set() -> None:
    pod = a_pod(
        containers=[a_container(devices=1, securityContext={"capabilities": {"add": "IPC_LOCK", "drop": 7}})],
        securityContext={"runAsUser": "x"},
    )
    [finding] = judged(pod, policy=a_policy(tenants={"ipcLock": ["*"]}))
    assert finding.outcome is Outcome.BAD


def test_replicas_are_reported_apart_by_what_the_standards_look_at() -> None:
    token: Json = {"name": "kube-api-access-a", "projected": {"sources": []}}
    hidden: Json = {"name": "kube-api-access-b", "hostPath": {"path": "/dev"}}
    apparmor = {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}
    pods = [
        compliant("a", volumes=[token]),
        compliant("b", volumes=[{**token, "name": "kube-api-access-c"}], nodeName="gpu-0"),
        compliant("c", volumes=[hidden]),
        compliant("d", annotations=apparmor),
    ]
    assert {f.subject.name: f.outcome for f in judged(*pods)} == {
        "a": Outcome.OK,
        "b": Outcome.OK,
        "c": Outcome.BAD,
        "d": Outcome.BAD,
    }


# -- parts of pods that a runtime completes


def predictor(**more: Any) -> Json:
    model = {"modelFormat": {"name": "vllm"}, "resources": {"limits": GPU}, **more.pop("model", {})}
    return a_workload("InferenceService", "llm", {"predictor": {"model": model, **more}})


def trainer(**more: Any) -> Json:
    return a_workload("TrainJob", "tune", {"runtimeRef": {"name": "torch"}, "trainer": {"resourcesPerNode": {"limits": GPU}, **more}})


@pytest.mark.parametrize("kinds", [{"inferenceservices": [predictor()]}, {"trainjobs": [trainer(image="x", numNodes=2)]}], ids=str)
def test_what_a_runtime_completes_is_not_judged_as_a_whole_pod(kinds: Any) -> None:
    [finding] = judged(**kinds)
    assert finding.outcome is Outcome.NOT_JUDGED
    assert "only a part of a pod" in finding.message


@each_row
def test_what_a_part_says_is_judged_whatever_completes_it(service: dict[str, Any], reason: str) -> None:
    made = predictor(**service)
    [finding] = judged(inferenceservices=[made])
    assert finding.outcome is Outcome.BAD
    assert f"violates baseline ({reason})" in finding.message
    assert judged(policy=a_policy(tenants={"podSecurity": "privileged"}), inferenceservices=[made])[0].outcome is Outcome.NOT_JUDGED


def test_ipc_lock_of_a_named_tenant_is_left_out_of_a_part_too() -> None:
    locking = {"resources": {"limits": RDMA}, "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}
    named = a_policy(tenants={"ipcLock": ["team-a"]})
    assert judged(policy=named, inferenceservices=[predictor(model=locking)])[0].outcome is Outcome.NOT_JUDGED
    assert judged(inferenceservices=[predictor(model=locking)])[0].outcome is Outcome.BAD


def test_a_predictor_with_containers_of_its_own_is_a_whole_pod() -> None:
    own = a_workload("InferenceService", "custom", {"predictor": {"containers": [a_container(devices=GPU)]}})
    assert judged(inferenceservices=[own])[0].outcome is Outcome.BAD


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
