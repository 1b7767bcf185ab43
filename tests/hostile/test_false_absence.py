"""A 404 is a claim: what is there is not absent, undone, halted no more or nobody's because something on the way says so."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.cluster.requests import await_object, read
from chaos.engine.recover import end_halt
from chaos.ledger.undos.nodes import NodeLabels
from chaos.ledger.undos.objects import AbsentArgs
from chaos.safety.lease import AbortFlag, halt, read_lease
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import BUILT_IN
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX
from fixtures.probes.workspace import Workspace
from fixtures.simulator.config.scenario import load_defect, load_scenario
from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.simulator.simulated_cluster import initial_objects
from fixtures.verdict.record import Verdict
from tests.chaos.ledger.simulated_cluster import PRODUCT, RUN, acting, fetch, ledger, replay, soon, strip, world
from tests.core.test_cleanup_in_trouble import FLAVOR, FLAVORS, a_configmap, left
from tests.core.test_cleanup_in_trouble import RUN as OTHER_RUN
from tests.definitions import definitions
from tests.endtoend.runs import run_suite
from tests.hostile.faults import effects, experiments
from tests.hostile.faults.plans import ALWAYS
from tests.hostile.faults.proxy import Fault, through
from tests.hostile.lying import SIGN_IN, Asked, Said, a_list, an_object, lying, reported, status
from tests.hostile.test_answers import announced
from tests.served import served
from tests.tables import each_row
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all


def absent(resource: str, skip: int = 0, times: int = ALWAYS) -> Fault:
    """Objects of a resource are not there, says a proxy, although they are."""
    return Fault(name="not found", verb="get", resource=resource, effect=effects.refused(404, "NotFound"), skip=skip, times=times)


POD = an_object("Pod", "p")
EMPTY, FULL = reported(a_list("Pod")), reported(a_list("Pod", POD))
NOT_FOUND = status(404, "NotFound")


@each_row
def test_what_a_list_does_not_show_either_is_absent(tmp_path: Path, answers: list[Said], found: object) -> None:
    rest = iter(answers)
    with lying(tmp_path, lambda asked: next(rest)) as (cluster, asked):
        assert read(cluster, "pods", "p", "default") == found
        assert len(asked) == len(answers)


@pytest.mark.parametrize("listed", [FULL, status(403, "Forbidden"), reported({})], ids=["shown", "refused", "no list"])
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
            return reported(announced([*sorted(BUILT_IN), *served], stale=stale, root=asked.path))
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
def test_a_halt_is_not_over_because_its_lease_is_reported_gone(tmp_path: Path, resource: str, ask: Callable[[Cluster], object]) -> None:
    with world(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", [absent(resource)]):
        halt(cluster)
        with pytest.raises(ApiTrouble, match="a list shows it"):
            ask(Cluster.from_kubeconfig(tmp_path / "proxied"))


@pytest.mark.parametrize("ask", [read_lease, end_halt], ids=["read", "end"])
def test_a_halt_is_not_over_because_a_list_is_emptied(tmp_path: Path, ask: Callable[[Cluster], object]) -> None:
    without = effects.in_json(lambda found: {**found, "items": []})
    emptied = Fault(name="emptied", verb="list", resource="priorityclasses", effect=effects.rewritten(without), times=ALWAYS)
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


def test_an_experiment_leaves_no_namespace_because_it_is_reported_to_be_gone(tmp_path: Path) -> None:
    outcome = experiments.under((absent("namespaces", skip=1),), tmp_path)
    assert outcome.wrong == []
    assert outcome.requests < 1000


# -- a deletion that is answered and does not take place is known by the next list: nobody waits for what nobody deletes --


LIES = {
    "success": effects.replaced(200, b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success"}'),
    "the object": effects.not_done,
}


@contextmanager
def used(folder: Path, how: str) -> Iterator[tuple[Workspace, Cluster]]:
    """A workspace that holds an object of each sort behind a proxy that lets no deletion pass, and the way past it."""
    lie = Fault(name=how, verb="delete", effect=LIES[how], times=ALWAYS)
    with served(folder, definitions("kueue")) as (cluster, _), through(folder / "kubeconfig", folder / "proxied", [lie]):
        workspace = Workspace(Cluster.from_kubeconfig(folder / "proxied"), OTHER_RUN)
        workspace.create("configmaps", a_configmap("a"), workspace.namespace())
        workspace.create(FLAVORS, FLAVOR)
        begun = time.monotonic()
        yield workspace, cluster
        assert time.monotonic() - begun < PATIENCE


@pytest.mark.parametrize("how", LIES)
def test_what_is_not_being_deleted_is_not_waited_for(tmp_path: Path, how: str) -> None:
    with used(tmp_path, how) as (workspace, cluster):
        found = left(cluster)
        assert sorted(item.key for item in owned.remove(workspace.cluster, found, seconds=PATIENCE)) == [FLAVORS, "namespaces"]
        assert left(cluster) == found


@pytest.mark.parametrize("how", LIES)
def test_a_workspace_tells_it_at_once(tmp_path: Path, how: str) -> None:
    with used(tmp_path, how) as (workspace, cluster):
        workspace.clear(seconds=PATIENCE)
        assert ["did not go away" in line for line in workspace.residue] == [True, True]
        workspace.close()
        assert {item.key for item in left(cluster)} == {FLAVORS, "namespaces"}
        for key in (FLAVORS, "namespaces", owned.PRIORITY_CLASSES):
            assert any(key in line for line in workspace.residue), key


def test_a_gang_is_not_tried_while_pods_of_the_run_may_hold_its_devices(tmp_path: Path) -> None:
    """It would wait for devices as long as it may, for each of three requirements, and could decide nothing."""
    lie = Fault(name="success", verb="delete", resource="pods", effect=LIES["success"], times=ALWAYS)
    with EmbeddedCluster.start("rdma-training", tmp_path) as cluster, through(cluster.kubeconfig, tmp_path / "proxied", [lie]):
        done = run_suite(tmp_path, "--kubeconfig", str(tmp_path / "proxied"), "--only", "ISO-03,GANG-02,GANG-03,GANG-04")
    assert done.result("ISO-03").verdict is Verdict.PASSED
    for id_ in ("GANG-02", "GANG-03", "GANG-04"):
        assert (done.result(id_).verdict, done.result(id_).reason_code) == (Verdict.INCONCLUSIVE, "PodsStay"), id_
        assert "did not go away" in done.result(id_).message


def test_a_pod_that_goes_late_holds_no_devices_any_more(tmp_path: Path) -> None:
    """A node that ends its pods slowly costs no later requirement its verdict."""
    with served(tmp_path) as (cluster, _):
        workspace = Workspace(cluster, OTHER_RUN)
        namespace = workspace.namespace()
        pod = {"metadata": {"name": "p", "finalizers": ["example.com/held"]}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        workspace.create("pods", {"apiVersion": "v1", "kind": "Pod", **pod}, namespace)
        workspace.clear(seconds=0.5)
        assert ["pods" in line for line in workspace.pods_left()] == [True]
        cluster.patch("pods", "p", {"metadata": {"finalizers": None}}, namespace)
        assert workspace.pods_left() == []


# -- two clusters behind one address: nothing is done to the other one, and a run about both has no verdict --


def another(skip: int = 0) -> list[Fault]:
    """Another cluster's kube-system after some requests."""
    change = effects.rewritten(effects.another_uid)
    return [Fault(name="another", verb="list", resource="namespaces", effect=change, skip=skip, times=ALWAYS)]


@pytest.mark.parametrize("defects", [[], ["fence-untainted-gpu-node"]], ids=["healthy", "defect"])
def test_a_run_that_ends_at_another_cluster_has_no_verdict(tmp_path: Path, defects: list[str]) -> None:
    objects = initial_objects(load_scenario("healthy"), [load_defect(name) for name in defects], datetime.now(UTC))
    with served(tmp_path, objects), through(tmp_path / "kubeconfig", tmp_path / "proxied", another(1)):
        done = run_suite(tmp_path, "--kubeconfig", str(tmp_path / "proxied"), "--read-only")
    assert done.code == 10, done.output
    assert done.report is not None
    assert done.report.verdict is Verdict.INCONCLUSIVE
    assert done.report.scope is not None
    assert ["the address now leads to cluster" in line for line in done.report.scope.shortfalls] == [True]
    assert done.report.other_cluster_uid not in ("", done.report.target.cluster_uid)


def test_no_fault_is_made_in_another_cluster(tmp_path: Path) -> None:
    with world(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", another()):
        book = ledger(tmp_path, cluster)
        does = acting(tmp_path, Cluster.from_kubeconfig(tmp_path / "proxied"), book)
        with pytest.raises(ActivityFailed, match="not done: the address now leads to cluster"):
            with does.fault("node.labels", NodeLabels().args(fetch(cluster, "nodes", "gpu-1"), {PRODUCT: None})):
                pytest.fail("the body ran")
        assert book.entries() == []
        assert "the address now leads to" in AbortFlag(tmp_path).reason


@pytest.mark.parametrize("skip", [0, 1], ids=["at once", "after the undo"])
def test_nothing_is_taken_for_undone_in_another_cluster(tmp_path: Path, skip: int) -> None:
    with world(tmp_path) as (cluster, _), through(tmp_path / "kubeconfig", tmp_path / "proxied", another(skip)):
        book = ledger(tmp_path, cluster)
        strip(cluster, book)
        left = replay(book, Cluster.from_kubeconfig(tmp_path / "proxied"), time.monotonic() + 2)
        assert ["the address now leads to cluster" in one.message for one in left] == [True]
        assert len(book.open_entries()) == 1
        assert (PRODUCT in fetch(cluster, "nodes", "gpu-1")["metadata"]["labels"]) is bool(skip)
        assert replay(book, cluster, time.monotonic() + 20) == []
