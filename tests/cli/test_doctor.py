"""``gpu-conformance doctor`` against clusters that answer, that refuse, and that are none."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fixtures.simulator.config.scenario import load_scenario
from fixtures.simulator.simulated_cluster import initial_objects
from tests.endtoend import hostile
from tests.endtoend.runner import carried_out
from tests.endtoend.runs import ROOT, environment
from tests.hostile.lying import SIGN_IN, Asked, Said, lying, status
from tests.served import kubeconfig, served
from tests.tables import each_row
from tests.troubles import Trouble

pytestmark = pytest.mark.test_all


def command(*arguments: str, cwd: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    """The finished command. ``more`` are further variables of its environment."""
    return subprocess.run(
        [sys.executable, "-m", "conformance.cli.main", *arguments],
        cwd=cwd,
        env={**environment(), "PYTHONPATH": str(ROOT), "COLUMNS": "100", **more},
        capture_output=True,
        text=True,
        timeout=120,
    )


class NoRights:
    """May sign in, and nothing else."""

    def allowed(self, user: str, verb: str, group: str, resource: str, subresource: str, namespace: str, name: str) -> bool:
        return resource == "selfsubjectaccessreviews"


def test_a_healthy_cluster_is_ready(tmp_path: Path) -> None:
    done = command("doctor", "--simulate", "healthy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr == ""
    assert done.stdout.startswith("SIMULATED CLUSTER: scenario healthy")
    asked = re.search(r"^Rights: (\d+) of the (\d+) that access workload needs$", done.stdout, re.MULTILINE)
    assert asked
    assert asked[1] == asked[2] != "0"
    assert re.search(r"NVIDIA-H100-80GB-HBM3 +nvidia.com/gpu +3/3 +\d+/24", done.stdout)
    assert "nothing seen would stop them" in done.stdout
    assert "DRA-01: no DRA driver of accelerators publishes devices here" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("READY: a run can start")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_right_names_the_requirements_that_need_it(tmp_path: Path) -> None:
    done = command("doctor", "--simulate", "healthy,inv-may-not-create-namespaces", "--json", cwd=tmp_path)
    assert done.returncode == 10, done.stderr
    found = json.loads(done.stdout)
    assert (found["ready"], found["exitCode"]) == (False, 10)
    (missing,) = found["rights"]["missing"]
    assert missing["right"] == "create namespaces"
    assert {"FENCE-05", "ISO-01"} <= set(missing["neededBy"])
    reasons = {one["name"]: one["because"] for one in found["outlook"]["notJudged"]}
    assert reasons["FENCE-05"] == "the account may not create namespaces"
    outlook = found["outlook"]
    everything = [*outlook["judged"], *outlook["probed"], *reasons]
    assert len(everything) == len(set(everything)) == outlook["requirements"]


def test_an_account_without_rights_is_reported_so_and_nothing_looks_empty(tmp_path: Path) -> None:
    objects = initial_objects(load_scenario("healthy"), [], datetime.now(UTC))
    with served(tmp_path, objects, authorizer=NoRights()):
        done = command("doctor", "--kubeconfig", str(tmp_path / "kubeconfig"), "--read-only")
    assert done.returncode == 10, done.stderr
    assert re.search(r"^Rights: 0 of the \d+ that access read needs$", done.stdout, re.MULTILINE)
    assert "bind the role of deploy/clusterrole-read-only.yaml" in done.stdout
    assert "NOT READY" in done.stdout.splitlines()[-1]
    assert "nodes" in done.stdout


def test_a_list_that_fails_is_in_the_way(tmp_path: Path) -> None:
    objects = initial_objects(load_scenario("healthy"), [], datetime.now(UTC))
    with served(tmp_path, objects, [Trouble("list", "pods", 500, 10_000)]):
        done = command("doctor", "--kubeconfig", str(tmp_path / "kubeconfig"), "--read-only")
    assert done.returncode == 10, done.stderr
    assert re.search(r"^In the way: pods could not be listed: .*500", done.stdout, re.MULTILINE)


def test_what_a_hostile_cluster_says_stays_text_and_keeps_its_secrets(tmp_path: Path) -> None:
    objects = [hostile.a_node(text) for text in hostile.TEXTS[:3]]
    for number, node in enumerate(objects):
        node["metadata"]["name"] = f"node-{number}\x1b[2J\u202e"
    with served(tmp_path, objects):
        done = command("doctor", "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert set(done.stdout) <= {"\n", *map(chr, range(0x20, 0x7F))}
    assert [secret for secret in hostile.SECRETS if secret in done.stdout] == []
    assert "node-0\\x1b[2J" in done.stdout


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Said(SIGN_IN, headers={"Content-Type": "text/html"}), "GET /version"),
        (status(401, "Unauthorized"), "refused the kubeconfig's credentials (401"),
        (status(404, "NotFound", "##[add-mask]a"), "not a Kubernetes API server (GET /version: 404 ## [add-mask]a)"),
    ],
    ids=["sign-in page", "expired token", "commands for a CI system"],
)
def test_a_server_that_lets_nobody_in_is_one_line(tmp_path: Path, answer: Said, words: str) -> None:
    def answers(_: Asked) -> Said:
        return answer

    with lying(tmp_path, answers):
        done = command("doctor", "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert (done.returncode, done.stdout) == (4, "")
    (line,) = done.stderr.splitlines()
    assert words in line
    assert "get --raw /version asks the same" in line
    assert list(carried_out(done.stderr)) == []


@each_row
def test_bad_input_is_one_line_and_exit_code_4(tmp_path: Path, arguments: list[str], words: str) -> None:
    places = {"absent": str(tmp_path / "absent"), "away": str(kubeconfig(tmp_path, "http://127.0.0.1:9"))}
    done = command("doctor", *(argument.format(**places) for argument in arguments))
    assert done.returncode == 4
    if "--json" in arguments:
        stated = json.loads(done.stdout)
        assert words in stated["message"]
        assert (stated["ready"], stated["exitCode"], done.stderr) == (False, 4, "")
    else:
        assert done.stdout == ""
        (line,) = done.stderr.splitlines()
        assert words in line


def test_a_snapshot_has_no_rights_and_tells_what_it_lacks(tmp_path: Path) -> None:
    objects = initial_objects(load_scenario("healthy"), [], datetime.now(UTC))
    nodes = [item for item in objects if item["kind"] == "Node"]
    (tmp_path / "nodes.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    done = command("doctor", "--snapshot", str(tmp_path / "nodes.json"))
    assert done.returncode == 10, done.stderr
    assert "Rights: not asked, a saved snapshot has none" in done.stdout
    assert "Note: the snapshot holds no pods" in done.stdout
    assert "a saved snapshot can answer read requirements only" in done.stdout
