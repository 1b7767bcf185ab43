"""Who may exec: the right to create ``pods/exec``, for a GET too, as since Kubernetes 1.35."""

from collections.abc import Sequence
from typing import cast

import pytest
import websocket

from fixtures.simulator.config.defects import SUITE_USER, Rights, parse_denied
from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store import Store
from fixtures.simulator.streams import Channels, Kubelets
from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import PODS, Web, pod
from tests.watching import PATIENCE


class Echo:
    """A kubelet whose containers all run and say what they are told to run."""

    async def execution(self, namespace: str, pod: str, container: str) -> "Echo":
        return self

    async def execute(self, command: Sequence[str], channels: Channels) -> int:
        if command == ("crash",):
            raise RuntimeError("a bug")
        channels.stdout(" ".join(command).encode())
        return 0


def served(denied: str) -> BackgroundServer:
    rights = Rights([parse_denied(denied)])
    return BackgroundServer(SimulatedServer(Store(), kubelets=cast(Kubelets, Echo()), authorizer=rights, tokens={"t": SUITE_USER}))


@pytest.mark.parametrize(
    ("denied", "statuses"), [("create pods/exec", (403, 403)), ("get pods/exec", (403, 400)), ("create pods", (400, 400))]
)
def test_exec_needs_the_right_to_create_it(denied: str, statuses: tuple[int, int]) -> None:
    with served(denied) as running:
        Web(running.url).post(PODS, pod("a", node="n"))
        web = Web(running.url, "t")
        answers = web.get(f"{PODS}/a/exec?command=x&stdout=1"), web("POST", f"{PODS}/a/exec?command=x&stdout=1")
        assert tuple(answer.status for answer in answers) == statuses
        for answer in answers:
            if answer.status == 403:
                verb = "get" if denied.startswith("get") else "create"
                assert f'User "{SUITE_USER}" cannot {verb} resource "pods/exec" in API group ""' in answer.body["message"]


def test_a_client_is_reported_when_the_simulator_fails(caplog: pytest.LogCaptureFixture) -> None:
    with served("create pods") as running:
        Web(running.url).post(PODS, pod("a", node="n"))
        url = f"{running.url.replace('http', 'ws')}{PODS}/a/exec?command=%s&stdout=1"
        socket = websocket.create_connection(url % "hello", subprotocols=["v4.channel.k8s.io"], timeout=PATIENCE)
        assert [socket.recv(), socket.recv(), socket.recv()] == [b"\1", b"\1hello", b'\3{"metadata":{},"status":"Success"}']
        socket = websocket.create_connection(url % "crash", subprotocols=["v4.channel.k8s.io"], timeout=PATIENCE)
        assert socket.recv() == b"\1"
        assert b"Internal error occurred: RuntimeError" in socket.recv()
        assert "a bug" in caplog.text
