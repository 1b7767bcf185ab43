from collections.abc import Iterator
from typing import Any

import kubernetes as official
import pytest

from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store import Store
from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import WIDGETS, Web, config_map, widget, widget_definition


def served(definition: dict[str, Any]) -> BackgroundServer:
    store = Store()
    store.put_initial(definition)
    return BackgroundServer(SimulatedServer(store))


def test_versions_are_served_side_by_side() -> None:
    definition = widget_definition()
    definition["spec"]["versions"].append({**definition["spec"]["versions"][0], "name": "v1beta1", "storage": False})
    with served(definition) as background:
        web = Web(background.url)
        web.post(WIDGETS, widget("w", size=1))
        old = web.get(f"{WIDGETS.replace('/v1/', '/v1beta1/')}/w").body
        assert (old["apiVersion"], old["spec"]["size"]) == ("example.com/v1beta1", 1)
        group = next(item for item in web.get("/apis").body["groups"] if item["name"] == "example.com")
        assert [item["version"] for item in group["versions"]] == ["v1", "v1beta1"]
        assert group["preferredVersion"]["version"] == "v1"


def test_status_is_a_field_like_others_without_its_subresource() -> None:
    with served(widget_definition(subresources={})) as background:
        web = Web(background.url)
        body = web.post(WIDGETS, {**widget("w", anything=[1]), "status": {"phase": "kept"}}).body
        assert (body["spec"], body["status"]) == ({"anything": [1]}, {"phase": "kept"})
        assert web.get(f"{WIDGETS}/w/status").status == 404


def test_a_definition_cannot_take_the_place_of_a_built_in_kind() -> None:
    definition = widget_definition()
    definition["metadata"]["name"] = "deviceclasses.resource.k8s.io"
    definition["spec"]["group"] = "resource.k8s.io"
    definition["spec"]["names"] = {"plural": "deviceclasses", "kind": "Impostor"}
    with served(definition) as background:
        assert Web(background.url).get("/apis/resource.k8s.io/v1/deviceclasses").body["kind"] == "DeviceClassList"


# -- the official Python client, typed and dynamic, against the simulated API server -----------------

kubernetes: Any = official
"""Objects go in as JSON and its optional fields are there: neither is what its types say."""


@pytest.fixture
def api(background: BackgroundServer) -> Iterator[Any]:
    configuration = kubernetes.client.Configuration()
    configuration.host = background.url
    with kubernetes.client.ApiClient(configuration) as client:
        yield client


def test_watch_resumes_through_the_clients_own_loop(api: Any) -> None:
    core = kubernetes.client.CoreV1Api(api)
    for name in ("a", "b", "end"):
        core.create_namespaced_config_map("default", config_map(name))
    watch, seen = kubernetes.watch.Watch(), []
    for event in watch.stream(core.list_namespaced_config_map, "default", timeout_seconds=60):
        seen.append((event["type"], event["object"].metadata.name))
        if event["object"].metadata.name == "end":
            watch.stop()
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "end")]


def test_custom_objects_and_the_dynamic_client(api: Any, web: Web) -> None:
    custom = kubernetes.client.CustomObjectsApi(api)
    custom.create_namespaced_custom_object("example.com", "v1", "default", "widgets", widget("w", size=1))
    custom.patch_namespaced_custom_object("example.com", "v1", "default", "widgets", "w", {"spec": {"size": 2}})
    dynamic = kubernetes.dynamic.DynamicClient(api)
    widgets = dynamic.resources.get(api_version="example.com/v1", kind="Widget")
    assert widgets.get(namespace="default").items[0].spec.size == 2
