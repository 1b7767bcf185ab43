"""OBS-05 and OBS-07: something scrapes the exporters, and autoscalers that go by metrics get them. Pure.

Facts: docs/facts/telemetry.md#metrics-for-autoscaling, docs/facts/telemetry.md#who-scrapes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from conformance.obs.scraping import exporter_daemonsets
from fixtures.kubernetes.labels import selects
from fixtures.kubernetes.models import Container, DaemonSet, Json
from fixtures.kubernetes.times import unix
from fixtures.kubernetes.untyped import mapping, mappings, sequence, text_of
from fixtures.model.cluster import Scope, matches, subject
from fixtures.model.platform.components import base_name
from fixtures.text.sentences import listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, Finding, bad, not_judged, ok, undecided
from fixtures.verdict.subjects import NotApplicable, Subject

AUTOSCALERS = "autoscaling/horizontalpodautoscalers"
CUSTOM, EXTERNAL = "custom.metrics.k8s.io", "external.metrics.k8s.io"
_GROUPS = {"Pods": CUSTOM, "Object": CUSTOM, "External": EXTERNAL}
_FAILED = ("FailedGetPodsMetric", "FailedGetObjectMetric", "FailedGetExternalMetric", "InvalidMetricSourceType")
_YOUNG = 300.0
_OF_HPA = "hpa.spec.metrics, hpa.status.conditions"


def check_served(scope: Scope) -> Iterator[Finding]:
    """One finding per autoscaler that goes by such metrics. Raises :class:`NotApplicable` where none does and the policy asks for none."""
    asking = [(item, wanted) for item in scope.snapshot.listing(AUTOSCALERS).objects if (wanted := _wanted(item))]
    served = {group for group in (CUSTOM, EXTERNAL) if group in scope.snapshot.groups}
    for item, wanted in asking:
        yield _judged_autoscaler(scope, item, wanted, served)
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


def _judged_autoscaler(scope: Scope, item: Json, wanted: dict[str, str], served: set[str]) -> Finding:
    meta = mapping(item.get("metadata"))
    who = Subject("HorizontalPodAutoscaler", text_of(meta.get("name")), text_of(meta.get("namespace")))
    names, missing = listed(wanted), sorted(set(wanted.values()) - served)
    expected = f"values of {names}"
    status = {text_of(one.get("type")): one for one in mappings(mapping(item.get("status")).get("conditions"))}
    active = status.get("ScalingActive", {})
    reason, message = text_of(active.get("reason")), text_of(active.get("message"))
    if active.get("status") == "True":
        return ok(who, observed=f"scaling by {names}", expected=expected, source=_OF_HPA)
    if missing and scope.snapshot.groups:
        text = f"it goes by {names}, and nothing serves {listed(missing)}: it never scales"
        return bad(who, cause="CustomMetricsNotServed", observed=reason or "no condition", expected=expected, source=_OF_HPA, message=text)
    if reason in _FAILED:
        text = f"it goes by {names} and does not get it, so it never scales: {message}"[:500]
        return bad(who, cause="AutoscalerWithoutMetric", observed=reason, expected=expected, source=_OF_HPA, message=text)
    if reason == "ScalingDisabled":
        return not_judged(who, message=f"its scaling is turned off: {message}"[:300], source=_OF_HPA)
    made = unix(text_of(meta.get("creationTimestamp")))
    young = made is not None and scope.snapshot.taken_at - made < _YOUNG
    text = f"no condition says whether it gets {names} ({reason or 'none yet'})"
    return undecided(who, cause=CHANGE_UNDER_WAY if young else "NotUnderstood", message=text, source=_OF_HPA)


_OPERATOR, _GOOGLE, _VICTORIA = "monitoring.coreos.com", "monitoring.googleapis.com", "operator.victoriametrics.com"
SERVICE_MONITORS = (f"{_OPERATOR}/servicemonitors", f"{_VICTORIA}/vmservicescrapes")
POD_MONITORS = (
    f"{_OPERATOR}/podmonitors",
    f"{_VICTORIA}/vmpodscrapes",
    f"{_GOOGLE}/podmonitorings",
    f"{_GOOGLE}/clusterpodmonitorings",
)
PROMETHEUSES = (f"{_OPERATOR}/prometheuses", f"{_OPERATOR}/prometheusagents")
_READ_BY_ITS_OPERATOR = (f"{_GOOGLE}/", f"{_VICTORIA}/")

_ANNOTATIONS = ("prometheus.io/scrape", "k8s.grafana.com/scrape")
_COLLECTORS = (
    *("prometheus", "vmagent", "vmsingle", "victoria-metrics", "alloy", "agent", "grafana-agent", "telegraf", "cloudwatch-agent"),
    *("opentelemetry-collector*", "otelcol*", "*otel-collector*", "prometheus-collector*", "gke-metrics-agent", "dynatrace-oneagent"),
)
"""Base names of images of programs that collect metrics by a configuration of their own."""
_CLOUD_NAMESPACES = ("gke-managed-*", "gmp-*")
_SOURCE = "services, monitors and annotations"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a monitor has to select: the pods of one exporter, and the Services before them by name with labels and port names."""

    namespace: str
    labels: Mapping[str, str]
    ports: frozenset[str]
    services: Mapping[str, tuple[Mapping[str, str], frozenset[str]]]


class Monitor(msgspec.Struct, frozen=True, kw_only=True):
    """An object that tells a Prometheus what to scrape. ``miss`` says why it selects nothing of an exporter, as a clause."""

    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    own_operator: bool
    miss: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}".replace(" /", " ")


def check_scraped(scope: Scope) -> Iterator[Finding]:
    """One finding per DaemonSet of an exporter. Raises :class:`NotApplicable` where there is none."""
    found = exporter_daemonsets(scope)
    if not found:
        raise NotApplicable("NoExporter", "no DaemonSet looks like an exporter of device metrics (OBS-01 judges that)")
    for daemonset, kind in found:
        if not daemonset.status.desired_number_scheduled:
            yield not_judged(subject(daemonset), message="it wants no pod on any node", source="daemonset.status")
        else:
            yield _judged(scope, daemonset, [*kind.images, *kind.prefixes])


def _judged(scope: Scope, daemonset: DaemonSet, words: list[str]) -> Finding:
    target = _target(scope, daemonset)
    monitors = list(_monitors(scope, target))
    hits, reading = [one for one in monitors if not one.miss], _readers(scope)
    chosen = [(one, reader) for one in hits for reader in _chosen_by(scope, one)]
    collectors = sorted(reading - {"prometheus"} if _prometheuses(scope) else reading)
    expected = "a monitor that selects its pods and that a Prometheus reads, or an annotation that a collector follows"
    if chosen:
        return ok(
            subject(daemonset), observed=listed(f"{one}, read by {reader}" for one, reader in chosen), expected=expected, source=_SOURCE
        )
    if any(matches(daemonset.namespace, (glob,)) for glob in _CLOUD_NAMESPACES):
        return ok(subject(daemonset), observed="the cloud's own collection", expected=expected, source="daemonset.metadata.namespace")
    annotated = _annotated(scope, daemonset, target)
    if (annotated or hits) and collectors and not _prometheuses(scope):
        way = annotated or listed(hits)
        return ok(subject(daemonset), observed=f"{way}, followed by {listed(collectors)}", expected=expected, source=_SOURCE)
    own = [name for name, prometheus in _prometheuses(scope).items() if _has_own_jobs(prometheus)]
    if own or collectors:
        who = f"Prometheus {listed(own)} has scrape jobs of its own" if own else f"{listed(collectors)} runs"
        message = f"no monitor that somebody reads selects it; {who}, whose configuration the suite does not read"
        return undecided(subject(daemonset), cause="ScrapingUnknown", message=message, source=_SOURCE)
    meant = [one for one in monitors if one.miss and _is_meant(one, words)]
    if hits:
        unread = f"{listed(hits)} selects it, and {_why_unread(scope)}"
        return bad(subject(daemonset), cause="MonitorNotRead", observed=listed(hits), expected=expected, source=_SOURCE, message=unread)
    if meant:
        why = "; ".join(f"{one} {one.miss}" for one in meant[:3])
        message = f"nothing scrapes it: {why}"
        return bad(
            subject(daemonset), cause="MonitorSelectsNothing", observed=listed(meant), expected=expected, source=_SOURCE, message=message
        )
    message = f"nothing scrapes it{f': {annotated} is there, and no program that follows it' if annotated else ''}"
    return bad(
        subject(daemonset), cause="NothingScrapes", observed=annotated or "nothing", expected=expected, source=_SOURCE, message=message
    )


def _target(scope: Scope, daemonset: DaemonSet) -> Target:
    template = daemonset.spec.template
    labels = template.metadata.label
    names = {text_of(port.get("name")): port for container in template.spec.containers for port in container.ports or ()}
    services = {}
    for item in scope.snapshot.listing("services").objects:
        meta, spec = mapping(item.get("metadata")), mapping(item.get("spec"))
        wanted = mapping(spec.get("selector"))
        if meta.get("namespace") == daemonset.namespace and wanted and all(labels.get(key) == value for key, value in wanted.items()):
            ports = frozenset(
                text_of(port.get("name")) for port in mappings(spec.get("ports")) if _lands(port, names, template.spec.containers)
            )
            services[text_of(meta.get("name"))] = (mapping(meta.get("labels")), ports)
    return Target(namespace=daemonset.namespace, labels=labels, ports=frozenset(names), services=services)


def _lands(port: Json, names: Mapping[str, Json], containers: Iterable[Container]) -> bool:
    """Whether a port of a Service leads to a port of the exporter: one that containers do not name may lead there too."""
    there = port.get("targetPort", port.get("port"))
    return there in names if isinstance(there, str) else not names or any(one.get("containerPort") == there for one in names.values())


def _monitors(scope: Scope, target: Target) -> Iterator[Monitor]:
    for key in (*SERVICE_MONITORS, *POD_MONITORS):
        listing = scope.snapshot.listing(key)
        for item in listing.objects:
            meta, spec = mapping(item.get("metadata")), mapping(item.get("spec"))
            made = Monitor(
                kind=listing.kind or key.rpartition("/")[2],
                namespace=text_of(meta.get("namespace")),
                name=text_of(meta.get("name")),
                labels=mapping(meta.get("labels")),
                own_operator=key.startswith(_READ_BY_ITS_OPERATOR),
            )
            yield msgspec.structs.replace(made, miss=_miss(made, spec, target, of_pods=key in POD_MONITORS))


def _miss(monitor: Monitor, spec: Json, target: Target, *, of_pods: bool) -> str:
    spaces = mapping(spec.get("namespaceSelector"))
    names = [text_of(one) for one in sequence(spaces.get("matchNames"))] or ([monitor.namespace] if monitor.namespace else [])
    if names and not spaces.get("any") and target.namespace not in names:
        return f"looks in {listed(names)}, and its pods are in {target.namespace}"
    selector = mapping(spec.get("selector"))
    endpoints = [one for field in ("endpoints", "podMetricsEndpoints") for one in mappings(spec.get(field))]
    asked = {text_of(one.get("port")) for one in endpoints if one.get("port")}
    if of_pods:
        if not selects(selector, target.labels):
            return "selects none of its pods by their labels"
        return _port_miss(asked, target.ports, "its pods have")
    chosen = {name: ports for name, (labels, ports) in target.services.items() if selects(selector, labels)}
    if not chosen:
        return f"selects no Service of it by its labels (there is {listed(sorted(target.services)) or 'none'})"
    return _port_miss(asked, {port for ports in chosen.values() for port in ports}, f"Service {listed(sorted(chosen))} has")


def _port_miss(asked: set[str], ports: Collection[str], who: str) -> str:
    if not asked or asked & set(ports):
        return ""
    return f"asks for port {listed(sorted(asked))}, and {who} {listed(sorted(ports)) or 'none that leads there'}"


def _is_meant(monitor: Monitor, words: list[str]) -> bool:
    """Whether a monitor that selects nothing of the exporter is meant for it, by its name or labels."""
    text = " ".join([monitor.name, *map(str, monitor.labels.values())]).lower()
    return any(word.lower().strip("*_") in text for word in (*words, "dcgm"))


def _prometheuses(scope: Scope) -> dict[str, Json]:
    found = {}
    for key in PROMETHEUSES:
        for item in scope.snapshot.listing(key).objects:
            meta = mapping(item.get("metadata"))
            found[f"{text_of(meta.get('namespace'))}/{text_of(meta.get('name'))}"] = mapping(item.get("spec"))
    return found


def _has_own_jobs(prometheus: Json) -> bool:
    return bool(prometheus.get("additionalScrapeConfigs") or prometheus.get("scrapeConfigSelector"))


def _chosen_by(scope: Scope, monitor: Monitor) -> Iterator[str]:
    """Who reads a monitor: its own operator, or each Prometheus whose selectors choose it."""
    if monitor.own_operator:
        yield "its operator"
        return
    field = "serviceMonitor" if "service" in monitor.kind.lower() else "podMonitor"
    spaces = {item.name: item.metadata.label for item in scope.snapshot.listing("namespaces").items}
    for name, spec in _prometheuses(scope).items():
        wanted, around = spec.get(f"{field}Selector"), spec.get(f"{field}NamespaceSelector")
        if not isinstance(wanted, dict) or not selects(wanted, monitor.labels):
            continue  # without a selector none is chosen
        own = name.partition("/")[0] == monitor.namespace
        if own if not isinstance(around, dict) else selects(around, spaces.get(monitor.namespace, {})):
            yield f"Prometheus {name}"


def _why_unread(scope: Scope) -> str:
    every = _prometheuses(scope)
    if not every:
        return "no Prometheus object and no program that reads monitors is there"
    fields = ("serviceMonitorSelector", "serviceMonitorNamespaceSelector")
    said = [f"{name} asks for {', '.join(f'{field} {spec.get(field)}' for field in fields)}" for name, spec in every.items()]
    return f"no Prometheus reads it: {listed(said, 3)}"[:500]


def _annotated(scope: Scope, daemonset: DaemonSet, target: Target) -> str:
    own = daemonset.spec.template.metadata.annotation
    services = [item for item in scope.snapshot.listing("services").objects if mapping(item.get("metadata")).get("name") in target.services]
    for found in (own, *(mapping(item, "metadata", "annotations") for item in services)):
        for key in _ANNOTATIONS:
            if text_of(found.get(key)).lower() == "true":
                return f"annotation {key}"
        if any(key.startswith("ad.datadoghq.com/") for key in found):
            return "annotation ad.datadoghq.com"
    return ""


def _readers(scope: Scope) -> set[str]:
    """Base names of images of collectors that run."""
    running = (pod for pod in scope.snapshot.pods if not pod.finished)
    images = {base_name(container.image) for pod in running for container in pod.spec.containers}
    return {name for name in images if matches(name, _COLLECTORS)}
