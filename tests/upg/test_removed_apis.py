"""UPG-01: who uses an API that the next version removes."""

from typing import Any

import pytest

from conformance.probes.server_metrics import ServerMetrics, parse
from conformance.upg.checks import check_removed_apis
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_node, a_policy, a_scope
from tests.tables import each_row

A_PAGE = 'process_start_time_seconds 1\napiserver_request_total{group="",resource="pods",verb="LIST",version="v1"} 7\n'
DRA = "resource.k8s.io"


def a_use(group: str, version: str, kind: str, removed: str, verbs: dict[str, int]) -> str:
    place = f'group="{group}",version="{version}",resource="{kind}",subresource=""'
    lines = [f'apiserver_requested_deprecated_apis{{{place},removed_release="{removed}"}} 1']
    lines += [f'apiserver_request_total{{{place},code="200",verb="{verb}"}} {count}' for verb, count in verbs.items()]
    return "\n".join(lines) + "\n"


def a_webhook(*rules: tuple[list[str], list[str], list[str]]) -> Json:
    named = [{"apiGroups": groups, "apiVersions": versions, "resources": kinds} for groups, versions, kinds in rules]
    return {"metadata": {"name": "guard"}, "webhooks": [{"name": "guard.example.com", "rules": named}]}


def judged(metrics: ServerMetrics, *hooks: Json, target: str = "", running: str = "v1.37.2", **more: Any) -> list[Finding]:
    lists = {"validatingwebhookconfigurations": list(hooks), "mutatingwebhookconfigurations": []}
    scope = a_scope(a_policy(upgrade={"target": target}), nodes=[a_node()], **lists, **more)
    scope.snapshot.version = running
    scope.snapshot.versions = {f"{DRA}/resourceslices": "v1"}
    return list(check_removed_apis(scope, lambda: metrics))


@each_row
def test_what_clients_ask_for(use: list[str], verbs: dict[str, int], target: str, outcome: Outcome) -> None:
    (finding,) = judged(parse(A_PAGE + (a_use(use[0], use[1], use[2], use[3], verbs) if use else "")), target=target)
    assert finding.outcome is outcome


@each_row
def test_rules_of_webhooks(rules: list[tuple[list[str], list[str], list[str]]], target: str, outcome: Outcome) -> None:
    finding, _ = judged(parse(A_PAGE), a_webhook(*rules), target=target)
    assert finding.outcome is outcome


def test_who_wrote_through_it_is_named_with_the_counts() -> None:
    entries = [
        {"manager": "dra-kubelet-plugin", "apiVersion": f"{DRA}/v1beta1"},
        {"manager": "kubectl", "apiVersion": f"{DRA}/v1"},
        {"manager": 3, "apiVersion": f"{DRA}/v1beta1"},
    ]
    slices = [{"metadata": {"name": "gpu-0", "managedFields": entries}}]
    metrics = parse(A_PAGE + a_use(DRA, "v1beta1", "resourceslices", "1.38", {"PUT": 5, "GET": 2}))
    (finding,) = judged(metrics, resourceslices=slices)
    assert (finding.subject.name, finding.cause) == ("resource.k8s.io/v1beta1 resourceslices", "RemovedApiInUse")
    assert "dra-kubelet-plugin" in finding.message
    assert "kubectl" not in finding.message
    assert "2 GET" in finding.observed


@pytest.mark.parametrize("text", ["", "<html>sign in</html>", 'DCGM_FI_DEV_GPU_TEMP{gpu="0"} 40\n', "apiserver_request_total{} x\n"])
def test_a_page_of_something_else_decides_nothing(text: str) -> None:
    (finding,) = judged(parse(text))
    assert finding.outcome is Outcome.UNDECIDED


def test_webhooks_are_judged_where_the_page_is_refused() -> None:
    hook = a_webhook(([DRA], ["v1beta1"], ["resourceclaims"]))
    found = judged(ServerMetrics(code="RightMissing", trouble="403 forbidden"), hook)
    assert [(one.outcome, one.cause) for one in found] == [(Outcome.BAD, "WebhookOnRemovedApi"), (Outcome.UNDECIDED, "RightMissing")]
