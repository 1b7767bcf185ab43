"""Whole runs on a cluster that answers one question badly: each ends, passes nothing that it could not read, says why, leaves nothing."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fixtures.cluster.client import REQUEST_SECONDS, Cluster
from fixtures.simulator.process.embedded import EmbeddedCluster
from fixtures.text import limits
from fixtures.verdict.record import Verdict
from tests.endtoend.runs import Finished, run_for_record
from tests.hostile.faults import effects
from tests.hostile.faults.campaign import INCONCLUSIVE, POLICY, left_behind
from tests.hostile.faults.effects import SIGN_IN, Effect
from tests.hostile.faults.plans import ALWAYS, DISCOVERY_LIES, ODD_HEADERS
from tests.hostile.faults.proxy import Fault, through

pytestmark = pytest.mark.test_all

SCENARIO = "time-slicing:podStart=20"
"""Its pods take 20 s to start, and its watches fail before. A pod that the first list shows as ended would be judged without a watch."""

SELECTED = ("FENCE-01", "REQ-01", "OPS-01", "ADV-06")
"""Nodes; a namespace of the run's own and dry-runs in it; the operator's kinds; these and ConfigMaps."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What is answered badly, and what it costs: the requirements that read it, and words that tell the reason."""

    effect: Effect
    said: str
    verb: str = "list"
    resource: str = "configmaps"
    costs: tuple[str, ...] = ("ADV-06",)
    selected: tuple[str, ...] = SELECTED
    options: tuple[str, ...] = ()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster.start(SCENARIO, tmp_path_factory.mktemp("cluster")) as started:
        yield started


def of_discovery(name: str, said: str) -> Case:
    return Case(effect=DISCOVERY_LIES[name], verb="discovery", resource="*", said=said, costs=("OPS-01", "ADV-06"))


CASES = {
    "watches that end at once": Case(
        effect=effects.ends_at_once,
        verb="watch",
        resource="pods",
        said="watches in a row ended as soon as they were open",
        costs=("ISO-01",),
        selected=("FENCE-01", "ISO-01"),
    ),
    "a sign-in page": Case(effect=effects.replaced(200, SIGN_IN, "text/html"), said="Sign in"),
    "stale discovery": of_discovery("stale discovery", "discovery of nvidia.com is Stale"),
    "partial discovery": of_discovery("partial discovery", "discovery is partial: it does not announce apps/"),
}


def run(cluster: EmbeddedCluster, folder: Path, selected: tuple[str, ...], fault: Fault, *options: str) -> Finished:
    policy = folder / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    with through(cluster.kubeconfig, folder / "proxied", [fault]):
        return run_for_record(
            folder, "--kubeconfig", str(folder / "proxied"), "--policy", str(policy), "--only", ",".join(selected), *options
        )


def test_plugins_bind_the_run_that_loads_them_and_not_these_tests() -> None:
    assert (Cluster.request.__kwdefaults__ or {})["seconds"] == REQUEST_SECONDS
    assert limits.BODY_BYTES == 128 << 20


@pytest.mark.parametrize("name", CASES)
def test_what_is_answered_badly_costs_those_who_read_it_their_verdict(cluster: EmbeddedCluster, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    fault = Fault(name=name, verb=case.verb, resource=case.resource, effect=case.effect, times=ALWAYS)
    done = run(cluster, tmp_path, case.selected, fault, *case.options)
    assert done.report is not None, done.output
    assert fault.befell
    assert "Traceback" not in done.output
    assert {one.id: one.verdict for one in done.report.results} == {
        id_: Verdict.INCONCLUSIVE if id_ in case.costs else Verdict.PASSED for id_ in case.selected
    }, done.output
    for id_ in case.costs:
        told = done.result(id_)
        assert case.said in " ".join([told.message, *(found.message for found in told.subjects)])
    assert (done.code, done.report.exit_code, done.report.residue) == (INCONCLUSIVE, INCONCLUSIVE, [])
    assert left_behind(Cluster.from_kubeconfig(cluster.kubeconfig)) == []


def test_odd_headers_of_right_answers_cost_nothing(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    fault = Fault(name="odd headers", verb="[!w]*", effect=ODD_HEADERS, times=ALWAYS)
    done = run(cluster, tmp_path, SELECTED, fault)
    assert done.report is not None, done.output
    assert fault.befell > len(SELECTED)
    assert {one.id: one.verdict for one in done.report.results} == dict.fromkeys(SELECTED, Verdict.PASSED), done.output
    assert (done.code, done.report.residue) == (0, [])
    assert left_behind(Cluster.from_kubeconfig(cluster.kubeconfig)) == []
