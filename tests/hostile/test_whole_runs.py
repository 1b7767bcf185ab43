"""Whole runs on a cluster that answers one question badly: each ends, passes nothing that it could not read, says why, leaves nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from fixtures.cluster.client import Cluster
from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.text import limits
from fixtures.verdict.record import Report, Verdict
from tests.endtoend.runs import Finished, run_for_record
from tests.hostile.faults import effects
from tests.hostile.faults.campaign import INCONCLUSIVE, POLICY, left_behind, suffered, usual
from tests.hostile.faults.commands import stated
from tests.hostile.faults.effects import SIGN_IN, Effect
from tests.hostile.faults.experiments import endured
from tests.hostile.faults.plans import ALWAYS, DISCOVERY_LIES, ODD_HEADERS, ordeal
from tests.hostile.faults.proxy import Fault, through
from tests.hostile.lying import Asked, Said, lying, reported, status

pytestmark = pytest.mark.test_all

SCENARIO = "time-slicing:podStart=20"
"""Its pods take 20 s to start, and its watches fail before. A pod that the first list shows as ended would be judged without a watch."""

SELECTED = ("FENCE-01", "REQ-01", "OPS-01", "ADV-06")
"""Nodes; a namespace of the run's own and dry-runs in it; the operator's kinds; these and ConfigMaps."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What is answered badly, and what it costs: the requirements that read it, and words that tell the reason."""

    effect: Effect
    reported: str
    verb: str = "list"
    resource: str = "configmaps"
    costs: tuple[str, ...] = ("ADV-06",)
    selected: tuple[str, ...] = SELECTED
    options: tuple[str, ...] = ()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster.start(SCENARIO, tmp_path_factory.mktemp("cluster")) as started:
        yield started


def of_discovery(name: str, reported: str) -> Case:
    return Case(effect=DISCOVERY_LIES[name], verb="discovery", resource="*", reported=reported, costs=("OPS-01", "ADV-06"))


CASES = {
    "watches that end at once": Case(
        effect=effects.events(),
        verb="watch",
        resource="pods",
        reported="watches in a row ended as soon as they were open",
        costs=("ISO-01",),
        selected=("FENCE-01", "ISO-01"),
    ),
    "a sign-in page": Case(effect=effects.replaced(200, SIGN_IN, "text/html"), reported="Sign in"),
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


def test_a_plugin_binds_the_run_that_loads_it_and_not_these_tests() -> None:
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
        stated = done.result(id_)
        assert case.reported in " ".join([stated.message, *(found.message for found in stated.subjects)])
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


# -- other programs write into a kubeconfig while a run goes on: the run keeps to the context and the cluster that it began with --


QUICK = "probes: {windowSeconds: 1, startSeconds: 20}\n"
ANOTHER = Fault(name="another", verb="list", resource="namespaces", effect=effects.rewritten(effects.another_uid), times=ALWAYS)
"""The simulated clusters have one UID: behind the proxy there is another."""


def merged(path: Path, current: str, **kubeconfigs: Path) -> None:
    """Write a kubeconfig that has the current context of each of these under the name given here."""
    made: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": current, "contexts": [], "clusters": [], "users": []}
    for name, file in kubeconfigs.items():
        found = yaml.safe_load(file.read_text())
        context = next(one["context"] for one in found["contexts"] if one["name"] == found["current-context"])
        made["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
        for part in ("cluster", "user"):
            body = next(one[part] for one in found[f"{part}s"] if one["name"] == context[part])
            made[f"{part}s"].append({"name": name, part: body})
    path.write_text(yaml.safe_dump(made))


def judged(folder: Path, *options: str) -> Finished:
    """A run with a worker, of probes of one area. The kubeconfig is rewritten after the main process has read it."""
    (folder / "policy.yaml").write_text(QUICK)
    path = folder / "config.now"
    asked = ("--kubeconfig", str(path), "--policy", str(folder / "policy.yaml"), "--only", "ISO-01,FENCE-01", "-n", "1")
    return run_for_record(folder, *asked, *options, "-p", "tests.hostile.rewriting", GPU_CONFORMANCE_TEST_KUBECONFIG=str(path))


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """Folder of a cluster whose device plugin hands out all devices."""
    folder = tmp_path / "bad"
    folder.mkdir()
    return folder


def test_workers_judge_the_cluster_of_the_context_that_the_run_began_with(tmp_path: Path, bad: Path) -> None:
    (tmp_path / "good").mkdir()
    with (
        EmbeddedCluster.start("healthy,iso-plugin-hands-out-all", bad) as one,
        EmbeddedCluster.start("healthy", tmp_path / "good") as other,
    ):
        for name, current in (("config.now", "bad"), ("config.later", "good")):
            merged(tmp_path / name, current, bad=one.kubeconfig, good=other.kubeconfig)
        done = judged(tmp_path)
    assert done.code == 1, done.output
    assert done.result("ISO-01").verdict is Verdict.FAILED


def test_workers_ask_nothing_of_another_cluster_under_the_name(tmp_path: Path, bad: Path) -> None:
    with EmbeddedCluster.start("healthy", bad) as cluster, through(cluster.kubeconfig, tmp_path / "proxied", [ANOTHER]) as proxy:
        merged(tmp_path / "config.now", "one", one=cluster.kubeconfig)
        merged(tmp_path / "config.later", "one", one=tmp_path / "proxied")
        done = judged(tmp_path)
        asked = proxy.asked
    assert done.code == 10, done.output
    assert (done.result("ISO-01").verdict, done.result("ISO-01").reason_code) == (Verdict.INCONCLUSIVE, "AnotherCluster")
    assert "this was begun on cluster" in done.result("ISO-01").message
    assert done.result("FENCE-01").verdict is Verdict.PASSED, "it was read before"
    assert {one.verb for one in asked} == {"list"}, "nothing was created there"


def test_workers_judge_on_where_the_kubeconfig_was_only_written_again(tmp_path: Path, bad: Path) -> None:
    with EmbeddedCluster.start("healthy", bad) as cluster:
        for name in ("config.now", "config.later"):
            merged(tmp_path / name, "one", one=cluster.kubeconfig)
        done = judged(tmp_path)
    assert done.code == 0, done.output
    assert done.result("ISO-01").verdict is Verdict.PASSED


@pytest.mark.parametrize(("workers", "later"), [("2", None), ("1", "kind: [")], ids=["gone", "broken"])
def test_workers_that_cannot_read_the_kubeconfig_any_more_end_the_run_in_one_line(
    tmp_path: Path, bad: Path, later: str | None, workers: str
) -> None:
    with EmbeddedCluster.start("healthy", bad) as cluster:
        merged(tmp_path / "config.now", "one", one=cluster.kubeconfig)
        if later is not None:
            (tmp_path / "config.later").write_text(later)
        done = judged(tmp_path, "-n", workers, "-q")
        (tmp_path / "alone").mkdir()
        alone = run_for_record(tmp_path / "alone", "--kubeconfig", str(tmp_path / "config.now"))
    assert done.code == alone.code == 4, done.output
    assert "Traceback" not in done.output
    assert [line for line in done.output.splitlines() if "config.now" in line and line.startswith("ERROR: a worker ")], done.output
    assert done.report is None


def test_credentials_that_are_read_again_are_those_of_the_same_context(tmp_path: Path) -> None:
    """An administrator's context of the same server is chosen meanwhile: the run does not become an administrator."""
    tokens: list[str] = []

    def answers(asked: Asked) -> Said:
        tokens.append(asked.credentials)
        return status(401, "Unauthorized") if len(tokens) == 1 else reported({"gitVersion": "v1.37.0"})

    with lying(tmp_path, answers) as (unused, _):
        path = tmp_path / "contexts"
        config: dict[str, Any] = {
            "clusters": [{"name": "one", "cluster": {"server": unused.server}}],
            "users": [{"name": name, "user": {"token": name}} for name in ("reader", "admin")],
            "contexts": [{"name": name, "context": {"cluster": "one", "user": name}} for name in ("reader", "admin")],
        }
        path.write_text(yaml.safe_dump({**config, "current-context": "reader"}))
        cluster = Cluster.from_kubeconfig(path)
        config["users"][0]["user"]["token"] = "reader-renewed"
        path.write_text(yaml.safe_dump({**config, "current-context": "admin"}))
        assert cluster.request("GET", "/version").status == 200
    assert tokens == ["Bearer reader", "Bearer reader-renewed"]


# -- a few runs, experiments and commands through the fault proxy; ``make faults`` sends hundreds --


HEALTHY = "healthy"
SEEDS = [seed for seed in range(1, 120) if ordeal(seed).simulate == HEALTHY][:8]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return usual(HEALTHY, tmp_path_factory.mktemp("usual"))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fault_may_cost_a_verdict_and_never_turns_one(expected: Report, tmp_path: Path, seed: int) -> None:
    assert suffered(ordeal(seed), expected, tmp_path).wrong == []


@pytest.mark.parametrize("seed", [5, 7, 16, 24, 31])
def test_what_an_experiment_leaves_is_reported_and_recovered(tmp_path: Path, seed: int) -> None:
    assert endured(seed, tmp_path).wrong == []


@pytest.mark.parametrize("seed", range(1, 11))
def test_what_a_command_says_is_what_the_cluster_shows(tmp_path: Path, seed: int) -> None:
    assert stated(seed, tmp_path).wrong == []
