"""The shipped roles: nothing more is needed, and what is missing makes requirements inconclusive and nothing else.

A part of the proof, on the embedded cluster and on real Kubernetes; ``python -m tests.simulator.localcluster.rights`` is the whole of it.
"""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from conformance.catalogue import load_catalogue
from conformance.plugin.verdict import check_preconditions
from conformance.policy.model import Policy
from conformance.scope.scope import Scope
from deploy.rights import Right, read_rights
from deploy.rights import rights as rights_of
from fixtures.cluster.kinds import KINDS
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.simulator.config.scenario import load_scenario
from fixtures.snapshot.state import Listing, Object, Snapshot
from fixtures.verdict.findings import Inconclusive, NotApplicable
from fixtures.verdict.record import Access, TargetKind
from tests.requirements_offline import scope_of
from tests.simulator.localcluster.rights.proof import Case, Proof, Prover
from tests.simulator.localcluster.rights.roles import key_of, rights_of_role, text_of
from tests.simulator.localcluster.rights.targets import embedded, shared

pytestmark = pytest.mark.test_all

CATALOGUE = load_catalogue()
READING = sorted(rights_of_role("read-only"))


# -- every right to read, in this process --------------------------------------------------------------


@pytest.fixture(scope="module")
def readable() -> Snapshot:
    """A snapshot in which every kind that the suite knows is served."""
    return scope_of(load_scenario("h100-exclusive")).snapshot


def conclusions(snapshot: Snapshot) -> dict[str, str]:
    """What the preconditions say of every read requirement: ``judged``, or why not."""
    options = SimpleNamespace(access=Access.READ)
    opened = SimpleNamespace(target=SimpleNamespace(kind=TargetKind.LIVE))
    state = SimpleNamespace(opened=opened, options=options, snapshot=snapshot, scope=Scope(snapshot, Policy()))
    found = {}
    for id_, requirement in CATALOGUE.by_id.items():
        if requirement.access is Access.READ:
            try:
                check_preconditions(requirement, state)  # type: ignore[arg-type]
                found[id_] = "judged"
            except (Inconclusive, NotApplicable) as error:
                found[id_] = f"{type(error).__name__} {error.code}"
    return found


@pytest.mark.parametrize("right", [right for right in READING if right[2] == "list"], ids=text_of)
def test_a_kind_that_may_not_be_listed_leaves_exactly_those_undecided_that_read_it(readable: Snapshot, right: Right) -> None:
    refused: Listing[Object] = Listing(key=key_of(right), trouble="Forbidden", message="403 cannot list")
    listings = [refused if key == key_of(right) else readable.listing(key) for key in KINDS]
    before, after = conclusions(readable), conclusions(Snapshot(listings, taken_at=readable.taken_at, version=readable.version))
    reading = {id_ for id_ in before if right in read_rights(CATALOGUE.by_id[id_])}
    assert reading, "a right of the role that no requirement reads by"
    told = {id_: (*CATALOGUE.by_id[id_].hints, *CATALOGUE.by_id[id_].weighs) for id_ in reading}  # the requirement says what that costs
    blocked = {id_ for id_ in reading if key_of(right) not in told[id_]}
    assert {id_ for id_ in before if before[id_] != after[id_]} == blocked
    assert {after[id_] for id_ in blocked} <= {"Inconclusive Forbidden"}


# -- the roles themselves ------------------------------------------------------------------------------


def test_each_right_of_a_role_is_named_by_a_requirement_and_the_other_way_round() -> None:
    everything = list(CATALOGUE.by_id.values())
    assert rights_of_role("full") == rights_of(everything)
    assert rights_of_role("read-only") == rights_of([item for item in everything if item.access is Access.READ])
    assert rights_of_role("read-only") <= rights_of_role("full")


@pytest.mark.parametrize(
    "case",
    [
        {"stillPassed": ["A-01"]},
        {"wronglyFailed": ["A-01"]},
        {"changed": ["A-01"]},
        {"residue": ["namespaces x"]},
        {"notNamed": ["list pods"]},
        {"wrongExit": True},
    ],
)
def test_the_proof_fails_for_any_of_these(case: dict[str, object]) -> None:
    broken = msgspec.convert({"role": "full", "scenario": "s", "removed": "list pods", "inconclusive": ["B-01"], **case}, Case)
    proof = Proof(rights=1, cases=[broken], refused=[], baselines=[], needless=[])
    assert not proof.holds
    assert len(proof.problems) == 1
    assert Proof(rights=1, cases=[Case(role="full", scenario="s", removed="x")], refused=[], baselines=[], needless=[]).holds
    assert not Proof(rights=1, cases=[], refused=["get secrets"], baselines=[], needless=[]).holds
    assert not Proof(rights=1, cases=[], refused=[], baselines=[], needless=["full: get secrets"]).holds


# -- runs ----------------------------------------------------------------------------------------------


def naming(proof: Proof, removed: str) -> list[str]:
    """Requirements that turned inconclusive without a right, over all cases."""
    return sorted(id_ for case in proof.cases if case.removed == removed for id_ in case.inconclusive)


def holds(proof: Proof, wanted: Iterable[str]) -> None:
    assert proof.problems == []
    assert {case.removed for case in proof.cases} == set(wanted)


EMBEDDED = ("delete pods", "get pods/log", "watch events")


def test_rights_taken_away_on_the_embedded_cluster(tmp_path: Path) -> None:
    proof = Prover(CATALOGUE, embedded, tmp_path, print, EMBEDDED).prove(["rdma-training"], ["full"])
    holds(proof, EMBEDDED)
    assert naming(proof, "watch events") == ["OBS-06"]
    assert {"FENCE-06", "ISO-01", "NET-05"} <= {*naming(proof, "get pods/log")}


def test_kueues_rights_taken_away_on_the_embedded_cluster(tmp_path: Path) -> None:
    wanted = ("get kueue.x-k8s.io/clusterqueues", "delete kueue.x-k8s.io/workloads")
    proof = Prover(CATALOGUE, embedded, tmp_path, print, wanted).prove(["kueue-inference"], ["full"])
    holds(proof, wanted)
    assert {*naming(proof, wanted[0])} == {*naming(proof, wanted[1])} == {"GANG-02", "GANG-03", "GANG-04"}


def test_a_right_that_only_a_failure_needs_leaves_it_undecided(tmp_path: Path) -> None:
    proof = Prover(CATALOGUE, embedded, tmp_path, print, ["get nodes"]).prove(["mig-wedged-pending"], ["read-only"])
    holds(proof, ["get nodes"])
    assert naming(proof, "get nodes") == ["MIG-01"]


LOCAL = ("delete namespaces", "get pods/log")


@pytest.mark.xdist_group("healthy")
def test_rights_taken_away_on_real_kubernetes(healthy: LocalCluster, tmp_path: Path) -> None:
    proof = Prover(CATALOGUE, lambda _, __: shared(healthy), tmp_path, print, LOCAL).prove([healthy.scenario], ["full"])
    holds(proof, LOCAL)
