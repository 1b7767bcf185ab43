"""REQ-18 and 19: device jobs and services end and begin as others expect, and who asked for a pod is still there."""

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.pod_templates import of_tenants
from fixtures.model.demand.reserved_devices import reserves, sharers
from fixtures.model.demand.template import demand_of
from fixtures.model.jobs.pod_makers import KINDS_OF_JOBS, Job
from fixtures.model.jobs.pod_owners import maker_of
from fixtures.model.platform.monitoring import Service, services
from fixtures.text.sentences import duration, listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Subject

_NOTEBOOK = "notebook-name"
"""The label of Kubeflow's notebooks: one person uses each, who sees when it is there."""

# -- REQ-18 --------------------------------------------------------------------------------------------


def check_services_and_jobs(scope: Scope) -> Iterator[Finding]:
    """One finding per tenant's Service with live device pods behind it, and per device job of a tenant."""
    for service in services(scope):
        if service.serves and not scope.is_infrastructure(service.namespace):
            behind = [pod for pod in scope.device_pods if pod.namespace == service.namespace and service.selects(pod.metadata.label)]
            if pods := [pod for pod in behind if _NOTEBOOK not in pod.metadata.label]:
                yield _serves(scope, service, pods)
    asking = {(one.key, one.subject) for one in of_tenants(scope) if one.key in KINDS_OF_JOBS and demand_of(scope, one).devices}
    for key in KINDS_OF_JOBS:
        for job in (Job(key, obj) for obj in scope.snapshot.listing(key).objects):
            place = next((of for kind, of in asking if (kind, of.namespace, of.name) == (key, job.namespace, job.name)), None)
            if place is not None and not job.ended:
                yield _ends(scope, place, job)


def _serves(scope: Scope, service: Service, pods: list[Pod]) -> Finding:
    least = scope.policy.requests.serving_grace_seconds
    about = About(
        Subject("Service", service.name, service.namespace), "readinessProbe and terminationGracePeriodSeconds of its device pods"
    )
    about = About(about.subject, about.source, f"a readiness probe, and {least} s of grace or more")
    unready = [pod.name for pod in pods if not pod.has_readiness_probe]
    hasty = [f"{pod.name} ({pod.grace_seconds} s)" for pod in pods if pod.grace_seconds < least]
    if unready:
        message = f"no container of {listed(unready, 3)} has a readiness probe: requests go to pods that are still loading their model"
        return about.bad(message, cause="ReadinessProbeMissing", observed=f"{len(unready)} of {len(pods)} pods without a readiness probe")
    if hasty:
        message = f"its pods are killed before long requests are answered: {listed(hasty, 3)}"
        return about.bad(message, cause="GraceTooShort", observed=listed(hasty, 3))
    return about.ok(f"{len(pods)} device pods with both")


def _ends(scope: Scope, place: Subject, job: Job) -> Finding:
    wanted = scope.policy.requests.job_deadlines
    about = About(place, "activeDeadlineSeconds, backoffLimit", "a limit of retries" + (" and a deadline" if wanted else ""))
    if wanted and job.deadline is None:
        message = "it has no activeDeadlineSeconds: a job that hangs holds its devices until somebody looks"
        return about.bad(message, cause="JobWithoutDeadline", observed="no deadline")
    if job.retries_for_ever:
        message = f"its backoffLimit is {job.retries}: a job that fails at its start holds devices again and again"
        return about.bad(message, cause="JobRetriesForEver", observed=f"backoffLimit {job.retries}")
    retries = "retries as its kind has them" if job.retries is None else f"backoffLimit {job.retries}"
    return about.ok(retries + (f", {duration(job.deadline)}" if job.deadline is not None else ""))


# -- REQ-19 --------------------------------------------------------------------------------------------


def check_makers(scope: Scope, now: float) -> Iterator[Finding]:
    """One finding per bound pod that holds devices: what made it is there, and a reservation of a scheduler has somebody who shares it."""
    for pod in scope.device_pods:
        if pod.node_name and not pod.metadata.deletion_timestamp:
            yield _asked_for(scope, pod, now)


def _asked_for(scope: Scope, pod: Pod, now: float) -> Finding:
    about = About(subject(pod), "metadata.ownerReferences, labels that name a job", "the object that made it, or nobody")
    limit, since = scope.policy.requests.end_minutes * 60, unix(pod.metadata.creation_timestamp)
    maker = maker_of(scope, pod)
    if reserves(scope, pod) and not sharers(scope, pod):
        state, cause = "it reserves a device and no pod on its node shares it", "ReservationUnused"
    elif maker.gone:
        state, cause = f"{maker.words} is not there any more", "MakerGone"
    else:
        return about.ok(maker.words) if maker.known else about.not_judged(maker.words)
    age = overdue(about, since, now, limit, f"{state}; the pod is", cause=cause, quiet=True)
    if isinstance(age, Finding):
        return age
    message = f"{state}, and the pod holds its devices on {pod.node_name}: nobody waits for what it does"
    return about.bad(message, cause=cause, observed=state)
