"""OBS-05 and OBS-07: something scrapes the exporters, and autoscalers that go by metrics get them. Pure.

Facts: docs/facts/telemetry.md#metrics-for-autoscaling, docs/facts/telemetry.md#who-scrapes.
"""

from collections.abc import Iterator

from fixtures.kubernetes.models import DaemonSet
from fixtures.kubernetes.untyped import text_of
from fixtures.model.cluster import Scope, subject
from fixtures.model.platform.autoscalers import CUSTOM, EXTERNAL, Autoscaler, autoscalers
from fixtures.model.platform.containers import images_running
from fixtures.model.platform.exporters import exporter_daemonsets
from fixtures.model.platform.monitoring import (
    Monitor,
    annotated_by,
    chosen_by,
    has_own_jobs,
    monitors_of,
    prometheuses,
    target_of,
)
from fixtures.text.globs import matches
from fixtures.text.sentences import listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, bad, not_judged, ok
from fixtures.verdict.subjects import NotApplicable, Subject

_FAILED = ("FailedGetPodsMetric", "FailedGetObjectMetric", "FailedGetExternalMetric", "InvalidMetricSourceType")
_YOUNG = 300.0
_OF_HPA = "hpa.spec.metrics, hpa.status.conditions"


def check_served(scope: Scope) -> Iterator[Finding]:
    """One finding per autoscaler that goes by such metrics. Raises :class:`NotApplicable` where none does and the policy asks for none."""
    asking = autoscalers(scope)
    served = {group for group in (CUSTOM, EXTERNAL) if group in scope.snapshot.groups}
    for one in asking:
        yield _judged_autoscaler(scope, one, served)
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


def _judged_autoscaler(scope: Scope, one: Autoscaler, served: set[str]) -> Finding:
    names, missing = listed(one.wanted), sorted(set(one.wanted.values()) - served)
    about = About(Subject("HorizontalPodAutoscaler", one.name, one.namespace), _OF_HPA, f"values of {names}")
    active = one.conditions.get("ScalingActive", {})
    reason, message = text_of(active.get("reason")), text_of(active.get("message"))
    if one.holds("ScalingActive"):
        return about.ok(f"scaling by {names}")
    if missing and scope.snapshot.groups:
        text = f"it goes by {names}, and nothing serves {listed(missing)}: it never scales"
        return about.bad(text, cause="CustomMetricsNotServed", observed=reason or "no condition")
    if reason in _FAILED:
        text = f"it goes by {names} and does not get it, so it never scales: {message}"[:500]
        return about.bad(text, cause="AutoscalerWithoutMetric", observed=reason)
    if reason == "ScalingDisabled":
        return about.not_judged(f"its scaling is turned off: {message}"[:300])
    young = one.since is not None and scope.snapshot.taken_at - one.since < _YOUNG
    text = f"no condition says whether it gets {names} ({reason or 'none yet'})"
    return about.undecided(text, cause=CHANGE_UNDER_WAY if young else "NotUnderstood")


_COLLECTORS = (
    *("prometheus", "vmagent", "vmsingle", "victoria-metrics", "alloy", "agent", "grafana-agent", "telegraf", "cloudwatch-agent"),
    *("opentelemetry-collector*", "otelcol*", "*otel-collector*", "prometheus-collector*", "gke-metrics-agent", "dynatrace-oneagent"),
)
"""Base names of images of programs that collect metrics by a configuration of their own."""
_CLOUD_NAMESPACES = ("gke-managed-*", "gmp-*")
_SOURCE = "services, monitors and annotations"


def check_scraped(scope: Scope) -> Iterator[Finding]:
    """One finding per DaemonSet of an exporter. Raises :class:`NotApplicable` where there is none."""
    found = exporter_daemonsets(scope)
    if not found:
        raise NotApplicable("NoExporter", "no DaemonSet looks like an exporter of device metrics (OBS-01 judges that)")
    for daemonset, kind in found:
        if not daemonset.desired:
            yield not_judged(subject(daemonset), message="it wants no pod on any node", source="daemonset.status")
        else:
            yield _judged(scope, daemonset, [*kind.images, *kind.prefixes])


def _judged(scope: Scope, daemonset: DaemonSet, words: list[str]) -> Finding:
    target = target_of(scope, daemonset)
    monitors = list(monitors_of(scope, target))
    hits = [one for one in monitors if not one.miss]
    reading = {name for name in images_running(scope) if matches(name, _COLLECTORS)}
    chosen = [(one, reader) for one in hits for reader in chosen_by(scope, one)]
    collectors = sorted(reading - {"prometheus"} if prometheuses(scope) else reading)
    expected = "a monitor that selects its pods and that a Prometheus reads, or an annotation that a collector follows"
    about = About(subject(daemonset), _SOURCE, expected)
    if chosen:
        return about.ok(listed(f"{one}, read by {reader}" for one, reader in chosen))
    if any(matches(daemonset.namespace, (glob,)) for glob in _CLOUD_NAMESPACES):
        return about.ok("the cloud's own collection", source="daemonset.metadata.namespace")
    annotated = annotated_by(scope, daemonset, target)
    if (annotated or hits) and collectors and not prometheuses(scope):
        way = annotated or listed(hits)
        return about.ok(f"{way}, followed by {listed(collectors)}")
    own = [name for name, prometheus in prometheuses(scope).items() if has_own_jobs(prometheus)]
    if own or collectors:
        who = f"Prometheus {listed(own)} has scrape jobs of its own" if own else f"{listed(collectors)} runs"
        message = f"no monitor that somebody reads selects it; {who}, whose configuration the suite does not read"
        return about.undecided(message, cause="ScrapingUnknown")
    meant = [one for one in monitors if one.miss and _is_meant(one, words)]
    if hits:
        unread = f"{listed(hits)} selects it, and {_why_unread(scope)}"
        return about.bad(unread, cause="MonitorNotRead", observed=listed(hits))
    if meant:
        why = "; ".join(f"{one} {one.miss}" for one in meant[:3])
        message = f"nothing scrapes it: {why}"
        return about.bad(message, cause="MonitorSelectsNothing", observed=listed(meant))
    message = f"nothing scrapes it{f': {annotated} is there, and no program that follows it' if annotated else ''}"
    return about.bad(message, cause="NothingScrapes", observed=annotated or "nothing")


def _is_meant(monitor: Monitor, words: list[str]) -> bool:
    """Whether a monitor that selects nothing of the exporter is meant for it, by its name or labels."""
    text = " ".join([monitor.name, *map(str, monitor.labels.values())]).lower()
    return any(word.lower().strip("*_") in text for word in (*words, "dcgm"))


def _why_unread(scope: Scope) -> str:
    every = prometheuses(scope)
    if not every:
        return "no Prometheus object and no program that reads monitors is there"
    fields = ("serviceMonitorSelector", "serviceMonitorNamespaceSelector")
    reported = [f"{name} asks for {', '.join(f'{field} {spec.get(field)}' for field in fields)}" for name, spec in every.items()]
    return f"no Prometheus reads it: {listed(reported, 3)}"[:500]
