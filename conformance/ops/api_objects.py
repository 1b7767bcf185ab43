"""OPS-07 to 10 and 14: webhooks, definitions, deliveries, RuntimeClasses, and what admission says of agents."""

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope, subject
from fixtures.model.platform.agent_admission import admissions
from fixtures.model.platform.agents import is_ready
from fixtures.model.platform.definitions import Definition, definitions
from fixtures.model.platform.gitops import deliveries
from fixtures.model.platform.runtime_classes import Use, uses
from fixtures.model.platform.webhooks import Webhook, webhooks
from fixtures.text.sentences import ask_again, listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

_WEBHOOKS_SOURCE = "webhooks[*], services, endpointslices"
_WEBHOOKS_EXPECTED = "a Service with ready endpoints, a bundle of certificates in date, rules that leave out its own server and kube-system"


def check_webhooks(scope: Scope) -> Iterator[Finding]:
    """One finding per webhook of the stack: its server is the platform's, or it guards what device workloads are made of."""
    for one in webhooks(scope):
        if one.needed or (one.server[0] and scope.is_infrastructure(one.server[0])):
            yield _judge_webhook(scope, one)


def _judge_webhook(scope: Scope, one: Webhook) -> Finding:
    about, now = About(one.place, _WEBHOOKS_SOURCE, _WEBHOOKS_EXPECTED), scope.snapshot.taken_at
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


_DEFINITIONS_SOURCE = "customresourcedefinitions: spec.versions, status.storedVersions, status.conditions"


def check_definitions(scope: Scope) -> Iterator[Finding]:
    """One finding per definition of a group of the stack."""
    found = list(definitions(scope))
    if not found:
        raise NotApplicable("NoDefinition", "no custom kind of the stack is defined")
    for one in found:
        yield _judge_definitions(scope, one)


def _judge_definitions(scope: Scope, one: Definition) -> Finding:
    observed = f"served: {listed(list(one.served), 5) or 'none'}; stored: {listed(list(one.stored), 5) or 'none'}"
    expected = "Established, names accepted, and every stored version served"
    about = About(Subject("CustomResourceDefinition", one.name), _DEFINITIONS_SOURCE, expected, observed=observed)
    if not one.conditions:
        return about.undecided("the API server has not looked at it yet: it has no conditions")
    for kind in ("NamesAccepted", "Established"):
        if one.state(kind) in ("False", "Unknown"):
            state = f"condition {kind} is {one.state(kind)} {one.words(kind)}".rstrip()
            since, limit = unix(one.turned(kind) or one.created), scope.policy.operators.rollout_minutes * 60
            late = overdue(about, since, scope.snapshot.taken_at, limit, state, cause="DefinitionNotEstablished")
            if isinstance(late, Finding):
                return late
            return about.bad(
                f"{state}: the API server does not serve the kind, and its controller cannot start", cause="DefinitionNotEstablished"
            )
    if stale := [version for version in one.stored if version not in one.served]:
        message = (
            f"objects may be stored as {listed(stale)}, which is not served: the API server refuses the release that drops the version"
        )
        return about.bad(message, cause="StoredVersionNotServed")
    return about.ok()


def check_deliveries(scope: Scope) -> Iterator[Finding]:
    """One finding per Application, HelmRelease or Kustomization of the stack."""
    found = list(deliveries(scope))
    if not found:
        raise NotApplicable("NoDelivery", "no object of Argo CD or Flux delivers a part of the stack")
    for one in found:
        about = About(one.place, "status", "Synced and Healthy (Argo CD), Ready True (Flux)", observed=one.observed)
        if one.suspended:
            yield about.advised("it is suspended: what somebody changes in the cluster stays changed", cause="DeliverySuspended")
        elif one.unknown:
            yield about.undecided(f"{one.observed}: its controller cannot compare it or does not know its health")
        elif one.good and one.follows:
            message = f"it follows {listed(one.follows)}: the next release is installed when it appears, and may drain nodes at work"
            yield about.advised(message, cause="VersionNotPinned", observed=listed(one.follows))
        elif one.good:
            yield about.ok()
        else:
            limit, now = scope.policy.operators.rollout_minutes * 60, scope.snapshot.taken_at
            late = overdue(about, one.since, now, limit, one.observed, cause="NotAsDelivered") if one.good is None else None
            message = f"{one.observed}: {one.fault}"
            yield late if isinstance(late, Finding) else about.bad(message, cause="NotAsDelivered")


_RUNTIME_CLASSES_SOURCE = "runtimeClassName, RuntimeClasses, node.status.runtimeHandlers"


def check_runtime_classes(scope: Scope) -> Iterator[Finding]:
    """One finding per RuntimeClass that a device pod, an agent or the operator's object names."""
    found = uses(scope)
    if not found:
        raise NotApplicable("NoRuntimeClass", "no device pod, no agent and no operator's object names a RuntimeClass")
    for one in found:
        yield _judge_runtime_classes(one)


def _judge_runtime_classes(one: Use) -> Finding:
    about = About(Subject("RuntimeClass", one.name), _RUNTIME_CLASSES_SOURCE, "a RuntimeClass, and its handler on the nodes of its pods")
    users = listed(one.users, 3)
    if one.handler is None:
        message = f"there is no RuntimeClass {one.name}: the API server refuses the pods of {users}"
        return about.bad(message, cause="RuntimeClassMissing", observed=f"named by {users}")
    if one.without:
        nodes = listed(one.without, 4)
        message = f"the container runtime of {nodes} has no handler {one.handler}: pods of {users} stay in ContainerCreating there"
        return about.bad(message, cause="RuntimeHandlerMissing", observed=f"no handler {one.handler} on {nodes}")
    if one.changing:
        message = f"{listed(one.changing, 4)} lacks handler {one.handler} and is being changed: agents add it to a node that joins"
        return about.undecided(message, cause=CHANGE_UNDER_WAY)
    return about.ok(f"handler {one.handler}{f' on {len(one.having)} nodes' if one.having else ''}; named by {users}")


_ADMISSION_SOURCE = "spec.template, labels and quotas of the namespace, PriorityClasses"


def check_admission(scope: Scope) -> Iterator[Finding]:
    """One finding per agent DaemonSet."""
    found = list(admissions(scope))
    if not found:
        raise NotApplicable("NoAgent", "no agent of the stack is installed")
    for one in found:
        about = About(
            subject(one.agent.daemonset), _ADMISSION_SOURCE, f"a template that {one.level}, its priority class and the quotas admit"
        )
        if one.violations:
            words = listed(list(one.violations), 3)
            message = f"its namespace enforces {one.level}, which refuses its next pod: {words}; pods that run stay until they are replaced"
            yield about.bad(message[:600], cause="AgentNotAdmitted", observed=words[:600])
        elif one.missing:
            message = f"PriorityClass {one.missing} is not there, so that its next pod is refused"
            yield about.bad(message, cause="AgentNotAdmitted", observed=f"no PriorityClass {one.missing}")
        elif one.full:
            message = f"there is no room for another pod of it: {one.full}; a node that joins gets none"
            yield about.bad(message[:600], cause="AgentNotAdmitted", observed=one.full[:600])
        else:
            yield about.ok()
