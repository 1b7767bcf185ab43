"""A plain kubeconfig is opened as the official client opens it, only sooner; whatever is not plain is left to that client."""

import base64
import shutil
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from fixtures.cluster import official_client
from fixtures.cluster.client import Cluster
from fixtures.cluster.plain_kubeconfig import plain_session
from fixtures.cluster.trouble import ApiTrouble
from fixtures.localcluster.control_plane.certificates import Certificates, make
from tests.served import kubeconfig

Config = dict[str, Any]
_PEM = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
_DATA = base64.b64encode(_PEM.encode()).decode()


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def written(folder: Path, server: str = "https://127.0.0.1:1", cluster: Config | None = None, user: Config | None = None) -> Path:
    path = kubeconfig(folder, server)
    config = yaml.safe_load(path.read_text())
    config["clusters"][0]["cluster"] |= cluster or {}
    config["users"][0]["user"] |= user or {}
    path.write_text(yaml.safe_dump(config))
    for name in ("ca.crt", "user.crt", "user.key"):
        (folder / name).write_text(_PEM)
    return path


def plain(path: Path, context: str | None = None) -> Any:
    return plain_session(path, yaml.safe_load(path.read_text()), context)


PLAIN: dict[str, tuple[str, Config, Config]] = {
    "no credentials": ("http://127.0.0.1:1", {}, {}),
    "a token": ("http://127.0.0.1:1/", {}, {"token": "abc.def"}),
    "an authority's file": ("https://[::1]:6443", {"certificate-authority": "ca.crt"}, {"token": "abc"}),
    "an authority in the file": ("https://api.example:6443/k8s/clusters/c-1", {"certificate-authority-data": _DATA}, {"token": "abc"}),
    "files of a certificate": ("https://10.0.0.1", {}, {"client-certificate": "user.crt", "client-key": "user.key"}),
}


@pytest.mark.parametrize("name", list(PLAIN))
def test_a_plain_kubeconfig_is_opened_as_the_official_client_opens_it(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, *PLAIN[name])
    ours, theirs = plain(path), official_client.from_kubeconfig(path, None)
    assert (ours.host, ours.authorization()) == (theirs.host, theirs.authorization())

    def tls(session: Any) -> Config:
        kept = dict(session.pool.connection_pool_kw)
        assert ssl.VerifyMode[kept["cert_reqs"]] if isinstance(kept["cert_reqs"], str) else kept["cert_reqs"] is ssl.CERT_REQUIRED
        data = kept.get("ca_cert_data") or (Path(kept["ca_certs"]).read_text() if kept.get("ca_certs") else None)
        return {"authority": data, **{key: kept.get(key) for key in ("cert_file", "key_file", "assert_hostname", "server_hostname")}}

    assert tls(ours) == tls(theirs)


OTHERS: dict[str, Callable[[Config, Config, Config], object]] = {
    "a plugin for credentials": lambda config, cluster, user: user.update(exec={"command": "x"}),
    "a provider of credentials": lambda config, cluster, user: user.update({"auth-provider": {"name": "oidc"}}),
    "a file of a token that is a number": lambda config, cluster, user: user.update(tokenFile=5),
    "a password": lambda config, cluster, user: user.update(username="a", password="b"),
    "somebody else's name": lambda config, cluster, user: user.update({"as": "root"}),
    "a certificate in the file": lambda config, cluster, user: user.update({"client-certificate-data": _DATA, "client-key-data": _DATA}),
    "a certificate without a key": lambda config, cluster, user: user.update({"client-certificate": "user.crt"}),
    "a certificate that is not there": lambda config, cluster, user: user.update({"client-certificate": "no", "client-key": "user.key"}),
    "a token of two lines": lambda config, cluster, user: user.update(token="a\nX: y"),
    "a token that is a number": lambda config, cluster, user: user.update(token=5),
    "an empty token": lambda config, cluster, user: user.update(token=""),
    "nobody's certificate": lambda config, cluster, user: cluster.update({"insecure-skip-tls-verify": True}),
    "another name of the server": lambda config, cluster, user: cluster.update({"tls-server-name": "api"}),
    "a proxy": lambda config, cluster, user: cluster.update({"proxy-url": "http://proxy:3128"}),
    "an authority that is not there": lambda config, cluster, user: cluster.update({"certificate-authority": "none.crt"}),
    "two authorities": lambda config, cluster, user: cluster.update(
        {"certificate-authority": "ca.crt", "certificate-authority-data": _DATA}
    ),
    "an authority that is no base64": lambda config, cluster, user: cluster.update({"certificate-authority-data": "%%%"}),
    "an authority that is no PEM": lambda config, cluster, user: cluster.update({"certificate-authority-data": "QUJD"}),
    "a user in the address": lambda config, cluster, user: cluster.update(server="https://me:secret@10.0.0.1"),
    "an address of another kind": lambda config, cluster, user: cluster.update(server="unix:///run/api"),
    "a port that is none": lambda config, cluster, user: cluster.update(server="http://127.0.0.1:99999999"),
    "a query in the address": lambda config, cluster, user: cluster.update(server="http://127.0.0.1/?a=b"),
    "two users of one name": lambda config, cluster, user: config["users"].append(config["users"][0]),
    "a user that is not there": lambda config, cluster, user: config.update(users=[]),
    "contexts that are no list": lambda config, cluster, user: config.update(contexts={"a": 1}),
    "an entry that is none": lambda config, cluster, user: config["clusters"].append(None),
}


@pytest.mark.parametrize("name", list(OTHERS))
def test_what_is_not_plain_is_left_to_the_official_client(tmp_path: Path, name: str) -> None:
    path = written(tmp_path)
    config = yaml.safe_load(path.read_text())
    OTHERS[name](config, config["clusters"][0]["cluster"], config["users"][0]["user"])
    path.write_text(yaml.safe_dump(config))
    assert plain(path) is None


def test_a_proxy_of_the_environment_is_the_official_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    monkeypatch.setenv("no_proxy", "localhost")
    assert plain(path) is not None
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    assert plain(path) is None


# -- a server with TLS -----------------------------------------------------------------------------------


class _Version(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"gitVersion": "v1.36.0", "major": "1", "minor": "36"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing to say."""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    return make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def server(certificates: Certificates) -> Iterator[str]:
    """A server that only talks to who has a certificate of its authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.authority))
    context.load_cert_chain(certificates.server, certificates.server_key)
    context.verify_mode = ssl.CERT_REQUIRED
    with HTTPServer(("127.0.0.1", 0), _Version) as http:
        http.socket = context.wrap_socket(http.socket, server_side=True)
        http.handle_error = lambda request, client_address: None  # type: ignore[method-assign]  # who is turned away is the test's business
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield f"https://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def test_a_certificate_of_the_authority_opens_the_server(tmp_path: Path, server: str, certificates: Certificates) -> None:
    data = base64.b64encode(certificates.authority.read_bytes()).decode()
    user = {"client-certificate": str(certificates.client), "client-key": str(certificates.client_key)}
    for cluster in ({"certificate-authority-data": data}, {"certificate-authority": str(certificates.authority)}):
        path = written(tmp_path, server, cluster, user)
        assert plain(path) is not None
        assert Cluster.from_kubeconfig(path).probe() == "v1.36.0"


def test_a_server_of_no_known_authority_is_not_talked_to(tmp_path: Path, server: str, certificates: Certificates) -> None:
    path = written(tmp_path, server, user={"client-certificate": str(certificates.client), "client-key": str(certificates.client_key)})
    assert plain(path) is not None
    with pytest.raises(ApiTrouble, match="certificate-authority has not signed"):
        Cluster.from_kubeconfig(path).request("GET", "/version", attempts=1)
