"""Fields of built-in kinds: wrong types, unknown names, nulls; and that no body at all is a fault of the server."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store import Store
from tests.simulator.api import typetable
from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import JSON_PATCH, MERGE, PODS, STRATEGIC, WIDGETS, Web, pod, widget, widget_definition


def test_the_table_of_types_is_that_of_the_installed_client() -> None:
    assert typetable.TYPES.read_bytes() == typetable.text()


def test_malformed_times(web: Web) -> None:
    body = {"metadata": {"name": "e"}, "involvedObject": {}, "lastTimestamp": "yesterday"}
    answer = web.post("/api/v1/namespaces/default/events", body)
    assert 'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00"' in answer.body["message"]


def test_unknown_fields_are_dropped_with_a_warning_or_refused(web: Web) -> None:
    sent = pod("a")
    sent["spec"]["contianers"] = []
    sent["spec"]["containers"][0]["resource"] = {"limits": {}}
    answer = web.post(PODS, sent)
    assert answer.status == 201
    assert "contianers" not in answer.body["spec"]
    warnings = answer.headers.getlist("Warning")  # type: ignore[attr-defined]
    assert warnings == ['299 - "unknown field \\"spec.containers[0].resource\\""', '299 - "unknown field \\"spec.contianers\\""']
    strict = web.post(f"{PODS}?fieldValidation=Strict", {**sent, "metadata": {"name": "b"}})
    assert strict.status == 400
    assert strict.body["message"] == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
        'unknown field "spec.containers[0].resource", unknown field "spec.contianers"'
    )
    assert web.get(f"{PODS}/b").status == 404


def test_seeded_fields_that_the_types_do_not_know_do_not_break_later_patches(web: Web, background: BackgroundServer) -> None:
    odd = pod("odd")
    odd["spec"]["fromTheFuture"] = 1
    background.call(lambda: background.server.store.put_initial(odd))
    answer = web.patch(f"{PODS}/odd?fieldValidation=Strict", {"metadata": {"labels": {"a": "b"}}})
    assert (answer.status, answer.body["metadata"]["labels"]) == (200, {"a": "b"})


@pytest.fixture(scope="module")
def wild() -> Iterator[Web]:
    store = Store()
    store.put_initial(widget_definition())
    with BackgroundServer(SimulatedServer(store)) as background:
        web = Web(background.url)
        web.post(PODS, pod("target"))
        assert web.post(WIDGETS, widget("target", size=1)).status == 201
        yield web


SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8) | st.sampled_from(["name", "a/b", "-1"])
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6) | st.sampled_from(["metadata", "name"]), inner)
)
BUDGET = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}
SEEDS: list[tuple[str, Any]] = [
    (PODS, pod("p", labels={"a": "b"}, ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u"}])),
    (WIDGETS, widget("w", size=1, parts=[{"name": "a", "count": 1}], limit="1")),
    ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", BUDGET),
    (f"{PODS}/target/binding", {"metadata": {"name": "target"}, "target": {"kind": "Node", "name": "n"}}),
    (f"{PODS}/target/eviction", {"metadata": {"name": "target"}, "deleteOptions": {"preconditions": {"uid": "x"}}}),
    ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": {"resourceAttributes": {"verb": "get"}}}),
]


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield prefix
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in children:
        yield from paths(inner, (*prefix, key))


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, Any]:
    path, seed = draw(st.sampled_from(SEEDS))
    body = msgspec.json.decode(msgspec.json.encode(seed))
    where = draw(st.sampled_from(list(paths(body))))
    value = draw(JSON)
    if not where:
        return path, value
    target = body
    for key in where[:-1]:
        target = target[key]
    target[where[-1]] = value
    return path, body


@pytest.mark.test_all
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(bodies())
def test_no_body_is_a_fault_of_the_server(wild: Web, given_body: tuple[str, Any]) -> None:
    path, body = given_body
    answer = wild("POST", f"{path}?dryRun=All", msgspec.json.encode(body))
    assert answer.status < 500 or answer.status == 501, answer.body
    assert isinstance(answer.body, dict)


@pytest.mark.test_all
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([MERGE, STRATEGIC, JSON_PATCH]), st.sampled_from([f"{PODS}/target", f"{WIDGETS}/target"]), bodies(), JSON)
def test_no_patch_is_a_fault_of_the_server(wild: Web, kind: str, path: str, given_body: tuple[str, Any], value: Any) -> None:
    operations = [{"op": "add", "path": "/spec", "value": value}, {"op": "replace", "path": "/metadata/labels", "value": value}]
    body = operations if kind == JSON_PATCH else given_body[1]
    answer = wild("PATCH", f"{path}?dryRun=All&fieldManager=m&force=true", msgspec.json.encode(body), kind)
    assert answer.status < 500, answer.body
