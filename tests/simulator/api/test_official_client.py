"""The official Python client, typed and dynamic, against the simulated API server."""

from collections.abc import Iterator
from typing import Any

import kubernetes as official
import pytest

from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import Web, config_map, widget

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
    applied = widgets.server_side_apply(
        namespace="default", name="w", body=widget("w", size=2, mode="slow"), field_manager="test", force_conflicts=True
    )
    assert applied.spec.mode == "slow"
