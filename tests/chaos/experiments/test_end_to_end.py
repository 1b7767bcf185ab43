"""Every experiment on the embedded cluster `resilience`: each passes, and leaves nothing behind for the next.

One cluster and one campaign for all of them. Conformance before and after is the engine's to test (tests/chaos/engine), so it is left
out here; that each experiment can fail is shown with seeded bugs (tests/chaos/selfcheck).
"""

import copy
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from chaos.cluster import namespaces
from chaos.cluster.injector import run_on_host
from chaos.cluster.requests import await_object
from chaos.engine.campaign import Campaign
from chaos.model.experiment import Experiment
from chaos.observe.view import View
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.model.nodes.untyped_nodes import named_cordoner
from fixtures.model.objects import name_of, node_of, restarts_of
from fixtures.verdict.record import Verdict
from tests.chaos.engine.stage import campaign_on
from tests.chaos.ledger.simulated_cluster import shape, soon
from tests.chaos.shipped import EXPERIMENTS

SCENARIO = "resilience"
ELSEWHERE = {**dict.fromkeys(("A14", "A14b", "A14c", "D8", "D8b"), "dra"), "A11": "dra-extended", "A16": "gb200"}
"""Experiments whose component is in no cluster together with a device plugin, and where it is."""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    with campaign_on(SCENARIO, tmp_path_factory.mktemp(SCENARIO)) as opened:
        yield opened


@pytest.mark.parametrize("id_", ["A1", "D1", "N6"])
def test_an_experiment_of_each_kind_passes_and_leaves_nothing(id_: str, campaign: Campaign) -> None:
    passes(campaign, id_)


@pytest.mark.test_all
@pytest.mark.parametrize("id_", [id_ for id_ in EXPERIMENTS if id_ not in ELSEWHERE])
def test_an_experiment_passes_and_leaves_nothing(id_: str, campaign: Campaign) -> None:
    passes(campaign, id_)


@pytest.mark.test_all
@pytest.mark.parametrize(("id_", "scenario"), ELSEWHERE.items())
def test_an_experiment_on_another_component_passes_where_that_is(id_: str, scenario: str, tmp_path: Path) -> None:
    with campaign_on(scenario, tmp_path) as opened:
        passes(opened, id_)


@pytest.mark.test_all
@pytest.mark.parametrize("marks", [("00000000", "ffffffff"), ("ffffffff", "00000000")])
def test_of_two_rules_the_contender_claims_the_free_device_whatever_their_names_are(
    marks: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with campaign_on("dra", tmp_path) as opened:
        opened._setup = msgspec.structs.replace(opened._setup, mark=marks[0])
        monkeypatch.setattr(namespaces, "new_mark", lambda: marks[1])
        passes(opened, "D8")


@pytest.mark.test_all
def test_a_gpu_is_reset_beside_one_that_is_lost(tmp_path: Path) -> None:
    with campaign_on(SCENARIO, tmp_path) as opened:
        where, node = opened._setup, "h100-1"
        lose = ("nvml-mock-ctl", "fail", "--gpu", "0", "--mode", "fallen_off_bus")
        own = namespaces.ensure_run(where.cluster, where.run_id)
        assert not run_on_host(
            where.cluster, namespace=own, node=node, image="i", argv=lose, run_id=where.run_id, deadline=soon()
        ).exit_code
        for pod in View.of(where.cluster).select("pods", "gpu-operator"):
            if node_of(pod) == node and "device-plugin" in name_of(pod):  # which notices when it starts
                assert where.cluster.delete("pods", name_of(pod), "gpu-operator", grace_seconds=0).ok
        assert not await_object(where.cluster, "nodes", node, "", soon(), seven)
        opened._setup = msgspec.structs.replace(where, node=node)
        passes(opened, "D18")


def seven(node: Json | None) -> str:
    return "" if node and node["status"]["allocatable"].get("nvidia.com/gpu") == "7" else "all its devices are there"


@pytest.mark.parametrize("id_", ELSEWHERE)
def test_it_has_no_object_elsewhere_and_says_why(id_: str, campaign: Campaign) -> None:
    result = campaign.carry_out(EXPERIMENTS[id_])
    assert result.verdict is Verdict.NOT_APPLICABLE
    assert "is not installed" in result.message


def passes(campaign: Campaign, id_: str) -> None:
    result = campaign.carry_out(EXPERIMENTS[id_])
    wrong = [f"{one.verdict} {one.name}: {one.message}" for one in result.findings if one.verdict not in (Verdict.PASSED,)]
    assert result.verdict is Verdict.PASSED, "\n".join([result.message, *wrong, Path(result.artefacts or ".").as_posix()])
    assert campaign.residue == []


def idle(experiment: Experiment) -> Experiment:
    """A13 without the reconfiguration that it is to interrupt."""
    document = copy.deepcopy(experiment.document)
    document["method"] = [activity for activity in document["method"] if activity["provider"]["func"] in ("watch_before", "kill_at_work")]
    document["extensions"][0] |= {"undo": ["agent.restarted"], "detect": None, "expect": []}
    extension = msgspec.structs.replace(experiment.extension, undo=("agent.restarted",), detect=None, expect=())
    return msgspec.structs.replace(experiment, document=document, extension=extension)


@pytest.mark.test_all
def test_a_manager_that_is_killed_at_rest_was_not_interrupted(tmp_path: Path) -> None:
    with campaign_on(SCENARIO, tmp_path) as campaign:
        result = campaign.carry_out(idle(EXPERIMENTS["A13"]))
    assert (result.verdict, result.reason_codes) == (Verdict.INCONCLUSIVE, ["FaultNotLanded"]), result.message
    assert "it was not under way just before" in result.message


TEAM = "team-x"


def working(name: str, node: str, command: str, policy: str = "Never") -> Json:
    """A tenant's pod with one device."""
    found = shape("GpuPod", name, namespace=TEAM)
    found["spec"] |= {"restartPolicy": policy, "nodeSelector": {"kubernetes.io/hostname": node}}
    found["spec"]["containers"][0]["command"] = ["/bin/sh", "-c", command]
    return found


def populate(cluster: Cluster, *pods: Json) -> None:
    assert cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}}).ok
    for pod in pods:
        assert cluster.create("pods", pod, namespace=TEAM).ok


def await_restarts(cluster: Cluster, *names: str) -> None:
    with Observation(cluster, "pods", TEAM) as observation:
        for objects in observation.until(time.monotonic() + 30.0):
            pods = {pod["metadata"]["name"]: pod for pod in objects.values()}
            if all(name in pods and restarts_of(pods[name]) for name in names):
                return
    raise AssertionError("they were not started again")


@pytest.mark.test_all
def test_a_tenants_pod_that_fails_by_itself_is_undecided_and_named(tmp_path: Path) -> None:
    with campaign_on(SCENARIO, tmp_path) as campaign:
        pods = [working(f"own-{seconds}", "h100-2", f"sleep {seconds}; exit 1") for seconds in range(3, 15, 2)]
        populate(campaign._setup.access.open(), *pods)
        result = campaign.carry_out(EXPERIMENTS["A5"])
        assert result.verdict is Verdict.INCONCLUSIVE, result.message
        assert result.reason_codes == ["OthersAtWork"]
        assert f"{TEAM}/own-" in result.message
        assert "main: Error, exit code 1" in result.message
        assert not [one for one in result.findings if one.verdict is Verdict.FAILED]


@pytest.mark.test_all
def test_tenants_that_crash_all_the_time_or_are_done_disturb_nothing(tmp_path: Path) -> None:
    with campaign_on(SCENARIO, tmp_path) as campaign:
        cluster = campaign._setup.access.open()
        loops = [working(f"loop-{seconds}", "h100-2", f"sleep {seconds}; exit 1", "Always") for seconds in (1, 2, 3, 7)]
        done = [working(f"done-{seconds}", "h100-2", f"sleep {seconds}") for seconds in range(8, 17, 3)]
        populate(cluster, *loops, *done)
        await_restarts(cluster, *(one["metadata"]["name"] for one in loops))
        result = campaign.carry_out(EXPERIMENTS["A5"])
        assert result.verdict is Verdict.PASSED, result.message


SECONDS = 60.0


def faulty(node: Json) -> bool:
    return any(item["type"] == "SysLogsXIDError" and item["status"] == "True" for item in node["status"]["conditions"])


def cordon_the_first_faulty(cluster: Cluster, cordoned: list[str]) -> None:
    with Observation(cluster, "nodes") as observation:
        for objects in observation.until(time.monotonic() + SECONDS):
            found = [node for node in objects.values() if faulty(node)]
            if found:
                name = str(found[0]["metadata"]["name"])
                path, query = cluster.path("nodes", "", name), {"fieldManager": "kubectl-cordon"}
                body, kind = {"spec": {"unschedulable": True}}, "application/strategic-merge-patch+json"
                if cluster.request("PATCH", path, query=query, body=body, content_type=kind).ok:
                    cordoned.append(name)
                return


@pytest.mark.test_all
def test_a_persons_cordon_makes_it_inconclusive_and_outlives_it(tmp_path: Path) -> None:
    with campaign_on(SCENARIO, tmp_path) as campaign:
        cluster, cordoned = campaign._setup.access.open(), list[str]()
        person = threading.Thread(target=cordon_the_first_faulty, args=(cluster, cordoned))
        person.start()
        result = campaign.carry_out(EXPERIMENTS["D13"])
        person.join()
        assert len(cordoned) == 1
        assert result.verdict is Verdict.INCONCLUSIVE, result.message
        assert result.reason_codes == ["OthersAtWork"]
        assert f'somebody else cordoned the node (["{cordoned[0]}: kubectl-cordon"])' in result.message
        assert campaign.residue == []
        node = cluster.get("nodes", cordoned[0]).json()
        assert named_cordoner(node) == "kubectl-cordon"
        assert not faulty(node)
