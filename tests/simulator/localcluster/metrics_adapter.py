"""A small server of the custom metrics API: it answers a HorizontalPodAutoscaler out of the pages of simulated DCGM exporters.

It stands where prometheus-adapter with its Prometheus stands on a live cluster, and is none of them: it scrapes when it is asked, and its
value of a pod is the mean over the devices that the pod holds. It listens on loopback and answers nobody but the API server, which asks
because of an APIService. It reads the cluster as the client that it was made with.
"""

import json
import re
import ssl
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit

from conformance.outputs.dcgm import Sample, parse_samples
from fixtures.cluster.client import Cluster
from fixtures.localcluster.control_plane.certificates import WebhookCertificate
from fixtures.simulator.api.objects import Json

GROUP, VERSION = "custom.metrics.k8s.io", "v1beta2"
ROOT = f"/apis/{GROUP}/{VERSION}"
NAMESPACE = "gpu-operator"
UTILISATION = "DCGM_FI_DEV_GPU_UTIL"
_VALUE = re.compile(rf"{ROOT}/namespaces/([^/]+)/pods/\*/([^/]+)")


class MetricsAdapter:
    """Serves the values of ``metric``, as exporters on nodes whose names match ``nodes`` say them."""

    def __init__(self, cluster: Cluster, certificate: WebhookCertificate, clients: Path, port: int) -> None:
        self.metric, self.nodes = UTILISATION, ""
        self._cluster = cluster
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(clients))
        context.load_cert_chain(certificate.folder / "tls.crt", certificate.folder / "tls.key")
        context.verify_mode = ssl.CERT_REQUIRED
        self._context, self._address = context, ("127.0.0.1", port)
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Listen. May be called again."""
        if self._server is not None:
            return
        adapter = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, document = adapter.answer(self.path)
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """What is asked stands in the API server's own log."""

        self._server = ThreadingHTTPServer(self._address, Handler)
        self._server.daemon_threads = True
        # without a handshake in the thread that accepts: a client that says nothing must not keep others out
        self._server.socket = self._context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Close the port. May be called again."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, target: str) -> tuple[int, Json]:
        """Status and document for a request."""
        asked = urlsplit(target)
        if asked.path == ROOT:
            served = {"name": f"pods/{self.metric}", "singularName": "", "namespaced": True, "kind": "MetricValueList", "verbs": ["get"]}
            return 200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}", "resources": [served]}
        found = _VALUE.fullmatch(unquote(asked.path))
        if found is None or found[2] != self.metric:
            said = {"reason": "NotFound", "code": 404, "message": "no such metric"}
            return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", **said}
        selector = parse_qs(asked.query).get("labelSelector", [""])[0]
        items = list(self._items(found[1], selector))
        return 200, {"kind": "MetricValueList", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": items}

    def _items(self, namespace: str, selector: str) -> Iterator[Json]:
        values, now = self._values(namespace), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for pod in self._cluster.each("pods", namespace, labels=selector):
            name = pod["metadata"]["name"]
            if of_pod := values.get(name):
                described = {"kind": "Pod", "apiVersion": "/v1", "namespace": namespace, "name": name}
                value = f"{round(sum(of_pod) / len(of_pod) * 1000)}m"
                yield {"describedObject": described, "metric": {"name": self.metric, "selector": None}, "timestamp": now, "value": value}

    def _values(self, namespace: str) -> dict[str, list[float]]:
        """A value for each device that a pod of the namespace holds, by pod."""
        found: dict[str, list[float]] = defaultdict(list)
        for exporter in self.exporters():
            if re.match(self.nodes, exporter["spec"].get("nodeName") or ""):
                for sample in self.scraped(exporter):
                    if sample.name == UTILISATION and sample.labels.get("namespace") == namespace:
                        found[sample.labels["pod"]].append(sample.value)
        return found

    def exporters(self) -> Iterator[Json]:
        """The pods of the exporters."""
        return self._cluster.each("pods", NAMESPACE, labels="app=nvidia-dcgm-exporter")

    def scraped(self, exporter: Json) -> list[Sample]:
        """The samples of an exporter's page."""
        page = f"/api/v1/namespaces/{NAMESPACE}/pods/{exporter['metadata']['name']}:9400/proxy/metrics"
        return parse_samples(self._cluster.request("GET", page, accept="*/*").body.decode())
