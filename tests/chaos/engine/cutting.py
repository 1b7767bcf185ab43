"""A TCP proxy between the suite and an API server that cuts every connection, or answers itself, when a certain request comes."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

_CHUNK = 1 << 16


class Trigger(msgspec.Struct, kw_only=True):
    """What is done when the ``nth`` request that begins with ``words`` comes, and then ``times`` times in all.

    ``lose``: ``request`` (it never arrives) or ``answer`` (it takes place and nobody hears of it), and nothing goes through for
    ``seconds``. ``status``: it is answered with that instead, and the connection is kept.
    """

    words: bytes
    nth: int = 1
    times: int = 1
    lose: str = ""
    seconds: float = 0.0
    status: int = 0
    met: int = 0

    def pulled(self, data: bytes) -> bool:
        """Whether this is such a request."""
        if not data.startswith(self.words):
            return False
        self.met += 1
        return self.nth <= self.met < self.nth + self.times


class Proxy:
    """Passes connections on to ``server`` (http://host:port) until its trigger says otherwise."""

    def __init__(self, server: str, trigger: Trigger) -> None:
        target = urlsplit(server)
        self._target = (str(target.hostname), int(target.port or 80))
        self._trigger = trigger
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._until = 0.0
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._drop_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        if time.monotonic() < self._until:
            client.close()
            return
        with contextlib.suppress(OSError):
            server = socket.create_connection(self._target)
            with self._lock:
                self._open |= {client, server}
            lost = threading.Event()
            threading.Thread(target=self._back, args=(server, client, lost), daemon=True).start()
            self._forth(client, server, lost)
        _drop(client)

    def _forth(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        while data := client.recv(_CHUNK):
            with self._lock:
                pulled = self._trigger.pulled(data)
            if pulled and self._trigger.status:
                client.sendall(_answer(self._trigger.status))
                continue
            if pulled and self._trigger.lose == "request":
                self._cut()
                return
            if pulled:
                lost.set()
            server.sendall(data)
        _drop(server)

    def _back(self, server: socket.socket, client: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(_CHUNK):
                if lost.is_set():
                    self._cut()
                    return
                client.sendall(data)
        _drop(client)

    def _cut(self) -> None:
        self.cuts += 1
        self._until = time.monotonic() + self._trigger.seconds
        self._drop_all()

    def _drop_all(self) -> None:
        with self._lock:
            sockets, self._open = self._open, set()
        for one in sockets:
            _drop(one)


def _drop(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


def _answer(status: int) -> bytes:
    reason = {409: "Conflict", 429: "TooManyRequests"}[status]
    body = json.dumps(
        {"kind": "Status", "status": "Failure", "reason": reason, "message": "answered by the proxy", "code": status}
    ).encode()
    later = b"Retry-After: 1\r\n" if status == 429 else b""
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n".encode()
    return head + later + b"\r\n" + body


@contextlib.contextmanager
def through(kubeconfig: Path, folder: Path, trigger: Trigger) -> Iterator[tuple[Path, Proxy]]:
    """A kubeconfig that leads through a proxy, and the proxy."""
    config: dict[str, Any] = json.loads(kubeconfig.read_text())
    proxy = Proxy(config["clusters"][0]["cluster"]["server"], trigger)
    config["clusters"][0]["cluster"]["server"] = proxy.address
    path = folder / "proxied"
    path.write_text(json.dumps(config))
    try:
        yield path, proxy
    finally:
        proxy.close()
