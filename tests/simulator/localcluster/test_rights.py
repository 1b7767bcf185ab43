"""The shipped roles: nothing more is needed, and what is missing makes requirements inconclusive and nothing else.

A part of the proof, on the embedded cluster and on real Kubernetes; ``python -m tests.simulator.localcluster.rights`` is the whole of it.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from conformance.catalogue import load_catalogue
from deploy.rights import rights as rights_of
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.verdict.record import Access
from tests.simulator.localcluster.rights.proof import Case, Proof, Prover
from tests.simulator.localcluster.rights.roles import rights_of_role
from tests.simulator.localcluster.rights.targets import embedded, shared
from tests.tables import each_row

pytestmark = pytest.mark.test_all

CATALOGUE = load_catalogue()


# -- the roles themselves ------------------------------------------------------------------------------


def test_each_right_of_a_role_is_named_by_a_requirement_and_the_other_way_round() -> None:
    everything = list(CATALOGUE.by_id.values())
    assert rights_of_role("full") == rights_of(everything)
    assert rights_of_role("read-only") == rights_of([item for item in everything if item.access is Access.READ])
    assert rights_of_role("read-only") <= rights_of_role("full")


@each_row
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
    gangs = {"GANG-02", "GANG-03", "GANG-04", "GANG-07"}
    assert [{*naming(proof, right)} for right in wanted] == [gangs, gangs | {"GANG-08"}]


def test_a_right_that_only_a_failure_needs_leaves_it_undecided(tmp_path: Path) -> None:
    proof = Prover(CATALOGUE, embedded, tmp_path, print, ["get nodes"]).prove(["mig-wedged-pending"], ["read-only"])
    holds(proof, ["get nodes"])
    assert naming(proof, "get nodes") == ["MIG-01"]


LOCAL = ("delete namespaces", "get pods/log")


@pytest.mark.xdist_group("healthy")
def test_rights_taken_away_on_real_kubernetes(healthy: LocalCluster, tmp_path: Path) -> None:
    proof = Prover(CATALOGUE, lambda _, __: shared(healthy), tmp_path, print, LOCAL).prove([healthy.scenario], ["full"])
    holds(proof, LOCAL)
