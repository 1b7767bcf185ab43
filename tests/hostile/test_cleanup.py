"""``cleanup`` removes what is proven to be an ended run's, and nothing that merely says so."""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.cluster import namespaces
from chaos.safety.lease import Holder
from conformance.cli import cleanup
from conformance.cli.target import Consent, NotConfirmed, add_consent_options, confirm, consent_of
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX, CONFORMANCE_PREFIX, PROOF
from fixtures.policy.policy_file import PolicyError
from fixtures.probes.workspace import Workspace
from fixtures.system.process import Process
from tests.served import served
from tests.tables import each_row
from tests.troubles import Trouble

RUN = "20261121-100000-test"
OTHER = "20261121-100000-else"
NAMESPACE = f"gpu-conformance-{RUN}-rest"
CLASSES = owned.PRIORITY_CLASSES
UID = "11111111-2222-4333-8444-555555555555"
KUBE_SYSTEM: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": UID}}
YES = ("--chaos-cluster", UID, "--yes")


class Stage:
    """A cluster with what a run has left, and ``cleanup`` on it."""

    def __init__(self, cluster: Cluster, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.cluster = cluster
        self.folder = folder
        self._capsys = capsys

    def cleanup(self, *arguments: str) -> tuple[int, str]:
        """Exit code, and what was printed."""
        code = cleanup.main(["cleanup", "--kubeconfig", str(self.folder / "kubeconfig"), *arguments])
        stated = self._capsys.readouterr()
        return code, stated.out + stated.err

    def leave(self, run_id: str = RUN, *, ended: bool = True, folder: Path | None = None) -> str:
        """A run of this machine that was killed, or goes on; the name of its namespace."""
        workspace = Workspace(self.cluster, run_id, folder=folder)
        name = workspace.namespace()
        proof = workspace._opened
        assert proof is not None
        proof.stop_renewing()
        if ended and not proof.without_class:
            self.say(run_id, process=str(msgspec.structs.replace(Process.me(), pid=4_000_000)))
        return name

    def say(self, run_id: str, *, prefix: str = CONFORMANCE_PREFIX, **fields: Any) -> None:
        """Change what the run's proof says."""
        name = f"{prefix}-{run_id}"
        record = msgspec.json.decode(self.cluster.get(CLASSES, name).json()["metadata"]["annotations"][PROOF])
        text = msgspec.json.encode({**record, **fields}).decode()
        assert self.cluster.patch(CLASSES, name, {"metadata": {"annotations": {PROOF: text}}}).ok

    def there(self, key: str = "namespaces") -> set[str]:
        """Names of the objects of a kind."""
        return {item["metadata"]["name"] for item in self.cluster.request("GET", self.cluster.path(key)).json()["items"]}


@pytest.fixture
def troubles() -> list[Trouble]:
    """What tests order of the served API once their run has begun."""
    return [Trouble("delete", "namespaces", 403, 0), Trouble("list", "namespaces", "drop", 0), Trouble("create", CLASSES, 403, 0)]


@pytest.fixture
def stage(tmp_path: Path, capsys: pytest.CaptureFixture[str], troubles: list[Trouble]) -> Iterator[Stage]:
    with served(tmp_path, [KUBE_SYSTEM], troubles) as (cluster, _):
        yield Stage(cluster, tmp_path, capsys)


# -- asking -------------------------------------------------------------------------------------------


@each_row
def test_it_shows_its_plan_and_touches_nothing_unasked(stage: Stage, consent: tuple[str, ...], says: str) -> None:
    stage.leave()
    code, stated = stage.cleanup(*consent)
    assert code == 4
    assert f"delete namespaces {NAMESPACE} (run {RUN})" in stated
    assert UID in stated
    assert says in stated
    assert NAMESPACE in stage.there()


def test_a_dry_run_shows_the_plan_without_leave(stage: Stage) -> None:
    assert stage.cleanup("--dry-run") == (0, "nothing of the suite is left\n")
    stage.leave()
    code, stated = stage.cleanup("--dry-run")
    assert (code, f"would delete namespaces {NAMESPACE}" in stated) == (0, True)
    assert NAMESPACE in stage.there()


def test_what_an_ended_run_left_goes_and_nothing_else(stage: Stage) -> None:
    stage.leave()
    before = stage.there() - {NAMESPACE}
    code, stated = stage.cleanup(*YES)
    assert code == 0, stated
    assert f"removed: namespaces {NAMESPACE}" in stated
    assert (stage.there(), stage.there(CLASSES)) == (before, set())
    assert stage.cleanup() == (0, "nothing of the suite is left\n")


def test_one_run_is_cleaned_up_without_the_others(stage: Stage) -> None:
    other = stage.leave(OTHER)
    stage.leave()
    assert stage.cleanup(*YES, "--run", RUN)[0] == 0
    assert stage.there() & {other, NAMESPACE} == {other}


def test_a_killed_run_of_experiments_keeps_what_its_open_changes_are_undone_with(stage: Stage) -> None:
    """Without the class nothing in its ledger would count any more."""
    opened = Proof.open(stage.cluster, RUN, prefix=CHAOS_PREFIX, renewing=False)
    opened.vouch("digest")
    name = namespaces.ensure_run(stage.cluster, RUN)
    stage.say(RUN, process=str(msgspec.structs.replace(Process.me(), pid=4_000_000)), prefix=CHAOS_PREFIX)
    code, stated = stage.cleanup(*YES)
    assert code == 11
    assert "1 changes that are not undone; run `gpu-conformance chaos recover` first" in stated
    assert f"namespaces {name} (run {RUN}): it may be needed to undo changes of its run" in stated
    assert name in stage.there()
    assert stage.there(CLASSES) == {f"{CHAOS_PREFIX}-{RUN}"}
    opened.forget({"digest"})
    assert stage.cleanup(*YES)[0] == 0
    assert stage.there(CLASSES) == set()


# -- the living ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("asleep", [False, True])
def test_a_living_run_is_spared(stage: Stage, asleep: bool) -> None:
    living, ended = stage.leave(OTHER, ended=False), stage.leave()
    if asleep:  # its machine slept, or it was stopped: it renews nothing, and its process is there
        stage.say(OTHER, renewed="2020-01-01T00:00:00+00:00")
    code, stated = stage.cleanup(*YES)
    assert code == 0
    assert f"spared, because it is alive: run {OTHER}" in stated
    assert stage.there() & {living, ended} == {living}
    assert stage.there(CLASSES) == {f"gpu-conformance-{OTHER}"}


@pytest.mark.parametrize(("seconds", "spared"), [(3, True), (30, True), (600, False)])
def test_a_run_that_holds_the_lease_is_spared(stage: Stage, seconds: int, spared: bool) -> None:
    stage.leave()
    home = namespaces.ensure_shared(stage.cluster)
    renewed = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="microseconds")
    spec = {"holderIdentity": str(Holder.me(RUN)), "leaseDurationSeconds": 15, "renewTime": renewed.replace("+00:00", "Z")}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "gpu-conformance-chaos"}, "spec": spec}
    assert stage.cluster.create("coordination.k8s.io/leases", lease, namespace=home).ok
    assert stage.cleanup(*YES)[0] == 0
    assert (NAMESPACE in stage.there()) is spared


# -- look-alikes --------------------------------------------------------------------------------------


def look_alike(name: str, run_id: str, **annotations: str) -> dict[str, Any]:
    meta = {"name": name, "labels": owned.labels(run_id), "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


@each_row
def test_what_only_says_that_it_is_ours_is_reported_and_never_touched(stage: Stage, theirs: dict[str, Any]) -> None:
    """Whoever may label a namespace would have it deleted otherwise: his neighbour's, or the platform's."""
    made = look_alike(**theirs)
    name = made["metadata"]["name"]
    assert stage.cluster.create("namespaces", made).ok
    stage.leave()
    code, stated = stage.cleanup(*YES)
    assert code == 10
    assert f"NOT touched: namespaces {name}" in stated
    assert "possibly an attack" in stated
    assert stage.there() & {name, NAMESPACE} == {name}
    assert stage.cleanup(*YES)[0] == 10  # a machine hears of it as long as it is there


def test_a_flood_of_look_alikes_is_reported_in_a_few_lines(stage: Stage) -> None:
    for number in range(25):
        assert stage.cluster.create("namespaces", look_alike(f"mine-{number:02}", RUN)).ok
    code, stated = stage.cleanup(*YES)
    lines = [line for line in stated.splitlines() if line.startswith("NOT touched")]
    assert (code, len(lines), "5 more" in lines[-1]) == (10, 21, True)


def test_a_name_without_labels_is_nobody_s(stage: Stage) -> None:
    theirs = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"gpu-conformance-{RUN}-mine"}}
    assert stage.cluster.create("namespaces", theirs).ok
    assert stage.cleanup(*YES) == (0, "nothing of the suite is left\n")
    assert f"gpu-conformance-{RUN}-mine" in stage.there()


# -- the folder ---------------------------------------------------------------------------------------


def test_the_run_s_own_folder_vouches_where_the_class_was_refused(stage: Stage, troubles: list[Trouble]) -> None:
    troubles[2].times = 1
    report = stage.folder / "out" / "one"
    report.mkdir(parents=True)
    stage.leave(folder=report)
    [file] = report.glob("created*.json")
    record = msgspec.json.decode(file.read_bytes())
    ended = str(msgspec.structs.replace(Process.me(), pid=4_000_000))
    file.write_bytes(msgspec.json.encode({**record, "process": ended}))
    assert stage.cleanup(*YES)[0] == 10  # labelled, and nothing in the cluster vouches
    assert NAMESPACE in stage.there()
    file.chmod(0o666)
    code, stated = stage.cleanup(*YES, "--folder", str(stage.folder / "out"))
    assert (code, "others may write" in stated) == (10, True)
    file.chmod(0o600)
    assert stage.cleanup(*YES, "--folder", str(stage.folder / "out"))[0] == 0
    assert NAMESPACE not in stage.there()


# -- trouble ------------------------------------------------------------------------------------------


def test_what_stays_is_exit_11(stage: Stage, troubles: list[Trouble]) -> None:
    stage.leave()
    troubles[0].times = 99
    code, stated = stage.cleanup(*YES)
    assert code == 11
    assert f"NOT removed: namespaces {NAMESPACE}" in stated
    assert CLASSES.partition("/")[2] in stated  # it is the proof of what is left, so it stays too
    troubles[0].times = 0
    assert stage.cleanup(*YES)[0] == 0


def test_a_cluster_that_cannot_be_asked_is_exit_10(stage: Stage, troubles: list[Trouble]) -> None:
    stage.leave()
    troubles[1].times = 99
    assert stage.cleanup(*YES)[0] == 10
    troubles[1].times = 0
    assert NAMESPACE in stage.there()


@pytest.mark.parametrize("where", ["folder", "class"])
def test_a_list_of_what_no_run_is_named_like_vouches_for_nothing(stage: Stage, where: str) -> None:
    """A report that was fetched from elsewhere belongs to whoever unpacked it, and its author may have listed anything."""
    assert stage.cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "payments"}}).ok
    mine = stage.leave()
    theirs = [("payments", stage.cluster.get("namespaces", "payments").json()["metadata"]["uid"]), ("kube-system", UID)]
    created = [{"key": "namespaces", "name": name, "token": "", "uid": uid} for name, uid in theirs]
    if where == "class":
        stage.say(RUN, created=created)
    else:
        report = stage.folder / "unpacked"
        report.mkdir()
        record = {"run": OTHER, "process": "", "since": "", "renewed": "2020-01-01T00:00:00+00:00", "created": created}
        (report / "created.json").write_bytes(msgspec.json.encode(record))
    code, stated = stage.cleanup(*YES, "--folder", str(stage.folder))
    assert {"payments", "kube-system"} <= stage.there()
    assert (mine in stage.there()) is (where == "class")
    assert ("it lists namespaces payments" in stated) is (where == "folder")
    assert code == (10 if where == "class" else 0)  # of what the class listed, the run's own namespace is no longer


def test_names_of_experiments_are_no_names_of_another_run() -> None:
    assert not owned.is_run_id("chaos")
    assert not owned.is_run_id(f"chaos-{RUN}")
    assert owned.is_run_id("chaosmonkey")


# -- no command changes a cluster before its plan was shown, the cluster was allowed by its UID, and somebody said yes --


PLAN = ["delete namespaces one", "delete \x1b[2Jtwo"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with served(tmp_path, [KUBE_SYSTEM]) as (cluster, _):
        yield cluster


@pytest.mark.parametrize("allowed", [(), ("served",), (UID[:-1],), ("",)], ids=["none", "context", "beginning", "empty"])
def test_a_cluster_is_allowed_by_its_uid_alone(cluster: Cluster, capsys: pytest.CaptureFixture[str], allowed: tuple[str, ...]) -> None:
    with pytest.raises(NotConfirmed, match=f"expected --chaos-cluster {UID}, or this UID in the policy"):
        confirm(cluster, PLAN, Consent(allowed=allowed, yes=True), ask=lambda _: UID)
    stated = capsys.readouterr().out
    assert "delete namespaces one" in stated
    assert UID in stated
    assert "\x1b" not in stated


@pytest.mark.parametrize(("typed", "goes_on"), [("served", True), (f" {UID}\n", True), ("yes", False), ("y", False), ("", False)])
def test_a_person_types_which_cluster_it_is(cluster: Cluster, typed: str, goes_on: bool) -> None:
    asked = []

    def ask(question: str) -> str:
        asked.append(question)
        return typed

    if goes_on:
        confirm(cluster, PLAN, Consent(allowed=(UID,)), ask=ask)
    else:
        with pytest.raises(NotConfirmed, match="nothing was touched"):
            confirm(cluster, PLAN, Consent(allowed=(UID,)), ask=ask)
    assert len(asked) == 1


def test_a_plan_that_changes_nothing_needs_nobody(cluster: Cluster) -> None:
    confirm(cluster, [], Consent())
    assert cluster.requests().count == 0


def test_a_cluster_that_does_not_say_which_it_is_is_not_touched(tmp_path: Path) -> None:
    refused = Trouble("list", "namespaces", 403)
    with served(tmp_path, [KUBE_SYSTEM], troubles=[refused]) as (cluster, _), pytest.raises(ApiTrouble):
        confirm(cluster, PLAN, Consent(allowed=("", UID), yes=True))


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_consent_options(parser)
    return parser.parse_args(words)


def test_the_policy_and_the_options_allow_together(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("chaos: {clusters: [one]}")
    found = consent_of(options("--policy", str(policy), "--chaos-cluster", "two", "--yes"))
    assert found == Consent(allowed=("one", "two"), yes=True)
    assert consent_of(options()) == Consent()
    policy.write_text("chaos: {cluster: [one]}")
    with pytest.raises(PolicyError):
        consent_of(options("--policy", str(policy)))
