"""OPS-14: whether agents would be admitted again."""

from typing import Any

import msgspec
import pytest

from conformance.ops.api_objects import check_admission
from fixtures.kubernetes.models import ResourceQuota
from fixtures.verdict.findings import Outcome
from tests.builders import a_daemonset, a_namespace, a_node, a_scope

ENFORCE = "pod-security.kubernetes.io/enforce"
HOST = {"volumes": [{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]}


@pytest.mark.parametrize(
    ("level", "spec", "outcome"),
    [
        ("privileged", HOST, Outcome.OK),
        ("", HOST, Outcome.OK),
        ("baseline", HOST, Outcome.BAD),
        ("baseline", {"volumes": []}, Outcome.OK),
        ("privileged", {**HOST, "priorityClassName": "gone"}, Outcome.BAD),
        ("privileged", {**HOST, "priorityClassName": "agents"}, Outcome.OK),
        ("privileged", {**HOST, "priorityClassName": "system-node-critical"}, Outcome.OK),
    ],
)
def test_one_agent(level: str, spec: dict[str, Any], outcome: Outcome) -> None:
    agent = a_daemonset(**spec)
    space = a_namespace(agent.namespace, {ENFORCE: level} if level else {})
    classes = [{"metadata": {"name": "agents"}}]
    (finding,) = check_admission(a_scope(nodes=[a_node()], daemonsets=[agent], namespaces=[space], priorityclasses=classes))
    assert finding.outcome is outcome


@pytest.mark.parametrize(
    ("quota", "used", "scopes", "outcome"),
    [
        ({"pods": "8"}, {"pods": "8"}, None, Outcome.BAD),
        ({"pods": "8"}, {"pods": "7"}, None, Outcome.OK),
        ({"count/pods": "8"}, {"count/pods": "8"}, None, Outcome.BAD),
        ({"requests.cpu": "1"}, {"requests.cpu": "950m"}, None, Outcome.BAD),
        ({"requests.cpu": "1"}, {"requests.cpu": "900m"}, None, Outcome.OK),
        ({"requests.memory": "1Gi"}, {"requests.memory": "1Gi"}, None, Outcome.OK),  # it asks for none
        ({"pods": "8"}, {}, None, Outcome.OK),  # nobody has counted
        ({"pods": "8"}, {"pods": "8"}, ["Terminating"], Outcome.OK),
    ],
)
def test_quotas(quota: dict[str, str], used: dict[str, str], scopes: list[str] | None, outcome: Outcome) -> None:
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "100m"}}}
    agent = a_daemonset(containers=[container])
    one = {"metadata": {"name": "all", "namespace": agent.namespace}, "spec": {"hard": quota, "scopes": scopes}, "status": {"used": used}}
    quotas = [msgspec.convert(one, ResourceQuota)]
    spaces = [a_namespace(agent.namespace)]
    (finding,) = check_admission(
        a_scope(nodes=[a_node()], daemonsets=[agent], namespaces=spaces, resourcequotas=quotas, priorityclasses=[])
    )
    assert finding.outcome is outcome
