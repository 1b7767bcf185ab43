"""The end, on the cluster's side, of canaries that their controller replaces."""

from __future__ import annotations

from chaoslib.exceptions import ActivityFailed

from chaos.act import canary_deployment
from chaos.activities.base import create, current, own_namespace, plan_facts, poll, seconds
from chaos.cluster.requests import field, read, uid_of
from fixtures.kubernetes.models import Json

NAME = "expiry"
JOBS = "batch/jobs"


def owner() -> Json:
    """The owner reference that makes an object go at the end of the experiment's lifetime, also when nobody of us is left.

    Raises ActivityFailed when no controller has started the clock: what would live for ever is not created.
    """
    namespace = own_namespace()
    created = create(JOBS, canary_deployment.expiry(current().plan, plan_facts(), NAME), namespace)

    def started() -> bool:
        return bool(field(read(current().cluster, JOBS, NAME, namespace), "status", "startTime"))

    if not poll(started, seconds("start")):
        raise ActivityFailed(f"no controller started Job {NAME} within {seconds('start'):g} s: nothing would end what it is to end")
    return {"apiVersion": "batch/v1", "kind": "Job", "name": NAME, "uid": uid_of(created)}
