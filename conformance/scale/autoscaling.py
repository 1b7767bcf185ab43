"""SCALE-03: autoscalers of pods with devices can go up and come down, by what they and their controllers say."""

from collections.abc import Iterator

from conformance.common_findings import overdue
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import text_of
from fixtures.model.cluster import Scope
from fixtures.model.platform.autoscalers import Autoscaler, lost_on_instances, of_devices
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

_TURNED_OFF = "ScalingDisabled"


def check_autoscaling(scope: Scope) -> Iterator[Finding]:
    """One finding for each autoscaler that goes by a metric of devices, or whose pods ask for devices."""
    found = list(of_devices(scope))
    if not found:
        raise NotApplicable("NoAutoscalerOfDevices", "no autoscaler goes by a metric of devices, and none scales pods that ask for devices")
    for one in found:
        about = About(Subject(one.kind, one.name, one.namespace), "its spec and its status", "it goes up and comes down")
        if one.fixed:
            message = f"it may have {one.least} replicas at least and {one.most} at most, so that no metric moves it"
            yield about.bad(message, cause="AutoscalerFixed", observed=f"{one.least} to {one.most} replicas")
        else:
            yield _of_keda(scope, about, one) if one.kind == "ScaledObject" else _judge(scope, about, one)


def _judge(scope: Scope, about: About, one: Autoscaler) -> Finding:
    lost = lost_on_instances(scope, one)
    active, able = one.conditions.get("ScalingActive", {}), one.conditions.get("AbleToScale", {})
    if active.get("reason") == _TURNED_OFF:
        return about.not_judged(f"its scaling is turned off: {text_of(active.get('message'))}"[:300])
    if not one.conditions:
        return about.not_judged("its controller has said nothing of it so far")
    if one.state("ScalingActive") == "False":
        cause = "MetricNotOfInstances" if lost else "AutoscalerWithoutMetric"
        cause = "AutoscalersOverlap" if active.get("reason") == "AmbiguousSelector" else cause
        return _lasting(scope, about, one, "ScalingActive", f"its replicas stay as they are: {one.words('ScalingActive')}", cause)
    if one.state("AbleToScale") == "False" and not text_of(able.get("reason")).startswith("Backoff"):
        return _lasting(
            scope, about, one, "AbleToScale", f"it cannot change the number of replicas: {one.words('AbleToScale')}", "AutoscalerUnable"
        )
    if one.rescaled is not None and one.current != one.desired:
        state = f"it asked for {one.desired} replicas and there are {one.current}"
        limit = scope.policy.requests.pending_minutes * 60
        age = overdue(about, one.rescaled, scope.snapshot.taken_at, limit, state, cause="AutoscalerNotFollowed")
        return (
            age if isinstance(age, Finding) else about.bad(state, cause="AutoscalerNotFollowed", observed=f"{one.current} of {one.desired}")
        )
    if one.state("ScalingActive") != "True":
        return about.undecided("its controller does not say whether it gets a value of its metrics")
    if lost:
        return _of_whole_gpus(about, lost)
    if one.stopped:
        message = f"its behaviour turns {' and '.join(one.stopped)} off, so that {one.target[1]} goes one way only"
        return about.advised(message, cause="AutoscalerOneWay", observed="selectPolicy Disabled")
    return about.ok(f"{one.current} replicas of {one.least} to {one.most}, ScalingActive True")


def _of_whole_gpus(about: About, metric: str) -> Finding:
    message = f"it goes by {metric}, which DCGM does not measure on MIG instances, and its pods hold nothing else: no load makes it grow"
    return about.advised(message, cause="MetricNotOfInstances", observed=metric)


def _lasting(scope: Scope, about: About, one: Autoscaler, kind: str, state: str, cause: str) -> Finding:
    """Bad once a condition has been False for longer than a metric may be missing in between."""
    limit = scope.policy.requests.pending_minutes * 60
    age = overdue(about, unix(one.turned(kind)), scope.snapshot.taken_at, limit, state[:400], cause=cause)
    return age if isinstance(age, Finding) else about.bad(state[:500], cause=cause, observed=f"{kind} False")


def _of_keda(scope: Scope, about: About, one: Autoscaler) -> Finding:
    """KEDA's conditions have no times, so that only a young object is excused."""
    if one.holds("Paused"):
        return about.not_judged("its owner has paused it")
    if one.state("Ready") == "False":
        state = f"KEDA does not scale {one.target[1]}: {one.words('Ready')}"
        age = overdue(about, one.since, scope.snapshot.taken_at, 300.0, state, cause="ScaledObjectNotReady")
        return age if isinstance(age, Finding) else about.bad(state, cause="ScaledObjectNotReady", observed="Ready False")
    if one.state("Ready") != "True":
        return about.not_judged("KEDA does not say whether it is Ready")
    if one.holds("Fallback"):
        message = "its metrics cannot be read, and it keeps the number of replicas for that case"
        return about.advised(message, cause="ScaledObjectFallsBack", observed="Fallback True")
    if lost := lost_on_instances(scope, one):
        return _of_whole_gpus(about, lost)
    return about.ok(f"Ready True, Active {one.state('Active') or 'not said'}")
