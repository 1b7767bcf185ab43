"""REQ-18 and 19: Services and jobs with devices, and pods that outlive what made them."""

from typing import Any

import msgspec

from conformance.req.ending import check_makers, check_services_and_jobs
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Outcome
from tests.builders import a_container, a_node, a_pod, a_policy, a_scope, a_snapshot, a_spec, a_workload
from tests.findings import by_name
from tests.tables import each_row

NOW = 1_800_000_000.0
OLD, YOUNG = "2026-12-01T00:00:00Z", "2027-01-15T07:59:00Z"


class Served(msgspec.Struct, forbid_unknown_fields=True):
    """A device pod behind a Service, by what both say, and what is found; no outcome where the Service is none that serves."""

    outcome: str
    cause: str = ""
    container: Json = {}
    spec: Json = {}
    labels: Json = {}
    service: Json = {}


@each_row
def test_device_pods_behind_a_service(served: Served) -> None:
    labels = {"app": "llm", **served.labels}
    pod = a_pod("llm-0", node="gpu-0", labels=labels, containers=[a_container(devices=1, **served.container)], **served.spec)
    service = a_workload("Service", "llm", {"selector": {"app": "llm"}, "clusterIP": "10.0.0.1", **served.service}, pod.namespace)
    found = list(check_services_and_jobs(a_scope(nodes=[a_node()], pods=[pod], services=[service])))
    assert [(one.outcome.value, one.cause) for one in found] == ([(served.outcome, served.cause)] if served.outcome else [])


class Ending(msgspec.Struct, forbid_unknown_fields=True):
    """A device job by its spec, and what is found where the policy asks for deadlines."""

    outcome: str
    cause: str = ""
    kind: str = "Job"
    spec: Json = {}
    labels: Json = {}


@each_row
def test_device_jobs_end(ending: Ending) -> None:
    template = {"spec": a_spec(devices=1)}
    spec = {"template": template, **ending.spec} if ending.kind == "Job" else {**ending.spec, "workers": {"template": template}}
    job = a_workload(ending.kind, "train", spec)
    job["metadata"]["labels"] = ending.labels
    kinds = {"Job": "jobs", "PyTorchJob": "pytorchjobs"}
    scope = a_scope(a_policy(requests={"jobDeadlines": True}), **{kinds[ending.kind]: [job]})
    (finding,) = check_services_and_jobs(scope)
    assert (finding.outcome.value, finding.cause) == (ending.outcome, ending.cause)


def test_without_a_word_of_the_policy_a_job_needs_no_deadline() -> None:
    job = a_workload("Job", "train", {"template": {"spec": a_spec(devices=1)}})
    assert by_name(check_services_and_jobs(a_scope(jobs=[job]))) == {"train": Outcome.OK}


class Made(msgspec.Struct, forbid_unknown_fields=True):
    """A bound pod with a device by what names its maker; Job ``train`` with UID ``1`` is there."""

    outcome: str
    owner: Json | None = None
    labels: Json = {}
    made: str = OLD
    kept: bool = True
    status: Json = {}


@each_row
def test_a_pod_and_what_made_it(made: Made) -> None:
    pod = a_pod("w", devices=1, node="gpu-0", labels=made.labels)
    pod.metadata.creation_timestamp = made.made
    if made.owner:
        pod = msgspec.convert(
            msgspec.to_builtins(pod) | {"metadata": {**msgspec.to_builtins(pod.metadata), "ownerReferences": [made.owner]}}, type(pod)
        )
    job = a_workload("Job", "train", {}, pod.namespace)
    job["metadata"]["uid"], job["status"] = "1", made.status
    listed: dict[str, Any] = {"jobs": [job]} if made.kept else {}
    scope = Scope(a_snapshot(offline=not made.kept, nodes=[a_node()], pods=[pod], **listed), a_policy())
    (finding,) = check_makers(scope, NOW)
    assert (finding.outcome.value, finding.cause) == (made.outcome, "MakerGone" if made.outcome == "bad" else "")


def test_a_reservation_is_used_as_long_as_a_pod_on_its_node_shares_it() -> None:
    group = {"runai-gpu-group": "g1"}
    given = {"run.ai/reserve_for_gpu_index": "0"}
    holder = a_pod("gpu-reservation-0", "kai-resource-reservation", devices=1, node="gpu-0", labels=group, annotations=given)
    holder.metadata.creation_timestamp = OLD
    sharer = a_pod(
        "notebook", node="gpu-0", labels={"runai-gpu-group": "g1"}, annotations={"gpu-fraction": "0.5"}, schedulerName="kai-scheduler"
    )
    policy = a_policy(tenants={"moreInfrastructure": ["kai-resource-reservation"]})
    assert by_name(check_makers(a_scope(policy, nodes=[a_node()], pods=[holder, sharer]), NOW)) == {"gpu-reservation-0": Outcome.NOT_JUDGED}
    assert by_name(check_makers(a_scope(policy, nodes=[a_node()], pods=[holder]), NOW)) == {"gpu-reservation-0": Outcome.BAD}
