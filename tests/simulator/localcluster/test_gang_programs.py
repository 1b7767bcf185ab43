"""Where the real gang schedulers come from, and how they are run: with stand-ins for the programs."""

from pathlib import Path

import pytest
import yaml

from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json
from fixtures.localcluster.control_plane.control_plane import ControlPlane, LocalClusterError
from fixtures.localcluster.control_plane.processes import alive
from fixtures.localcluster.gangs import (
    KUEUE,
    VOLCANO,
    GangRuns,
    Replaced,
    configuration_in,
    find_gang_programs,
    look_alikes,
    loopback,
)
from fixtures.localcluster.install.release import LOCAL_BIN, Binaries, BinariesMissing
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.localcluster.nodes.attach import objects_of
from fixtures.simulator.builder import build
from fixtures.simulator.config.scenario import Defect, ScenarioError, load_scenario
from tests.definitions import definitions as kinds_of

pytestmark = pytest.mark.test_all

SERVING = """\
#!{python}
import http.server, sys
address = sys.argv[sys.argv.index("--healthz-address") + 1] if "--healthz-address" in sys.argv else ""
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
if "--version" in sys.argv:
    print("Version: v1.12.1")
elif "--broken" in {broken!r}:
    sys.exit("no such flag")
else:
    http.server.HTTPServer((address.split(":")[0], int(address.split(":")[1])), Health).serve_forever()
"""


def stand_in(path: Path, broken: str = "") -> Path:
    """A program that states a version and is healthy; a broken one ends at once."""
    import sys

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SERVING.format(python=sys.executable, broken=broken))
    path.chmod(0o755)
    return path


def folder_with(folder: Path, *programs: str, definitions: str = "") -> Path:
    for name in programs:
        stand_in(folder / name)
    if definitions:
        file = folder / "crds" / definitions / "definitions.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(yaml.safe_dump_all(kinds_of(definitions)))
    return folder


# -- finding -------------------------------------------------------------------------------------------


def test_programs_are_found_where_the_folder_is_named(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "vc-scheduler", "vc-controller-manager", definitions=VOLCANO)
    found = find_gang_programs(["gpu-operator", "volcano"], folder, {})
    assert [*found] == [VOLCANO]
    assert len(found[VOLCANO].definitions) == len(kinds_of(VOLCANO))
    assert found[VOLCANO].stated() == [
        f"vc-scheduler (from {folder}, version v1.12.1)",
        f"vc-controller-manager (from {folder}, version v1.12.1)",
    ]
    assert find_gang_programs(["volcano"], None, {LOCAL_BIN: str(folder)}).keys() == found.keys()


@pytest.mark.parametrize("text", [None, "kind: ConfigMap\nmetadata: {name: a}\n", "a: [", "\x00"])
def test_a_program_without_its_definitions_is_an_error(tmp_path: Path, text: str | None) -> None:
    folder = folder_with(tmp_path, "kueue")
    if text is not None:
        file = folder / "crds" / "kueue" / "manifests.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(text)
    with pytest.raises(BinariesMissing) as caught:
        find_gang_programs(["kueue"], folder, {})
    assert "crds/kueue" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_real_program_is_reported_as_a_look_alike() -> None:
    assert look_alikes(["gpu-operator", "volcano", "kueue"], [VOLCANO]) == ["kueue (the project's look-alike)"]
    assert look_alikes(["gpu-operator"], []) == []


# -- what changes for the node side --------------------------------------------------------------------


def definitions_of(objects: list[Json]) -> set[str]:
    return {item["metadata"]["name"] for item in objects if item["kind"] == "CustomResourceDefinition"}


def test_the_projects_own_definitions_take_the_place_of_the_look_alikes() -> None:
    built = list(build(load_scenario("kueue-inference")))
    own = [item for item in kinds_of(KUEUE) if item["spec"]["names"]["kind"] == "Workload"]
    applied = Replaced(names=[KUEUE], definitions=own).applied(built)
    assert definitions_of(built) - definitions_of(applied) >= {"clusterqueues.kueue.x-k8s.io", "admissionchecks.kueue.x-k8s.io"}
    assert applied[0] is own[0]
    assert "clusterpolicies.nvidia.com" in definitions_of(applied)
    assert not [item for item in applied if item["kind"].endswith("WebhookConfiguration") and "kueue" in item["metadata"]["name"]]
    assert Replaced().applied(built) == built


def test_faults_of_the_look_alikes_are_refused_where_the_program_is_real() -> None:
    defect = Defect(name="gang-partial", description="", scenario="rdma-training", trips=[], behaviour={"gangBindsPartially": True})
    with pytest.raises(ScenarioError, match="'gang-partial' is a fault of volcano, which is real here"):
        Replaced(names=[VOLCANO]).refuse([defect])
    Replaced().refuse([defect])
    Replaced(names=[VOLCANO]).refuse([Defect(name="d", description="", scenario="s", trips=[], behaviour={"logsAreEmpty": True})])


# -- Kueue's webhooks ----------------------------------------------------------------------------------


def test_kueue_runs_with_the_scenarios_configuration_and_listens_on_loopback_only() -> None:
    scenario = load_scenario("kueue-inference")
    settings = loopback(configuration_in(objects_of(scenario, []).objects), 1, 2, Path("/certs"))
    assert settings["waitForPodsReady"] == {"timeout": "5m", "blockAdmission": True}
    assert "pod" in settings["integrations"]["frameworks"]
    assert settings["health"] == {"healthProbeBindAddress": "127.0.0.1:1"}
    assert settings["webhook"] == {"host": "127.0.0.1", "port": 2, "certDir": "/certs"}
    assert (settings["metrics"]["bindAddress"], settings["leaderElection"]["leaderElect"]) == ("0", False)
    assert "pod" in configuration_in([])["integrations"]["frameworks"]


# -- running -------------------------------------------------------------------------------------------


def linked(folder: Path, binaries: Binaries) -> Path:
    for name, path in binaries.paths.items():
        (folder / name).symlink_to(path)
    return folder


def test_a_local_cluster_runs_them_in_place_of_look_alikes_and_ends_them(binaries: Binaries, tmp_path: Path) -> None:
    folder = linked(folder_with(tmp_path / "bin", "vc-scheduler", "vc-controller-manager", definitions=VOLCANO), binaries)
    with LocalCluster.start(None, "rdma-training", tmp_path, folder) as cluster:
        assert [line.partition(" ")[0] for line in cluster.components] == ["vc-scheduler", "vc-controller-manager"]
        running = [process.identity for process in cluster.plane._processes if process.name.startswith("vc-")]
        assert len(running) == 2
        assert all(alive(identity) for identity in running)
        admin = Cluster.from_kubeconfig(cluster.admin_kubeconfig)
        group: Json = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
        admin.learn_versions({"scheduling.volcano.sh/podgroups": "v1beta1"})
        assert admin.create("scheduling.volcano.sh/podgroups", {**group, "spec": {"minMember": 1}}, namespace="default").ok
        found = admin.get("scheduling.volcano.sh/podgroups", "g", "default").json()
        assert "status" not in found, "the look-alike would have given it a phase"
    assert not any(alive(identity) for identity in running)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"]


@pytest.mark.xdist_group("accounts")
def test_a_program_that_ends_at_once_is_named_with_its_last_words(plane: ControlPlane, tmp_path: Path) -> None:
    folder = folder_with(tmp_path / "bin", "vc-scheduler", definitions=VOLCANO)
    stand_in(folder / "vc-controller-manager", broken="--broken")
    programs = find_gang_programs(["volcano"], folder, {})
    with pytest.raises(LocalClusterError, match=r"(?s)vc-controller-manager ended with exit status 1.*no such flag"):
        GangRuns(plane, programs, []).start()
