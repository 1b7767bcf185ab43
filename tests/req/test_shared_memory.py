"""REQ-15: which pods need shared memory, and which have enough of it. Reports: docs/facts/container-runtimes.md#shared-memory."""

import time

import msgspec
import pytest

from conformance.req.pod_specs import check_shared_memory
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_container, a_node, a_pod, a_scope, a_spec, a_workload
from tests.findings import by_name
from tests.tables import each_row


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """A pod of two devices by what it has at /dev/shm, and what is found of it."""

    outcome: str
    mount: Json | None = None
    volume: Json | None = None
    spec: Json = {}
    annotations: Json = {}
    observed: str = ""


@each_row
def test_a_pod_of_two_devices(row: Row) -> None:
    container = a_container(devices=2, volumeMounts=[{"mountPath": "/dev/shm", "name": "shm", **row.mount}] if row.mount else [])
    volumes = [{"name": "shm", **row.volume}] if row.volume else []
    pod = a_pod(annotations=row.annotations, containers=[container], volumes=volumes, node="gpu-0", **row.spec)
    (finding,) = check_shared_memory(a_scope(nodes=[a_node()], pods=[pod]))
    assert (finding.outcome, row.observed in finding.observed) == (Outcome(row.outcome), True)
    assert finding.cause == ("SharedMemorySmall" if row.outcome == "bad" else "")


def test_members_of_a_job_count_with_one_device_each_and_others_do_not() -> None:
    group = a_workload("PodGroup", "train", {"minMember": 2})
    marks = {"scheduling.k8s.io/group-name": "train"}
    members = [a_pod(f"train-{index}", devices=1, node="gpu-0", annotations=marks) for index in range(2)]
    other = [a_pod("one", devices=1, node="gpu-0"), a_pod("web", node="gpu-0")]
    scope = a_scope(nodes=[a_node()], pods=[*members, *other], scheduling_volcano_sh__podgroups=[group])
    assert by_name(check_shared_memory(scope)) == {"train-0": Outcome.BAD, "train-1": Outcome.BAD}


def test_a_webhook_may_complete_what_a_template_lacks() -> None:
    labels = {"app": "llm"}
    template = {"metadata": {"labels": labels}, "spec": a_spec(devices=4)}
    deployment = a_workload("Deployment", "llm", {"replicas": 1, "template": template})
    pod = a_pod("llm-0", devices=4, labels={**labels, "pod-template-hash": "x"}, hostIPC=True)
    assert by_name(check_shared_memory(a_scope(deployments=[deployment], pods=[pod]))) == {"llm": Outcome.NOT_JUDGED, "llm-0": Outcome.OK}
    assert by_name(check_shared_memory(a_scope(deployments=[deployment]))) == {"llm": Outcome.BAD}


def test_pods_of_many_templates_are_looked_up_by_their_labels() -> None:
    many = [
        a_workload("Deployment", f"llm-{at}", {"template": {"metadata": {"labels": {"app": f"llm-{at}"}}, "spec": a_spec(devices=4)}})
        for at in range(300)
    ]
    scope, started = a_scope(deployments=many, pods=[a_pod(labels={"app": "web"})] * 30_000), time.monotonic()
    assert set(by_name(check_shared_memory(scope)).values()) == {Outcome.BAD}
    assert time.monotonic() - started < 3


def test_what_a_controller_completes_is_not_judged_for_what_it_lacks() -> None:
    train = a_workload("TrainJob", "t", {"trainer": {"resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}})
    assert by_name(check_shared_memory(a_scope(trainjobs=[train]))) == {"t spec.trainer": Outcome.NOT_JUDGED}


def test_amounts_of_a_scheduler_and_pods_of_the_platform_are_no_several_devices() -> None:
    share = a_pod("share", devices={"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000})
    diagnosis = a_pod("dcgm-diag", "gpu-operator", devices=8)
    with pytest.raises(NotApplicable):
        list(check_shared_memory(a_scope(nodes=[a_node()], pods=[share, diagnosis])))


def test_claims_count_as_devices() -> None:
    asked = [{"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]
    claim = a_workload("ResourceClaimTemplate", "pair", {"spec": {"devices": {"requests": asked}}})
    selector = {"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}
    devices = {"metadata": {"name": "gpu.nvidia.com"}, "spec": {"selectors": [selector]}}
    pod = a_pod("claims", resourceClaims=[{"name": "gpus", "resourceClaimTemplateName": "pair"}])
    (finding,) = check_shared_memory(a_scope(pods=[pod], resourceclaimtemplates=[claim], deviceclasses=[devices]))
    assert finding.outcome is Outcome.BAD


def test_tpus_exchange_nothing_by_shared_memory() -> None:
    with pytest.raises(NotApplicable):
        list(check_shared_memory(a_scope(pods=[a_pod(devices={"google.com/tpu": 4})])))
