"""An id that a file or a command line names is believed of nothing: it may be another run's, no run's, or how another id begins."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.cluster import namespaces
from chaos.engine.recover import preview, status
from chaos.ledger.file import Ledger
from chaos.ledger.replay import Reason, entry_words, residue_of
from chaos.ledger.undos.nodes import NodeLabels
from chaos.model.records import Entry, State
from chaos.surface.cli import main
from conformance.cli import cleanup
from fixtures.cluster.client import Cluster
from fixtures.ownership.owned import PRIORITY_CLASSES
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX, PROOF
from fixtures.ownership.read_proofs import find_leftovers, living, read_proofs, remove
from fixtures.probes.workspace import Workspace
from tests.chaos.ledger.simulated_cluster import ANYTHING, KUBE_SYSTEM, PRODUCT, RUN, fetch, ledger, plan, recover, strip, world
from tests.definitions import definitions
from tests.served import served

LIVING = "20261121-130000-beef"
CONSENT = ("--chaos-cluster", KUBE_SYSTEM, "--yes")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with world(tmp_path) as (found, _):
        yield found


def unpacked(folder: Path, cluster: Cluster, run_id: str, *, closed: bool = True) -> Path:
    """A report as anybody may write it, with the ledger of a run of that id."""
    book = Ledger.create(folder / "ledger.jsonl", plan(experiment="A9", run_id=run_id).origin, None, None)
    book.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {PRODUCT: None}))
    if closed:
        book.mark(1, State.VERIFIED)
    return folder


def recovery(folder: Path, *more: str) -> int:
    return main(["chaos", "recover", "--kubeconfig", str(folder / "kubeconfig"), *CONSENT, "--seconds", "8", *more])


def test_recover_leaves_a_run_that_judges_alone_whatever_a_ledger_is_called(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = Workspace(cluster, LIVING)
    name = workspace.namespace()
    assert recovery(tmp_path, "--run", LIVING) == 0
    code = recovery(tmp_path, "--folder", str(unpacked(tmp_path / "unpacked", cluster, LIVING)))
    assert (code, LIVING in capsys.readouterr().out) == (0, False)
    assert cluster.get("namespaces", name).ok
    workspace.clear()
    workspace.close()


def test_what_runs_share_is_no_run(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = ledger(tmp_path / "true", cluster, experiment="A9")
    strip(cluster, book)
    assert recovery(tmp_path, "--run", namespaces.SHARING) == 4
    assert recovery(tmp_path, "--accept", f"{namespaces.SHARING}/A9/1") == 4
    recovery(tmp_path, "--folder", str(unpacked(tmp_path / "unpacked", cluster, namespaces.SHARING)))
    stated = capsys.readouterr()
    assert f"'{namespaces.SHARING}' is not the id of a run" in stated.out
    assert "1 changes of 1 runs put back" in stated.out
    assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"][PRODUCT] == "H100"
    assert not namespaces.has_anchor(cluster)
    assert not cluster.get("namespaces", namespaces.SHARED).ok


@pytest.mark.parametrize("run_id", ["../../../nodes/gpu-1", "x,y", "\x1b[31mred", "", "chaos-1"])
def test_entries_of_no_run_are_not_carried_out(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], run_id: str) -> None:
    folder = unpacked(tmp_path / "unpacked", cluster, run_id, closed=False)
    before = fetch(cluster, "nodes", "gpu-1")
    assert recovery(tmp_path, "--folder", str(folder)) == 11
    stated = capsys.readouterr().out
    assert "is not the id of a run" in stated
    assert "\x1b" not in stated
    assert fetch(cluster, "nodes", "gpu-1") == before


@pytest.mark.parametrize("narrowed", [True, False])
@pytest.mark.parametrize("written", [True, False], ids=["its class is there", "a file knows it"])
def test_an_id_that_a_living_run_s_begins_with_reaches_nothing_of_it(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], narrowed: bool, written: bool
) -> None:
    own = tmp_path / "own"
    own.mkdir(0o700)
    workspace = Workspace(cluster, LIVING, folder=own)
    name = workspace.namespace()
    if not written:
        assert cluster.delete("scheduling.k8s.io/priorityclasses", f"gpu-conformance-{LIVING}").ok
    short = LIVING.partition("-")[0]
    uid = fetch(cluster, "namespaces", name)["metadata"]["uid"]
    created = [{"key": "namespaces", "name": name, "token": "", "uid": uid}]
    record = {"run": short, "process": "", "since": "", "renewed": "2020-01-01T00:00:00+00:00", "created": created}
    report = tmp_path / "unpacked"
    report.mkdir(0o700)
    (report / "created.json").write_bytes(msgspec.json.encode(record))
    (report / "created.json").chmod(0o600)
    arguments = ["--folder", str(report), *(["--run", short] if narrowed else [])]
    cleanup.main(["cleanup", "--kubeconfig", str(tmp_path / "kubeconfig"), *CONSENT, *arguments])
    assert cluster.get("namespaces", name).ok, capsys.readouterr().out


def test_groups_in_a_namespace_that_took_the_name_of_a_run_s_stay(tmp_path: Path) -> None:
    """Between the look and the deletion the run's own may have gone, and somebody may have made another."""
    groups = "kueue.x-k8s.io/workloads"
    with served(tmp_path, definitions("kueue")) as (cluster, _):
        name = Workspace(cluster, LIVING).namespace()
        views = read_proofs(cluster, LIVING)
        found = find_leftovers(cluster, views, LIVING)
        assert cluster.delete("namespaces", name).ok
        assert cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).ok
        template = {"spec": {"containers": [{"name": "main", "image": "registry.example/work:1"}]}}
        spec = {"queueName": "theirs", "podSets": [{"name": "main", "count": 1, "template": template}]}
        group = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "theirs"}, "spec": spec}
        assert cluster.create(groups, group, namespace=name).ok
        remove(cluster, found, views)
        assert cluster.get("namespaces", name).ok
        assert cluster.get(groups, "theirs", name).ok


# -- a PriorityClass that looks like a run's proof and cannot be read: another version of the suite may have written it --


OTHER = "20261121-140000-cafe"
CLASS = f"{CHAOS_PREFIX}-{OTHER}"


def spoil(cluster: Cluster, how: str) -> None:
    """Another run's class, with a record that this version cannot read."""
    record = fetch(cluster, PRIORITY_CLASSES, CLASS)["metadata"]["annotations"][PROOF]
    newer = msgspec.json.encode({**msgspec.json.decode(record), "version": 2}).decode()
    text = {"newer": newer, "garbage": "{", "none": None, "another's": record.replace(OTHER, RUN)}[how]
    assert cluster.patch(PRIORITY_CLASSES, CLASS, {"metadata": {"annotations": {PROOF: text}}}).ok


@pytest.mark.parametrize("how", ["newer", "garbage", "none", "another's"])
def test_it_keeps_nobody_from_recovering_and_is_reported(cluster: Cluster, tmp_path: Path, how: str) -> None:
    Proof.open(cluster, OTHER, prefix=CHAOS_PREFIX, renewing=False)
    own = namespaces.ensure_run(cluster, OTHER)
    spoil(cluster, how)
    book = ledger(tmp_path, cluster)
    strip(cluster, book)
    for line in (status(cluster).lines[-1], preview(cluster, terms=ANYTHING)[1].unreadable[0]):
        assert CLASS in line
    done = recover(cluster)
    assert (done.runs, done.restored, done.clean) == ((RUN,), 1, False)
    assert f"PriorityClass {CLASS}: this version of the suite cannot read the proof of run {OTHER}" in done.unreadable[0]
    assert fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"][PRODUCT] == "H100"
    assert fetch(cluster, "namespaces", own)
    assert fetch(cluster, PRIORITY_CLASSES, CLASS)
    assert cluster.get("namespaces", namespaces.SHARED).status == 404  # what runs share went as ever


def test_its_run_is_not_known_to_have_ended(cluster: Cluster) -> None:
    Proof.open(cluster, OTHER, prefix=CHAOS_PREFIX, renewing=False)
    spoil(cluster, "newer")
    view = read_proofs(cluster)[OTHER]
    assert view.alive() is None
    assert living(cluster, [view]) == {OTHER}


def test_a_file_does_not_stand_in_for_it(cluster: Cluster, tmp_path: Path) -> None:
    book = ledger(tmp_path, cluster, run_id=OTHER)
    strip(cluster, book)
    spoil(cluster, "newer")
    done = recover(cluster, tmp_path)
    assert [one.reason for one in done.residue] == [Reason.UNPROVEN]
    assert "cannot be read" in done.residue[0].message
    assert PRODUCT not in fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"]


# -- what people confirm shows what an undo would create or set, whoever wrote the ledger --


def service(**spec: Any) -> dict[str, Any]:
    meta = {"name": "evil", "namespace": "gpu-operator"}
    saved = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [{"port": 443}], **spec}}
    return {"key": "services", "namespace": "gpu-operator", "name": "evil", "uid": "u", "saved": saved}


def entry(tmp_path: Path, undo: str, args: dict[str, Any]) -> Entry:
    return ledger(tmp_path, experiment="A5").draft(undo, args)


NODE = {
    "name": "gpu-1",
    "uid": "another",
    "ready": True,
    "wait_seconds": 1,
    "saved": {
        "metadata": {"labels": {"team": "a"}, "annotations": {}},
        "spec": {"taints": [{"key": "evil", "value": "x", "effect": "NoExecute"}], "unschedulable": True},
    },
}


def test_the_confirmed_plan_says_what_would_be_created_or_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with world(tmp_path) as (cluster, _):
        ledger(tmp_path / "run", cluster, experiment="A5").arm("object.present", service(selector={"app": "shop"}, clusterIP="None"))
        ledger(tmp_path / "run", cluster, experiment="N9").arm("node.exists", NODE)
        words = ["chaos", "recover", "--kubeconfig", str(tmp_path / "kubeconfig"), "--folder", str(tmp_path / "run")]
        assert main([*words, "--chaos-cluster", KUBE_SYSTEM]) == 4
        shown = capsys.readouterr().out
        assert 'spec.clusterIP: "None", spec.ports[0].port: 443, spec.selector.app: "shop"' in shown
        assert 'spec.taints[0].effect: "NoExecute", spec.taints[0].key: "evil"' in shown
        assert 'spec.unschedulable: true, metadata.labels.team: "a"' in shown


def test_they_are_plain_and_bounded_and_what_acts_comes_first(tmp_path: Path) -> None:
    args = service(externalName='x", spec.type: "ClusterIP\x1b[2J')
    args["saved"]["metadata"]["annotations"] = {f"\x1b[2J{number}, spec.type": "a" * 9_000 for number in range(900)}
    text = entry_words(entry(tmp_path, "object.present", args))
    assert text.isprintable()
    assert len(text) < 2_500
    assert "more characters in the ledger" in text
    assert '"x\\", spec.type' in text, "no text passes for another value"
    assert text.index("spec.externalName") < text.index("metadata.annotations")


@pytest.mark.parametrize("saved", [None, "text", [], {}, {"spec": None}, {"spec": [[{"a": {}}]]}, {"": {"": ""}}])
def test_an_entry_may_save_anything(tmp_path: Path, saved: Any) -> None:
    assert entry_words(entry(tmp_path, "object.present", {**service(), "saved": saved})).isprintable()


@pytest.mark.parametrize(("reason", "stated"), [(Reason.OUTSIDE, False), (Reason.UNPROVEN, False), (Reason.NOT_UNDONE, True)])
def test_no_command_is_reported_of_an_entry_that_is_refused(tmp_path: Path, reason: Reason, stated: bool) -> None:
    left = residue_of(entry(tmp_path, "object.present", service()), reason, "why")
    assert ("by hand" in str(left)) is stated
