"""A 404 is a claim: what is there is not absent, undone, halted no more or nobody's because something on the way says so."""

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.cluster.requests import await_object, read
from chaos.engine.recover import end_halt
from chaos.ledger.undos.objects import AbsentArgs
from chaos.safety.lease import halt, read_lease
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import BUILT_IN
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX
from tests.chaos.ledger.simulated_cluster import RUN, ledger, replay, soon, world
from tests.definitions import definitions
from tests.hostile.faults import effects, experiments
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.hostile.lying import SIGN_IN, Asked, Said, a_list, an_object, lying, said, status
from tests.hostile.test_answers import announced
from tests.served import served

pytestmark = pytest.mark.test_all


def absent(resource: str, skip: int = 0, times: int = ALWAYS) -> Fault:
    """Objects of a resource are not there, says a proxy, although they are."""
    return Fault(name="not found", verb="get", resource=resource, effect=effects.refused(404, "NotFound"), skip=skip, times=times)


POD = an_object("Pod", "p")
EMPTY, FULL = said(a_list("Pod")), said(a_list("Pod", POD))
NOT_FOUND = status(404, "NotFound")


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([NOT_FOUND, EMPTY], None),
        ([NOT_FOUND, FULL, said(POD)], POD),
        ([NOT_FOUND, FULL, NOT_FOUND, EMPTY], None),
    ],
    ids=["not there", "created meanwhile", "created and deleted meanwhile"],
)
def test_what_a_list_does_not_show_either_is_absent(tmp_path: Path, answers: list[Said], found: object) -> None:
    rest = iter(answers)
    with lying(tmp_path, lambda asked: next(rest)) as (cluster, asked):
        assert read(cluster, "pods", "p", "default") == found
        assert len(asked) == len(answers)


@pytest.mark.parametrize("listed", [FULL, status(403, "Forbidden"), said({})], ids=["shown", "refused", "no list"])
def test_what_a_list_shows_or_does_not_tell_is_not_absent(tmp_path: Path, listed: Said) -> None:
    def answers(asked: Asked) -> Said:
        return NOT_FOUND if asked.path.endswith("/p") else listed

    with lying(tmp_path, answers) as (cluster, asked), pytest.raises(ApiTrouble):
        read(cluster, "pods", "p", "default")
    assert len(asked) <= 4


POLICIES, QUEUES = "nvidia.com/clusterpolicies", "kueue.x-k8s.io/clusterqueues"
NO_PATH = Said(b"404 page not found\n", 404, {"Content-Type": "text/plain; charset=utf-8"})


def without(words: Said, *served: str, stale: tuple[str, ...] = ()) -> Callable[[Asked], Said]:
    """A server that has no object of any kind, in these words, and announces these kinds beside those of every Kubernetes."""

    def answer(asked: Asked) -> Said:
        if asked.path in ("/api", "/apis"):
            return said(announced([*sorted(BUILT_IN), *served], stale=stale, root=asked.path))
        return words

    return answer


@pytest.mark.parametrize("words", [NOT_FOUND, NO_PATH], ids=["Status", "text"])
@pytest.mark.parametrize("learned", [{}, {"pods": "v1"}, {"pods": "v1", POLICIES: "v1"}], ids=["nothing", "others", "it was there"])
def test_where_nobody_serves_the_kind_its_objects_are_absent(tmp_path: Path, words: Said, learned: dict[str, str]) -> None:
    """An operator may be removed, and its kinds with it, at any time."""
    with lying(tmp_path, without(words, QUEUES)) as (cluster, asked):
        cluster.learn_versions(learned)
        assert read(cluster, POLICIES, "policy") is None
        assert len(asked) <= 4
        assert await_object(cluster, POLICIES, "policy", "", soon(), lambda found: "there" if found else "") == ""
        with pytest.raises(ApiTrouble):
            read(cluster, "pods", "p", "default")  # every Kubernetes has pods


@pytest.mark.parametrize("words", [NOT_FOUND, NO_PATH, Said(SIGN_IN, 404)], ids=["Status", "text", "page"])
@pytest.mark.parametrize("served", [(POLICIES,), (), ("all",)], ids=["in another version", "perhaps", "nobody says"])
def test_where_somebody_may_serve_the_kind_nobody_knows_what_is_absent(tmp_path: Path, words: Said, served: tuple[str, ...]) -> None:
    answers = {
        (POLICIES,): without(words, POLICIES),
        (): without(words, stale=("nvidia.com",)),
        ("all",): lambda asked: words,
    }
    with lying(tmp_path, answers[served]) as (cluster, _):
        for learned in ({}, {POLICIES: "v9"}):
            cluster.learn_versions(learned)
            with pytest.raises(ApiTrouble):
                read(cluster, POLICIES, "policy")
            with pytest.raises(ApiTrouble):
                await_object(cluster, POLICIES, "policy", "", soon(), lambda found: "there" if found else "")


@pytest.mark.parametrize("version", ["v1beta2", "v1alpha9"])
@pytest.mark.parametrize("there", [False, True], ids=["kind gone", "kind there"])
def test_what_an_experiment_created_is_undone_with_its_kind(tmp_path: Path, there: bool, version: str) -> None:
    """A guessed version that is not served is none of the kind."""
    with world(tmp_path, extra=definitions("kueue") if there else ()) as (cluster, _):
        cluster.learn_versions({QUEUES: version})
        book = ledger(tmp_path, cluster)
        book.arm("object.absent", AbsentArgs(key=QUEUES, name="gpu-conformance-queue", run_id=RUN))
        left = replay(book, cluster, soon(5.0))
        assert bool(left) is (there and version == "v1alpha9")


@pytest.mark.parametrize("resource", ["namespaces", "leases"])
@pytest.mark.parametrize("ask", [read_lease, end_halt], ids=["read", "end"])
def test_a_halt_is_not_over_because_its_lease_is_said_to_be_gone(tmp_path: Path, resource: str, ask: Callable[[Cluster], object]) -> None:
    with world(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", [absent(resource)]):
        halt(cluster)
        with pytest.raises(ApiTrouble, match="a list shows it"):
            ask(Cluster.from_kubeconfig(tmp_path / "proxied"))


@pytest.mark.parametrize("ask", [read_lease, end_halt], ids=["read", "end"])
def test_a_halt_is_not_over_because_a_list_is_emptied(tmp_path: Path, ask: Callable[[Cluster], object]) -> None:
    emptied = Fault(name="emptied", verb="list", resource="priorityclasses", effect=effects.emptied, times=ALWAYS)
    with world(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", [emptied]):
        halt(cluster)
        with pytest.raises(ApiTrouble, match="a read by name shows"):
            ask(Cluster.from_kubeconfig(tmp_path / "proxied"))


def test_a_proof_that_is_there_is_left_behind_whatever_is_answered(tmp_path: Path) -> None:
    with served(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", [absent("priorityclasses")]):
        proof = Proof.open(Cluster.from_kubeconfig(tmp_path / "proxied"), RUN, prefix=CHAOS_PREFIX, renewing=False)
        assert "a list shows it" in proof.close()
        assert [item.key for item in owned.find(cluster)] == [owned.PRIORITY_CLASSES]


def test_a_proof_that_somebody_deleted_is_not_left_behind(tmp_path: Path) -> None:
    with served(tmp_path) as (cluster, _):
        proof = Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False)
        assert cluster.delete(owned.PRIORITY_CLASSES, proof.name).ok
        assert proof.close() == ""


def test_an_experiment_leaves_no_namespace_because_it_is_said_to_be_gone(tmp_path: Path) -> None:
    outcome = experiments.under((absent("namespaces", skip=1),), tmp_path)
    assert outcome.wrong == []
    assert outcome.requests < 1000
