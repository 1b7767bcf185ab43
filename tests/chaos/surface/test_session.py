"""``pytest chaos --chaos`` as a person runs it: what it refuses, what interrupts it, and what a killed run leaves."""

import json
import os
import pty
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import yaml

from chaos.ledger.undos.nodes import NodeLabels
from chaos.surface import chaos_run
from chaos.surface.options import ChaosOptions
from conformance.matrix.detection import Finished, run_pytest
from fixtures.cluster.watch import Observation
from fixtures.policy.allowlist import cluster_uid
from reports.schema import CHAOS_SCHEMA_FILE
from tests.chaos.catalogue.documents import LABEL
from tests.chaos.engine.stage import Stage
from tests.chaos.ledger.simulated_cluster import ledger
from tests.endtoend.runs import environment
from tests.tables import each_row

pytestmark = pytest.mark.test_all

ROOT = Path(__file__).resolve().parents[3]
FOLDER = Path(__file__).resolve().parents[1] / "engine" / "experiments"


def run(folder: Path, *arguments: object) -> Finished:
    return run_pytest([str(one) for one in arguments], cwd=ROOT, environment=environment(), log=folder / "run.log", seconds=300)


def start(arguments: list[str]) -> subprocess.Popen[str]:
    """As a person starts it."""
    return subprocess.Popen([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """The experiment with a fault that is held for longer than any test waits."""
    document = yaml.safe_load((FOLDER / "X1.yaml").read_text())
    document["extensions"][0]["seconds"] |= {"outage": {"live": 5, "simulated": 120}, "deadline": {"live": 60, "simulated": 150}}
    folder = tmp_path / "experiments"
    folder.mkdir()
    (folder / "X1.yaml").write_text(yaml.safe_dump(document))
    return folder


def chaos(on: Stage, folder: Path, report: Path, *more: str) -> list[str]:
    allowed = ("--kubeconfig", on.kubeconfig, "--chaos-cluster", cluster_uid(on.cluster))
    return [str(one) for one in ("chaos", "--chaos", "--chaos-folder", folder, "--report-dir", report, *allowed, *more)]


def await_label(on: Stage) -> None:
    with Observation(on.cluster, "nodes", labels=LABEL) as observation:
        for found in observation.until(time.monotonic() + 120):
            if found:
                return
    raise AssertionError("the fault was never injected")


def interrupted(on: Stage, long: Path, report: Path) -> subprocess.Popen[str]:
    """A run in the middle of its fault."""
    process = start(chaos(on, long, report))
    await_label(on)
    return process


def left(on: Stage, folder: Path) -> str:
    """A run has left its label on a node: its name."""
    node = on.cluster.request("GET", on.cluster.path("nodes")).json()["items"][0]
    ledger(folder, on.cluster, experiment="X1").arm("node.labels", NodeLabels().args(node, {LABEL: "on"}))
    assert on.cluster.patch("nodes", node["metadata"]["name"], {"metadata": {"labels": {LABEL: "on"}}}).ok
    return str(node["metadata"]["name"])


# -- refused before anything is touched --------------------------------------------------------------------


@each_row
def test_what_cannot_be_is_one_line_and_exit_4(tmp_path: Path, arguments: list[str], says: str) -> None:
    """T7: no distribution mode ever runs two experiments at once, because none runs any."""
    given = [FOLDER if word == "EXPERIMENTS" else word for word in arguments]
    done = run(tmp_path, *given, "--report-dir", tmp_path / "report")
    assert done.code == 4
    assert says in done.output
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        (
            "promql http://127.0.0.1:9 up",
            "http://127.0.0.1:9 up: nothing tells whether it holds: no answer: nothing takes connections there",
        ),
        ("command no-such-program", "command no-such-program: nothing tells whether it holds: it could not be started"),
    ],
)
@pytest.mark.parametrize("option", ["--stop-if", "--steady-if", "--detect-if"])
def test_a_condition_that_cannot_be_read_is_refused_at_the_start(on: Stage, tmp_path: Path, option: str, condition: str, says: str) -> None:
    done = run(tmp_path, *chaos(on, FOLDER, tmp_path / "r", option, condition))
    assert done.code == 4
    assert f"{option} or chaos." in done.output
    assert says in done.output
    assert on.cluster.get("namespaces", "gpu-conformance-chaos").status == 404


@each_row
def test_a_cluster_that_nobody_allowed_is_not_touched(on: Stage, tmp_path: Path, more: list[str], says: str) -> None:
    target = ("--chaos-folder", FOLDER, "--kubeconfig", on.kubeconfig, "--report-dir", tmp_path / "r")
    done = run(tmp_path, "chaos", "--chaos", *target, *(word.format(uid=cluster_uid(on.cluster)) for word in more))
    assert done.code == 4
    assert says in done.output
    assert on.cluster.get("namespaces", "gpu-conformance-chaos").status == 404


# -- carried out and interrupted -----------------------------------------------------------------------------


def test_a_run_leaves_a_record_and_nothing_else(on: Stage, tmp_path: Path) -> None:
    done = run(tmp_path, *chaos(on, FOLDER, tmp_path / "r", "--chaos-recover"))  # nothing is left, so nobody is asked
    assert done.code == 0, done.output
    assert "recovered 0 changes of 0 earlier runs" in done.output
    record = json.loads((tmp_path / "r" / "chaos.json").read_text())
    jsonschema.validate(record, json.loads(CHAOS_SCHEMA_FILE.read_text()))
    assert [(one["id"], one["verdict"], one["fidelity"]) for one in record["experiments"]] == [("X1", "passed", "simulated")]
    assert "Timeline of X1" in (tmp_path / "r" / "report.html").read_text()
    assert on.labelled() == []
    assert on.cluster.get("namespaces", "gpu-conformance-chaos").status == 404
    assert not (tmp_path / "r" / "chaos" / "X1" / "handover.json").exists()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "r").rglob("*")}
    assert modes == {0o600, 0o700}  # ledger, samples, journal and views: their user's alone


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Two experiments of one kind."""
    folder = tmp_path / "experiments"
    folder.mkdir()
    for id_ in ("X1", "X2"):
        (folder / f"{id_}.yaml").write_text((FOLDER / "X1.yaml").read_text().replace("id: X1", f"id: {id_}"))
    return folder


def stated(folder: Path) -> list[tuple[str, str, list[str]]]:
    record = json.loads((folder / "chaos.json").read_text())
    return [(one["id"], one["verdict"], one["reasonCodes"]) for one in record["experiments"]]


@pytest.mark.parametrize("how", ["exit", "skip"])
def test_an_experiment_that_was_chosen_and_has_no_result_is_not_passed_over(
    on: Stage, two: Path, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_CONFORMANCE_TEST_LEAVING", how)
    done = run(tmp_path, *chaos(on, two, tmp_path / "r", "-p", "tests.chaos.surface.leaving_early"))
    assert done.code == 10, done.output
    assert stated(tmp_path / "r") == [("X1", "passed", []), ("X2", "inconclusive", ["CutShort"])]
    assert "CHAOS: 1 of 2 experiments passed; not passed: X2 inconclusive" in done.output
    assert ET.parse(tmp_path / "r" / "junit.xml").getroot().get("errors") == "1"


@each_row
def test_an_experiment_that_an_option_left_out_is_counted_and_named(
    on: Stage, two: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    arguments = chaos(on, two, tmp_path / "r", *options)
    done = run(tmp_path, *(arguments[1:] if "::" in options[0] else arguments))
    assert done.code == 0, done.output
    assert stated(tmp_path / "r") == [("X1", "passed", []), ("X2", "not_applicable", ["LeftOut"])]
    assert f"CHAOS: 1 of 2 experiments passed, 1 left out by {words}" in done.output


def test_each_node_has_its_turn_and_a_run_that_was_stopped_is_gone_on_with(on: Stage, tmp_path: Path) -> None:
    """The second node does not pass, so no third one is touched; the next run takes over the first, and goes on with the others."""
    nodes = [str(node["metadata"]["name"]) for node in on.cluster.each("nodes") if node["status"]["capacity"].get("nvidia.com/gpu")]
    pool = sorted(nodes)[:3]
    for name in pool:
        assert on.cluster.patch("nodes", name, {"metadata": {"labels": {"pool": "a"}}}).ok
    turns = [f"X1@{name}" for name in pool]
    ledgers = tmp_path / "r" / "chaos" / "*" / "ledger.jsonl"
    wrong = ("--steady-if", f"command sh -c 'test $(ls {ledgers} | wc -l) -lt 2'")  # lost for good once the second fault is made
    first = run(tmp_path, *chaos(on, FOLDER, tmp_path / "r", "--each", "pool=a", *wrong))
    assert first.code == 2, first.output
    assert [one[:2] for one in stated(tmp_path / "r")] == list(zip(turns, ("passed", "failed", "inconclusive"), strict=True))
    assert f"{pool[1]} did not pass, and 0 such nodes are allowed" in first.output
    second = run(tmp_path, *chaos(on, FOLDER, tmp_path / "s", "--each", "pool=a", "--resume", str(tmp_path / "r")))
    assert second.code == 0, second.output
    assert "1 of 3 were passed before" in second.output
    assert [one[:2] for one in stated(tmp_path / "s")] == [(turn, "passed") for turn in turns]
    assert sorted(path.name for path in (tmp_path / "s" / "chaos").iterdir()) == turns[1:]
    assert on.labelled() == []


def test_a_selection_without_any_experiment_selects_nothing(on: Stage, two: Path, tmp_path: Path) -> None:
    done = run(tmp_path, *chaos(on, two, tmp_path / "r", "-k", "nothing_like_it"))
    assert done.code == 5, done.output
    assert stated(tmp_path / "r") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interrupted_session_undoes_and_stops(on: Stage, long: Path, tmp_path: Path, number: signal.Signals) -> None:
    """T6; and T7, because a second session is refused meanwhile."""
    process = interrupted(on, long, tmp_path / "r")
    second = run(tmp_path, *chaos(on, FOLDER, tmp_path / "s"))
    assert second.code == 4
    assert "one run acts on a cluster at a time" in second.output
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2, output
    assert on.labelled() == []
    record = json.loads((tmp_path / "r" / "chaos.json").read_text())
    assert "Interrupted" in record["experiments"][0]["reasonCodes"]
    assert record["exitCode"] == 2
    assert on.cluster.get("namespaces", "gpu-conformance-chaos").status == 404


def test_a_parent_that_is_killed_takes_its_child_along_in_order(on: Stage, long: Path, tmp_path: Path) -> None:
    """T1. The child plays its rollbacks when the parent dies."""
    process = interrupted(on, long, tmp_path / "r")
    process.kill()
    process.wait(60)
    with Observation(on.cluster, "nodes", labels=LABEL) as observation:
        gone = any(not found for found in observation.until(time.monotonic() + 60))
    assert gone
    assert _cli(on, "recover") == 0


def test_a_run_that_is_killed_with_its_child_is_refused_until_it_is_recovered(on: Stage, long: Path, tmp_path: Path) -> None:
    """T1. Nothing of the run is left but the ledger."""
    process = interrupted(on, long, tmp_path / "r")
    process.send_signal(signal.SIGSTOP)
    for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)
    process.kill()
    process.wait(60)
    assert on.labelled()
    second = run(tmp_path, *chaos(on, FOLDER, tmp_path / "s"))
    assert second.code == 4
    assert "gpu-conformance chaos recover" in second.output
    assert on.labelled()
    again = run(tmp_path, *chaos(on, FOLDER, tmp_path / "t", "--chaos-recover", "--chaos-confirm", str(on.cluster.context)))
    assert again.code == 0, again.output
    assert again.output.index("put back: node ") < again.output.index("CHAOS: 1 experiments change this cluster")
    assert "recovered 1 changes of 1 earlier runs" in again.output
    assert on.labelled() == []


def answered(on: Stage, report: Path, typed: str) -> Finished:
    """A run with ``--chaos-recover`` at a terminal, where somebody types a line."""
    person, terminal = pty.openpty()
    try:
        os.write(person, f"{typed}\n".encode())
        command = [sys.executable, "-m", "pytest", *chaos(on, FOLDER, report, "--chaos-recover")]
        done = subprocess.run(command, cwd=ROOT, stdin=terminal, capture_output=True, text=True, timeout=300)
    finally:
        os.close(person)
        os.close(terminal)
    return Finished(code=done.returncode, output=done.stdout + done.stderr)


def test_what_a_run_has_left_is_put_back_once_its_plan_was_shown_and_confirmed(on: Stage, tmp_path: Path) -> None:
    name = left(on, tmp_path / "old")
    alone = run(tmp_path, *chaos(on, FOLDER, tmp_path / "r", "--chaos-recover"))
    mistyped = answered(on, tmp_path / "s", "yes")
    for refused, why in (
        (alone, f"there is no terminal to confirm it at: expected --chaos-confirm {on.cluster.context}"),
        (mistyped, "--chaos-recover: not confirmed, and nothing was touched"),
    ):
        assert refused.code == 4, refused.output
        assert f"on cluster {cluster_uid(on.cluster)} ({on.cluster.context})" in refused.output
        assert f"put back: node {name} (node.labels" in refused.output
        assert why in refused.output
        assert on.labelled() == [name]
    done = answered(on, tmp_path / "t", str(on.cluster.context))
    assert done.code == 0, done.output
    assert f"type {on.cluster.context} to carry this out: " in done.output
    assert done.output.index("put back: node ") < done.output.index("recovered 1 changes of 1 earlier runs")
    assert on.labelled() == []


def test_a_cluster_that_the_run_has_started_is_recovered_without_a_question(
    on: Stage, tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(on, tmp_path)
    monkeypatch.setattr("builtins.input", lambda _: pytest.fail("somebody was asked"))
    session = chaos_run.Session(ChaosOptions(folder=str(FOLDER), recover=True))
    chaos_run._recover(pytestconfig, session, on.where(tmp_path))
    assert any("put back: node " in line for line in session.notes)
    assert on.labelled() == []


def test_a_halt_from_elsewhere_ends_the_run_and_lets_nothing_start(on: Stage, long: Path, tmp_path: Path) -> None:
    process = interrupted(on, long, tmp_path / "r")
    assert _cli(on, "halt") == 0
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2, output
    assert on.labelled() == []
    assert "Interrupted" in json.loads((tmp_path / "r" / "chaos.json").read_text())["experiments"][0]["reasonCodes"]
    second = run(tmp_path, *chaos(on, FOLDER, tmp_path / "s"))
    assert second.code == 4
    assert "halted by" in second.output
    assert _cli(on, "status") == 0
    assert _cli(on, "halt", "--off") == 0


def _cli(on: Stage, *arguments: str) -> int:
    consent = [] if arguments[0] == "status" else ["--chaos-cluster", on.target.cluster_uid, "--yes"]
    whole = [sys.executable, "-m", "conformance.cli.main", "chaos", *arguments, "--kubeconfig", str(on.kubeconfig), *consent]
    return subprocess.run(whole, cwd=ROOT, timeout=120).returncode
