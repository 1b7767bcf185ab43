"""OBS-07: autoscalers that go by metrics of pods, objects or services get them. Pure.

Facts: docs/facts/telemetry.md#metrics-for-autoscaling.
"""

from __future__ import annotations

from collections.abc import Iterator

from fixtures.kubernetes.models import Json
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import mapping, mappings, text_of
from fixtures.model.cluster import Scope
from fixtures.text.sentences import listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, Finding, bad, not_judged, ok, undecided
from fixtures.verdict.subjects import NotApplicable, Subject

AUTOSCALERS = "autoscaling/horizontalpodautoscalers"
CUSTOM, EXTERNAL = "custom.metrics.k8s.io", "external.metrics.k8s.io"
_GROUPS = {"Pods": CUSTOM, "Object": CUSTOM, "External": EXTERNAL}
_FAILED = ("FailedGetPodsMetric", "FailedGetObjectMetric", "FailedGetExternalMetric", "InvalidMetricSourceType")
_YOUNG = 300.0
_SOURCE = "hpa.spec.metrics, hpa.status.conditions"


def check_served(scope: Scope) -> Iterator[Finding]:
    """One finding per autoscaler that goes by such metrics. Raises :class:`NotApplicable` where none does and the policy asks for none."""
    asking = [(item, wanted) for item in scope.snapshot.listing(AUTOSCALERS).objects if (wanted := _wanted(item))]
    served = {group for group in (CUSTOM, EXTERNAL) if group in scope.snapshot.groups}
    for item, wanted in asking:
        yield _judged(scope, item, wanted, served)
    if scope.policy.metrics.custom and not served:
        yield bad(
            Subject("APIGroup", CUSTOM),
            cause="CustomMetricsNotServed",
            observed="not served",
            expected=f"{CUSTOM} or {EXTERNAL}",
            source="discovery",
            message="no adapter serves metrics to autoscalers, and the policy expects one (metrics.custom)",
        )
    elif served and not asking:
        yield ok(Subject("APIGroup", listed(sorted(served))), observed="served", expected="served", source="discovery")
    elif not asking:
        raise NotApplicable("NoAutoscalingByMetrics", "no autoscaler goes by custom metrics, and the policy expects none (metrics.custom)")


def _wanted(item: Json) -> dict[str, str]:
    """Names of metrics beyond CPU and memory that an autoscaler goes by, with the API group that serves each."""
    found = {}
    for metric in mappings(mapping(item.get("spec")).get("metrics")):
        kind = text_of(metric.get("type"))
        if kind in _GROUPS:
            source = mapping(metric.get({"Pods": "pods", "Object": "object", "External": "external"}[kind]))
            found[text_of(mapping(source.get("metric")).get("name")) or kind] = _GROUPS[kind]
    return found


def _judged(scope: Scope, item: Json, wanted: dict[str, str], served: set[str]) -> Finding:
    meta = mapping(item.get("metadata"))
    who = Subject("HorizontalPodAutoscaler", text_of(meta.get("name")), text_of(meta.get("namespace")))
    names, missing = listed(wanted), sorted(set(wanted.values()) - served)
    expected = f"values of {names}"
    status = {text_of(one.get("type")): one for one in mappings(mapping(item.get("status")).get("conditions"))}
    active = status.get("ScalingActive", {})
    reason, message = text_of(active.get("reason")), text_of(active.get("message"))
    if active.get("status") == "True":
        return ok(who, observed=f"scaling by {names}", expected=expected, source=_SOURCE)
    if missing and scope.snapshot.groups:
        text = f"it goes by {names}, and nothing serves {listed(missing)}: it never scales"
        return bad(who, cause="CustomMetricsNotServed", observed=reason or "no condition", expected=expected, source=_SOURCE, message=text)
    if reason in _FAILED:
        text = f"it goes by {names} and does not get it, so it never scales: {message}"[:500]
        return bad(who, cause="AutoscalerWithoutMetric", observed=reason, expected=expected, source=_SOURCE, message=text)
    if reason == "ScalingDisabled":
        return not_judged(who, message=f"its scaling is turned off: {message}"[:300], source=_SOURCE)
    made = unix(text_of(meta.get("creationTimestamp")))
    young = made is not None and scope.snapshot.taken_at - made < _YOUNG
    text = f"no condition says whether it gets {names} ({reason or 'none yet'})"
    return undecided(who, cause=CHANGE_UNDER_WAY if young else "NotUnderstood", message=text, source=_SOURCE)
