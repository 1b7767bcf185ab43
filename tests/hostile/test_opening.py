"""What keeps the official client from opening a cluster costs one line and exit code 4, whichever way the cluster was named."""

import sys
from pathlib import Path
from types import ModuleType

import pytest
import urllib3
from kubernetes.config import incluster_config

from conformance.cli.main import main
from fixtures.cluster import official_client
from fixtures.cluster.client import Cluster
from tests.served import edited, served

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
    said = capsys.readouterr().err
    assert said.startswith("gpu-conformance cleanup: ")
    assert said[:-1].isprintable()
    return said


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
    said = refused(capsys, "--kubeconfig", str(path))
    assert f"kubeconfig {path}: {NO_SOCKS}" in said


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
