"""PLAT-02: services of models are ready, and the Gateways that lead to them are programmed.

Facts: docs/facts/vendors-and-clouds.md#states-of-model-services.
"""

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.kubernetes.models import Pod
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope, subject
from fixtures.model.platform.gateways import CLASSES, GATEWAYS, POOLS, Station, stations
from fixtures.model.platform.model_services import ModelService, idle_servers, model_services
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable


def check_models(scope: Scope) -> Iterator[Finding]:
    """One finding per InferencePool and its Gateway, per Gateway, and per class; one per service of a model that asks for devices, and one
    per pod with devices whose server runs and is not ready.
    """
    read = not any(map(scope.snapshot.lacks, (CLASSES, GATEWAYS, POOLS)))
    found = [_judge_gateway(scope, one) for one in (stations(scope) if read else ())]
    found += [_judge_service(scope, one) for one in model_services(scope)]
    found += [_judge_server(scope, pod, since) for pod, since in idle_servers(scope)]
    if not found:
        raise NotApplicable("NoInferencePool", "no Gateway leads to an InferencePool, and no service of a model asks for devices")
    yield from found


def _judge_gateway(scope: Scope, one: Station) -> Finding:
    about = About(one.place, "status.conditions", f"{listed(list(one.wanted))} True")
    if one.missing:
        return about.bad(f"{one.missing}: no request reaches the models through it", cause="GatewayNotProgrammed", observed=one.missing)
    for kind in one.wanted if one.current else ():
        if one.state(kind) != "True":
            state = f"condition {kind} is {one.state(kind) or 'not set'} {one.words(kind)}".rstrip()
            limit, since = scope.policy.operators.rollout_minutes * 60, unix(one.turned(kind) or one.created)
            late = overdue(about, since, scope.snapshot.taken_at, limit, state, cause="GatewayNotProgrammed")
            if isinstance(late, Finding):
                return late
            return about.bad(f"{state}: no request reaches the models through it", cause="GatewayNotProgrammed", observed=state[:80])
    if not one.current:
        return about.undecided("its controller has not looked at its last change")
    return about.ok(", ".join(f"{kind} True" for kind in one.wanted))


def _judge_service(scope: Scope, one: ModelService) -> Finding:
    about = About(one.place, "status.conditions", ", ".join(f"{kind} {wanted}" for kind, wanted in one.wanted.items()))
    if one.stopped:
        return about.not_judged("its owner has stopped it")
    if one.told and not one.wanted.keys() & one.conditions.keys():
        return about.not_judged(f"its controller sets no condition {listed(list(one.wanted))}")
    kind = next((kind for kind, wanted in one.wanted.items() if one.state(kind) != wanted), "")
    if not kind:
        return about.ok() if one.current else about.undecided("its controller has not looked at its last change")
    state = f"condition {kind} is {one.state(kind) or 'not set'} {one.words(kind)}".rstrip()
    late = _late(scope, about, one.turned(kind) or one.created, state)
    return late or about.bad(f"{state}: what it holds or waits for serves nobody", cause="ModelNotServed", observed=state[:80])


def _judge_server(scope: Scope, pod: Pod, since: str) -> Finding:
    about, state = About(subject(pod), "pod.status.conditions", "Ready True"), "all its containers run, and the pod is not Ready"
    message = f"{state}: it holds its devices, and no Service sends it a request"
    return _late(scope, about, since, state) or about.bad(message, cause="ModelNotServed", observed="Ready False")


def _late(scope: Scope, about: About, since: str, state: str) -> Finding | None:
    """The finding about a state that is not yet old; None for one that is."""
    limit = scope.policy.requests.start_minutes * 60
    late = overdue(about, unix(since), scope.snapshot.taken_at, limit, state, cause="ModelNotServed")
    return late if isinstance(late, Finding) else None
