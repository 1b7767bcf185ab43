"""REQ-07: whether a ResourceQuota on a device is enforced, asked in a namespace of the suite's own."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec

from conformance.req.quantity_probe import counted_resource
from fixtures.cluster.client import Answer
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.dra.kinds import BY_CLASS, CLAIMS
from fixtures.model.dra.written_claims import api_version, claim_of
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding, ok
from fixtures.verdict.subjects import Inconclusive, Subject

QUOTA = "gpu-conformance"
HARD = 1
CONTROLLER_SECONDS = 30.0
"""How long the quota controller may take to publish ``status.hard``; it takes milliseconds where it runs."""

CACHE_SECONDS = (0.5, 1.0, 2.0)
"""Between questions while the API server's own view of quotas catches up with what its watch already showed."""

_SOURCE = "answer to a server-side dry-run"


class QuotaOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What was answered. ``published`` is whether the quota controller filled ``status.hard``."""

    resource: str
    published: bool
    within: Answer
    beyond: Answer


def quota_key(resource: str) -> str:
    """What a quota calls devices of a resource: ``requests.<name>``, or the class's own key where they are claimed.

    Facts: docs/facts/admission.md#quota.
    """
    if resource.startswith(BY_CLASS):
        return f"{resource.removeprefix(BY_CLASS)}.deviceclass.resource.k8s.io/devices"
    return f"requests.{resource}"


def quota_of(resource: str) -> Json:
    """A quota of one device."""
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": QUOTA}, "spec": {"hard": {quota_key(resource): str(HARD)}}}


def ask_quota(workspace: Workspace, scope: Scope) -> QuotaOutcome:
    """Create the quota, wait until its controller published it, then ask for what fits and for one device more."""
    resource = counted_resource(scope)
    namespace = workspace.namespace(suffix="quota")
    workspace.create("resourcequotas", quota_of(resource), namespace)
    seconds = min(scope.policy.probes.start_seconds, CONTROLLER_SECONDS)
    with Observation(workspace.cluster, "resourcequotas", namespace) as observation:
        published = _published(observation, f"{namespace}/{QUOTA}", quota_key(resource), time.monotonic() + seconds)
        beyond = _ask(workspace, scope, namespace, resource, HARD + 1)
        for pause in CACHE_SECONDS:
            if not _may_be_late(beyond):
                break
            for _ in observation.until(time.monotonic() + pause):
                pass
            beyond = _ask(workspace, scope, namespace, resource, HARD + 1)
        within = _ask(workspace, scope, namespace, resource, HARD)
    return QuotaOutcome(resource=resource, published=published, within=within, beyond=beyond)


def _published(observation: Observation, name: str, key: str, deadline: float) -> bool:
    for objects in observation.until(deadline):
        hard = ((objects.get(name) or {}).get("status") or {}).get("hard") or {}
        if key in hard:
            return True
    return False


def _may_be_late(answer: Answer) -> bool:
    return answer.ok or (answer.status == 403 and "status unknown for quota" in answer.message)


def _ask(workspace: Workspace, scope: Scope, namespace: str, resource: str, count: int) -> Answer:
    probes = scope.policy.probes
    if resource.startswith(BY_CLASS):
        return workspace.ask(CLAIMS, claim_of(resource, count, api_version(workspace.cluster.path(CLAIMS))), namespace)
    shape = PodShape(
        name=f"quota-{count}", image=probes.cpu_image, script="true", resources={resource: count}, run_as_user=probes.run_as_user
    )
    return workspace.ask("pods", probe_pod(shape), namespace)


def judge_quota(outcome: QuotaOutcome) -> Iterator[Finding]:
    """Findings for the refusal and for its control. Raises :class:`Inconclusive` when what fits is refused too."""
    resource, within, beyond = outcome.resource, outcome.within, outcome.beyond
    refused = Subject("Request", f"{HARD + 1} {resource} under a quota of {HARD}")
    expected = f"403 exceeded quota: {QUOTA}"
    late = "" if outcome.published else "; the quota controller never published status.hard"
    about = About(refused, _SOURCE, expected)
    if beyond.ok:
        message = f"one device over the quota is accepted: quotas on devices are not enforced here{late}"
        yield about.bad(message, cause="QuotaNotEnforced", observed=f"{beyond.status} accepted")
        return
    if not within.ok:
        text = f"{HARD} {resource} within the quota is refused too: {within.status} {within.message[:300]}{late}"
        raise Inconclusive("PositiveControlFailed", text)
    if beyond.status == 403 and f"exceeded quota: {QUOTA}" in beyond.message and quota_key(resource) in beyond.message:
        yield about.ok(f"403 exceeded quota: {QUOTA}")
        yield ok(
            Subject("Request", f"{HARD} {resource} under a quota of {HARD}"),
            observed=f"{within.status} accepted",
            expected="accepted",
            source=_SOURCE,
        )
    else:
        yield about.undecided(
            f"refused for another reason than the quota: {beyond.status} {beyond.reason}: {beyond.message[:300]}",
            cause="RefusedForAnotherReason",
        )
