"""``kubectl logs -f``: what a container writes comes as it is written, and the end comes with its end."""

import asyncio
import os
import tempfile

from tests.kubectl import KUBECTL, needs_kubectl
from tests.simulator.programs.small_cluster import PODS, SmallCluster, hardware, in_cluster, pod
from tests.watching import PATIENCE


async def follow(cluster: SmallCluster, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        str(KUBECTL),
        *("-s", cluster.server, "logs", "-f", *arguments),
        env={"HOME": tempfile.gettempdir(), "PATH": os.defpath, "KUBECONFIG": "/dev/null"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@needs_kubectl
@in_cluster(hardware("a"))
async def test_a_followed_log_ends_when_its_pod_is_deleted(cluster: SmallCluster) -> None:
    await cluster.start(pod("p", "echo one; sleep infinity"))
    await cluster.phase("p", "Running")
    process = await follow(cluster, "p")
    assert process.stdout is not None
    assert await process.stdout.readline() == b"one\n"
    await cluster.client.delete(f"{PODS}/p")
    assert await process.communicate() == (b"", b"")
    assert process.returncode == 0


@in_cluster(hardware("a"))
async def test_the_request_of_a_reader_who_leaves_is_over_although_nothing_is_written(cluster: SmallCluster) -> None:
    await cluster.start(pod("p", "echo one; sleep infinity"))
    await cluster.phase("p", "Running")
    host, _, port = cluster.server.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {PODS}/p/log?follow=true HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    await reader.readuntil(b"one\n")
    worker = cluster.kubelets.worker_of("default", "p")
    assert worker is not None
    readers = worker.logs["probe"]._event._waiters
    async with asyncio.timeout(PATIENCE):
        while len(readers) != 1:
            await asyncio.sleep(0.01)
        writer.transport.abort()
        while readers:
            await asyncio.sleep(0.01)
