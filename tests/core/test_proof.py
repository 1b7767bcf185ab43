"""What vouches for a run: written before the act, by UID, and nothing that a tenant can write."""

import stat
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fixtures.cluster.client import Cluster
from fixtures.ownership import owned, proof, proof_record
from fixtures.ownership import read_proofs as reading
from fixtures.ownership.proof import Proof, ProofRefused
from fixtures.ownership.proof_record import PROOF, digest_of
from fixtures.ownership.read_proofs import living, read_folder, read_proofs
from fixtures.system.process import Process
from tests.served import served
from tests.tables import each_row
from tests.troubles import Trouble

RUN = "20261121-100000-test"
CLASSES = owned.PRIORITY_CLASSES


def a_namespace(name: str, run_id: str = RUN, token: str = "") -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "labels": owned.labels(run_id)}
    if token:
        meta["annotations"] = {PROOF: token}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def opened(cluster: Cluster, **more: Any) -> Proof:
    return Proof.open(cluster, RUN, **{"renewing": False, **more})


def test_what_was_created_is_known_by_its_uid(tmp_path: Path) -> None:
    with served(tmp_path) as (cluster, _):
        mine = opened(cluster)
        token = mine.will_create("namespaces", "n")[PROOF]
        mine.created("namespaces", "n", "uid-1")
        view = read_proofs(cluster)[RUN]
        assert view.created_here("namespaces", "n", "uid-1")
        assert not view.created_here("namespaces", "n", "uid-2")
        assert not view.created_here("namespaces", "n", "uid-2", token)  # the UID is known: the token says nothing any more
        assert not view.created_here("namespaces", "other", "uid-1")
        assert not view.created_here("namespaces", "n", "")
        mine.removed({"uid-1"})
        assert not read_proofs(cluster)[RUN].created_here("namespaces", "n", "uid-1")


def test_an_announced_object_is_known_by_its_token_alone(tmp_path: Path) -> None:
    """The run died between the creation and its answer; a tenant may have created an object of that name instead."""
    with served(tmp_path) as (cluster, _):
        mine = opened(cluster)
        assert mine.will_create("namespaces", "n") == mine.will_create("namespaces", "n")
        ours = a_namespace("n", token=mine.will_create("namespaces", "n")[PROOF])
        ours["metadata"]["uid"] = theirs_uid = "u"
        view = read_proofs(cluster)[RUN]
        assert view.created_this("namespaces", ours)
        theirs = a_namespace("n", token="0" * 32)
        theirs["metadata"]["uid"] = theirs_uid
        assert not view.created_this("namespaces", theirs)
        assert not view.created_this("namespaces", {"metadata": {"name": "n", "uid": "u"}})
        assert not view.created_this("namespaces", {"metadata": True})
        mine.not_created("namespaces", "n")
        assert not read_proofs(cluster)[RUN].created_this("namespaces", ours)


def test_a_name_that_is_taken_is_confirmed_by_this_process_s_own_token_alone(tmp_path: Path) -> None:
    """Another process of the run announced one of that name and died; whoever saw its token has made another since."""
    with served(tmp_path) as (cluster, _):
        seen = opened(cluster).will_create("namespaces", "n")[PROOF]
        assert cluster.create("namespaces", a_namespace("n", token=seen)).ok
        mine = opened(cluster)
        own = mine.will_create("namespaces", "n")[PROOF]
        assert mine.confirm("namespaces", "n", cluster.create("namespaces", a_namespace("n", token=own))) == ""
        assert not mine.view.created
        own = mine.will_create("namespaces", "m")[PROOF]
        assert cluster.create("namespaces", a_namespace("m", token=own)).ok  # its answer was lost
        uid = mine.confirm("namespaces", "m", cluster.create("namespaces", a_namespace("m", token=own)))
        assert mine.view.created == (("namespaces", "m", uid),)


def test_what_was_announced_and_taken_back_by_another_is_not_written_down(tmp_path: Path) -> None:
    with served(tmp_path) as (cluster, _):
        paused, other = opened(cluster), opened(cluster)
        token = paused.will_create("namespaces", "n")[PROOF]
        answer = cluster.create("namespaces", a_namespace("n", token=token))
        other.vouch("a")  # reads what was announced by now
        other.not_there("namespaces", "n")
        assert paused.confirm("namespaces", "n", answer) == ""
        assert read_proofs(cluster)[RUN].names == ()


def test_entries_are_vouched_for_until_they_are_closed(tmp_path: Path) -> None:
    with served(tmp_path) as (cluster, _):
        mine = opened(cluster, prefix=proof_record.CHAOS_PREFIX)
        first, second = digest_of(b"1"), digest_of(b"2")
        mine.vouch(first)
        mine.vouch(second)
        mine.forget({first})
        view = read_proofs(cluster)[RUN]
        assert (view.vouches(first), view.vouches(second)) == (False, True)
        assert view.digests == {second}
        assert "stays" in mine.close()
        mine.forget({second})
        assert mine.close() == ""
        assert read_proofs(cluster) == {}


def test_what_another_process_wrote_is_known_at_the_end(tmp_path: Path) -> None:
    with served(tmp_path) as (cluster, _):
        parent, child = opened(cluster), opened(cluster)
        child.vouch("a")
        assert "stays" in parent.close()
        child.vouch("b")
        parent.only({"b"})
        assert read_proofs(cluster)[RUN].digests == {"b"}
        parent.only(())
        assert parent.close() == ""
        assert read_proofs(cluster) == {}


def test_processes_of_a_run_write_to_one_proof(tmp_path: Path) -> None:
    with served(tmp_path) as (cluster, _):
        parent = opened(cluster)
        child = opened(cluster)
        parent.vouch("a")
        child.vouch("b")
        parent.vouch("c")
        child.forget({"a"})
        assert read_proofs(cluster)[RUN].digests == {"b", "c"}
        worker = opened(cluster, part="gw0")
        worker.vouch("d")
        assert read_proofs(cluster)[RUN].digests == {"b", "c", "d"}


@each_row
def test_a_class_whose_name_and_labels_disagree_vouches_for_nothing(tmp_path: Path, meta: dict[str, Any]) -> None:
    with served(tmp_path) as (cluster, _):
        opened(cluster).vouch("a")
        genuine = cluster.get(CLASSES, f"gpu-conformance-{RUN}").json()
        record = genuine["metadata"]["annotations"]
        cluster.delete(CLASSES, f"gpu-conformance-{RUN}")
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1, "metadata": {**meta, "annotations": record}}
        assert cluster.create(CLASSES, body).ok
        assert not any(view.vouches("a") for view in read_proofs(cluster).values())


def test_a_namespace_that_says_it_is_a_proof_is_none(tmp_path: Path) -> None:
    with served(tmp_path) as (cluster, _):
        opened(cluster)
        body = a_namespace(f"gpu-conformance-{RUN}")
        body["metadata"]["annotations"] = cluster.get(CLASSES, f"gpu-conformance-{RUN}").json()["metadata"]["annotations"]
        cluster.delete(CLASSES, f"gpu-conformance-{RUN}")
        cluster.create("namespaces", body)
        assert read_proofs(cluster) == {}


def test_what_cannot_be_vouched_for_is_refused(tmp_path: Path) -> None:
    lost = Trouble("patch", CLASSES, 403)
    with served(tmp_path, troubles=[lost]) as (cluster, _):
        with pytest.raises(ProofRefused, match="could not be written"):
            opened(cluster).vouch("a")
        mine = opened(cluster)
        cluster.delete(CLASSES, mine.name)
        with pytest.raises(ProofRefused, match="somebody deleted it"):
            mine.will_create("namespaces", "n")
        other = opened(cluster)
        other.vouch("b")
        with pytest.raises(ProofRefused, match="somebody replaced it"):
            mine.vouch("c")


@pytest.mark.parametrize("status", [500, 503, 429, "drop"])
def test_an_api_in_trouble_is_asked_again(tmp_path: Path, status: int | str) -> None:
    with served(tmp_path, troubles=[Trouble("patch", CLASSES, status, 2), Trouble("create", CLASSES, status)]) as (cluster, _):
        opened(cluster).vouch("a")
        assert read_proofs(cluster)[RUN].vouches("a")


def test_the_record_is_bounded(tmp_path: Path) -> None:
    with served(tmp_path) as (cluster, _):
        with pytest.raises(ProofRefused, match="are the limits"):
            opened(cluster).vouch("a" * proof_record.MAX_BYTES)


def test_without_the_class_the_run_s_folder_vouches(tmp_path: Path) -> None:
    refused = Trouble("create", CLASSES, 403, 2)
    folder, name = tmp_path / "run", f"gpu-conformance-{RUN}-rest"
    folder.mkdir()
    with served(tmp_path, troubles=[refused]) as (cluster, _):
        with pytest.raises(ProofRefused, match="there can be no proof"):
            opened(cluster)
        mine = opened(cluster, folder=folder)
        mine.will_create("namespaces", name)
        mine.created("namespaces", name, "uid-1")
        assert read_proofs(cluster) == {}
        assert "403" in mine.without_class
        [path] = folder.glob("*.json")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        views, wrong = read_folder(tmp_path)
        assert wrong == []
        assert views[RUN].created_here("namespaces", name, "uid-1")
        path.chmod(0o666)
        views, wrong = read_folder(tmp_path)
        assert (dict(views), "others may write" in wrong[0]) == ({}, True)
        path.unlink()
        path.symlink_to("/etc/passwd")
        assert read_folder(tmp_path)[0] == {}


def changed(cluster: Cluster, **fields: Any) -> None:
    name = f"gpu-conformance-{RUN}"
    record = msgspec.json.decode(cluster.get(CLASSES, name).json()["metadata"]["annotations"][PROOF])
    text = msgspec.json.encode({**record, **fields}).decode()
    assert cluster.patch(CLASSES, name, {"metadata": {"annotations": {PROOF: text}}}).ok


ELSEWHERE = str(msgspec.structs.replace(Process.me(), boot="0d7e9c7e-1111-4222-8333-444455556666", pid=4_000_000))


def at(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() + seconds))


def test_a_run_lives_while_it_is_renewed_whichever_machine_it_is_on(tmp_path: Path) -> None:
    with served(tmp_path) as (cluster, _):
        mine = opened(cluster)
        assert living(cluster, read_proofs(cluster).values()) == {RUN}
        changed(cluster, process=str(msgspec.structs.replace(Process.me(), pid=4_000_000)))
        assert living(cluster, read_proofs(cluster).values()) == set()  # of this machine, and ended
        changed(cluster, process=ELSEWHERE)
        assert living(cluster, read_proofs(cluster).values()) == {RUN}
        mine.renew()
        assert living(cluster, read_proofs(cluster).values()) == {RUN}


@pytest.mark.parametrize("offset", [-90, -600, -10 * 365 * 86_400, 3600])
def test_another_clock_does_not_end_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: float) -> None:
    for module in (proof, reading):
        monkeypatch.setattr(module, "RENEW_SECONDS", 0.2)
        monkeypatch.setattr(module, "WRITE_SECONDS", 2.0)
    with served(tmp_path) as (cluster, _):
        opened(cluster)
        changed(cluster, process=ELSEWHERE, renewed=at(offset))
        assert living(cluster, read_proofs(cluster).values()) == set()  # nobody renews it
        changed(cluster, process=ELSEWHERE, renewed=at(offset))
        monkeypatch.setattr(proof, "_now", lambda: at(offset))  # the clock of its machine
        renewing = opened(cluster, renewing=True)
        try:
            assert living(cluster, read_proofs(cluster).values()) == {RUN}
        finally:
            renewing.stop_renewing()
