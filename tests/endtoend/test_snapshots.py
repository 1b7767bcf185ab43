"""Saved snapshots: what the README's command saves is judged as the cluster is, and what was not saved is listed."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.catalogue import load_catalogue
from conformance.cli.explain import snapshot_command, snapshot_keys
from conformance.cli.main import main
from fixtures.cluster.kinds import KINDS
from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.snapshot.files import load_files
from fixtures.snapshot.folder import INCOMPLETE, SERVED
from fixtures.verdict.record import Access, Report, Result
from tests.endtoend.runs import Finished, run_for_record
from tests.kubectl import KUBECTL, needs_kubectl

pytestmark = pytest.mark.test_all

CATALOGUE = load_catalogue()
COMMAND = snapshot_command(CATALOGUE)
_READ_PAGES = {id_ for id_, one in CATALOGUE.by_id.items() if {"get pods/proxy", "get /metrics"} & set(one.writes)}
ASK_THE_CLUSTER = {id_ for id_, one in CATALOGUE.by_id.items() if one.access is not Access.READ} | _READ_PAGES | {"INV-03"}


def dump(folder: Path, kubeconfig: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command as it is pasted: a POSIX shell, kubectl's own configuration."""
    search = os.pathsep.join([path, str(Path(str(KUBECTL)).parent), "/usr/bin", "/bin"])
    environment = {"HOME": str(folder), "PATH": search.removeprefix(os.pathsep), "KUBECONFIG": str(kubeconfig)}
    return subprocess.run(["sh", "-c", COMMAND], cwd=folder, env=environment, capture_output=True, text=True, timeout=180, check=False)


class Saved:
    """What the command saved of ``showcase``, the owner's policy, and what was said of the cluster as it ran."""

    def __init__(self, live: Report, folder: Path, policy: Path) -> None:
        self.live = {result.id: result for result in live.results}
        self.folder = folder
        self.policy = policy

    def judged(self, into: Path, folder: Path | None = None) -> tuple[Finished, dict[str, Result]]:
        done = run_for_record(into, "--snapshot", str(folder or self.folder), "--policy", str(self.policy))
        return done, {result.id: result for result in done.record.results}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    folder = tmp_path_factory.mktemp("saved")
    policy = folder / "policy.json"
    with EmbeddedCluster.start("showcase", folder) as cluster:
        policy.write_text(json.dumps(cluster.policy))
        done = dump(folder, cluster.kubeconfig)
        live = run_for_record(folder, "--kubeconfig", str(cluster.kubeconfig), "--read-only", "--policy", str(policy)).record
    assert (done.returncode, done.stderr) == (0, "")
    return Saved(live, folder / "dump", policy)


@needs_kubectl
def test_what_the_command_saves_is_judged_as_the_cluster_is(saved: Saved, tmp_path: Path) -> None:
    done, results = saved.judged(tmp_path)
    for id_, result in results.items():
        if id_ not in ASK_THE_CLUSTER:
            live = saved.live[id_]
            # the command takes no custom kinds, because they may hold secrets, and each requirement about templates says so once
            untaken = sum("may hold pod templates, and the snapshot does not hold them" in found.message for found in result.subjects)
            assert (result.verdict, result.reason_code, result.judged, result.total - untaken) == (
                live.verdict,
                live.reason_code,
                live.judged,
                live.total,
            ), result.message
    assert "the snapshot holds no" not in done.output
    assert not done.scope or not [note for note in done.scope.notes if "snapshot" in note]


@needs_kubectl
def test_a_list_that_was_refused_is_a_kind_that_was_not_saved(saved: Saved, tmp_path: Path) -> None:
    """The shell leaves an empty file of it. A kind that is not served was asked for by nobody, so that the others were saved."""
    folder = tmp_path / "less"
    shutil.copytree(saved.folder, folder)
    (folder / "pods.json").write_text("")
    snapshot = load_files(folder)
    assert snapshot.lacks("pods")
    assert not snapshot.listing("amd.com/deviceconfigs").served
    assert not (folder / "deviceconfigs.amd.com.json").exists()
    assert snapshot.listing("replicationcontrollers").collected
    assert snapshot.nodes


BROKEN = """#!/bin/sh
if [ "$1" = api-resources ]; then echo nodes; echo "error: unable to retrieve the complete list of server APIs" >&2; exit 1; fi
echo '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-0"}}]}'
"""


def test_where_discovery_failed_no_kind_is_called_unserved(tmp_path: Path) -> None:
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.parent.mkdir()
    kubectl.write_text(BROKEN)
    kubectl.chmod(0o755)
    done = dump(tmp_path, tmp_path / "none", str(kubectl.parent))
    assert done.returncode == 0
    assert INCOMPLETE in (tmp_path / "dump" / SERVED).read_text().splitlines()
    snapshot = load_files(tmp_path / "dump")
    assert [key for key in snapshot_keys(CATALOGUE) if not snapshot.lacks(key)] == ["nodes"]


def test_the_command_asks_for_every_kind_that_read_requirements_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--snapshot-command"]) == 0
    assert capsys.readouterr().out == COMMAND + "\n"
    wanted = {key for one in CATALOGUE.by_id.values() if one.access is Access.READ for key in one.lists}
    words = COMMAND.split()
    for key in wanted:
        kind = KINDS[key]
        assert (f"{kind.plural}.{kind.group}" if kind.group else kind.plural) in words
    assert "--show-managed-fields" in words
    assert "secrets" not in COMMAND
