"""PLAT-02: what leads requests to models is accepted and programmed."""

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.kubernetes.times import unix
from fixtures.model.cluster import Scope
from fixtures.model.platform.gateways import Station, stations
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable


def check_gateways(scope: Scope) -> Iterator[Finding]:
    """One finding per InferencePool and its Gateway, per Gateway, and per class."""
    found = list(stations(scope))
    if not found:
        raise NotApplicable("NoInferencePool", "no Gateway leads to an InferencePool")
    for one in found:
        yield _judge(scope, one)


def _judge(scope: Scope, one: Station) -> Finding:
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
