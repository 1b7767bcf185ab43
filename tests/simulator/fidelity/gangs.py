"""Requests about native gangs that both API servers are asked: PodGroups and Workloads of ``scheduling.k8s.io``."""

from typing import Any

from hypothesis import strategies as st

from tests.simulator.fidelity.parts import NAMES, one_of, some

Json = dict[str, Any]

POLICIES = one_of(
    {"gang": {"minCount": 2}},
    {"gang": {"minCount": 2}},
    {"basic": {}},
    {"gang": {"minCount": 0}},
    {"gang": {"minCount": -1}},
    {"gang": {}},
    {"gang": {"minCount": 1}, "basic": {}},
    {},
)
TEMPLATE = st.fixed_dictionaries({}, optional={"name": NAMES, "schedulingPolicy": POLICIES}) | st.fixed_dictionaries(
    {"name": one_of("workers", "head"), "schedulingPolicy": POLICIES}
)
MANY = one_of(*[[{"name": f"t{index}", "schedulingPolicy": {"basic": {}}} for index in range(number)] for number in (8, 9)])
GROUP_SPEC = st.fixed_dictionaries(
    {},
    optional={
        "schedulingPolicy": POLICIES,
        "workloadRef": some({"workloadName": NAMES, "templateName": NAMES}),
        "priorityClassName": one_of("", "system-node-critical", "nobody-made-this"),
        "priority": one_of(0, 7, 2_000_001_000),
    },
)
WORKLOAD_SPEC = st.fixed_dictionaries({}, optional={"podGroupTemplates": st.lists(TEMPLATE, max_size=3) | MANY})


def _object(kind: str, spec: Json) -> Json:
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": kind, "metadata": {"name": "probe"}, "spec": spec}


BODIES: dict[str, tuple[str, st.SearchStrategy[Json]]] = {
    "podGroup": ("podgroups", GROUP_SPEC.map(lambda spec: _object("PodGroup", spec))),
    "workload": ("workloads", WORKLOAD_SPEC.map(lambda spec: _object("Workload", spec))),
}
"""Kind of request → plural of the kind of object, and bodies."""
