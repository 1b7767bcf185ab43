"""A pipe that nobody writes to, in place of a file that the user names, is refused in one line and never waited for."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.cli.main import main
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ClusterUnreachable
from fixtures.snapshot.files import SnapshotError, load_files
from fixtures.text.yaml_text import NotYaml
from fixtures.text.yaml_text import read as read_yaml
from reports.folder import ReportError, load

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
