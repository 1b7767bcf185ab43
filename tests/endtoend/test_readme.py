"""Every command in README.md works as it stands there, one after the other, for somebody whose cluster is healthy."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.catalogue import load_catalogue
from conformance.cli.commands import COMMANDS
from conformance.cli.explain import snapshot_keys
from fixtures.cluster.client import Cluster
from fixtures.cluster.discovery import discover
from fixtures.cluster.kinds import KINDS, kubectl_name
from fixtures.simulator.process.child import EmbeddedCluster
from tests import readme
from tests.endtoend.runs import ROOT, environment
from tests.kubectl import needs_kubectl
from tests.outputs.lookalikes import path_of

pytestmark = pytest.mark.test_all

STEP = "README, line: "


def save(cluster: Cluster, folder: Path) -> None:
    """What the command that saves a snapshot would save, without 50 calls of kubectl."""
    folder.mkdir()
    served = discover(cluster)
    cluster.learn_versions({key: served[key][0] for key in KINDS if key in served})
    keys = [key for key in snapshot_keys(load_catalogue()) if key in served]
    (folder / "api-resources.txt").write_text("".join(f"{kubectl_name(key)}\n" for key in served))
    for key in keys:
        (folder / f"{kubectl_name(key)}.json").write_bytes(cluster.request("GET", cluster.path(key)).body)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home and working folder of a reader whose kubeconfig is where kubectl looks for it."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / ".kube").mkdir()
    (folder / ".venv").symlink_to(Path(sys.prefix))
    shutil.copy(path_of("nccl-gdr"), folder / "run.log")
    (folder / "simulated").mkdir()
    with EmbeddedCluster.start("healthy", folder / "simulated") as cluster:
        shutil.copy(cluster.kubeconfig, folder / ".kube" / "config")
        save(Cluster.from_kubeconfig(cluster.kubeconfig), folder / "dump")
        yield folder


@needs_kubectl
def test_the_commands_of_the_readme_work_one_after_the_other(reader: Path) -> None:
    pod = json.loads((reader / "dump" / "pods.json").read_bytes())["items"][0]["metadata"]
    own = {"gpu-3": "h100-1", "team-a/train-0": f"{pod['namespace']}/{pod['name']}"}  # README names nobody's objects
    steps = [
        f"echo {STEP}{number}; {re.sub('|'.join(own), lambda name: own[name[0]], line)}" for number, line in enumerate(readme.commands())
    ]
    kept = {key: value for key, value in environment().items() if key != "KUBECONFIG"}
    done = subprocess.run(
        ["bash", "-euc", "\n".join(steps)],
        cwd=reader,
        env={**kept, "HOME": str(reader), "PATH": f"/usr/bin:/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=900,
    )
    last = done.stdout.rpartition(STEP)[2]
    number = int(last.partition("\n")[0])
    assert done.returncode == 0, f"{readme.commands()[number]}\n{last}\n{done.stderr[-3000:]}"
    assert number == len(steps) - 1
    assert json.loads((reader / "after" / "report.json").read_bytes())["verdict"] == "passed"
    assert (reader / "fleet" / "fleet.html").is_file() or any((reader / "fleet").iterdir())


def test_every_make_target_of_the_readme_is_there() -> None:
    assert readme.targets()
    for words in readme.targets():
        done = subprocess.run(["make", "--dry-run", "--silent", *words], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (words, done.stderr)


def test_the_first_verdict_takes_three_commands() -> None:
    first = readme.lines(readme.BLOCKS[0])
    assert len(first) == 3
    assert first[0] == "make setup"
    assert "doctor --kubeconfig" in first[1]
    assert "run --kubeconfig" in first[2]


def test_blocks_are_commands_or_text_and_every_command_is_named() -> None:
    assert {"sh", "text", ""} >= readme.LANGUAGES
    assert [name for name in COMMANDS if f"`gpu-conformance {name}`" not in readme.TEXT] == []
    unknown = set(re.findall(r"gpu-conformance ([a-z]+)\b", "\n".join(readme.BLOCKS))) - set(COMMANDS)
    assert unknown == set()


def test_links_lead_somewhere() -> None:
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in readme.TEXT.splitlines() if line.startswith("#")
    }
    for target in re.findall(r"\]\(([^)]+)\)", readme.TEXT):
        path, _, anchor = target.partition("#")
        if not path:
            assert anchor in headings, target
        elif "://" not in path:
            assert (ROOT / path).exists(), target


def test_pictures_are_there_and_small() -> None:
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", readme.TEXT)
    assert pictures
    for name in pictures:
        data = (ROOT / name).read_bytes()
        assert data.startswith(b"\x89PNG\r\n")
        assert len(data) < 200_000, name
