"""The kubelet endpoint asked as the API server asks it, without one: CONNECT, TLS with its certificate, then WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from fixtures.localcluster.control_plane.certificates import Certificates, make
from fixtures.localcluster.control_plane.components import NODES_SOCKET
from fixtures.localcluster.nodes.kubelet_endpoint import KubeletEndpoint
from fixtures.localcluster.nodes.network import NodeNetwork, nodes_by_address
from tests.simulator.programs.small_cluster import SmallCluster, hardware, pod, small_cluster
from tests.watching import PATIENCE

ADDRESS = "10.0.0.1"
PROTOCOL = "Sec-WebSocket-Protocol: v5.channel.k8s.io"
HEADERS = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
    "Sec-WebSocket-Version: 13",
    PROTOCOL,
)

Body = Callable[["Nodes"], Awaitable[None]]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    return make(tmp_path_factory.mktemp("pki"), [ADDRESS])


class Connection:
    """A connection to one address in the nodes' network."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self, line: str, *headers: str) -> str:
        """Send a request without a body; the head of the answer."""
        self.writer.write("\r\n".join((f"{line} HTTP/1.1", "Host: x", *headers, "", "")).encode())
        return (await self.reader.readuntil(b"\r\n\r\n")).decode()

    async def rest(self) -> dict[int, bytes]:
        """The data by channel until the server closes."""
        found: dict[int, bytes] = {}
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            async with asyncio.timeout(PATIENCE):
                while (head := await self.reader.readexactly(2))[0] == 0x82:
                    size = head[1]
                    if size >= 126:
                        size = int.from_bytes(await self.reader.readexactly(2 if size == 126 else 8), "big")
                    message = await self.reader.readexactly(size)
                    found[message[0]] = found.get(message[0], b"") + message[1:]
        return found


class Nodes:
    """A served network with one node ``a``, and a cluster's pods on it."""

    def __init__(self, path: Path, certificates: Certificates, cluster: SmallCluster) -> None:
        self.path = path
        self.certificates = certificates
        self.cluster = cluster

    @contextlib.asynccontextmanager
    async def connect(self, target: str = f"{ADDRESS}:10250", identity: str = "client") -> AsyncIterator[Connection]:
        """A connection through the proxy, with TLS as ``identity`` for a kubelet; plain when that is empty."""
        reader, writer = await asyncio.open_unix_connection(str(self.path))
        connection = Connection(reader, writer)
        try:
            answer = await connection.request(f"CONNECT {target}")
            if not answer.startswith("HTTP/1.1 200 "):
                raise ConnectionRefusedError(answer.splitlines()[0])
            if identity:
                await writer.start_tls(self.tls(identity), server_hostname=target.partition(":")[0])
            yield connection
        finally:
            writer.transport.abort()

    def tls(self, identity: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.certificates.authority))
        if identity != "nobody":
            context.load_cert_chain(getattr(self.certificates, identity), getattr(self.certificates, f"{identity}_key"))
        return context

    def commands(self) -> list[str]:
        return sorted(task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("exec ") and not task.done())

    async def ended(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.commands():
                await asyncio.sleep(0.01)

    async def running(self, *names: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.commands() != sorted(f"exec {name}" for name in names):
                await asyncio.sleep(0.01)


@pytest.fixture
def run(certificates: Certificates, tmp_path: Path) -> Callable[[Body], None]:
    async def scenario(body: Body) -> None:
        async with small_cluster([hardware("a")]) as cluster:
            await cluster.start(pod("p"))
            await cluster.phase("p", "Running")
            nodes = nodes_by_address([await cluster.client.get("/api/v1/nodes/a") | {"kind": "Node"}])
            folder = tmp_path / ("long" * 30)  # longer than a socket's name may be
            folder.mkdir()
            network = NodeNetwork(folder, nodes, KubeletEndpoint(certificates))
            await network.start()
            network.serve(cluster.kubelets)
            link = tmp_path / "n"
            link.symlink_to(folder)
            try:
                await body(Nodes(link / NODES_SOCKET, certificates, cluster))
            finally:
                await network.stop()
                assert list(folder.iterdir()) == []

    return lambda body: asyncio.run(asyncio.wait_for(scenario(body), PATIENCE))


def path(query: str, container: str = "probe") -> str:
    return f"GET /exec/default/p/{container}?{query}"


@pytest.mark.parametrize("identity", ["nobody", "server", "kubelet"])
def test_only_the_api_servers_certificate_is_taken(run: Callable[[Body], None], identity: str) -> None:
    async def body(nodes: Nodes) -> None:
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            async with nodes.connect(identity=identity) as connection:
                await connection.request("GET /healthz")

    run(body)


def test_a_client_that_goes_away_leaves_nothing(run: Callable[[Body], None]) -> None:
    async def body(nodes: Nodes) -> None:
        before = len(asyncio.all_tasks())
        async with nodes.connect() as connection:
            await connection.request(path("command=sleep&command=infinity&output=1"), *HEADERS)
            await nodes.running("sleep")
        await nodes.ended()
        async with asyncio.timeout(PATIENCE):
            while len(asyncio.all_tasks()) > before:
                await asyncio.sleep(0.01)

    run(body)


def test_stopping_ends_what_runs(certificates: Certificates, tmp_path: Path) -> None:
    async def body() -> None:
        async with small_cluster([hardware("a")]) as cluster:
            await cluster.start(pod("p"))
            await cluster.phase("p", "Running")
            network = NodeNetwork(tmp_path, {ADDRESS: "a"}, KubeletEndpoint(certificates))
            await network.start()
            network.serve(cluster.kubelets)
            nodes = Nodes(tmp_path / NODES_SOCKET, certificates, cluster)
            async with nodes.connect() as connection:
                await connection.request(path("command=sleep&command=infinity&output=1"), *HEADERS)
                await nodes.running("sleep")
                await network.stop()
                await network.stop()
                await nodes.ended()
                await connection.rest()

    asyncio.run(asyncio.wait_for(body(), PATIENCE))
