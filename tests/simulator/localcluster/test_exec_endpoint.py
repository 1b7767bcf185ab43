"""The kubelet endpoint asked as the API server asks it, without one: CONNECT, TLS with its certificate, then WebSocket."""

import asyncio
import contextlib
import shutil
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fixtures.localcluster.control_plane.certificates import Certificates, make
from fixtures.localcluster.control_plane.components import HOST, NODES_SOCKET
from fixtures.localcluster.nodes.network import BESIDE, KubeletEndpoint, NodeNetwork, nodes_by_address
from tests.simulator.programs.small_cluster import SmallCluster, hardware, in_cluster, pod
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

    def __init__(self, path: Path, certificates: Certificates) -> None:
        self.path = path
        self.certificates = certificates

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

    async def running(self, *names: str) -> None:
        """Wait until just these commands run beside those of the containers."""
        async with asyncio.timeout(PATIENCE):
            while {task.get_name() for task in asyncio.all_tasks() if "exec " in task.get_name()} != {f"exec {one}" for one in names}:
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def serving(cluster: SmallCluster, certificates: Certificates, folder: Path) -> AsyncIterator[tuple[Nodes, NodeNetwork]]:
    """The nodes' network of a cluster with a pod that runs, in a folder whose name is longer than a socket's may be."""
    await cluster.start(pod("p"))
    await cluster.phase("p", "Running")
    nodes = nodes_by_address([await cluster.client.get("/api/v1/nodes/a") | {"kind": "Node"}])
    (deep := folder / ("long" * 30)).mkdir()
    network = NodeNetwork(deep, nodes, KubeletEndpoint(certificates))
    await network.start()
    network.serve(cluster.kubelets)
    (link := folder / "n").symlink_to(deep)
    try:
        yield Nodes(link / NODES_SOCKET, certificates), network
    finally:
        await network.stop()
        assert list(deep.iterdir()) == []


@pytest.mark.parametrize("identity", ["nobody", "server", "kubelet"])
@in_cluster(hardware("a"))
async def test_only_the_api_servers_certificate_is_taken(
    cluster: SmallCluster, certificates: Certificates, tmp_path: Path, identity: str
) -> None:
    async with serving(cluster, certificates, tmp_path) as (nodes, _):
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            async with nodes.connect(identity=identity) as connection:
                await connection.request("GET /healthz")


SLEEP = "GET /exec/default/p/probe?command=sleep&command=infinity&output=1"


@in_cluster(hardware("a"))
async def test_a_client_that_goes_away_leaves_nothing(cluster: SmallCluster, certificates: Certificates, tmp_path: Path) -> None:
    async with serving(cluster, certificates, tmp_path) as (nodes, _):
        before = len(asyncio.all_tasks())
        async with nodes.connect() as connection:
            await connection.request(SLEEP, *HEADERS)
            await nodes.running("sleep")
        await nodes.running()
        async with asyncio.timeout(PATIENCE):
            while len(asyncio.all_tasks()) > before:
                await asyncio.sleep(0.01)


@in_cluster(hardware("a"))
async def test_stopping_ends_what_runs(cluster: SmallCluster, certificates: Certificates, tmp_path: Path) -> None:
    async with serving(cluster, certificates, tmp_path) as (nodes, network), nodes.connect() as connection:
        await connection.request(SLEEP, *HEADERS)
        await nodes.running("sleep")
        await network.stop()
        await nodes.running()
        await connection.rest()


@in_cluster(hardware("a"))
async def test_a_program_beside_the_control_plane_is_reached_as_localhost(
    cluster: SmallCluster, certificates: Certificates, tmp_path: Path
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 " + await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with serving(cluster, certificates, tmp_path) as (nodes, _):
        async with await asyncio.start_server(answer, HOST, 0) as beside:
            port = beside.sockets[0].getsockname()[1]
            async with nodes.connect(f"{BESIDE}:{port}", identity="") as connection:
                assert await connection.request("GET /apis") == "HTTP/1.1 200 GET /apis HTTP/1.1\r\nHost: x\r\n\r\n"
        with pytest.raises(ConnectionRefusedError, match="502 connect"):
            async with nodes.connect(f"{BESIDE}:{port}", identity=""):
                pass
