"""Subresources of pods: budgets of evictions in every unit, and logs."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store import Store
from fixtures.simulator.streams import Execution, LogOptions
from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import PODS, Web, pod
from tests.tables import each_row

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


class Kubelet:
    """Logs that say what was asked for."""

    async def logs(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        if container == "broken":
            raise ApiError.bad_request("kubelet says no")
        asked = {name: value for name, value in msgspec.structs.asdict(options).items() if value not in (None, False)}
        yield f"{namespace}/{pod}/{container} {asked}\n".encode()
        for number in range(3):
            yield f"line {number}\n".encode()

    async def execution(self, namespace: str, pod: str, container: str) -> Execution:
        raise NotImplementedError

    async def proxy(self, kind: str, namespace: str, name: str, port: str, path: str, query: str) -> tuple[int, str, bytes]:
        raise NotImplementedError


@pytest.fixture
def background() -> Iterator[BackgroundServer]:
    with BackgroundServer(SimulatedServer(Store(), kubelets=Kubelet())) as running:
        yield running


def started(name: str, *containers: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    obj = pod(name, node="n", labels=labels or {})
    obj["spec"]["containers"] = [{"name": container, "image": "i"} for container in containers or ("main",)]
    statuses = [{"name": item["name"], "state": {"running": {}}} for item in obj["spec"]["containers"]]
    conditions = [{"type": "Ready", "status": "True"}]
    return {**obj, "status": {"phase": "Running", "containerStatuses": statuses, "conditions": conditions}}


def seed(background: BackgroundServer, *objects: dict[str, Any]) -> None:
    def put() -> None:
        for obj in objects:
            background.server.store.put_initial(obj)

    background.call(put)


@pytest.mark.parametrize(
    ("field", "value", "allowed"), [("maxUnavailable", 0, 0), ("maxUnavailable", "50%", 2), ("minAvailable", "75%", 1)]
)
def test_budgets_in_every_unit(web: Web, background: BackgroundServer, field: str, value: Any, allowed: int) -> None:
    names = ("a", "b", "c", "d")
    seed(background, *(started(name, labels={"app": "x"}) for name in names))
    web.post(BUDGETS, {"metadata": {"name": "pdb"}, "spec": {field: value, "selector": {"matchLabels": {"app": "x"}}}})
    answers = [web.post(f"{PODS}/{name}/eviction", {"metadata": {"name": name}}).status for name in names]
    assert answers == [201] * allowed + [429] * (len(names) - allowed)


def test_logs_are_passed_on_with_their_options(web: Web, background: BackgroundServer) -> None:
    seed(background, started("a"))
    answer = web.get(f"{PODS}/a/log?tailLines=5&timestamps=true&limitBytes=9")
    assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
    first, *rest = answer.body.decode().splitlines()
    assert first == "default/a/main {'timestamps': True, 'tail_lines': 5, 'limit_bytes': 9}"
    assert rest == ["line 0", "line 1", "line 2"]


@each_row
def test_logs_are_refused_by_time_and_of_earlier_runs(web: Web, background: BackgroundServer, query: str, status: int) -> None:
    seed(background, started("once"))
    assert web.get(f"{PODS}/once/log?{query}").status == status


def test_logs_of_which_container(web: Web, background: BackgroundServer) -> None:
    two = started("two", "a", "b", "broken")
    two["spec"]["initContainers"] = [{"name": "i", "image": "i"}]
    seed(background, two)
    assert web.get(f"{PODS}/two/log").body["message"] == ("a container name must be specified for pod two, choose one of: [i a b broken]")
    assert web.get(f"{PODS}/two/log?container=z").body["message"] == "container z is not valid for pod two"
    assert web.get(f"{PODS}/two/log?container=b").body.startswith(b"default/two/b")
    assert web.get(f"{PODS}/two/log?container=broken").body["message"] == "kubelet says no"
    assert web.get(f"{PODS}/none/log").status == 404


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_protobuf_of_no_known_kind_is_refused(web: Web, method: str) -> None:
    answer = web(
        method,
        "/api/v1/namespaces" if method == "POST" else "/api/v1/namespaces/default",
        b"k8s\x00",
        "application/vnd.kubernetes.protobuf",
    )
    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")
