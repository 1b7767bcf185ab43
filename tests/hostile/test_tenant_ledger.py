"""What a tenant writes is never carried out: ledgers, labels and namespaces that look like the suite's own."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.act.context import ActivityContext
from chaos.cluster import namespaces
from chaos.engine import recover as recovering
from chaos.engine.recover import RecoveryResult, status
from chaos.ledger import authentic, config_maps
from chaos.ledger.bounds import CHECKS, REGISTRY, Bounds, Terms
from chaos.ledger.file import Ledger
from chaos.ledger.undos.nodes import NodeLabels
from chaos.model.plan import Target
from chaos.model.records import Entry, Line, State, digest, encode, now
from chaos.safety.lease import HALT, AbortFlag, parse_lease
from chaos.safety.lease_keeper import LeaseKeeper
from chaos.surface.cli import main
from chaos.verdict import artefacts
from fixtures.cluster.client import Cluster
from fixtures.ownership import owned
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX
from fixtures.ownership.read_proofs import read_proofs
from fixtures.policy.model import Policy
from tests.chaos.ledger.simulated_cluster import KUBE_SYSTEM, PRODUCT, RUN, fetch, ledger, plan, recover, soon, strip, world
from tests.chaos.shipped import EXPERIMENTS
from tests.tables import each_row, filled, table
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

ANOTHER = "20261121-130000-beef"
OWN = f"gpu-conformance-chaos-{RUN}"
WORDS = {"RUN": RUN, "ANOTHER": ANOTHER, "OWN": OWN, "UNIT": f"gpu-conformance-{RUN}-n2-kubelet-stop"}
TABLE = filled(table(__file__), WORDS)
PRIVILEGED = TABLE["known"]["privileged"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with world(tmp_path) as (found, _):
        yield found


def forged_line(undo: str, args: dict[str, Any], run_id: str = RUN, experiment: str = "A1") -> Line:
    """A line as a run writes it, which is easy: its shape is no secret."""
    entry = Entry(
        seq=1,
        run_id=run_id,
        experiment=experiment,
        cluster_uid=KUBE_SYSTEM,
        undo=undo,
        args=args,
        expires_at="2027-01-01T00:00:00+00:00",
    )
    return Line(seq=1, state=State.ARMED, at=now(), entry=entry)


def plant(cluster: Cluster, *lines: Line, run_id: str = RUN, name: str = "", experiment: str = "A1") -> None:
    """A ledger as a tenant can write it who may create namespaces: name and labels are those of the suite."""
    labels = {owned.MANAGED_BY: owned.SUITE}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespaces.SHARED, "labels": labels}}
    assert cluster.create("namespaces", space).status in (201, 409)
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name or config_maps.config_map_name(run_id), "labels": {**owned.labels(run_id), **config_maps.COMPONENT}},
        "data": {f"{experiment}{config_maps.LINES}": b"".join(map(encode, lines)).decode()},
    }
    answer = cluster.create("configmaps", body, namespace=namespaces.SHARED)
    assert answer.ok, answer.message


def lines_of(cluster: Cluster, run_id: str = RUN) -> str:
    return str(fetch(cluster, "configmaps", config_maps.config_map_name(run_id), namespaces.SHARED)["data"][f"A1{config_maps.LINES}"])


def product(cluster: Cluster) -> str:
    return str(fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"].get(PRODUCT))


def stripped(cluster: Cluster, folder: Path, run_id: str = RUN) -> Any:
    """A true ledger with one open entry, and its fault."""
    book = ledger(folder, cluster, run_id=run_id)
    strip(cluster, book)
    return book


def is_stated(done: RecoveryResult, *words: str) -> None:
    line = next(line for line in done.forged if "was made by somebody else" not in line)
    assert line.startswith(authentic.ATTACK), line
    for word in words:
        assert word in line, line


@each_row
def test_a_ledger_that_a_tenant_wrote_is_reported_and_not_carried_out(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], undo: str, args: dict[str, Any]
) -> None:
    plant(cluster, forged_line(undo, args))
    before = fetch(cluster, "nodes", "gpu-1")
    assert main(["chaos", "status", "--kubeconfig", str(tmp_path / "kubeconfig")]) == 0
    assert f"possible attack: entry {RUN}/A1/1 ({undo})" in capsys.readouterr().out
    writes = [key for key in cluster.requests().by_verb_and_resource if not key.startswith(("get", "list", "watch"))]
    done = recover(cluster, seconds=PATIENCE)
    assert (done.restored, done.residue) == (0, ())
    is_stated(done, undo)
    assert fetch(cluster, "nodes", "gpu-1") == before
    assert cluster.get("namespaces", "gpu-operator").ok
    made = {key for key in cluster.requests().by_verb_and_resource if not key.startswith(("get", "list", "watch"))} - set(writes)
    assert not any("pods" in key or "nodes" in key for key in made), made


def test_a_forged_ledger_holds_nobody_up(cluster: Cluster) -> None:
    plant(cluster, forged_line("node.labels", {}))
    lease = LeaseKeeper(cluster, ANOTHER, lambda reason: None)
    lease.acquire()
    lease.abandon()
    assert lease.forged == status(cluster).forged != ()


@pytest.mark.parametrize(
    "closed",
    [
        {"A1.verified": "9" * 5000},
        {"A1.verified": ",".join(["1-100001"] * 60_000)},
        {"A1.verified": "1-99999,200000-299999"},
        {"A1.verified": ",".join(["1-50000"] * 60_000)},
        {f"{number}.verified": "1-99999" for number in range(1000)},
        {"A1.verified": "٣"},
        {"A1.verified": "3-1"},
    ],
    ids=["digits", "ranges", "two", "the same again", "of many experiments", "words", "back"],
)
def test_numbers_without_bound_hold_nobody_up(cluster: Cluster, closed: dict[str, str]) -> None:
    plant(cluster)
    assert cluster.patch("configmaps", config_maps.config_map_name(RUN), {"data": closed}, namespaces.SHARED).ok
    before = time.process_time()
    stated = status(cluster).forged
    assert time.process_time() - before < 5
    assert any("no list of numbers" in line for line in stated), stated


def test_a_flood_of_ledgers_costs_a_page_and_is_reported_in_a_few_lines(cluster: Cluster) -> None:
    """Whoever makes a namespace may fill it: reading all of it would be an answer too large, and that would hold everybody up."""
    for number in range(30):
        run = f"20261121-140000-{number:04x}"
        plant(cluster, forged_line("node.labels", {}, run), run_id=run)
    asked = cluster.requests().bytes
    stated = status(cluster).forged
    assert "made by somebody else" in stated[0]
    assert 5 < len(stated) <= 21
    assert cluster.requests().bytes - asked < 30_000


def test_a_true_ledger_in_a_flood_is_still_found(cluster: Cluster, tmp_path: Path) -> None:
    """Its name is known from what vouches for it, so it is read by name."""
    stripped(cluster, tmp_path)
    anchor = namespaces.ANCHOR
    assert cluster.delete("scheduling.k8s.io/priorityclasses", anchor).ok
    for number in range(12):
        plant(cluster, run_id=f"20251121-140000-{number:04x}")
    done = recover(cluster, seconds=PATIENCE)
    assert done.restored == 1
    assert product(cluster) == "H100"


def test_two_entries_of_one_number_are_no_ledger(cluster: Cluster) -> None:
    """A forged entry must not count because a true one has its number."""
    plant(cluster, forged_line("node.labels", {}), forged_line("host.command", PRIVILEGED))
    stated = status(cluster).forged
    assert any("two entries of one number" in line for line in stated)


@each_row
def test_a_lease_may_say_anything(spec: dict[str, Any]) -> None:
    found = parse_lease({"metadata": {"name": "a", "uid": "u", "annotations": {HALT: "TRUE"}}, "spec": spec})
    assert (found.seconds, found.age(), found.holder) == (15, None, None)
    assert found.halted == "somebody"


def test_the_label_of_another_run_makes_no_ledger_of_it(cluster: Cluster, tmp_path: Path) -> None:
    """A true ledger, copied under another run's name and label: its entries are still of the run that wrote them."""
    stripped(cluster, tmp_path)
    text = lines_of(cluster)
    assert cluster.delete("configmaps", config_maps.config_map_name(RUN), namespaces.SHARED).ok
    plant(cluster, run_id=ANOTHER)
    assert cluster.patch("configmaps", config_maps.config_map_name(ANOTHER), {"data": {"A1.jsonl": text}}, namespaces.SHARED).ok
    done = recover(cluster, seconds=PATIENCE)
    is_stated(done, f"holds an entry of A1 of run {RUN}")
    assert product(cluster) == "None"
    assert any(f"entry {RUN}/A1/1 node.labels gpu-1 is open" in line for line in done.unreadable)  # and what it was is told as missing


def test_a_name_that_is_not_the_labels_makes_no_ledger(cluster: Cluster, tmp_path: Path) -> None:
    stripped(cluster, tmp_path)
    text = lines_of(cluster)
    assert cluster.delete("configmaps", config_maps.config_map_name(RUN), namespaces.SHARED).ok
    plant(cluster, name="innocent")
    assert cluster.patch("configmaps", "innocent", {"data": {"A1.jsonl": text}}, namespaces.SHARED).ok
    done = recover(cluster, seconds=PATIENCE)
    is_stated(done, "is not the run of its name")
    assert product(cluster) == "None"


def test_an_entry_that_was_edited_is_not_the_one_that_was_written(cluster: Cluster, tmp_path: Path) -> None:
    stripped(cluster, tmp_path)
    edited = lines_of(cluster).replace('"H100"', '"B200"')
    assert cluster.patch("configmaps", config_maps.config_map_name(RUN), {"data": {"A1.jsonl": edited}}, namespaces.SHARED).ok
    done = recover(cluster, seconds=PATIENCE)
    is_stated(done, f"entry {RUN}/A1/1")
    assert product(cluster) == "None"
    assert not done.clean
    found = recover(cluster, tmp_path / RUN, seconds=PATIENCE)  # the run's own folder still knows
    assert found.restored == 1
    assert product(cluster) == "H100"


def test_an_entry_beside_true_ones_is_reported_and_they_are_put_back(cluster: Cluster, tmp_path: Path) -> None:
    stripped(cluster, tmp_path)
    entry = forged_line("host.command", PRIVILEGED).entry
    assert entry is not None
    more = encode(Line(seq=2, state=State.ARMED, at=now(), entry=msgspec.structs.replace(entry, seq=2))).decode()
    assert cluster.patch(
        "configmaps", config_maps.config_map_name(RUN), {"data": {"A1.jsonl": lines_of(cluster) + more}}, namespaces.SHARED
    ).ok
    done = recover(cluster, seconds=PATIENCE)
    is_stated(done, f"entry {RUN}/A1/2 (host.command)")
    assert done.restored == 1
    assert product(cluster) == "H100"


@pytest.mark.parametrize("stale", [False, True], ids=["the proof is gone", "a stale proof is there"])
def test_an_old_ledger_cannot_be_played_again(cluster: Cluster, tmp_path: Path, stale: bool) -> None:
    """A closed entry was true once. It is nobody's any more, whether its run's proof went or stayed for another entry."""
    book = stripped(cluster, tmp_path)
    text = lines_of(cluster)
    if stale:
        book.arm("node.labels", {"name": "gpu-2", "uid": "uid-gpu-2", "prior": {"chaos": None}, "ours": {"chaos": "yes"}})
        assert cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {PRODUCT: "H100"}}}).ok
        book.mark(1, State.VERIFIED)
        assert book.flush(soon())
        assert cluster.delete("configmaps", config_maps.config_map_name(RUN), namespaces.SHARED).ok
    else:
        assert recover(cluster, seconds=PATIENCE).clean
    assert cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {PRODUCT: None}}}).ok  # its administrator's will by now
    plant(cluster)
    assert cluster.patch("configmaps", config_maps.config_map_name(RUN), {"data": {"A1.jsonl": text}}, namespaces.SHARED).ok
    done = recover(cluster, seconds=PATIENCE)
    is_stated(done, f"entry {RUN}/A1/1 (node.labels)")
    assert product(cluster) == "None"


# -- namespaces of a run that is over ---------------------------------------------------------------------


def tenants_namespace(cluster: Cluster, **annotations: str) -> str:
    """A tenant's, with name and labels of the run's own; its UID."""
    meta = {"name": OWN, "labels": owned.labels(RUN), "annotations": annotations}
    answer = cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    assert answer.ok, answer.message
    return str(answer.json()["metadata"]["uid"])


def test_what_is_in_a_namespace_that_took_the_name_of_the_run_s_is_not_deleted(cluster: Cluster, tmp_path: Path, terms: Terms) -> None:
    book = ledger(tmp_path, cluster, experiment="W3")
    assert namespaces.ensure_run(cluster, RUN, name=OWN) == OWN
    book.arm("object.absent", {"key": "pods", "namespace": OWN, "name": "train", "run_id": RUN})
    assert cluster.delete("namespaces", OWN).ok
    tenants_namespace(cluster)
    pod = {"metadata": {"name": "train", "labels": owned.labels(RUN)}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert cluster.create("pods", {"apiVersion": "v1", "kind": "Pod", **pod}, namespace=OWN).ok
    assert recover(cluster, seconds=PATIENCE, terms=terms).clean  # what the run created went with its own namespace
    assert cluster.get("pods", "train", OWN).ok


def test_a_label_does_not_tell_when_nothing_says_what_the_run_created(cluster: Cluster, tmp_path: Path, terms: Terms) -> None:
    book = ledger(tmp_path, cluster, experiment="W3")
    book.arm("object.absent", {"key": "pods", "namespace": OWN, "name": "train", "run_id": RUN})
    assert cluster.delete(owned.PRIORITY_CLASSES, f"{CHAOS_PREFIX}-{RUN}").ok
    tenants_namespace(cluster)
    pod = {"metadata": {"name": "train", "labels": owned.labels(RUN)}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert cluster.create("pods", {"apiVersion": "v1", "kind": "Pod", **pod}, namespace=OWN).ok
    (left,) = recover(cluster, tmp_path, seconds=1, terms=terms).residue
    assert "nothing proves that the run created it" in left.message
    assert cluster.get("pods", "train", OWN).ok


@pytest.mark.parametrize("undoing", [False, True])
def test_a_token_that_a_tenant_has_seen_opens_no_namespace_of_his(cluster: Cluster, undoing: bool) -> None:
    """A process of the run died before it wrote down its namespace's UID; somebody deleted it, and a tenant had read its token."""
    opened = Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False)
    theirs = tenants_namespace(cluster, **opened.will_create("namespaces", OWN))
    name = namespaces.ensure_run(cluster, RUN, name=OWN, undoing=undoing)
    uid = fetch(cluster, "namespaces", name)["metadata"]["uid"]
    assert (name != OWN, uid != theirs) == (True, True)
    assert Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False).view.created == (("namespaces", name, uid),)


# -- what something vouches for is still held against its experiment -------------------------------------


@pytest.fixture(scope="module")
def terms() -> Terms:
    """Those of the suite's own experiments under the default policy, and of one that puts labels of nodes back."""
    known = Terms.of(list(EXPERIMENTS.values()), Policy())
    return msgspec.structs.replace(known, bounds={**known.bounds, "Z1": Bounds(undo=frozenset({"node.labels"}))})


@pytest.mark.parametrize(("experiment", "undo", "args", "why"), TABLE["outside"])
def test_what_an_experiment_may_not_touch_is_refused_even_when_it_is_vouched_for(
    cluster: Cluster, terms: Terms, experiment: str, undo: str, args: dict[str, Any], why: str
) -> None:
    line = forged_line(undo, args, experiment=experiment)
    assert line.entry is not None
    Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False).vouch(digest(line.entry))
    plant(cluster, line, experiment=experiment)
    done = recover(cluster, seconds=PATIENCE, terms=terms)
    assert (done.restored, [line for line in done.forged if "entry" in line]) == (0, [])
    (left,) = done.residue
    assert why in left.message, left.message
    writes = [key for key in cluster.requests().by_verb_and_resource if not key.startswith(("get", "list", "watch"))]
    assert not any("nodes" in key or "pods" in key for key in writes), writes


def test_no_undo_is_without_a_bound() -> None:
    """Whoever adds an undo says what bounds its arguments, and shows arguments that are refused."""
    assert {name for name, undo in REGISTRY.items() if undo.Args not in CHECKS} == set()
    assert REGISTRY.keys() - {undo for _, undo, _, _ in TABLE["outside"]} == set()


def test_the_nodes_of_the_plan_bound_what_the_runs_own_folder_says(cluster: Cluster, tmp_path: Path, terms: Terms) -> None:
    args = NodeLabels().args(fetch(cluster, "nodes", "gpu-2"), {PRODUCT: None})
    book = ledger(tmp_path, cluster, experiment="A9")
    book.arm("node.labels", args)
    assert cluster.patch("nodes", "gpu-2", {"metadata": {"labels": {PRODUCT: None}}}).ok
    assert book.path is not None
    artefacts.write(book.path.with_name("plan.json"), plan(experiment="A9"))  # of gpu-1
    (left,) = recover(cluster, tmp_path, seconds=PATIENCE, terms=terms).residue
    assert "node gpu-2, which is not in its plan" in left.message
    artefacts.write(
        book.path.with_name("plan.json"), plan(Target(kind="nodes", name="gpu-2", uid="uid-gpu-2", node="gpu-2"), experiment="A9")
    )
    assert recover(cluster, tmp_path, seconds=PATIENCE, terms=terms).clean


def test_what_would_not_be_undone_is_not_done(cluster: Cluster, tmp_path: Path, terms: Terms) -> None:
    """The same bounds hold when a fault is made: an experiment finds out before, not whoever recovers it."""
    book = ledger(tmp_path, cluster, experiment="A9")
    acting = ActivityContext(cluster, plan(experiment="A9"), book, AbortFlag(tmp_path), allowed=lambda: None, terms=terms)
    args = NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {"kubernetes.io/hostname": "other"})
    with pytest.raises(ActivityFailed, match=r"would not be undone: A9 may not touch kubernetes\.io/hostname of a node"):
        with acting.fault("node.labels", args):
            pytest.fail("the body ran")
    assert book.entries() == []


def test_a_file_that_others_may_write_is_not_believed(cluster: Cluster, tmp_path: Path) -> None:
    book = stripped(cluster, tmp_path)
    assert cluster.delete("configmaps", config_maps.config_map_name(RUN), namespaces.SHARED).ok
    book.path.chmod(0o622)
    done = recover(cluster, tmp_path, seconds=PATIENCE)
    assert (done.clean, done.restored) == (False, 0)
    assert any("others may write to it" in line for line in done.unreadable)
    assert product(cluster) == "None"


@pytest.mark.parametrize("listed", [False, True])
def test_a_report_that_was_unpacked_opens_nothing_that_the_run_s_class_does_not_list(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], listed: bool
) -> None:
    """Whoever unpacks a report owns its files, and whoever wrote it may have written any ledger."""
    proof = Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False)
    args = NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {PRODUCT: None})
    book = Ledger.create(tmp_path / "unpacked" / "ledger.jsonl", plan(experiment="A9").origin, None, proof if listed else None)
    book.arm("node.labels", args)
    assert cluster.patch("nodes", "gpu-1", {"metadata": {"labels": {PRODUCT: None}}}).ok
    words = [*command(tmp_path, "recover"), "--folder", str(tmp_path / "unpacked"), "--chaos-cluster", KUBE_SYSTEM, "--yes"]
    for _ in range(1 if listed else 2):  # its proof stays, so that the file is not believed the next time
        assert main(words) == (0 if listed else 11)
        shown = capsys.readouterr().out
        assert product(cluster) == ("H100" if listed else "None")
        assert ("  put back: node gpu-1" in shown) is listed
        assert ("does not list it: it is closed, or a possible attack" in shown) is not listed
        assert ("by hand" in shown) is listed  # the command would be the attacker's
    assert main([*words, "--accept", f"{RUN}/A9/1"]) == 0
    assert read_proofs(cluster) == {}


def test_what_stays_open_is_listed_where_an_undo_has_made_the_run_s_class_anew(cluster: Cluster, tmp_path: Path) -> None:
    book = ledger(tmp_path, None)
    book.arm("node.unschedulable", {"name": "gpu-1"})
    books = recovering._Proofs(cluster, {}, {})
    books.keep(RUN, book.open_entries())
    assert read_proofs(cluster) == {}
    Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False)
    books.keep(RUN, book.open_entries())
    assert read_proofs(cluster)[RUN].digests == {digest(entry) for entry in book.open_entries()}


# -- the commands ----------------------------------------------------------------------------------------


def command(tmp_path: Path, *words: str) -> list[str]:
    return ["chaos", *words, "--kubeconfig", str(tmp_path / "kubeconfig")]


@each_row
@pytest.mark.parametrize("words", [["recover"], ["halt"], ["halt", "--off"]], ids=" ".join)
def test_nothing_is_changed_that_was_not_allowed_and_confirmed(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], consent: list[str], reported: str
) -> None:
    book = ledger(tmp_path, cluster, experiment="A9")
    strip(cluster, book)
    before = cluster.request("GET", cluster.path("namespaces")).json()["items"]
    assert main([*command(tmp_path, *words), *consent]) == 4
    shown = capsys.readouterr()
    assert reported in shown.err
    assert ("put back: nodes gpu-1" if words == ["recover"] else "halt") in shown.out.replace("node gpu-1", "nodes gpu-1")
    assert product(cluster) == "None"
    assert status(cluster).halted == ""
    assert cluster.request("GET", cluster.path("namespaces")).json()["items"] == before


def test_what_was_allowed_and_confirmed_is_carried_out(cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = ledger(tmp_path, cluster, experiment="A9")
    strip(cluster, book)
    consent = ["--chaos-cluster", KUBE_SYSTEM, "--yes"]
    assert main([*command(tmp_path, "halt"), *consent]) == 0
    assert status(cluster).halted
    assert main([*command(tmp_path, "recover"), *consent]) == 0
    assert product(cluster) == "H100"
    assert main([*command(tmp_path, "halt", "--off"), *consent]) == 0
    assert status(cluster).halted == ""
    capsys.readouterr()
    assert main(command(tmp_path, "recover")) == 0  # nothing is left to do, so nobody is asked
    assert capsys.readouterr().out == "0 changes of 0 runs put back\n"
