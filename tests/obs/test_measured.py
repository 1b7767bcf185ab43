"""What exporters measure and who is idle; and what becomes of one that gives no page. Reports: dcgm-exporter#549, #607, #164."""

import re
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.obs.idle import check_idle
from conformance.obs.measured import check_measured, check_moving
from conformance.obs.page import read_page
from conformance.obs.scraped import check_scraped, check_served
from conformance.obs.scraping import Scrape, Scraper
from conformance.outputs.dcgm import Sample
from fixtures.cluster.answer import Answer
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.model.platform.exporters import Exporter, kinds
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.builders import a_daemonset, a_namespace, a_node, a_pod, a_policy, a_scope, a_workload
from tests.obs.test_owners import labelled
from tests.obs.test_pages import change, later, page, uuid
from tests.tables import each_row

REFUSED = ApiTrouble("ServiceUnavailable", "503 error trying to reach service: dial tcp 10.0.0.9:9400: connect: connection refused")
TIMEOUT = ApiTrouble("Timeout", "GET …/proxy/metrics: no complete answer within 15 s")
LARGE = ApiTrouble("TooLarge", "GET …/proxy/metrics: the answer is larger than 8 MiB")
SIGN_IN = ApiTrouble("Unreadable", "GET …/proxy/metrics: a page instead of text: <html>")
GONE = Answer(status=404, body=b'{"kind":"Status","apiVersion":"v1","code":404,"message":"pods \\"e-0\\" not found"}')
FORBIDDEN = Answer(status=403, body=b'{"kind":"Status","apiVersion":"v1","code":403,"message":"pods is forbidden"}')


class Served:
    """A cluster whose exporters answer in turn, by node."""

    def __init__(self, **by_node: Any) -> None:
        self.by_node = by_node

    def request(self, _method: str, path: str, **_: Any) -> Answer:
        pod = path.split("/pods/")[1].removeprefix("https:").partition(":")[0]
        answers = self.by_node[pod.replace("-", "_")]
        answer = answers.pop(0) if isinstance(answers, list) and len(answers) > 1 else answers[0] if isinstance(answers, list) else answers
        if isinstance(answer, ApiTrouble):
            raise answer
        return answer if isinstance(answer, Answer) else Answer(status=200, body=str(answer).encode())


def scope_of(*nodes: Json, exporters: int = 2, fresh: float = 120.0) -> Any:
    """Two nodes with four devices each, and an exporter's pod on as many of them."""
    daemonset = a_daemonset("nvidia-dcgm-exporter", desired=2, containers=[{"name": "e", "image": "x/dcgm-exporter:4"}])
    names = [f"h100-{number}" for number in range(2)]
    built = [a_node(name, gpus=4, **(nodes[0] if nodes and number == 0 else {})) for number, name in enumerate(names)]
    pods = [a_pod(f"e-{number}", "gpu-operator", node=names[number], owner="DaemonSet/nvidia-dcgm-exporter") for number in range(exporters)]
    for pod in pods:
        pod.metadata.owner_references[0].uid = "uid-nvidia-dcgm-exporter"  # type: ignore[index]
    return a_scope(a_policy(metrics={"freshSeconds": fresh}), nodes=built, daemonsets=[daemonset], pods=pods)


GOOD = page()
PERCENT = change(r"^(DCGM_FI_DEV_GPU_UTIL_RATIO.*}) .*$", r"\g<1> 87")(later(GOOD))
WITHOUT_TLS = Answer(status=400, body=b"Client sent an HTTP request to an HTTPS server.\n")  # dcgm-exporter#209


@pytest.mark.parametrize(
    ("first", "second", "more", "outcome", "cause"),
    [
        (GOOD, GOOD.replace("GPU-", "GPU-a"), {}, Outcome.OK, ""),
        (later(GOOD), GOOD.replace("GPU-", "GPU-a"), {}, Outcome.OK, ""),  # the exporters are being upgraded to 4.9
        (GOOD, later(GOOD.replace("GPU-", "GPU-a")), {}, Outcome.OK, ""),
        (PERCENT, GOOD.replace("GPU-", "GPU-a"), {}, Outcome.BAD, "MetricImplausible"),
        (REFUSED, GOOD, {}, Outcome.BAD, "MetricsNotServed"),
        ([TIMEOUT, GOOD], GOOD.replace("GPU-", "GPU-a"), {}, Outcome.OK, ""),  # one answer was lost on the way
        ([WITHOUT_TLS, GOOD], GOOD.replace("GPU-", "GPU-a"), {}, Outcome.OK, ""),
        ([WITHOUT_TLS, WITHOUT_TLS], GOOD, {}, Outcome.BAD, "MetricsNotServed"),
        (Answer(status=500, body=b"collector failed"), GOOD, {}, Outcome.BAD, "MetricsNotServed"),
        ("", GOOD, {}, Outcome.BAD, "MetricsUnreadable"),  # dcgm-exporter#549: nothing on an idle node
        (SIGN_IN, GOOD, {}, Outcome.BAD, "MetricsUnreadable"),
        (GOOD[:-30], GOOD, {}, Outcome.BAD, "MetricsUnreadable"),
        (TIMEOUT, GOOD, {}, Outcome.BAD, "MetricsNotServed"),  # dcgm-exporter#607: this one is too slow
        (TIMEOUT, TIMEOUT, {}, Outcome.UNDECIDED, "ExportersNotReached"),  # a network policy that lets Prometheus in alone
        (SIGN_IN, "[[]]", {}, Outcome.UNDECIDED, "ExportersNotReached"),  # a proxy before the API server
        (Answer(status=401, body=b"Unauthorized"), GOOD, {}, Outcome.UNDECIDED, "NotUnderstood"),
        (LARGE, GOOD, {}, Outcome.UNDECIDED, "NotUnderstood"),  # a Prometheus has no such bound
        (GONE, GOOD, {}, Outcome.UNDECIDED, "ChangeUnderWay"),
        (GOOD, GOOD, {"node": {"cordoned": True}}, Outcome.BAD, "DeviceOfOtherNode"),  # the same page twice: two nodes, one host engine
        (REFUSED, GOOD, {"node": {"cordoned": True}}, Outcome.NOT_JUDGED, ""),
        (REFUSED, GOOD, {"node": {"labels": {"kubernetes.azure.com/dcgm-exporter": "enabled"}}}, Outcome.NOT_JUDGED, ""),
        (GOOD, GOOD, {"exporters": 0}, Outcome.BAD, "ExporterMissing"),
    ],
    ids=map(str, range(99)),
)
def test_an_exporter_without_a_page_is_reported_from_a_network_that_is_closed(
    first: Any, second: Any, more: dict[str, Any], outcome: Outcome, cause: str
) -> None:
    scope = scope_of(*([more["node"]] if "node" in more else []), exporters=more.get("exporters", 2))
    scraper = Scraper(Served(e_0=first, e_1=second), scope)  # type: ignore[arg-type]
    finding = next(one for one in check_measured(scope, scraper, {}) if one.subject.name == "h100-0")
    assert (finding.outcome, finding.cause) == (outcome, cause), finding


def test_without_the_right_to_the_proxy_nothing_is_judged() -> None:
    scope = scope_of()
    with pytest.raises(Inconclusive, match="forbidden"):
        list(check_measured(scope, Scraper(Served(e_0=FORBIDDEN, e_1=FORBIDDEN), scope), {}))  # type: ignore[arg-type]


def test_a_frozen_exporter_is_waited_for_and_named_and_a_live_one_is_not_waited_for() -> None:
    scope = scope_of(fresh=0.0)
    scraper = Scraper(Served(e_0=[GOOD, GOOD], e_1=[GOOD, page()]), scope)  # type: ignore[arg-type]
    found = {one.subject.name: (one.outcome, one.cause) for one in check_moving(scope, scraper)}
    assert found == {"h100-0": (Outcome.BAD, "SamplesFrozen"), "h100-1": (Outcome.OK, "")}


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


DAY = 86_400.0


def judged(*, hours: float, activity: float = 0.0, used: int = 4, ask: Any = None, form: Any = str) -> Finding:
    """A pod that has held GPU 0 for some hours, which shows an activity and memory in use now."""
    text = re.sub(r'^(DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0".*}).*', rf"\g<1> {activity}", labelled(page(), 0), flags=re.MULTILINE)
    text = re.sub(r'^(DCGM_FI_DEV_FB_USED{gpu="0".*}).*', rf"\g<1> {used}", text, flags=re.MULTILINE)
    started = f"2026-09-{21 - int(hours // 24):02d}T{13 - int(hours % 24):02d}:33:20Z"  # snapshots of tests are of 2026-09-21 13:33:20
    pod = a_pod("train-0", devices=1, node="gpu-0", status={"startTime": started})
    scope = a_scope(a_policy(metrics={"idleHours": 24}), nodes=[a_node("gpu-0")], pods=[pod])
    one = Scrape(exporter=Exporter(node="gpu-0", pod=a_pod("dcgm", "gpu-operator"), kind=kinds()[0]), at=0.0, page=read_page(form(text)))
    (finding,) = check_idle(scope, SimpleNamespace(pages=lambda: {"gpu-0": one}), ask)  # type: ignore[arg-type]
    return finding


def prometheus_of_idle(most: float, seconds: float) -> Any:
    """What a Prometheus knows of GPU 0."""

    def ask(query: str) -> list[Sample]:
        value = seconds if query.startswith("time()") else most
        return [Sample("", {"UUID": uuid(0)}, value)] if "GR_ENGINE" in query else []

    return ask


@each_row
def test_idleness_needs_a_history_or_a_device_that_nobody_opened(seen: dict[str, Any], outcome: Outcome) -> None:
    finding = judged(**seen)
    assert finding.outcome is outcome, finding
    assert outcome is not Outcome.BAD or uuid(0) in finding.message


def test_a_history_is_asked_for_by_both_names_and_in_the_unit_of_each() -> None:
    def ask(query: str, name: str, most: float) -> list[Sample]:
        value = 86_400.0 if query.startswith("time()") else most
        return [Sample("", {"UUID": uuid(0)}, value)] if name in re.findall(r"\w+", query) else []

    for name, most in (("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 0.4), ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.4), ("DCGM_FI_DEV_GPU_UTIL", 40)):
        assert judged(hours=72, form=later, ask=partial(ask, name=name, most=most)).outcome is Outcome.OK
        assert judged(hours=72, form=later, ask=partial(ask, name=name, most=0.0)).outcome is Outcome.BAD
    assert judged(hours=72, form=later, ask=partial(ask, name="DCGM_FI_DEV_GPU_UTIL_RATIO", most=0.004)).outcome is Outcome.BAD


def test_work_and_memory_are_known_by_the_new_names() -> None:
    assert judged(hours=72, form=later).outcome is Outcome.UNDECIDED
    assert judged(hours=72, form=later, activity=0.4).outcome is Outcome.OK
    assert judged(hours=72, form=later, used=40_000).outcome is Outcome.NOT_JUDGED
