from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fixtures.simulator.scheduling.cluster_state import NodeInfo
from fixtures.simulator.scheduling.fit import fit

GPU = "nvidia.com/gpu"


def node(name: str, gpus: int = 8, labels: dict[str, str] | None = None, **spec: Any) -> NodeInfo:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110", **({GPU: str(gpus)} if gpus else {})}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
    return NodeInfo({"metadata": metadata, "spec": spec, "status": {"allocatable": amounts}})


def pod(name: str = "p", requests: dict[str, str] | None = None, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": requests or {}}}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


@given(st.dictionaries(st.text(max_size=8), st.one_of(st.text(max_size=8), st.integers(), st.none()), max_size=4))
def test_wild_requests_never_fail(requests: dict[str, Any]) -> None:
    result = fit(pod(requests=requests), [node("a")])
    assert result.total == 1
