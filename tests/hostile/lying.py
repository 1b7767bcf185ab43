"""A server that answers whatever a test tells it to, byte for byte, and a session with it."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from fixtures.cluster.client import Cluster
from tests.served import kubeconfig

SIGN_IN = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body><form action='/login'></form></body></html>"


class Asked(msgspec.Struct, frozen=True):
    """One request: the path without its query."""

    method: str
    path: str
    query: dict[str, str]
    body: Any = None
    credentials: str = ""


class Said(msgspec.Struct, frozen=True):
    """One answer. A body in pieces is sent without a length, piece by piece."""

    body: bytes | Iterable[bytes] = b""
    status: int = 200
    headers: Mapping[str, str] = {}


def reported(document: object, status: int = 200, **headers: str) -> Said:
    """An answer in JSON."""
    return Said(json.dumps(document).encode(), status, headers)


def status(code: int, reason: str, message: str = "by the test") -> Said:
    """A refusal in an API server's words."""
    return reported(
        {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "message": message, "code": code},
        code,
    )


def an_object(kind: str, name: str, api_version: str = "v1", *, namespace: str = "default", **fields: Any) -> dict[str, Any]:
    """An object as an API server returns it; one without a namespace where ``namespace`` is empty."""
    meta = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "7"} | ({"namespace": namespace} if namespace else {})
    return {"kind": kind, "apiVersion": api_version, "metadata": meta, **fields}


def a_list(kind: str, *items: Any, api_version: str = "v1", token: str = "") -> dict[str, Any]:
    """A page of a list as an API server returns it."""
    return {"kind": f"{kind}List", "apiVersion": api_version, "metadata": {"resourceVersion": "9", "continue": token}, "items": list(items)}


@contextmanager
def lying(folder: Path, answer: Callable[[Asked], Said]) -> Iterator[tuple[Cluster, list[Asked]]]:
    """A session with a server that answers as told, and what it was asked."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the test says what was wrong."""

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            sent = self.rfile.read(length)
            url = urlsplit(self.path)
            body, credentials = json.loads(sent) if sent else None, self.headers.get("Authorization", "")
            asked.append(Asked(self.command, url.path, dict(parse_qsl(url.query)), body, credentials))
            stated = answer(asked[-1])
            self.send_response_only(stated.status)
            whole = isinstance(stated.body, bytes)
            for name, value in {"Content-Type": "application/json", "Date": self.date_time_string(), **stated.headers}.items():
                self.send_header(name, value)
            if whole and "Content-Length" not in stated.headers:
                self.send_header("Content-Length", str(len(stated.body)))  # type: ignore[arg-type]
            elif not whole:
                self.send_header("Connection", "close")
            self.end_headers()
            with suppress(OSError):
                for piece in [stated.body] if isinstance(stated.body, bytes) else stated.body:
                    self.wfile.write(piece)
            if not whole or "Content-Length" in stated.headers:
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield Cluster.from_kubeconfig(kubeconfig(folder, f"http://127.0.0.1:{server.server_port}")), asked
    finally:
        server.shutdown()
        thread.join(5)
        server.server_close()
