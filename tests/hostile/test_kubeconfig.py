"""A kubeconfig may hold anything: it costs one line that quotes no secret and moves no cursor, and exit code 4."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from chaos.surface.cli import main
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble, ClusterUnreachable
from tests.served import kubeconfig

SECRET = "s3cr3t"
Config = dict[str, Any]


def _server(**fields: Any) -> Callable[[Config], None]:
    return lambda config: config["clusters"][0]["cluster"].update(fields)


def _user(**fields: Any) -> Callable[[Config], None]:
    return lambda config: config["users"][0].update(user=fields)


CASES: dict[str, Callable[[Config], None]] = {
    "a number for a server": _server(server=5),
    "a server that is no address": _server(server="http://[::1"),
    "a port that is none": _server(server="http://127.0.0.1:99999999"),
    "a line end in the server": _server(server="http://127.0.0.1:1\r\nX: y"),
    "a terminal's words in the server": _server(server="http://127.0.0.1:1/\x1b[31m"),
    "a proxy without a scheme": _server(**{"proxy-url": "nonsense"}),
    "a number for a proxy": _server(**{"proxy-url": 5}),
    "a line end in the token": _user(token=f"{SECRET}\nX: y"),
    "a token that is no header": _user(token=f"{SECRET}\u2028"),
    "a context with a terminal's words": lambda config: config.update({"current-context": "\x1b[31m"}),
    "no user": lambda config: config["users"][0].update(user=5),
    "no contexts": lambda config: config.update(contexts=[None]),
}


@pytest.mark.parametrize("name", list(CASES))
def test_it_is_one_line_and_exit_code_4(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")
    config = yaml.safe_load(path.read_text())
    CASES[name](config)
    path.write_text(json.dumps(config))
    assert main(["chaos", "status", "--kubeconfig", str(path)]) == 4
    said = capsys.readouterr().err
    assert said.startswith("gpu-conformance chaos: ")
    assert said[:-1].isprintable()
    assert SECRET not in said


def test_credentials_that_cannot_be_renewed_are_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")
    config = yaml.safe_load(path.read_text())
    _server(**{"tls-server-name": "api"})(config)  # no plain kubeconfig: the official client opens it
    path.write_text(json.dumps(config))
    cluster = Cluster.from_kubeconfig(path)

    def gone(*_: Any) -> None:
        raise FileNotFoundError(SECRET)

    monkeypatch.setattr("fixtures.cluster.official_client.ApiClient.update_params_for_auth", gone)
    with pytest.raises(ApiTrouble, match="could not be renewed") as caught:
        cluster.get("namespaces", "default")
    assert SECRET not in caught.value.message


def test_what_is_said_of_a_server_is_one_harmless_line() -> None:
    assert str(ClusterUnreachable("a\nb \x1b[31m")) == "a b \\x1b[31m"
