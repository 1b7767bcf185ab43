"""Exec and followed logs through a real API server, held to what the embedded cluster answers to the same commands."""

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client as official
from kubernetes import config
from kubernetes.stream import stream

from fixtures.cluster.client import Cluster
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.simulator.api.objects import Json
from fixtures.simulator.process.child import EmbeddedCluster
from tests.kubectl import ATTEMPTS, KUBECTL, missed, needs_kubectl, reported
from tests.watching import PATIENCE

pytestmark = [needs_kubectl, pytest.mark.xdist_group("healthy"), pytest.mark.test_all]

BY_WEBSOCKET, BY_SPDY = "true", "false"


def a_pod(name: str, containers: dict[str, str], **more: Any) -> Json:
    made = [{"name": key, "image": "busybox", "command": ["sh", "-c", script]} for key, script in containers.items()]
    spec = {"restartPolicy": "Never", "nodeName": "cpu-0", "containers": made, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


OBJECTS = [
    a_pod("two", {"main": "sleep infinity", "ended": "exit 0"}, initContainers=[{"name": "init", "image": "x", "command": ["true"]}]),
    a_pod("unbound", {"main": "sleep infinity"}, schedulerName="nobody", nodeName=None),
]


class Side:
    """One of the two clusters, through its administrator's kubeconfig."""

    def __init__(self, kubeconfig: Path, context: str | None) -> None:
        self.kubeconfig = kubeconfig
        self.context = context
        self.cluster = Cluster.from_kubeconfig(kubeconfig, context)

    def kubectl(self, *arguments: str, stdin: str | None = None, remote: str = BY_WEBSOCKET) -> tuple[int, str, str]:
        """Exit status, output and errors; identities of commands and times are masked."""
        command = self.command(*arguments)
        environment = {"HOME": tempfile.gettempdir(), "PATH": os.defpath, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": remote}
        for _ in range(ATTEMPTS):
            done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment, timeout=PATIENCE, check=False)
            if not missed(done.stderr):
                break
        return done.returncode, done.stdout, re.sub(r"[0-9a-f]{64}", "ID", reported(done.stderr))

    def command(self, *arguments: str) -> list[str]:
        chosen = ["--context", self.context] if self.context else []
        return [str(KUBECTL), "--kubeconfig", str(self.kubeconfig), *chosen, *arguments]

    def core(self) -> Any:
        make: Any = config.new_client_from_config
        return official.CoreV1Api(make(str(self.kubeconfig), self.context))


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    with EmbeddedCluster.start("healthy", tmp_path_factory.mktemp("embedded")) as cluster:
        yield prepared(Side(cluster.kubeconfig, "admin"))


@pytest.fixture(scope="module")
def real(healthy: LocalCluster) -> Iterator[Side]:
    side = prepared(Side(healthy.admin_kubeconfig, None))
    yield side
    for name in ("two", "unbound", "talker"):
        side.cluster.delete("pods", name, "default", grace_seconds=0)


@pytest.fixture(params=["embedded", "real"])
def side(request: pytest.FixtureRequest) -> Side:
    found: Side = request.getfixturevalue(request.param)
    return found


def prepared(side: Side) -> Side:
    assert side.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(OBJECTS))[0] == 0
    ended = "--for=jsonpath={.status.containerStatuses[1].state.terminated.exitCode}=0"
    assert side.kubectl("wait", ended, "pod/two", "--timeout=120s")[0] == 0
    return side


STARTED = (
    'error executing command in container: failed to exec in container: failed to start exec "ID": OCI runtime exec failed: exec failed: '
)
ONCE = f"error: Internal error occurred: {STARTED}unable to start container process: exec: "
REFUSED = ONCE.replace("error: ", "error: Internal error occurred: ", 1)
NO_INPUT = "a simulated container has neither standard input nor a terminal (leave out -i and -t)"

CASES: list[tuple[Sequence[str], str | None, tuple[int, str, str]]] = [
    (("two", "-c", "main", "--", "sh", "-c", "echo hi; exit 3"), None, (3, "hi\n", "command terminated with exit code 3\n")),
    (("two", "-c", "main", "--", "sh", "-c", "echo oh >&2"), None, (0, "", "oh\n")),
    (("-i", "two", "-c", "main", "--", "cat"), "a\n", (1, "", f"error: unable to upgrade connection: {NO_INPUT}\n")),
    (("two", "-c", "zz", "--", "true"), None, (1, "", "Error from server (BadRequest): container zz is not valid for pod two\n")),
    (("two", "-c", "ended", "--", "true"), None, (1, "", 'error: unable to upgrade connection: container not found ("ended")\n')),
    (("two", "-c", "main", "--", "nope"), None, (1, "", f'{REFUSED}"nope": executable file not found in $PATH: unknown\n')),
    (("two", "-c", "main", "--", "/x/y"), None, (1, "", f'{REFUSED}"/x/y": stat /x/y: no such file or directory: unknown\n')),
    (("unbound", "--", "true"), None, (1, "", "Error from server (BadRequest): pod unbound does not have a host assigned\n")),
    (("none", "--", "true"), None, (1, "", 'Error from server (NotFound): pods "none" not found\n')),
]


@pytest.mark.parametrize(("arguments", "stdin", "expected"), CASES, ids=[" ".join(case[0]) for case in CASES])
def test_kubectl_exec(side: Side, arguments: Sequence[str], stdin: str | None, expected: tuple[int, str, str]) -> None:
    assert side.kubectl("exec", *arguments, stdin=stdin) == expected


def test_the_official_client(side: Side) -> None:
    call = side.core().connect_get_namespaced_pod_exec
    streams = {"container": "main", "stdout": True, "stderr": True}
    assert stream(call, "two", "default", command=["sh", "-c", "echo hi; echo oh >&2"], **streams) == "hi\noh\n"


NO_SPDY = (
    "unable to upgrade connection: simulated nodes serve exec by WebSocket only, which needs Kubernetes 1.36 and kubectl 1.31 or later\n"
)


def test_an_old_kubectl_which_speaks_spdy_is_reported_what_to_use(real: Side) -> None:
    assert real.kubectl("exec", "two", "-c", "main", "--", "true", remote=BY_SPDY) == (1, "", f"error: {NO_SPDY}")


def test_an_api_server_that_speaks_spdy_to_a_node_tells_what_to_use(real: Side) -> None:
    """As before 1.36, where no node declares WebSockets: the API server translates v5, and hands v4 through."""
    assert real.cluster.patch("nodes", "cpu-0", {"status": {"declaredFeatures": None}}, subresource="status").status == 200
    try:
        refused = real.kubectl("exec", "two", "-c", "main", "--", "true")
        assert refused == (1, "", f"error: Internal error occurred: {NO_SPDY}")
        core = real.core()
        core.api_client.set_default_header("sec-websocket-protocol", "v4.channel.k8s.io")
        call = core.connect_get_namespaced_pod_exec
        assert stream(call, "two", "default", command=["echo", "hi"], container="main", stdout=True) == "hi\n"
    finally:
        declared = {"status": {"declaredFeatures": ["ExtendWebSocketsToKubelet"]}}
        real.cluster.patch("nodes", "cpu-0", declared, subresource="status")


def test_a_followed_log_ends_with_its_container(side: Side) -> None:
    script = "echo one; until test -f /tmp/go; do sleep 0.05; done; sleep 3; echo two"  # it outlives the exec that lets it go
    assert side.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(a_pod("talker", {"main": script})))[0] == 0
    assert side.kubectl("wait", "--for=condition=Ready", "pod/talker", "--timeout=120s")[0] == 0
    with subprocess.Popen(side.command("logs", "-f", "talker"), stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "one\n"
        assert following.poll() is None
        assert side.kubectl("exec", "talker", "--", "sh", "-c", "echo > /tmp/go") == (0, "", "")
        assert following.communicate(timeout=PATIENCE)[0] == "two\n"
        assert following.returncode == 0


def test_what_is_on_nodes_is_reached_through_the_proxy(side: Side) -> None:
    path = "/api/v1/namespaces/gpu-operator/services/nvidia-dcgm-exporter:9400/proxy/metrics"
    code, text, errors = side.kubectl("get", "--raw", path)
    assert (code, errors) == (0, "")
    assert "# TYPE DCGM_FI_DEV_GPU_TEMP gauge" in text


def test_pods_that_ran_before_their_kubelet_came_take_commands_too(side: Side) -> None:
    code, names, _ = side.kubectl("get", "pods", "-n", "gpu-operator", "-o", "name", "--field-selector", "status.phase=Running")
    pod = next(name.strip() for name in names.splitlines() if "dcgm-exporter" in name)
    assert code == 0
    where = ("exec", "-n", "gpu-operator", pod, "-c", "nvidia-dcgm-exporter", "--")
    assert side.kubectl(*where, "hostname") == (0, pod.removeprefix("pod/") + "\n", "")
    assert side.kubectl(*where, "sh", "-c", "echo kept > /tmp/note") == (0, "", "")
    assert side.kubectl(*where, "cat", "/tmp/note") == (0, "kept\n", "")
