"""The simulated scheduler against the real kube-scheduler: where pods bind and what is said of those that do not."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from conformance.req.refusal_faults import By, Placement, placement
from fixtures.cluster.client import Cluster
from fixtures.localcluster.control_plane.control_plane import ControlPlane
from tests.served import served
from tests.simulator.fidelity.allocation import compare_allocation
from tests.simulator.fidelity.amounts import TESTED
from tests.simulator.fidelity.binding import Compared, Outcome, compare_binding
from tests.simulator.fidelity.comparing import difference
from tests.simulator.fidelity.comparison import Comparison, add_binding

pytestmark = [pytest.mark.xdist_group("fidelity"), pytest.mark.test_all]


@pytest.fixture(scope="module")
def compared(plane: ControlPlane) -> list[Compared]:
    return compare_binding(plane, TESTED.pods)


def test_the_same_pods_are_bound(compared: list[Compared]) -> None:
    assert [one for one in compared if bool(one.real.node) != bool(one.simulated.node)] == []
    bound = sum(1 for one in compared if one.real.node and not one.pinned)
    assert TESTED.pods / 6 < bound < TESTED.pods * 5 / 6, "enough pods of either kind to compare"


def test_the_same_nodes_are_feasible(compared: list[Compared]) -> None:
    """A pod that may go to several nodes may be bound to either; pinned to each in turn it has to be taken by the same."""
    alone = [one for one in compared if one.pinned]
    assert [one for one in alone if one.real != one.simulated] == []
    assert len({one.real.node for one in alone if one.real.node}) > 3


def test_failures_are_reported_alike(compared: list[Compared]) -> None:
    """Number of nodes, every reason with its count, and what preemption says: word for word."""
    failed = [one for one in compared if not one.real.node]
    assert [one for one in failed if one.real != one.simulated] == []
    assert len({text for one in failed for text, _ in one.real.reasons}) >= 5, "enough different reasons to compare"


def test_a_pod_that_may_go_anywhere_may_differ_in_its_node_and_in_nothing_else() -> None:
    comparison = Comparison(version="v1.37.2", compared=Counter(), differences=[])
    pod = {"metadata": {"namespace": "binding"}, "spec": {}}
    short = Outcome("", 2, (("Insufficient cpu", 2),), "preemption: none")
    add_binding(
        comparison,
        [
            Compared(pod, Outcome("a"), Outcome("b"), False),
            Compared(pod, Outcome("a"), Outcome("b"), True),
            Compared(pod, Outcome("a"), short, False),
            Compared(pod, short, Outcome("", 2, (("Insufficient cpu", 1),), "preemption: none"), False),
            Compared(pod, short, Outcome("", 2, short.reasons, "other"), False),
            Compared(pod, short, short, False),
        ],
    )
    assert [one.aspect for one in comparison.differences] == ["reason", "status", "causes", "reason"]
    assert len(comparison.unexplained) == 4
    assert comparison.document()["byKind"] == {"binding": {"compared": 6, "agreed": 2}}


def test_claims_get_the_same_devices_and_amounts(newest_plane: ControlPlane) -> None:
    compared = compare_allocation(newest_plane, TESTED.drivers)
    assert [(one.claim, one.real, one.simulated) for one in compared if difference(one.real, one.simulated)] == []
    given = [text for one in compared for text, _ in one.real.causes]
    assert any("shared=True" in text for text in given)
    assert any("half" in text for text in given)
    assert any("small" in text for text in given)
    assert len(compared) / 4 < sum(bool(one.real.causes) for one in compared) < len(compared) * 7 / 8, "enough of either kind to compare"


# -- who put a pod on its node, by its managedFields: both servers keep the same record --------------------

SPACE = "default"
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


@pytest.fixture(scope="module", params=["simulated", "real"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if request.param == "simulated":
        with served(tmp_path_factory.mktemp("served")) as (simulated, _):
            yield simulated
        return
    plane: ControlPlane = request.getfixturevalue("newest_plane")
    real = Cluster.from_kubeconfig(plane.kubeconfig)
    yield real
    real.delete("nodes", "n")


def failed(cluster: Cluster, name: str, *, bound: bool) -> Placement:
    """Who put a pod on its node, after a kubelet has refused it."""
    spec: dict[str, Any] = {"schedulerName": "ours", "containers": [{"name": "main", "image": "i"}]}
    if not bound:
        spec["nodeName"] = "n"
    meta = {"name": name, "namespace": SPACE}
    assert cluster.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, namespace=SPACE).ok
    if bound:
        target = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"kind": "Node", "name": "n"}}
        assert cluster.request("POST", cluster.path("pods", SPACE, name, "binding"), body=target).ok
    assert cluster.patch("pods", name, {"status": {"phase": "Failed", "reason": "OutOfcpu"}}, SPACE, "status").ok
    return record(cluster, name)


def record(cluster: Cluster, name: str) -> Placement:
    answer = cluster.get("pods", name, SPACE).json()
    assert (answer["spec"]["nodeName"], answer["status"]["phase"]) == ("n", "Failed")
    return placement(answer["metadata"].get("managedFields"))


def test_a_binding_leaves_no_entry_and_a_maker_of_pods_does(cluster: Cluster) -> None:
    cluster.create("nodes", NODE)
    assert failed(cluster, "sent", bound=True).by is By.SCHEDULER
    made = failed(cluster, "made", bound=False)
    assert made.by is By.AUTHOR
    assert made.manager
    assert cluster.patch("pods", "made", {"metadata": {"managedFields": [{}]}}, SPACE).ok
    assert record(cluster, "made").by is By.UNRECORDED
