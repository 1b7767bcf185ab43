"""Namespaces of chaos: one that is there and somebody else's is neither changed nor used."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from chaos.activities.base import host_namespace, own_namespace
from chaos.cluster import namespaces
from chaos.engine.campaign import plan_now
from chaos.ledger.file import Ledger
from chaos.ledger.replay import replay
from chaos.model.plan import canary_namespace
from fixtures.cluster.client import Answer, Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership import owned
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX
from fixtures.ownership.read_proofs import read_proofs
from fixtures.probes.namespace_limits import NETWORK_POLICIES, QUOTAS
from tests.chaos.catalogue.documents import document
from tests.chaos.engine.stage import load, stage
from tests.chaos.ledger.simulated_cluster import ANYTHING, RUN, acting, fetch, ledger, namespace, soon, world
from tests.tables import each_row
from tests.troubles import Trouble

CANARIES = f"{namespaces.of_run(RUN)}-canaries"


@each_row
def test_the_runs_own_namespace_is_never_somebody_elses(tmp_path: Path, labels: dict[str, str]) -> None:
    name = namespaces.of_run(RUN)
    theirs = namespace(name)
    theirs["metadata"]["labels"] = {"team": "ml", **labels}
    with world(tmp_path, extra=[theirs]) as (cluster, _):
        before = fetch(cluster, "namespaces", name)
        own = namespaces.ensure_run(cluster, RUN, name=name)
        assert own == namespaces.ensure_run(cluster, RUN, name=name) == namespaces.find_run(cluster, RUN) != name
        assert namespaces.remove_run(cluster, RUN) == []
        assert cluster.get("namespaces", own).status == 404
        assert fetch(cluster, "namespaces", name) == before


@pytest.mark.parametrize("undoing", [False, True])
def test_a_name_that_was_seen_and_taken_costs_another_one(cluster: Cluster, undoing: bool) -> None:
    """Somebody deleted the run's namespace, and a tenant made one of its name, label and token."""
    seen = namespaces.ensure_run(cluster, RUN)
    meta = fetch(cluster, "namespaces", seen)["metadata"]
    assert cluster.delete("namespaces", seen).ok
    copied = {key: meta[key] for key in ("name", "labels", "annotations")}
    assert cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": copied}).ok
    before = fetch(cluster, "namespaces", seen)
    assert namespaces.find_run(cluster, RUN) == ""
    own = namespaces.ensure_run(cluster, RUN, name=seen, undoing=undoing)
    assert own != seen
    assert fetch(cluster, "namespaces", seen) == before


def test_names_that_nobody_can_guess_and_that_are_taken_are_reported(tmp_path: Path) -> None:
    with world(tmp_path, Trouble("create", "namespaces", 409, 99)) as (cluster, _):
        with pytest.raises(ApiTrouble, match="look for what answers in the API server's place"):
            namespaces.ensure_run(cluster, RUN)
        assert read_proofs(cluster)[RUN].names == ()


def test_no_two_experiments_have_names_that_a_tenant_could_guess(tmp_path: Path) -> None:
    with stage(tmp_path) as healthy:
        setup = healthy.where(tmp_path)
        first, second = (plan_now(setup, load(document())) for _ in range(2))
        names = [first.namespace, canary_namespace(first), second.namespace, canary_namespace(second)]
        assert len(set(names)) == 3  # the run has one for injector pods
        assert all(namespaces.is_name_of_run(name, setup.run_id) for name in names)
        assert not set(names) & {namespaces.of_run(setup.run_id), f"{namespaces.of_run(setup.run_id)}-canaries"}
        assert plan_now(healthy.where(tmp_path), load(document())).namespace != first.namespace


def test_workers_and_injectors_go_where_the_plan_says(tmp_path: Path) -> None:
    with world(tmp_path, extra=[namespace(CANARIES), namespace(namespaces.of_run(RUN))]) as (cluster, _):
        for_pods, workload = (namespaces.of_run(RUN, mark) for mark in ("0a0a0a0a", "0b0b0b0b-canaries"))
        context = acting(tmp_path, cluster, ledger(tmp_path, cluster))
        context.plan = msgspec.structs.replace(context.plan, namespace=for_pods, workload=workload)
        with context.as_current():
            assert (own_namespace(), host_namespace()) == (workload, for_pods)
        assert namespaces.find_run(cluster, RUN) == for_pods


@each_row
def test_a_run_gives_names_of_one_form(name: str, may: bool) -> None:
    assert namespaces.is_name_of_run(name, RUN) is may


@pytest.mark.parametrize("undoing", [False, True])
def test_one_that_cannot_be_bounded_is_used_for_putting_back_only(tmp_path: Path, undoing: bool) -> None:
    with world(tmp_path, Trouble("create", NETWORK_POLICIES, 403, 9)) as (cluster, _):
        if undoing:
            assert namespaces.ensure_run(cluster, RUN, undoing=True)
        else:
            with pytest.raises(ApiTrouble, match="networkpolicies"):
                namespaces.ensure_run(cluster, RUN)


def test_both_namespaces_are_closed_bounded_and_without_a_mesh(tmp_path: Path, cluster: Cluster) -> None:
    with acting(tmp_path, cluster, ledger(tmp_path, cluster)).as_current():
        spaces = [(own_namespace(), "restricted"), (host_namespace(), "privileged")]
    for space, level in spaces:
        meta = fetch(cluster, "namespaces", space)["metadata"]
        assert (meta["labels"]["pod-security.kubernetes.io/enforce"], meta["labels"]["istio-injection"]) == (level, "disabled")
        assert meta["annotations"]["linkerd.io/inject"] == "disabled"
        [policy] = cluster.request("GET", cluster.path(NETWORK_POLICIES, space)).json()["items"]
        [quota] = cluster.request("GET", cluster.path(QUOTAS, space)).json()["items"]
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert quota["spec"]["hard"]["pods"] == str(namespaces.PODS)


def test_what_took_the_name_of_the_workload_s_namespace_is_not_deleted(tmp_path: Path, cluster: Cluster, book: Ledger) -> None:
    """Labelled as the run's by whoever created it, after the run's own was gone."""
    with acting(tmp_path, cluster, book).as_current():
        name = own_namespace()
    meta = fetch(cluster, "namespaces", name)["metadata"]
    assert cluster.delete("namespaces", name).ok
    theirs = {"name": name, "labels": meta["labels"], "annotations": meta["annotations"]}
    assert cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": theirs}).ok
    assert replay(book, cluster, soon(), terms=ANYTHING) == []
    assert fetch(cluster, "namespaces", name)["metadata"].get("deletionTimestamp") is None
    assert namespaces.remove_run(cluster, RUN) == []
    assert fetch(cluster, "namespaces", name)["metadata"].get("deletionTimestamp") is None


@pytest.mark.parametrize("administrators", ["", "another-uid"])
def test_somebody_elses_namespace_of_the_usual_name_keeps_nobody_from_working(tmp_path: Path, administrators: str) -> None:
    with world(tmp_path, extra=[namespace(namespaces.SHARED)]) as (cluster, _):
        before = fetch(cluster, "namespaces", namespaces.SHARED)
        name = namespaces.ensure_shared(cluster, administrators)
        assert name == namespaces.ensure_shared(cluster) == namespaces.find_shared(cluster) != namespaces.SHARED
        assert "was made by somebody else" in namespaces.foreign_namespace(cluster)
        assert namespaces.remove_shared(cluster) == []
        assert cluster.get("namespaces", name).status == 404
        assert fetch(cluster, "namespaces", namespaces.SHARED) == before
        assert read_proofs(cluster) == {}


@pytest.mark.parametrize("extra", [[], [namespace(namespaces.SHARED)]], ids=["nothing there", "somebody else's there"])
@pytest.mark.parametrize("before", [1, 9, 11, 13, 16])
def test_two_runs_that_start_at_once_agree_on_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int, extra: list[dict[str, Any]]
) -> None:
    """Another run makes it just before one of this run's requests, whichever. Two of them would each hold a Lease."""
    monkeypatch.setattr(namespaces, "AGREE_SECONDS", 0.3)  # the other run soon takes this one for dead
    with world(tmp_path, extra=extra) as (cluster, _):
        other = Cluster.from_kubeconfig(tmp_path / "kubeconfig")
        requests, theirs = 0, ""

        def request(*arguments: Any, **options: Any) -> Answer:
            nonlocal requests, theirs
            requests += 1
            if requests == before:
                theirs = namespaces.ensure_shared(other)
            return Cluster.request(cluster, *arguments, **options)

        monkeypatch.setattr(cluster, "request", request)
        ours = namespaces.ensure_shared(cluster)
        assert (theirs or namespaces.ensure_shared(other)) == ours == namespaces.find_shared(cluster)
        found = [item["metadata"]["name"] for item in cluster.each("namespaces") if item["metadata"]["name"].startswith(namespaces.SHARED)]
        assert len(found) == 1 + len(extra)


def test_a_run_that_died_before_it_made_one_is_not_awaited_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "AGREE_SECONDS", 0.5)
    with world(tmp_path, extra=[namespace(namespaces.SHARED)]) as (cluster, _):
        Proof.open(cluster, namespaces.SHARING, prefix=CHAOS_PREFIX, renewing=False).will_create(
            "namespaces", f"{namespaces.SHARED}-shared-1"
        )
        assert namespaces.ensure_shared(cluster) == namespaces.find_shared(cluster) != f"{namespaces.SHARED}-shared-1"


@pytest.mark.parametrize("meanwhile", [False, True], ids=["nobody else", "another run begins"])
def test_a_proof_that_the_server_only_says_to_change_is_left_and_one_that_another_run_needs_is_not(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, meanwhile: bool
) -> None:
    """It answers each change as if it had done it: the class stays, and nothing that it lists is there."""
    name = namespaces.ensure_shared(cluster)
    other = Cluster.from_kubeconfig(tmp_path / "kubeconfig")
    begun = not meanwhile

    def request(method: str, path: str, **options: Any) -> Answer:
        nonlocal begun
        if method != "PATCH" or namespaces.ANCHOR not in path:
            return Cluster.request(cluster, method, path, **options)
        if not begun:
            begun = bool(namespaces.ensure_shared(other))
        return Cluster.request(cluster, method, path, **{**options, "query": {**(options.get("query") or {}), "dryRun": "All"}})

    monkeypatch.setattr(cluster, "request", request)
    left = namespaces.remove_shared(cluster)
    assert [namespaces.ANCHOR in line for line in left] == ([] if meanwhile else [True])
    assert cluster.get("namespaces", name).status == (200 if meanwhile else 404)


def tenants(cluster: Cluster, annotations: dict[str, str]) -> str:
    """A namespace of the usual name with the token that a run had put on its own; its UID."""
    meta = {"name": namespaces.SHARED, "labels": {owned.MANAGED_BY: owned.SUITE}, "annotations": annotations}
    answer = cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    assert answer.ok, answer.message
    return str(answer.json()["metadata"]["uid"])


def test_a_token_that_a_tenant_has_seen_makes_no_shared_namespace(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run died before it wrote down its UID; somebody deleted it, and whoever read its token made another."""
    monkeypatch.setattr(namespaces, "AGREE_SECONDS", 0.5)
    died = Proof.open(cluster, namespaces.SHARING, prefix=CHAOS_PREFIX, renewing=False)
    theirs = tenants(cluster, died.will_create("namespaces", namespaces.SHARED))
    assert namespaces.find_shared(cluster) == ""
    assert "wrote down no UID, so nothing in it counts" in namespaces.foreign_namespace(cluster)
    ours = namespaces.ensure_shared(cluster)
    uid = fetch(cluster, "namespaces", ours)["metadata"]["uid"]
    assert uid != theirs
    assert read_proofs(cluster)[namespaces.SHARING].names == (("namespaces", ours),)
    assert namespaces.foreign_namespace(cluster) == ""
    assert namespaces.remove_shared(cluster) == []
    assert [item["metadata"]["uid"] for item in cluster.each("namespaces") if item["metadata"]["uid"] in (uid, theirs)] == []


def test_a_shared_namespace_that_stays_keeps_nobody_from_working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "AGREE_SECONDS", 0.5)
    with world(tmp_path, Trouble("delete", "namespaces", 403, 99)) as (cluster, _):
        died = Proof.open(cluster, namespaces.SHARING, prefix=CHAOS_PREFIX, renewing=False)
        tenants(cluster, died.will_create("namespaces", namespaces.SHARED))
        assert namespaces.ensure_shared(cluster) == namespaces.find_shared(cluster) != namespaces.SHARED
        assert "was made by somebody else" in namespaces.foreign_namespace(cluster)


def test_workers_are_not_put_where_a_token_alone_says_that_it_is_ours(tmp_path: Path, cluster: Cluster) -> None:
    """An earlier process of the run died before it wrote down the UID; whoever saw the token may have made another since."""
    died = Proof.open(cluster, RUN, prefix=CHAOS_PREFIX, renewing=False)
    meta = {"name": CANARIES, "annotations": died.will_create("namespaces", CANARIES)}
    assert cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}).ok
    with acting(tmp_path, cluster, ledger(tmp_path, cluster)).as_current(), pytest.raises(ApiTrouble, match="not proven to be of run"):
        own_namespace()
