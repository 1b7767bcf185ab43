"""Who scrapes exporters, and what autoscalers get. Reports: docs/facts/telemetry.md#who-scrapes, #metrics-for-autoscaling."""

from typing import Any

import pytest

from conformance.obs.scraped import check_scraped, check_served
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_daemonset, a_namespace, a_pod, a_scope, a_workload
from tests.tables import each_row

APP = {"app": "nvidia-dcgm-exporter"}
RELEASE = {"release": "kube-prometheus-stack"}
PORT = {"name": "gpu-metrics", "containerPort": 9400}


def scope_with(
    monitors: list[Json], prometheuses: list[Json], *, images: tuple[str, ...] = (), annotated: bool = False, **more: Any
) -> Any:
    """A cluster with an exporter behind a Service, monitors, Prometheus objects, and pods of collectors."""
    daemonset = a_daemonset("nvidia-dcgm-exporter", containers=[{"name": "e", "image": "nvcr.io/x/dcgm-exporter:4", "ports": [PORT]}])
    daemonset.spec.template.metadata.labels = APP
    notes = {"annotations": {"prometheus.io/scrape": "true"}} if annotated else {}
    ports = [{"name": "gpu-metrics", "port": 9400, "targetPort": 9400}]
    service = {
        "metadata": {"name": "exporter", "namespace": "gpu-operator", "labels": APP, **notes},
        "spec": {"selector": APP, "ports": ports},
    }
    pods = [
        a_pod(f"c-{number}", "monitoring", containers=[{"name": "c", "image": image}], node="cpu-0") for number, image in enumerate(images)
    ]
    return a_scope(
        daemonsets=[daemonset],
        pods=pods,
        namespaces=[a_namespace("gpu-operator"), a_namespace("monitoring")],
        services=[service],
        servicemonitors=monitors,
        prometheuses=prometheuses,
    )


def monitor(labels: Json | None = None, port: str = "gpu-metrics", namespace: str = "gpu-operator", **spec: Any) -> Json:
    body = {"selector": {"matchLabels": APP}, "endpoints": [{"port": port}], **spec}
    return {"metadata": {"name": "dcgm", "namespace": namespace, "labels": labels or {}}, "spec": body}


def prometheus(selector: Json | None, around: Json | None = None, **spec: Any) -> Json:
    body = {"serviceMonitorSelector": selector, "serviceMonitorNamespaceSelector": around, **spec}
    return {"metadata": {"name": "k8s", "namespace": "monitoring"}, "spec": body}


EVERY, OWN = prometheus({}, {}), prometheus({"matchLabels": RELEASE}, {})


@pytest.mark.parametrize(
    ("monitors", "prometheuses", "more", "cause"),
    [
        ([monitor()], [EVERY], {}, ""),
        ([monitor(RELEASE)], [OWN], {}, ""),
        ([monitor(namespace="monitoring", namespaceSelector={"any": True})], [prometheus({})], {}, ""),
        ([monitor()], [OWN], {}, "MonitorNotRead"),  # gpu-operator#363
        ([monitor()], [prometheus({})], {}, "MonitorNotRead"),  # its namespace alone
        ([monitor()], [prometheus(None, {})], {}, "MonitorNotRead"),
        ([monitor()], [], {}, "MonitorNotRead"),
        ([monitor(selector={"matchLabels": {"app": "dcgm-exporter"}})], [EVERY], {}, "MonitorSelectsNothing"),
        ([monitor(port="metrics")], [EVERY], {}, "MonitorSelectsNothing"),
        ([monitor(namespace="monitoring")], [EVERY], {}, "MonitorSelectsNothing"),
        ([], [EVERY], {}, "NothingScrapes"),  # aicr#157, gpu-operator#305
        ([], [EVERY], {"annotated": True}, "NothingScrapes"),  # the operator's Prometheus follows none
        ([], [], {"annotated": True}, "NothingScrapes"),
        ([], [], {"annotated": True, "images": ("quay.io/prometheus/prometheus:v3",)}, ""),
        ([monitor()], [], {"images": ("docker.io/grafana/alloy:v1",)}, ""),
        ([], [EVERY], {"images": ("ghcr.io/open-telemetry/opentelemetry-collector-k8s:1",)}, "ScrapingUnknown"),
        ([], [prometheus({}, {}, additionalScrapeConfigs={"name": "x"})], {}, "ScrapingUnknown"),
    ],
)
def test_a_monitor_counts_if_it_selects_the_exporter_and_somebody_reads_it(
    monitors: list[Json], prometheuses: list[Json], more: dict[str, Any], cause: str
) -> None:
    (finding,) = check_scraped(scope_with(monitors, prometheuses, **more))
    wanted = Outcome.OK if not cause else Outcome.UNDECIDED if cause == "ScrapingUnknown" else Outcome.BAD
    assert (finding.outcome, finding.cause) == (wanted, cause), finding


@each_row
def test_an_autoscaler_says_whether_it_gets_its_metric(autoscaler: Json, groups: set[str], outcome: Outcome, cause: str) -> None:
    scope = a_scope(horizontalpodautoscalers=[autoscaler])
    scope.snapshot.groups = frozenset(groups)
    (finding,) = check_served(scope)
    assert (finding.outcome, finding.cause) == (outcome, cause)


def test_without_an_autoscaler_nothing_has_to_be_served_unless_the_policy_says_so() -> None:
    cpu = a_workload("HorizontalPodAutoscaler", "web", {"metrics": [{"type": "Resource", "resource": {"name": "cpu"}}]})
    with pytest.raises(NotApplicable):
        list(check_served(a_scope(horizontalpodautoscalers=[cpu])))
