"""PLAT-03: kernels of sandboxes."""

from typing import Any

import pytest

from conformance.plat.sandboxes import check_tenants, judge_kernels
from conformance.probes.running import ProbeResult
from fixtures.model.platform.runtime_classes import sandboxes, unknown_classes
from fixtures.policy.model import Policy, Tenants
from fixtures.verdict.findings import About, Outcome
from fixtures.verdict.subjects import Subject
from tests.builders import a_node, a_pod, a_scope
from tests.tables import each_row

ABOUT = About(Subject("RuntimeClass", "kata"), "s", "e")


def ran(printed: str, trouble: str) -> ProbeResult:
    return ProbeResult(subject=Subject("Pod", "p"), logs={"probe": printed}, trouble=trouble)


@each_row
def test_what_two_pods_print(inside: str, outside: str, trouble: list[str], used: bool, outcome: Outcome, cause: str) -> None:
    finding = judge_kernels(ABOUT, "gpu-0", ran(inside, trouble[0]), ran(outside, trouble[1]), used=used)
    assert (finding.outcome, finding.cause) == (outcome, cause)


@each_row
def test_nodes_that_a_class_can_be_asked_on(node: dict[str, Any], item: dict[str, Any], asked: list[str], others: int) -> None:
    handlers = [{"name": name} for name in node.pop("handlers", ())]
    one = a_node(**node)
    one.status.runtime_handlers = handlers
    found = sandboxes(a_scope(nodes=[one], runtimeclasses=[{"metadata": {"name": "k"}, "handler": "kata", **item}]))
    assert [place.name for each in found for place in each.nodes] == asked
    assert sum(each.others for each in found) == others


@pytest.mark.parametrize(
    ("runtime_class", "outcome"),
    [("kata", Outcome.OK), ("", Outcome.BAD), ("nvidia", Outcome.BAD), ("fc", Outcome.UNDECIDED), ("gone", Outcome.BAD)],
)
def test_a_tenant_that_must_be_sandboxed(runtime_class: str, outcome: Outcome) -> None:
    pod = a_pod(namespace="team-a")
    pod.spec.runtime_class_name = runtime_class
    handlers = {"kata": "kata-qemu", "nvidia": "nvidia", "fc": "firecracker"}
    classes = [{"metadata": {"name": name}, "handler": handler} for name, handler in handlers.items()]
    scope = a_scope(Policy(tenants=Tenants(sandboxed=("team-*",))), pods=[pod, a_pod(namespace="kube-system")], runtimeclasses=classes)
    (finding,) = check_tenants(scope, [one.name for one in sandboxes(scope)], unknown_classes(scope))
    assert finding.outcome is outcome
