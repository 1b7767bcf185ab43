"""A kubeconfig may hold anything: it costs one line that quotes no secret and moves no cursor, and exit code 4."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import urllib3
from kubernetes.config import incluster_config

from conformance.cli.main import main
from fixtures.cluster import client, exec_plugin, official_client, session, token_file
from fixtures.cluster.client import Cluster
from fixtures.cluster.plain_kubeconfig import PlainSession
from fixtures.cluster.trouble import ApiTrouble, ClusterUnreachable, CredentialsError
from fixtures.snapshot.files import SnapshotError, load_files
from fixtures.text.yaml_text import NotYaml
from fixtures.text.yaml_text import read as read_yaml
from reports.folder import ReportError, load
from tests.hostile.lying import Asked, Said, lying, reported, status
from tests.served import edited, kubeconfig, served
from tests.tables import each_row, filled, table

SECRET = "s3cr3t"
Config = dict[str, Any]


TABLE = filled(table(__file__), {"SECRET": SECRET})


@pytest.mark.parametrize("name", TABLE["nobody"])
def test_credentials_that_come_to_nothing_are_reported_and_nobody_is_asked(tmp_path: Path, name: str) -> None:
    """The official client goes on without them, as nobody, and a cluster may let nobody see a part of it."""
    with lying(tmp_path, lambda _: reported({"gitVersion": "v1.36.0"})) as (served, asked):
        path = edited(tmp_path, served.server, user={"user": TABLE["nobody"][name]})
        with pytest.raises(ClusterUnreachable) as caught:
            Cluster.from_kubeconfig(path).probe()
        assert "would act as nobody" in str(caught.value) or "exec plugin" in str(caught.value)
        assert SECRET not in str(caught.value)
        assert asked == []


@pytest.mark.parametrize("name", TABLE["refused"])
def test_what_a_kubeconfig_may_not_say_is_refused_when_it_is_opened(tmp_path: Path, name: str) -> None:
    reported, changes = TABLE["refused"][name]
    with pytest.raises(ClusterUnreachable, match=reported):
        Cluster.from_kubeconfig(edited(tmp_path, **changes))


@pytest.mark.parametrize("name", TABLE["cases"])
def test_it_is_one_line_and_exit_code_4(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    path = edited(tmp_path, **TABLE["cases"][name])
    assert main(["chaos", "status", "--kubeconfig", str(path)]) == 4
    reported = capsys.readouterr().err
    assert reported.startswith("gpu-conformance chaos: ")
    assert reported[:-1].isprintable()
    assert SECRET not in reported


def _echo(status: object) -> str:
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"echo '{json.dumps(credential)}'"


PLUGINS = {
    "fails": (f"echo '{SECRET} \x1b[31m' >&2; exit 3", "ended with 3"),
    "prints a list": ("echo '[1, 2]'", "printed no ExecCredential"),
    "prints brackets": ("yes [ | head -c 200000", "printed no ExecCredential"),
    "prints no text": (r"printf '\377\376'", "printed no ExecCredential"),
    "prints without end": ("yes", "printed more than 1 MiB"),
    "speaks of another version": (_echo({"token": SECRET}).replace("/v1", "/v1beta1"), "printed no ExecCredential of client"),
    "has no status": (_echo(None), "printed no ExecCredential"),
    "gives a number for a token": (_echo({"token": 5}), "printed no ExecCredential"),
    "gives a certificate without its key": (_echo({"clientCertificateData": "x"}), "printed neither a token nor"),
    "hangs": ("sleep 1000; echo", "did not end within 1 s"),
    "leaves something behind that hangs": ("sleep 1000 &", "did not end within 1 s"),
}


def _with_plugin(folder: Path, server: str, script: str) -> Path:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never", "command": "sh", "args": ["-c", script]}
    return edited(folder, server, user={"user": {"exec": plugin}})


@pytest.mark.parametrize("name", PLUGINS)
def test_an_exec_plugin_that_gives_no_credentials_is_one_line_that_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    script, why = PLUGINS[name]
    if "1 s" in why:
        monkeypatch.setattr(exec_plugin, "SECONDS", 1.0)
    path = _with_plugin(tmp_path, "http://127.0.0.1:1", script)
    assert main(["chaos", "status", "--kubeconfig", str(path)]) == 4
    reported = capfd.readouterr().err
    assert reported.startswith(f"gpu-conformance chaos: kubeconfig {path}: the exec plugin 'sh': {why}")
    assert reported[:-1].isprintable()
    assert SECRET not in reported


@each_row
def test_an_exec_plugin_that_kubectl_understands_opens_the_cluster(tmp_path: Path, more: Config) -> None:
    with lying(tmp_path, lambda _: reported({"gitVersion": "v1.36.0"})) as (served, asked):
        cluster = Cluster.from_kubeconfig(_with_plugin(tmp_path, served.server, _echo({"token": SECRET, **more})))
        assert cluster.probe() == "v1.36.0"
        assert len(asked) == 1


def test_an_end_that_cannot_be_reckoned_with_is_trouble_and_no_crash(tmp_path: Path) -> None:
    script = _echo({"token": SECRET, "expirationTimestamp": "0001-01-01T00:00:01Z"})
    cluster = Cluster.from_kubeconfig(_with_plugin(tmp_path, "http://127.0.0.1:1", script))
    with pytest.raises(ApiTrouble, match=r"could not be renewed \(OverflowError\)"):
        cluster.get("namespaces", "default")


def test_an_exec_plugin_gives_the_token_of_each_request_until_it_fails(tmp_path: Path) -> None:
    """It ran out in 2020, so that the official client asks again for each request."""
    script = (
        f"test ! -e {tmp_path}/broken && {_echo({'token': SECRET, 'expirationTimestamp': '2020-01-01T00:00:00Z', 'clientKeyData': None})}"
    )
    session = official_client.from_kubeconfig(_with_plugin(tmp_path, "http://127.0.0.1:1", script), None)
    assert session.authorization() == {"authorization": f"Bearer {SECRET}"}
    (tmp_path / "broken").touch()
    with pytest.raises(CredentialsError, match="the exec plugin 'sh': ended with 1"):
        session.authorization()


@pytest.mark.parametrize(
    ("server", "why"), [("http://127.0.0.1:1", "Connection refused"), ("http://no-such-host.invalid:1", "Failed to resolve")]
)
def test_a_server_that_nobody_reaches_is_not_reported_to_be_slow(tmp_path: Path, server: str, why: str) -> None:
    with pytest.raises(ClusterUnreachable, match=f"GET /version: Failed to .*{why}|GET /version: {why}") as caught:
        Cluster.from_kubeconfig(kubeconfig(tmp_path, server)).probe()
    assert "within" not in str(caught.value)


def test_a_plugin_that_fails_is_not_started_for_each_request(tmp_path: Path) -> None:
    """It would cost each of them a minute where it hangs."""
    script = f"test ! -e {tmp_path}/broken || echo >> {tmp_path}/broken; test ! -e {tmp_path}/broken && "
    script += _echo({"token": SECRET, "expirationTimestamp": "2020-01-01T00:00:00Z"})
    cluster = Cluster.from_kubeconfig(_with_plugin(tmp_path, "http://127.0.0.1:1", script))
    (tmp_path / "broken").touch()
    for _ in range(5):
        with pytest.raises(ApiTrouble, match=r"could not be renewed \(the exec plugin 'sh': ended with 1"):
            cluster.get("namespaces", "default")
    assert (tmp_path / "broken").read_text() == "\n"


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "the official client's"])
def test_a_token_file_is_read_again_and_counts_before_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: bool) -> None:
    monkeypatch.setattr(token_file, "SECONDS", 0.0)
    (tmp_path / "token").write_text("t1\n")
    more = {} if plain else {"tls-server-name": "api"}
    opened, _ = session.from_kubeconfig(edited(tmp_path, user={"user": {"tokenFile": "token", "token": "t0"}}, cluster=more), None)
    assert isinstance(opened, PlainSession) is plain
    assert opened.authorization() == {"authorization": "Bearer t1"}
    (tmp_path / "token").write_text("t2")
    assert opened.authorization() == {"authorization": "Bearer t2"}
    (tmp_path / "token").write_text("")  # in the middle of being written
    assert opened.authorization() == {"authorization": "Bearer t2"}


def test_a_token_file_without_a_token_is_trouble(tmp_path: Path) -> None:
    cluster = Cluster.from_kubeconfig(edited(tmp_path, user={"user": {"tokenFile": "no-such-file"}}))
    with pytest.raises(ApiTrouble, match=r"could not be renewed \(no-such-file holds no token"):
        cluster.get("namespaces", "default")


@pytest.mark.parametrize("takes", [0, 0.3])
def test_credentials_that_were_replaced_are_taken_once_the_old_ones_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes: float
) -> None:
    """An exec plugin need not say when its token ends. It is started again once, however often the server refuses, and however late."""
    if takes:
        monkeypatch.setattr(client, "REOPEN_SECONDS", takes / 2)
    refusals = [0]

    def answers(asked: Asked) -> Said:
        refusals[0] += 1
        return reported({"gitVersion": "v1.37.0"}) if refusals[0] in (1, 3) else status(401, "Unauthorized")

    script = f"echo >> {tmp_path}/started; sleep {takes}; {_echo({'token': SECRET})}"
    (tmp_path / "server").mkdir()
    with lying(tmp_path / "server", answers) as (unused, _):
        cluster = Cluster.from_kubeconfig(_with_plugin(tmp_path, unused.server, script))
        assert [cluster.request("GET", "/version").status for _ in range(4)] == [200, 200, 401, 401]
    assert (tmp_path / "started").read_text() == "\n\n"


def test_plain_http_behind_https_is_reported(tmp_path: Path) -> None:
    with lying(tmp_path, lambda asked: reported({})) as (cluster, _):
        https = kubeconfig(tmp_path, cluster.server.replace("http:", "https:"))
        with pytest.raises((ApiTrouble, ClusterUnreachable), match="the server speaks plain HTTP"):
            Cluster.from_kubeconfig(https).request("GET", "/version", attempts=1)


# -- what keeps the official client from opening a cluster costs one line and exit code 4, whichever way the cluster was named --


SOCKS = "socks5://127.0.0.1:1"
NO_SOCKS = "a SOCKS proxy is not supported"


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The token of a pod's ServiceAccount, as the process of the pod finds it."""
    (tmp_path / "token").write_text("abc.def")
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    return tmp_path / "token"


def refused(capsys: pytest.CaptureFixture[str], *target: str) -> str:
    assert main(["cleanup", "--dry-run", *target]) == 4
    reported = capsys.readouterr().err
    assert reported.startswith("gpu-conformance cleanup: ")
    assert reported[:-1].isprintable()
    return reported


@pytest.fixture(params=["without PySocks", "with PySocks"])
def _pysocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySocks may have come with another package. Here it is as far as the client asks for it."""
    monkeypatch.delitem(sys.modules, "urllib3.contrib.socks", raising=False)
    found = ModuleType("socks")
    found.PROXY_TYPE_SOCKS5 = 2  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "socks", found if request.param == "with PySocks" else None)


@pytest.mark.filterwarnings("ignore:SOCKS support")
@pytest.mark.usefixtures("_pysocks")
@pytest.mark.parametrize("way", ["proxy-url", "environment"])
def test_a_socks_proxy_before_the_server_of_a_kubeconfig(
    tmp_path: Path, way: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = edited(tmp_path, "https://127.0.0.1:1", cluster={"proxy-url": SOCKS} if way == "proxy-url" else {})
    if way == "environment":
        monkeypatch.setenv("HTTPS_PROXY", SOCKS)
    reported = refused(capsys, "--kubeconfig", str(path))
    assert f"kubeconfig {path}: {NO_SOCKS}" in reported


@pytest.mark.filterwarnings("ignore:SOCKS support")
@pytest.mark.usefixtures("_pysocks", "token")
def test_a_socks_proxy_before_the_server_of_a_pod(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", SOCKS)
    assert f"--in-cluster: {NO_SOCKS}" in refused(capsys, "--in-cluster")


@pytest.mark.usefixtures("token")
def test_a_proxy_without_a_scheme_before_the_server_of_a_pod(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    assert "--in-cluster: cannot be used" in refused(capsys, "--in-cluster")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00"], ids=["empty", "no text"])
def test_a_token_of_a_pod_that_is_none(token: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    token.write_bytes(content)
    assert "--in-cluster: " in refused(capsys, "--in-cluster")


@pytest.mark.usefixtures("token")
def test_an_http_proxy_is_used_and_a_pod_without_a_proxy_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(official_client.in_cluster().pool) is urllib3.PoolManager
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    assert isinstance(official_client.in_cluster().pool, urllib3.ProxyManager)


def test_a_socks_proxy_is_no_matter_for_a_server_that_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", SOCKS)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with served(tmp_path):
        assert Cluster.from_kubeconfig(tmp_path / "kubeconfig").probe().startswith("v1.")


# -- a pipe that nobody writes to, in place of a file that the user names, is refused in one line and never waited for --


KUBECONFIG = """
clusters: [{name: c, cluster: {server: https://127.0.0.1:1%s}}]
users: [{name: u, user: {%s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


def opening(cluster: str, user: str) -> Callable[[Path], object]:
    def read(pipe: Path) -> object:
        file = pipe.with_name("kubeconfig")
        file.write_text(KUBECONFIG % (cluster, user))
        return Cluster.from_kubeconfig(file)

    return read


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (opening("", "tokenFile: pipe"), ClusterUnreachable),
        (opening(", certificate-authority: pipe", "token: t"), ClusterUnreachable),
        (opening("", "client-certificate: pipe, client-key: pipe"), ClusterUnreachable),
        (Cluster.from_kubeconfig, ClusterUnreachable),
        (read_yaml, NotYaml),
        (load, ReportError),
        (load_files, SnapshotError),
    ],
    ids=["token", "authority", "certificate", "kubeconfig", "policy and waivers", "report", "snapshot"],
)
def test_a_pipe_is_no_file(tmp_path: Path, read: Callable[[Path], object], error: type[Exception]) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(error, match="regular file") as raised:
        read(tmp_path / "pipe")
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("command", [["inspect", "nccl-log"], ["report"], ["verify"]], ids=" ".join)
def test_a_command_over_a_pipe_is_a_usage_error(tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert main([*command, str(tmp_path / "pipe")]) == 4, capsys.readouterr()
