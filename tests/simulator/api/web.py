"""Raw HTTP against the simulated API server, so that tests see status, headers and body as they are."""

import dataclasses
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import urllib3
import yaml

from tests.watching import PATIENCE

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


@dataclasses.dataclass
class Answer:
    """Status, headers and decoded body of an answer."""

    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def names(self) -> list[str]:
        """Names of the items of a list."""
        return [item["metadata"]["name"] for item in self.body["items"]]

    @property
    def version(self) -> str:
        """resourceVersion of the object or list."""
        return str(self.body["metadata"]["resourceVersion"])


class Web:
    """One server, without retries."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.pool = urllib3.PoolManager(retries=False, timeout=PATIENCE)

    def __call__(self, method: str, path: str, body: Any = None, content_type: str = "application/json", **headers: str) -> Answer:
        data = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.pool.request(method, self.url + path, body=data, headers={"Content-Type": content_type, **self.headers, **named})
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        return Answer(answer.status, answer.headers, msgspec.json.decode(answer.data) if is_json and answer.data else answer.data)

    def get(self, path: str, **headers: str) -> Answer:
        return self("GET", path, **headers)

    def post(self, path: str, body: Any) -> Answer:
        return self("POST", path, body)

    def patch(self, path: str, body: Any, kind: str = MERGE) -> Answer:
        return self("PATCH", path, body, kind)

    def frames(self, path: str, **headers: str) -> Generator[dict[str, Any], None, None]:
        """Frames of a watch until the server ends it; closing the iterator closes the connection."""
        answer = self.pool.request("GET", self.url + path, headers={**self.headers, **headers}, preload_content=False)
        try:
            rest = b""
            for chunk in answer.stream(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield msgspec.json.decode(line)
        finally:
            answer.close()


def pod(name: str, namespace: str = "default", node: str = "", **more: Any) -> dict[str, Any]:
    """A small pod; ``more`` goes to its metadata."""
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "registry.example/app:1"}]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, **more}, "spec": spec}


def config_map(name: str, namespace: str = "default", data: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """A ConfigMap; ``more`` goes to its metadata."""
    metadata = {"name": name, "namespace": namespace, **more}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {}}


def widget_definition(**version: Any) -> dict[str, Any]:
    """``widgets.yaml``, with changes of its one version."""
    definition: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("widgets.yaml").read_text(encoding="utf-8"))
    definition["spec"]["versions"][0] |= version
    return definition


def widget(name: str, **spec: Any) -> dict[str, Any]:
    """A widget in the namespace default."""
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
