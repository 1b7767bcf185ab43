"""The client of the kubelet's PodResources against a gRPC server on a socket, and what becomes of a kubelet that does not answer."""

import base64
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest

from fixtures.kubernetes.pod_resources import PodResources
from fixtures.nodeprobe import pod_resources
from fixtures.nodeprobe.pod_resources import NoAnswer, ask
from tests.tables import table

LIST = base64.b64decode(
    "CvcBCgl0cmFpbmVyLTASBnRlYW0tYRrSAQoGd29ya2VyEj4KDm52aWRpYS5jb20vZ3B1EihHUFUtOGRiYjVlOTQtMWM2Zi03ZDY4LTJhOWQtMGUzYzNkNmQ0ZjFhGgIK"
    "ABJACg5udmlkaWEuY29tL2dwdRIoR1BVLTMxYjdmMmMwLTU1YzMtMGE0Yi05ZjBlLTZhMWY1YjdjOGQ5ZRoECgIIARIfChlyZG1hL2hjYV9zaGFyZWRfZGV2aWNlc19h"
    "EgIxNxoGAgOCAYMBIh0KDWh1Z2VwYWdlcy0yTWkQgICAgAgaBgoACgIIARoJCgdzaWRlY2FyIgICAwqqAQoHY2xhaW1lchIGdGVhbS1iGpYBCgRtYWluKo0BEhJjbGFp"
    "bWVyLWdwdXMteDdrMnAaBnRlYW0tYiJvCiQKIms4cy5ncHUubnZpZGlhLmNvbS9jbGFpbT11aWQtZ3B1LTISDmdwdS5udmlkaWEuY29tGgpncHUtbm9kZS0xIgVncHUt"
    "MiokYjE5NDZhYzktMmQ0Zi00YzZiLTlhMWUtMWY0YTNiMmM1ZDZlCjIKGGNvcmVkbnMtNWQ3OGM5ODY5ZC1hYmNkZRILa3ViZS1zeXN0ZW0aCQoHY29yZWRucw=="
)
ALLOCATABLE = base64.b64decode(
    "Cj4KDm52aWRpYS5jb20vZ3B1EihHUFUtOGRiYjVlOTQtMWM2Zi03ZDY4LTJhOWQtMGUzYzNkNmQ0ZjFhGgIKAApACg5udmlkaWEuY29tL2dwdRIoR1BVLTMxYjdmMmMw"
    "LTU1YzMtMGE0Yi05ZjBlLTZhMWY1YjdjOGQ5ZRoECgIIAQpACg5udmlkaWEuY29tL2dwdRIoR1BVLWMwZmZlZTAwLTAwMDAtNDAwMC04MDAwLTAwMDAwMDAwMDAwYxoE"
    "CgIIAQojChlyZG1hL2hjYV9zaGFyZWRfZGV2aWNlc19hEgIxNxICMTgSCAABAgOCAYMBGhMKBm1lbW9yeRCAgICAgCAaAgoA"
)
"""Answers as the kubelet's own Go types write them (k8s.io/kubelet v0.37.2, podresources/v1): devices, NUMA nodes, exclusive CPUs, huge
pages, a claim with a share, CPUs of a whole pod."""

A, B, C = "GPU-8dbb5e94-1c6f-7d68-2a9d-0e3c3d6d4f1a", "GPU-31b7f2c0-55c3-0a4b-9f0e-6a1f5b7c8d9e", "GPU-c0ffee00-0000-4000-8000-00000000000c"
TABLE = table(__file__)
HELD = TABLE["HELD"]
CLAIM = {
    "namespace": "team-b",
    "name": "claimer-gpus-x7k2p",
    "devices": [{"driver": "gpu.nvidia.com", "pool": "gpu-node-1", "device": "gpu-2"}],
}
PODS = TABLE["PODS"]

Answer = Callable[[Any], bytes]


def refusing(code: grpc.StatusCode, details: str) -> Answer:
    return lambda context: context.abort(code, details)


@contextmanager
def kubelet(path: Path, pods: Answer = lambda _: LIST, allocatable: Answer = lambda _: ALLOCATABLE) -> Iterator[str]:
    """A server of the kubelet's service, from what each method answers."""
    methods = {"List": pods, "GetAllocatableResources": allocatable}
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(lambda _request, context, answer=answer: answer(context))
        for name, answer in methods.items()
    }
    with futures.ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers),))
        server.add_insecure_port(f"unix:{path}")
        server.start()
        try:
            yield str(path)
        finally:
            server.stop(None).wait()


def test_a_kubelets_answers_become_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with kubelet(tmp_path / "s") as path:
        assert pod_resources.main(["--socket", path]) == 0
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    offered = [*HELD[:2], {"resource": "nvidia.com/gpu", "ids": [C]}, {"resource": "rdma/hca_shared_devices_a", "ids": ["17", "18"]}]
    assert msgspec.json.decode(line) == {"pods": PODS, "allocatable": offered}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda _: b"", []),
        (refusing(grpc.StatusCode.UNIMPLEMENTED, "unknown method"), None),
        (refusing(grpc.StatusCode.UNKNOWN, "API GetAllocatableResources disabled"), None),
    ],
    ids=["nothing to give", "older than 1.21", "switched off"],
)
def test_a_kubelet_that_does_not_say_what_is_allocatable_is_not_one_without_devices(
    tmp_path: Path, answer: Answer, expected: list[Any] | None
) -> None:
    with kubelet(tmp_path / "s", lambda _: b"", answer) as path:
        assert ask(path, 5) == PodResources(allocatable=expected)


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        (refusing(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit"), "RESOURCE_EXHAUSTED: rejected by rate limit"),
        (lambda _: b"\x0a" + b"\xff" * 20, "the body ends within a number"),
        (lambda _: LIST[:-3], "the body ends within a field"),
        (lambda _: b"\x0a\x04\x0a\x02\xff\xfe", "not UTF-8"),
        (lambda _: LIST * 9, "larger than max"),
    ],
    ids=["too often", "no number", "cut", "no text", "too large"],
)
def test_an_answer_that_is_none_says_why(tmp_path: Path, pods: Answer, why: str) -> None:
    with kubelet(tmp_path / "s", pods) as path, pytest.raises(NoAnswer, match=why):
        ask(path, 5, 8 * len(LIST))


def test_a_kubelet_that_hangs_is_given_up(tmp_path: Path) -> None:
    going = threading.Event()

    def hanging(_: Any) -> bytes:
        going.wait(20)
        return b""

    with kubelet(tmp_path / "s", hanging) as path:
        try:
            with pytest.raises(NoAnswer, match="DEADLINE_EXCEEDED"):
                ask(path, 0.2)
        finally:
            going.set()


def test_a_kubelet_that_is_suspended_is_given_up(tmp_path: Path) -> None:
    """The kernel takes the connection for it, and nobody speaks."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen(5)
        with pytest.raises(NoAnswer, match="DEADLINE_EXCEEDED"):
            ask(str(tmp_path / "s"), 0.3)


def test_a_socket_that_is_not_there_or_nobody_listens_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with kubelet(tmp_path / "s") as gone:
        pass
    Path(gone).touch()
    for path, why in ((str(tmp_path / "none"), "No such file or directory"), (gone, "Connection refused")):
        assert pod_resources.main(["--socket", path]) == 1
        reported = capsys.readouterr()
        assert (reported.out, reported.err) == ("", f"kubelet-podresources: {path}: {why}\n")


def test_a_socket_that_is_roots(tmp_path: Path) -> None:
    user = os.geteuid()
    with kubelet(tmp_path / "s") as path:
        for folder in (tmp_path, *tmp_path.parents[:2]):
            folder.chmod(0o755)
        Path(path).chmod(0o600 if user == 0 else 0)
        try:
            if user == 0:  # who may connect to everything
                os.seteuid(65534)
            with pytest.raises(NoAnswer, match=f"{path}: Permission denied"):
                ask(path, 5)
        finally:
            os.seteuid(user)
