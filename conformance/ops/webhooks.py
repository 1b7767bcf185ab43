"""OPS-07: somebody answers for each webhook that the stack depends on, and no webhook can keep its own server from starting."""

from collections.abc import Iterator

from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope
from fixtures.model.platform.agents import is_ready
from fixtures.model.platform.webhooks import Webhook, webhooks
from fixtures.text.sentences import ask_again, listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding

_SOURCE = "webhooks[*], services, endpointslices"
_EXPECTED = "a Service with ready endpoints, a bundle of certificates in date, rules that leave out its own server and kube-system"


def check_webhooks(scope: Scope) -> Iterator[Finding]:
    """One finding per webhook of the stack: its server is the platform's, or it guards what device workloads are made of."""
    for one in webhooks(scope):
        if one.needed or (one.server[0] and scope.is_infrastructure(one.server[0])):
            yield _judge(scope, one)


def _judge(scope: Scope, one: Webhook) -> Finding:
    about, now = About(one.place, _SOURCE, _EXPECTED), scope.snapshot.taken_at
    if not one.server[1]:
        return about.not_judged(f"its server is outside the cluster: {one.url[:200] or 'no Service'}")
    service, guards = "/".join(one.server), listed([name.removeprefix("/") for name in one.guards], 4)
    outcome = f"nobody can write {guards}" if one.closed else f"{guards} are written without it, and lack what it sets or checks"
    say = about.bad if one.closed else about.advised
    if one.service is None:
        return say(f"there is no Service {service}: {outcome}", cause="WebhookWithoutEndpoint", observed=f"no Service {service}")
    if not one.ready:
        limit = scope.policy.operators.rollout_minutes * 60
        young = [age for pod in one.pods if (age := now - (unix(pod.metadata.creation_timestamp) or 0.0)) < limit and not is_ready(pod)]
        if young:
            return about.undecided(f"the pods of Service {service} are starting: {ask_again(min(young), limit)}", cause=CHANGE_UNDER_WAY)
        return say(f"no endpoint of Service {service} is ready: {outcome}", cause="WebhookWithoutEndpoint", observed="no ready endpoint")
    if one.trouble:
        return about.undecided(f"its caBundle cannot be read: {one.trouble}")
    if one.ends is None or one.ends < now:
        why = "its caBundle is empty" if one.ends is None else "all certificates of its caBundle have expired"
        return say(f"{why}, so that the API server trusts no answer: {outcome}", cause="WebhookNotTrusted", observed=why)
    if one.closed and one.own_pods:
        names = listed([pod.name for pod in one.own_pods], 2)
        message = f"it guards the pods of its own server ({names}): once all are gone, no new one can start, and {outcome}"
        return about.advised(message, cause="WebhookGuardsItself", observed=f"rules and selectors match {names}")
    if one.closed and one.vital:
        message = f"it guards {listed(one.vital)}: while nobody answers for it, nodes that fail or restart do not come back by themselves"
        return about.advised(message, cause="WebhookGuardsTheCluster", observed=listed(one.vital))
    return about.ok(f"{one.ready} ready endpoints of Service {service}")
