"""``gpu-conformance chaos``: what each subcommand prints, and its exit code, also where older versions of kinds are served."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.cluster import namespaces
from chaos.ledger.undos.objects import AbsentArgs
from chaos.surface.cli import main
from conformance.plugin.options import Options
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX
from fixtures.verdict.record import Verdict
from tests.chaos.catalogue.documents import document
from tests.chaos.ledger.simulated_cluster import KUBE_SYSTEM, RUN, ledger, world
from tests.chaos.verdict.folder import Folder, replaced
from tests.definitions import definitions
from tests.reports.chaos_samples import chaos, experiment
from tests.tables import each_row

EXPERIMENTS = Path(__file__).resolve().parents[1] / "engine" / "experiments"


def run(*arguments: object) -> int:
    try:
        return main(["chaos", *map(str, arguments)])
    except SystemExit as ended:
        return int(ended.code or 0)


def test_the_list_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--chaos-folder", EXPERIMENTS, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["id"], row["level"], row["area"]) for row in rows] == [("X1", 0, ["inv"])]


def test_the_suites_own_experiments_can_be_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    stated = capsys.readouterr().out
    assert stated.count("\n") > 10
    assert "touches one GPU of one node" in stated
    assert "touches 3 GPU nodes; " in stated
    assert "Runs on the simulated cluster (simulated), the local control plane (simulated), live clusters (real)" in stated
    assert "kills pods" not in stated  # N7 cordons a node, N9 deletes its object


def test_an_empty_or_wrong_folder_selects_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--chaos-folder", tmp_path) == 5
    assert run("plan", "--chaos-folder", tmp_path) == 4
    (tmp_path / "x.yaml").write_text("title: x")
    assert run("list", "--chaos-folder", tmp_path) == 4
    assert "x.yaml" in capsys.readouterr().err


def test_a_plan_names_targets_calls_and_undo_and_touches_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--chaos-folder", EXPERIMENTS, "--simulate", "healthy") == 0
    stated = capsys.readouterr().out
    for text in ("target: nodes ", "(uid ", "calls: PATCH /api/v1/nodes/", "undo: node.labels", "left untouched: ", "nothing was touched"):
        assert text in stated
    for sentence in ("  It acts on nodes ", "  First: label (", "Then: hold (duration outage).", "  It stops by itself if another node "):
        assert sentence in stated


def test_a_plan_has_no_dictionary(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither arguments nor patches nor conditions are printed as Python's."""
    assert run("plan", "--chaos-experiment", "A1,A2", "--chaos-max-level", "3", "--simulate", "healthy") == 0
    plan = capsys.readouterr().out
    for shown in ("(nvidia.com/gpu.deploy.device-plugin=false)", "(until ready.device-plugin is true, within recovery)", "(count 2)"):
        assert shown in plan
    assert not {"{", "}", "["} & set(plan)


@each_row
def test_a_plan_is_made_on_the_target_that_pytest_would_take(
    given: list[str], local: str, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Options] = []

    def refuse(options: Options, run_id: str) -> None:
        opened.append(options)
        raise pytest.UsageError("not opened")

    monkeypatch.setattr("chaos.surface.cli.open_target", refuse)
    assert run("plan", "--chaos-folder", EXPERIMENTS, *given) == 4
    assert [(options.local, options.simulate) for options in opened] == [(local, scenario)]


def test_a_plan_names_its_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", "--chaos-folder", EXPERIMENTS) == 4
    assert "no target is named: expected one of --kubeconfig FILE, --in-cluster, --simulate SCENARIO, --local" in capsys.readouterr().err
    assert run("plan", "--chaos-folder", EXPERIMENTS, "--simulate", "healthy", "--context", "prod") == 4
    assert "--context needs --kubeconfig" in capsys.readouterr().err


def test_a_plan_of_nothing_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "X1.yaml").write_text(json.dumps(_own(needs=["nvml-mock"])))
    assert run("plan", "--chaos-folder", tmp_path, "--simulate", "healthy") == 5
    assert "not applicable: ComponentAbsent" in capsys.readouterr().out


def _own(**extension: Any) -> dict[str, Any]:
    found = document(**extension)
    for activity in (*found["method"], *found["rollbacks"]):
        activity["provider"] = {"type": "python", "module": "chaos.activities.undoing", "func": "undo_everything"}
    return found


@pytest.mark.parametrize(("after", "code"), [(Verdict.PASSED, 0), (Verdict.FAILED, 1), (Verdict.INCONCLUSIVE, 10)])
def test_a_stored_experiment_is_judged_again(tmp_path: Path, capsys: pytest.CaptureFixture[str], after: Verdict, code: int) -> None:
    folder = Folder(tmp_path / "X1")
    folder.after = replaced(after)
    assert run("verdict", folder.write()) == code
    assert after.value in capsys.readouterr().out
    assert run("verdict", tmp_path / "X1", "--json") == code
    assert json.loads(capsys.readouterr().out)["verdict"] == after.value


@each_row
def test_what_is_wrong_on_the_command_line_is_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*(EXPERIMENTS if word == "EXPERIMENTS" else word for word in arguments)) == 4
    error = capsys.readouterr().err.strip()
    assert says in error
    assert "\n" not in error


QUEUES = "kueue.x-k8s.io/clusterqueues"
NAME = namespaces.of_run(RUN)
OLD = ("v1beta1",)
BOTH = ("v1beta1", "v1beta2")


def kueue(*served: str) -> list[dict[str, Any]]:
    """The definitions of Kueue, in these versions alone."""
    found = definitions("kueue")
    for definition in found:
        spec = definition["spec"]
        spec["versions"] = [{**one, "storage": one["name"] == served[-1]} for one in spec["versions"] if one["name"] in served]
    return found


def killed(folder: Path, cluster: Cluster, version: str, *, created: bool) -> None:
    """A run that was killed after it wrote down that it would create a queue, or after it had created the queue."""
    cluster.learn_versions({QUEUES: version})
    book = ledger(folder, cluster, experiment="S2")
    book.arm("object.absent", AbsentArgs(key=QUEUES, name=NAME, run_id=RUN))
    proof = Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False)
    token = proof.will_create(QUEUES, NAME)
    if created:
        meta = {"name": NAME, "labels": owned.labels(RUN), "annotations": token}
        queue = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "ClusterQueue", "metadata": meta, "spec": {}}
        answer = cluster.create(QUEUES, queue)
        assert answer.ok, answer.message
        proof.created(QUEUES, NAME, answer.json()["metadata"]["uid"])


def recover(folder: Path) -> int:
    words = ["chaos", "recover", "--kubeconfig", str(folder / "kubeconfig"), "--chaos-cluster", KUBE_SYSTEM, "--yes", "--seconds", "5"]
    return main(words)


@pytest.mark.test_all
@pytest.mark.parametrize("created", [False, True], ids=["before it was created", "after it was created"])
@pytest.mark.parametrize("served", [OLD, BOTH], ids=["older version", "both versions"])
def test_what_a_killed_run_created_is_removed_in_a_version_that_is_served(
    tmp_path: Path, served: tuple[str, ...], created: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with world(tmp_path, extra=kueue(*served)) as (cluster, _):
        killed(tmp_path, cluster, served[-1], created=created)
        assert recover(tmp_path) == 0, capsys.readouterr()
        assert "1 changes of 1 runs put back" in capsys.readouterr().out
        assert cluster.find(QUEUES, NAME) is None
        assert main(["chaos", "status", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 0


def test_where_discovery_does_not_tell_nothing_is_taken_for_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The version is guessed, and the guess is not served."""

    def silent(cluster: Cluster, path: str, *, accept: str = "") -> dict[str, Any]:
        raise ApiTrouble("ServiceUnavailable", f"discovery {path}: 503 by the test")

    with world(tmp_path, extra=kueue(*OLD)) as (cluster, _):
        killed(tmp_path, cluster, *OLD, created=True)
        monkeypatch.setattr("fixtures.cluster.discovery._document", silent)
        assert recover(tmp_path) != 0
        assert "put back" not in capsys.readouterr().out
        assert cluster.find(QUEUES, NAME) is not None


def test_the_record_is_of_all_runs_under_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("record", tmp_path) == 5
    for number in (1, 2):
        made = chaos(experiment(recovery_seconds=float(number)))
        made.run.id, made.run.started_at = f"r{number}", f"2026-01-0{number}T00:00:00+00:00"
        folder = tmp_path / f"r{number}"
        folder.mkdir()
        (folder / "chaos.json").write_bytes(msgspec.json.encode(made))
    (tmp_path / "chaos.json").write_text("{")
    assert run("record", tmp_path) == 0
    said = capsys.readouterr()
    assert "simulated resilience: 2 runs, score 100 of 100" in said.out
    assert "median 1.50 s, worst 2.00 s, last 2.00 s, slower than the run before" in said.out
    assert said.err.count("/chaos.json") == 1
    assert "it is left out" in said.err
