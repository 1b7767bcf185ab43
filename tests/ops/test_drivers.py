"""OPS-05: where a node's driver comes from."""

import pytest

from conformance.ops.versions import check_driver_sources
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import NotApplicable
from tests.builders import a_container, a_daemonset, a_node, a_pod, a_scope
from tests.tables import each_row

READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def judged(labelled: str, loaded: str, image: str, *, ready: bool, template: str = "") -> Outcome:
    labels = {"nvidia.com/gpu.deploy.driver": labelled, "nvidia.com/cuda.driver-version.full": loaded}
    agent = a_daemonset("nvidia-driver-daemonset", containers=[{"name": "driver", "image": template or image or "x"}])
    container, status = a_container("driver", image=image), READY if ready else {}
    pod = a_pod("driver-0", agent.namespace, node="gpu-0", owner=f"DaemonSet/{agent.name}", containers=[container], status=status)
    pod.metadata.owners[0].uid = agent.metadata.uid
    (finding,) = check_driver_sources(a_scope(nodes=[a_node(labels=labels)], daemonsets=[agent], pods=[pod] if image else []))
    return finding.outcome


@each_row
def test_one_node(labelled: str, loaded: str, image: str, ready: bool, outcome: Outcome) -> None:
    assert judged(labelled, loaded, image, ready=ready) is outcome


def test_a_node_that_waits_for_its_upgrade_has_the_driver_of_its_pod() -> None:
    old, new = (f"nvcr.io/nvidia/driver:{version}-ubuntu24.04" for version in ("570.86.15", "580.95.05"))
    assert judged("true", "570.86.15", old, ready=True, template=new) is Outcome.OK


def test_a_driver_of_which_nothing_says_where_it_comes_from_is_not_judged() -> None:
    with pytest.raises(NotApplicable):
        list(check_driver_sources(a_scope(nodes=[a_node()])))
