"""What becomes of an exporter that gives no page, by what the API server's proxy answers. Reports: dcgm-exporter#549, #607, #164."""

from typing import Any

import pytest

from conformance.obs.measured import check_measured, check_moving
from conformance.obs.scraping import Scraper
from conformance.probes.node_documents import NodeDocuments
from fixtures.cluster.answer import Answer
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Inconclusive
from tests.builders import a_daemonset, a_node, a_pod, a_policy, a_scope
from tests.obs.test_pages import change, later, page

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
    finding = next(one for one in check_measured(scope, scraper, NodeDocuments()) if one.subject.name == "h100-0")
    assert (finding.outcome, finding.cause) == (outcome, cause), finding


def test_without_the_right_to_the_proxy_nothing_is_judged() -> None:
    scope = scope_of()
    with pytest.raises(Inconclusive, match="forbidden"):
        list(check_measured(scope, Scraper(Served(e_0=FORBIDDEN, e_1=FORBIDDEN), scope), NodeDocuments()))  # type: ignore[arg-type]


def test_a_frozen_exporter_is_waited_for_and_named_and_a_live_one_is_not_waited_for() -> None:
    scope = scope_of(fresh=0.0)
    scraper = Scraper(Served(e_0=[GOOD, GOOD], e_1=[GOOD, page()]), scope)  # type: ignore[arg-type]
    found = {one.subject.name: (one.outcome, one.cause) for one in check_moving(scope, scraper)}
    assert found == {"h100-0": (Outcome.BAD, "SamplesFrozen"), "h100-1": (Outcome.OK, "")}
