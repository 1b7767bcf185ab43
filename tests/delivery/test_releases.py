"""A taint of the suite's own goes when the verdict says so, is noted on the node, and comes back after a process that was killed."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.cli import cleanup, job
from conformance.delivery.node_labels import LABEL, UNTIL
from conformance.delivery.releases import release
from deploy import workload
from deploy.templates import resolved
from fixtures.cluster.answer import Answer
from fixtures.cluster.client import Cluster
from fixtures.model.nodes import releases
from fixtures.model.nodes.sweeping import sweeps
from fixtures.policy.policy_file import PolicyError, build_policy
from fixtures.verdict.record import InventoryRow, Report, Target, TargetKind, Verdict, encode
from tests.delivery.test_node_labels import a_report, on, whole_but
from tests.hostile.faults import effects
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.reports.sample_report import result
from tests.served import served
from tests.tables import each_row

UID = "11111111-2222-4333-8444-555555555555"
OWN = {"key": "gpu-conformance.io/startup", "effect": "NoSchedule"}
THEIRS = {"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
KEYS = ["node.kubernetes.io/unschedulable", OWN["key"], THEIRS["key"]]
LATE = [{"fieldsV1": {"f:spec": {"f:taints": {}}}, "manager": "somebody", "time": "2100-01-01T00:00:00Z"}]
POLICY = {"return": {"tolerate": KEYS, "release": [OWN["key"]]}}


def a_node(name: str, *taints: dict[str, str], **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": f"uid-{name}", **meta}, "spec": {"taints": [*taints]}}


def a_run(*about: str) -> Report:
    """A run that all nodes passed."""
    rows = [InventoryRow(node=f"gpu-{at}", uid=f"uid-gpu-{at}") for at in range(3)]
    made = a_report(result("FENCE-01", Verdict.PASSED, [on(row.node) for row in rows]), scope=whole_but(nodes=list(about)))
    made.run.started_at = datetime.now(UTC).isoformat()
    return msgspec.structs.replace(made, target=Target(kind=TargetKind.LIVE, cluster_uid=UID), inventory=rows)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    kube_system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": UID}}
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    (tmp_path / "report.json").write_bytes(encode(a_run("gpu-0", "gpu-2")))
    nodes = [a_node("gpu-0", OWN, THEIRS), a_node("gpu-1", OWN), a_node("gpu-2", OWN, managedFields=LATE)]
    with served(tmp_path, [kube_system, *nodes]) as (found, _):
        yield found


def publish(folder: Path, kubeconfig: str = "kubeconfig") -> int:
    options = ("--policy", str(folder / "policy.json"), "--kubeconfig", str(folder / kubeconfig))
    return job.main(["publish", str(folder / "report.json"), *options])


@pytest.mark.parametrize("last", [["--policy=own.yaml"], ["--policy", "own.yaml"]], ids=str)
def test_verdicts_tolerate_what_the_policy_that_counts_in_the_run_tolerates(monkeypatch: pytest.MonkeyPatch, last: list[str]) -> None:
    published: list[list[str]] = []

    def run(options: list[str]) -> int:
        folder = Path(options[options.index("--report-dir") + 1])
        folder.mkdir()
        (folder / "report.json").write_bytes(encode(a_report()))
        return 0

    def publish(argv: list[str]) -> int:
        published.append(argv)
        return 0

    monkeypatch.setattr(job, "_run", run)
    monkeypatch.setattr(job, "publish", publish)
    assert job.main(["job", "--in-cluster", "--publish", "1", "--", "--policy=chart.yaml", *last, "--read-only"]) == 0
    assert published[0][-1] == "--policy=own.yaml"


def taints(cluster: Cluster, node: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get("nodes", node).json()["spec"].get("taints") or []
    return found


def notes(cluster: Cluster, node: str) -> set[str]:
    return set(cluster.get("nodes", node).json()["metadata"].get("annotations") or {})


def test_only_the_suites_own_taint_of_a_node_that_the_run_was_about_goes(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert publish(tmp_path) == 11
    stated = capsys.readouterr()
    assert "node gpu-0: taint gpu-conformance.io/startup:NoSchedule is taken off" in stated.out
    assert "no CronJob lets these verdicts end in time" in stated.out
    assert "node gpu-2: its taint stays: its taints were written after the run began: run again" in stated.err
    assert (taints(cluster, "gpu-0"), taints(cluster, "gpu-1"), taints(cluster, "gpu-2")) == ([THEIRS], [OWN], [OWN])
    assert notes(cluster, "gpu-0") == {releases.RELEASED}
    note = releases.note_of(cluster.get("nodes", "gpu-0").json(), releases.RELEASED)
    assert note is not None
    assert (note.run, note.taints) == (a_run().run.id, [OWN])


def test_what_a_killed_process_took_off_comes_back(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The note that closes a release never arrives, as if the process had ended before it."""
    (tmp_path / "report.json").write_bytes(encode(a_run("gpu-0")))
    closing = Fault(name="killed", verb="patch", resource="nodes", effect=effects.refused(500, "Killed"), skip=2, times=ALWAYS)
    with through(tmp_path / "kubeconfig", tmp_path / "proxied", [closing]):
        assert publish(tmp_path, "proxied") == 11
    assert (taints(cluster, "gpu-0"), notes(cluster, "gpu-0")) == ([THEIRS], {releases.RELEASING})
    arguments = ["cleanup", "--kubeconfig", str(tmp_path / "kubeconfig"), "--chaos-cluster", UID, "--yes"]
    assert cleanup.main(arguments) == 0
    assert "spared, because its process may be alive: taint gpu-conformance.io/startup:NoSchedule" in capsys.readouterr().out
    monkeypatch.setattr(releases, "ALIVE_SECONDS", -1.0)
    assert cleanup.main(arguments) == 0
    assert "put taint gpu-conformance.io/startup:NoSchedule back on node gpu-0" in capsys.readouterr().out
    assert (taints(cluster, "gpu-0"), notes(cluster, "gpu-0")) == ([THEIRS, OWN], set())


class Raced(Cluster):
    """A node whose taint somebody sets anew between this run's read and its write."""

    def __init__(self) -> None:
        self.node, self.patches = a_node("gpu-0", OWN), 0

    def get(self, *_: object, **__: object) -> Answer:
        return Answer(status=200, body=json.dumps(self.node).encode())

    def patch(self, *_: object, **__: object) -> Answer:
        self.patches += 1
        self.node["metadata"]["managedFields"] = LATE
        return Answer(status=409, body=b"{}")


def test_a_taint_that_is_set_anew_meanwhile_stays() -> None:
    raced = Raced()
    _, trouble = release(raced, "gpu-0", "uid-gpu-0", [OWN["key"]], "r", time.time())
    assert (raced.patches, trouble) == (1, "its taints were written after the run began: run again")


@each_row
def test_a_cronjob_that_ran_lately_lets_verdicts_end(spec: dict[str, Any], hours: float | None, ends: bool) -> None:
    [sweep] = [one for one in workload.runs() if "labels" in str(one.item["metadata"]["name"])]
    made = resolved(sweep, workload.values(publishHours=26))
    stamp = {"creationTimestamp": "2027-01-15T07:00:00Z"}  # an hour before
    status = {} if hours is None else {"lastSuccessfulTime": f"2027-01-15T{8 - hours:02.0f}:00:00Z"}
    assert sweeps({"metadata": stamp, "spec": {**made["spec"], **spec}, "status": status}, 1_800_000_000) is ends


def test_a_note_that_names_another_owners_taint_is_none() -> None:
    forged = {"run": "20261121-100000-test", "at": 1.0, "taints": [THEIRS]}
    assert releases.note_of(a_node("gpu-0", annotations={releases.RELEASING: json.dumps(forged)})) is None
    assert releases.note_of(a_node("gpu-0", annotations={releases.RELEASING: "{}"})) is None


@each_row
def test_a_policy_releases_nothing_of_others(key: str, allowed: bool) -> None:
    if allowed:
        assert build_policy({"return": {"release": [key]}}).returns.release == (key,)
    else:
        with pytest.raises(PolicyError):
            build_policy({"return": {"release": [key]}})


def test_cleanup_removes_verdicts_that_are_over_and_leaves_those_that_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kube_system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": UID}}
    ends = {"gpu-0": time.time() - 60, "gpu-1": time.time() + 3600}
    nodes = [a_node(name, labels={LABEL: "passed", UNTIL: str(int(at))}) for name, at in ends.items()]
    arguments = ["cleanup", "--kubeconfig", str(tmp_path / "kubeconfig"), "--chaos-cluster", UID, "--yes"]
    with served(tmp_path, [kube_system, *nodes]) as (cluster, _):
        assert cleanup.main([*arguments, "--run", "20261121-100000-abcd"]) == 0
        assert "verdict" not in capsys.readouterr().out  # of one run only its taints are looked for
        assert cleanup.main(arguments) == 0
        stated = capsys.readouterr().out
        assert "remove the published verdict of 1 node: gpu-0" in stated
        assert "the verdict of 1 node still holds, and stays" in stated
        assert [bool(node["metadata"].get("labels")) for node in cluster.each("nodes")] == [False, True]
        assert cleanup.main([*arguments, "--published"]) == 0
        assert [bool(node["metadata"].get("labels")) for node in cluster.each("nodes")] == [False, False]
        capsys.readouterr()
        assert cleanup.main(arguments) == 0
        assert capsys.readouterr().out == "nothing of the suite is left\n"


def test_a_node_that_cannot_be_read_keeps_nothing_else_from_being_undone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kube_system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": UID}}
    note = json.dumps({"run": "20261121-100000-test", "at": 1.0, "taints": [OWN]})
    nodes = [a_node("gpu-0", annotations={releases.RELEASING: note}), a_node("gpu-1") | {"status": {"conditions": "none"}}]
    with served(tmp_path, [kube_system, *nodes]) as (cluster, _):
        assert cleanup.main(["cleanup", "--kubeconfig", str(tmp_path / "kubeconfig"), "--chaos-cluster", UID, "--yes"]) == 10
        assert "which conditions of nodes are over is not known" in capsys.readouterr().out
        assert taints(cluster, "gpu-0") == [OWN]
