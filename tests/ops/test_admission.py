"""OPS-14: whether agents would be admitted again."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.ops.admission import check_admission
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
