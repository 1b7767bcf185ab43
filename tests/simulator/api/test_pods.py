"""Subresources of pods and nodes: binding, eviction, logs and proxies."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store.store import Store
from fixtures.simulator.streams.kubelets import LogOptions
from fixtures.simulator.streams.remotecommand import Execution
from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import PODS, Web, pod

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


class Kubelet:
    """Logs that say what was asked for, and proxies that say where they are."""

    async def logs(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        if container == "broken":
            raise ApiError.bad_request("kubelet says no")
        asked = {name: value for name, value in msgspec.structs.asdict(options).items() if value not in (None, False)}
        yield f"{namespace}/{pod}/{container} {asked}\n".encode()
        for number in range(3):
            yield f"line {number}\n".encode()

    async def execution(self, namespace: str, pod: str, container: str) -> Execution:
        raise ApiError(501, "NotImplemented", "these kubelets run no commands")

    async def proxy(self, kind: str, namespace: str, name: str, port: str, path: str, query: str) -> tuple[int, str, bytes]:
        if path == "/dead":
            raise ApiError(503, "ServiceUnavailable", f'no endpoints available for service "{name}"')
        return 200, "text/plain", f"{kind} {namespace} {name} {port} {path} {query}".encode()


@pytest.fixture
def background() -> Iterator[BackgroundServer]:
    with BackgroundServer(SimulatedServer(Store(), kubelets=Kubelet())) as running:
        yield running


def started(name: str, *containers: str, ready: bool = True, labels: dict[str, str] | None = None) -> dict[str, Any]:
    obj = pod(name, node="n", labels=labels or {})
    obj["spec"]["containers"] = [{"name": container, "image": "i"} for container in containers or ("main",)]
    statuses = [{"name": item["name"], "state": {"running": {}}} for item in obj["spec"]["containers"]]
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {**obj, "status": {"phase": "Running", "containerStatuses": statuses, "conditions": conditions}}


def seed(background: BackgroundServer, *objects: dict[str, Any]) -> None:
    def put() -> None:
        for obj in objects:
            background.server.store.put_initial(obj)

    background.call(put)


def test_binding_puts_the_pod_on_a_node_once(web: Web) -> None:
    web.post(PODS, pod("a"))
    binding = {"metadata": {"name": "a", "annotations": {"note": "x"}}, "target": {"kind": "Node", "name": "n1"}}
    answer = web.post(f"{PODS}/a/binding", binding)
    assert (answer.status, answer.body["status"]) == (201, "Success")
    bound = web.get(f"{PODS}/a").body
    assert (bound["spec"]["nodeName"], bound["metadata"]["annotations"]) == ("n1", {"note": "x"})
    condition = bound["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    again = web.post(f"{PODS}/a/binding", binding)
    assert again.status == 409
    assert again.body["message"] == 'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'


def test_bindings_that_cannot_be(web: Web) -> None:
    target = {"target": {"kind": "Node", "name": "n"}}
    assert web.post(f"{PODS}/none/binding", target).status == 404
    gated = pod("gated")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/hold"}]
    web.post(PODS, gated)
    assert web.post(f"{PODS}/gated/binding", target).status == 409
    web.post(PODS, pod("a"))
    assert web.post(f"{PODS}/a/binding", {"metadata": {"uid": "other"}, **target}).status == 409
    assert web.post(f"{PODS}/a/binding", {"target": {"kind": "Pod", "name": "n"}}).status == 400
    assert web.post(f"{PODS}/a/binding", {}).status == 400


def test_eviction_respects_the_budget(web: Web, background: BackgroundServer) -> None:
    labels = {"app": "x"}
    seed(background, started("a", labels=labels), started("b", labels=labels), started("sick", labels=labels, ready=False))
    web.post(BUDGETS, {"metadata": {"name": "pdb"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}})
    first = web.post(f"{PODS}/a/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}})
    assert (first.status, first.body["status"]) == (201, "Success")
    assert web.get(f"{PODS}/a").body["metadata"]["deletionTimestamp"]
    assert web.get(f"{BUDGETS}/pdb").body["status"]["disruptionsAllowed"] == 0
    second = web.post(f"{PODS}/b/eviction", {"metadata": {"name": "b"}})
    assert (second.status, second.body["reason"]) == (429, "TooManyRequests")
    assert second.body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert second.body["details"]["causes"] == [
        {"reason": "DisruptionBudget", "message": "The disruption budget pdb needs 1 healthy pods and has 1 currently"}
    ]
    assert "deletionTimestamp" not in web.get(f"{PODS}/b").body["metadata"]
    assert web.post(f"{PODS}/sick/eviction", {"metadata": {"name": "sick"}}).status == 201


@pytest.mark.parametrize(
    ("field", "value", "allowed"), [("maxUnavailable", 0, 0), ("maxUnavailable", "50%", 2), ("minAvailable", "75%", 1)]
)
def test_budgets_in_every_unit(web: Web, background: BackgroundServer, field: str, value: Any, allowed: int) -> None:
    names = ("a", "b", "c", "d")
    seed(background, *(started(name, labels={"app": "x"}) for name in names))
    web.post(BUDGETS, {"metadata": {"name": "pdb"}, "spec": {field: value, "selector": {"matchLabels": {"app": "x"}}}})
    answers = [web.post(f"{PODS}/{name}/eviction", {"metadata": {"name": name}}).status for name in names]
    assert answers == [201] * allowed + [429] * (len(names) - allowed)


def test_two_budgets_on_a_pod_are_an_error(web: Web, background: BackgroundServer) -> None:
    seed(background, started("a", labels={"app": "x"}))
    for name in ("one", "two"):
        web.post(BUDGETS, {"metadata": {"name": name}, "spec": {"maxUnavailable": 1, "selector": {}}})
    answer = web.post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
    assert (answer.status, answer.body["reason"]) == (500, "InternalError")


def test_logs_are_passed_on_with_their_options(web: Web, background: BackgroundServer) -> None:
    seed(background, started("a"))
    answer = web.get(f"{PODS}/a/log?tailLines=5&timestamps=true&limitBytes=9")
    assert (answer.status, answer.headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
    first, *rest = answer.body.decode().splitlines()
    assert first == "default/a/main {'timestamps': True, 'tail_lines': 5, 'limit_bytes': 9}"
    assert rest == ["line 0", "line 1", "line 2"]


@pytest.mark.parametrize(
    ("query", "status"),
    [("previous=true", 501), ("sinceSeconds=5", 501), ("tailLines=-1", 400), ("limitBytes=x", 400), ("previous=0", 200)],
)
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
    answer = web(method, "/api/v1/namespaces" if method == "POST" else "/api/v1/namespaces/default", b"k8s\x00", PROTOBUF)
    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")


PROTOBUF = "application/vnd.kubernetes.protobuf"
