"""UPG-04 and UPG-06: what goes with the next version, and roll-outs."""

from conformance.upg.checks import check_roll_outs, check_support
from fixtures.kubernetes.models import Node
from fixtures.verdict.findings import Outcome
from tests.builders import a_node, a_policy, a_scope, a_workload
from tests.findings import causes
from tests.tables import each_row

_STATE = "nvidia.com/gpu-driver-upgrade-state"


@each_row
def test_runtimes(runtime: str, running: str, target: str, outcome: Outcome) -> None:
    node = a_node()
    node.status.node_info.container_runtime_version = runtime
    scope = a_scope(a_policy(upgrade={"target": target}), nodes=[node])
    scope.snapshot.version = running
    (finding,) = check_support(scope)
    assert finding.outcome is outcome


@each_row
def test_what_images_tell(image: str, running: str, driver: str, outcome: Outcome, cause: str) -> None:
    """An operator's Deployment, and nodes whose devices NVIDIA's DRA driver publishes."""
    template = {"spec": {"containers": [{"name": "c", "image": image}]}}
    operator = a_workload("Deployment", "operator", {"template": template}, namespace="kube-system")
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "driverVersion": {"version": driver}, "uuid": {"string": "GPU-0"}}}
    pool = {"name": "gpu-0", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": "gpu-0", "pool": pool, "devices": [device]}
    scope = a_scope(nodes=[a_node()], deployments=[operator], resourceslices=[{"metadata": {"name": "s"}, "spec": spec}])
    scope.snapshot.version = running
    (finding,) = check_support(scope)
    assert (finding.outcome, finding.cause) == (outcome, cause)


def a_pool(product: str, upgrading: int, cordoned: int, size: int = 8) -> list[Node]:
    nodes = []
    for index in range(size):
        labels = {"nvidia.com/gpu.product": product, **({_STATE: "pod-restart-required"} if index < upgrading else {})}
        nodes.append(a_node(f"{product}-{index}", labels=labels))
        nodes[-1].spec.unschedulable = index >= size - cordoned
    return nodes


@each_row
def test_roll_outs(first: list[int], second: list[int], cause: str) -> None:
    found = causes(check_roll_outs(a_scope(nodes=[*a_pool("H100", *first), *a_pool("T4", *second)])))
    assert set(found.values()) == ({cause} if cause else set())
