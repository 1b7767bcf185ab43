"""A real node beside simulated ones: what its kubelet, containerd and plugin show when devices, the plugin or the kubelet break."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from chaos.cluster import namespaces
from chaos.engine.campaign import Campaign, CampaignSetup, learn_cluster
from chaos.safety.gates import settings_of
from chaos.verdict.calibration import SLOW
from conformance.plugin.opening import REAL_PACE
from conformance.version import VERSION
from deploy import workload
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.localcluster.control_plane import account
from fixtures.localcluster.control_plane.processes import Running, alive
from fixtures.localcluster.guest import image, machine
from fixtures.localcluster.guest.guests import device_table
from fixtures.localcluster.guest.machine import GuestError
from fixtures.localcluster.guest.node import DEVICES
from fixtures.localcluster.install.release import Binaries, cache_root, release
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.model.dra.slices import SLICES
from fixtures.ownership import owned
from fixtures.policy.policy_file import build_policy
from fixtures.simulator.builder import hardware_of
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.scenario import parse_simulate
from fixtures.text import json_text
from fixtures.verdict.chaos_record import ChaosResult
from fixtures.verdict.record import Target, TargetKind, Verdict
from tests.chaos import leak_scan
from tests.chaos.shipped import EXPERIMENTS
from tests.kubectl import KUBECTL, needs_kubectl
from tests.simulator.fidelity.nodes import apart, compare
from tests.simulator.localcluster.no_conformance import NoConformance
from tests.simulator.localcluster.test_controlplane import ROOT, identities
from tests.simulator.localcluster.test_in_cluster import key, objects

pytestmark = [pytest.mark.test_all, pytest.mark.real_node, needs_kubectl]

NODE, SPACE, GPU = "l40s-2", "nvidia-device-plugin", "nvidia.com/gpu"
SECONDS = 240.0
IMPORT_SECONDS, JOB_SECONDS = 1200.0, 1200.0
"""What an emulated machine may take for an image of 60 MB, and for the suite."""

SUITE = workload.NAME
IMAGE = "docker.io/library/busybox:1.37.0"


class RealNode:
    """The node, and hands on it: a pod that enters the machine's own namespaces."""

    def __init__(self, local: LocalCluster, name: str = NODE, space: str = SPACE) -> None:
        self.local = local
        self.name = name
        self.space = space
        self.cluster = Cluster.from_kubeconfig(local.admin_kubeconfig)

    def node(self, holds: Callable[[Json], bool], what: str) -> Json:
        """The Node once ``holds``."""
        with Observation(self.cluster, "nodes", fields=f"metadata.name={self.name}") as nodes:
            for objects in nodes.until(time.monotonic() + SECONDS):
                if objects and holds(node := next(iter(objects.values()))):
                    return node
        raise AssertionError(what)

    def offers(self, capacity: int, allocatable: int) -> None:
        """Wait until the node has so many devices, and so many of them can be given to pods."""
        wanted = {"capacity": str(capacity), "allocatable": str(allocatable)}
        self.node(lambda node: all(node["status"][key].get(GPU) == value for key, value in wanted.items()), f"not {capacity}/{allocatable}")

    def run(self, name: str, script: str, *, devices: int = 0, claim: str = "", **spec: object) -> None:
        """Start a pod on the node, and wait until it is Ready. One with a ``claim`` goes through the scheduler, which allocates it."""
        container: Json = {"name": "main", "image": IMAGE, "command": ["sh", "-c", script]}
        if devices:
            container["resources"] = {"limits": {GPU: str(devices)}}
        if spec:
            container["securityContext"] = {"privileged": True}
        rest: Json = {"terminationGracePeriodSeconds": 0, "tolerations": [{"operator": "Exists"}], **spec}
        if claim:
            container["resources"] = {"claims": [{"name": "devices"}]}
            named = [{"name": "devices", "resourceClaimName": claim}]
            rest |= {"nodeSelector": {"kubernetes.io/hostname": self.name}, "resourceClaims": named}
        else:
            rest["nodeName"] = self.name
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.space},
            "spec": {"containers": [container], **rest},
        }
        assert self.cluster.create("pods", pod, namespace=self.space).ok
        with Observation(self.cluster, "pods", self.space, fields=f"metadata.name={name}") as pods:
            for objects in pods.until(time.monotonic() + SECONDS):
                if any(_is_ready(found) for found in objects.values()):
                    return
        raise AssertionError(f"{name} is not Ready")

    def kubectl(self, *line: str, given: str = "") -> str:
        assert KUBECTL is not None
        return subprocess.run(
            [KUBECTL, "--kubeconfig", str(self.local.admin_kubeconfig), "-n", self.space, *line],
            input=given, capture_output=True, text=True, timeout=SECONDS, check=True,
        ).stdout  # fmt: skip

    def on_host(self, script: str, given: str = "") -> str:
        """Run a script on the machine itself."""
        return self.kubectl("exec", "-i", "host", "--", "nsenter", "-t", "1", "-m", "-p", "--", "sh", "-c", script, given=given)

    def main_process(self) -> str:
        """The kubelet's process; empty where it does not answer."""
        try:
            return self.on_host("systemctl show -p MainPID kubelet")
        except subprocess.CalledProcessError:
            return ""

    def put(self, path: Path, command: str) -> None:
        """Run a script on the machine itself that reads this file."""
        assert KUBECTL is not None
        line = ["exec", "-i", "host", "--", "nsenter", "-t", "1", "-m", "-p", "--", "sh", "-c", command]
        with path.open("rb") as given:
            kubectl = [KUBECTL, "--kubeconfig", str(self.local.admin_kubeconfig), "-n", self.space]
            subprocess.run([*kubectl, *line], stdin=given, capture_output=True, timeout=IMPORT_SECONDS, check=True)

    def devices(self, table: Mapping[str, object]) -> None:
        """Give the node another table of devices."""
        self.on_host(f"cat > /{DEVICES}.new && mv /{DEVICES}.new /{DEVICES}", msgspec.json.encode(table).decode())

    def plugin(self) -> str:
        """The name of the plugin's pod on the node."""
        query = {"fieldSelector": f"spec.nodeName={self.name}", "labelSelector": "app.kubernetes.io/name=nvidia-device-plugin"}
        (pod,) = self.cluster.request("GET", self.cluster.path("pods", self.space), query=query).json()["items"]
        return str(pod["metadata"]["name"])


def _is_ready(pod: Json) -> bool:
    return any(item["type"] == "Ready" and item["status"] == "True" for item in pod["status"].get("conditions", ()))


@pytest.fixture(scope="module")
def real(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    yield from started("standalone-plugin", NODE, SPACE, binaries, tmp_path_factory)


@pytest.fixture(scope="module")
def claimed(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    """A node whose devices a DRA driver publishes."""
    yield from started("dra", "h100-3", "nvidia-dra-driver-gpu", binaries, tmp_path_factory)


def need_guests() -> None:
    """Skip where no guest can be started, with the reason."""
    try:
        image.find(release())
    except GuestError as error:
        pytest.skip(str(error))
    if lacking := machine.missing_programs("setpriv", machine.QEMU):
        pytest.skip(f"{', '.join(lacking)} not on PATH")
    if os.geteuid() != 0:
        pytest.skip("not root: QEMU is run as a user without any right")


def started(scenario: str, name: str, space: str, binaries: Binaries, folders: pytest.TempPathFactory) -> Iterator[RealNode]:
    """A scenario on the local control plane with one real node, and nothing of it afterwards."""
    need_guests()
    with LocalCluster.start(None, scenario, folders.mktemp("real"), binaries.paths["kube-apiserver"].parent, real_nodes=1) as local:
        processes = [process.identity for process in local.plane._processes]
        found = RealNode(local, name, space)
        found.run("host", "exec sleep 100000", hostPID=True)
        yield found
    assert not any(alive(identity) for identity in processes)
    assert not Path(local.plane.folder).exists()


KILLED_RUN = """
import sys
from pathlib import Path
from fixtures.localcluster.local_cluster import LocalCluster
LocalCluster.start(None, "standalone-plugin", Path(sys.argv[1]) / "gpu-conformance-killed", Path(sys.argv[2]), real_nodes=1)
"""


def test_a_run_that_is_killed_while_its_guest_boots_leaves_nothing(binaries: Binaries, tmp_path: Path) -> None:
    """The guest ends with its parent, and a later start ends and removes the rest."""
    need_guests()
    command = [sys.executable, "-c", KILLED_RUN, str(tmp_path), str(binaries.paths["kube-apiserver"].parent)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(_cache_beside(tmp_path))}
    running = Running(tmp_path / "cache/gpu-conformance/running")
    run = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + SECONDS
    while len(left := identities(running)) < 5:
        assert run.poll() is None
        assert time.monotonic() < deadline
    run.kill()
    run.wait()
    guest = left[0]
    while alive(guest):
        assert time.monotonic() < deadline, "the guest outlives the run that was killed"
    assert len(running.reap_stale()) == 1
    assert not [identity for identity in left if alive(identity)]
    assert list(running.folder.iterdir()) == []
    assert not (tmp_path / "gpu-conformance-killed").exists()


def _cache_beside(folder: Path) -> Path:
    """A cache of what is built, with records of its own: no other run's are looked at."""
    cache = folder / "cache/gpu-conformance"
    cache.mkdir(parents=True)
    for built in cache_root().iterdir():
        if built.name != "running":
            (cache / built.name).symlink_to(built)
    return cache.parent


def test_it_is_ready_with_its_devices_and_the_report_names_it(real: RealNode) -> None:
    real.offers(4, 4)
    (line,) = [line for line in real.local.components if NODE in line]
    assert "a real node" in line
    assert "QEMU with" in line
    node = real.node(lambda node: True, "")
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://2.")
    assert node["spec"]["taints"] == [{"key": GPU, "value": "present", "effect": "NoSchedule"}]


def test_breaks_show_on_it_what_they_show_on_a_simulated_node(real: RealNode) -> None:
    """Two of them: `make fidelity-nodes` tries them all."""
    assert [row[:3] for row in apart(compare(real.local, ["too-many-devices", "plugin-killed"])) if not row[3]] == []


def test_a_pod_of_two_devices_has_these_two(real: RealNode) -> None:
    real.run("two", "echo $NVIDIA_VISIBLE_DEVICES; ls /dev/nvidia*; exec sleep 100000", devices=2)
    ids, *files = real.kubectl("logs", "two").split()
    assert len(set(ids.split(","))) == len(files) == 2


def test_it_reaches_nothing_but_the_api_server(real: RealNode) -> None:
    """From the machine and from a pod: the ports of this machine's loopback, its address, another network."""
    for address in ("10.77.1.2", "10.0.2.2", "169.254.169.254", "1.1.1.1"):
        script = f"timeout 3 bash -c 'exec 3<>/dev/tcp/{address}/{real.local.plane.layout.port}' 2>/dev/null && echo open || echo closed"
        assert real.on_host(script).strip() == "closed"
    assert real.on_host("timeout 20 bash -c 'exec 3<>/dev/tcp/10.96.0.1/443' && echo open").strip() == "open"


def test_a_sick_device_leaves_the_allocatable_ones_and_comes_back(real: RealNode) -> None:
    scenario = parse_simulate("standalone-plugin")[0]
    table = msgspec.json.decode(real.on_host(f"cat /{DEVICES}"))
    assert table["resources"][0].keys() == device_table(hardware_of(scenario)["l40s-0"], Behaviour())["resources"][0].keys()
    table["resources"][0]["devices"][0]["healthy"] = False
    real.devices(table)
    real.offers(4, 3)
    table["resources"][0]["devices"][0]["healthy"] = True
    real.devices(table)
    real.offers(4, 4)


def test_a_plugin_that_is_gone_leaves_the_capacity_and_comes_back(real: RealNode) -> None:
    real.kubectl("delete", "pod", real.plugin(), "--wait=false")
    real.offers(4, 0)
    real.offers(4, 4)


def test_a_kubelet_that_restarts_keeps_the_devices_of_a_pod(real: RealNode) -> None:
    before = real.kubectl("exec", "two", "--", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES")
    first = real.on_host("systemctl show -p MainPID kubelet")
    real.on_host("systemd-run -q --on-active=1 --timer-property=AccuracySec=100ms systemctl restart kubelet")
    deadline = time.monotonic() + SECONDS
    while (now := real.main_process()) in ("", first):  # the kubelet serves this question too, so it goes unanswered for a while
        assert time.monotonic() < deadline, now
    held = real.on_host("cat /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint")
    real.offers(4, 4)
    assert all(uuid in held for uuid in before.strip().split(","))
    assert real.kubectl("exec", "two", "--", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES") == before
    assert real.kubectl("get", "pod", "two", "-o", "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}") == "Running 0"


def carried_out(real: RealNode, id_: str, folder: Path) -> tuple[ChaosResult, list[str]]:
    """An experiment with the patience and the gates of a live cluster, since no kubelet is simulated here, and its residue."""
    kubeconfig = account.suite_kubeconfig(real.local.plane, "chaos")
    cluster, target = Cluster.from_kubeconfig(kubeconfig), Target(kind=TargetKind.SIMULATED_NODES, server=real.local.server)
    access = msgspec.structs.replace(learn_cluster(cluster, target), kubeconfig=str(kubeconfig))
    policy = build_policy(REAL_PACE, real.local.policy, {"chaos": {"namespaceUid": namespaces.uid_of_shared(cluster)}})
    experiment, own = EXPERIMENTS[id_], target.cluster_uid
    setup = CampaignSetup(
        cluster=cluster,
        access=access,
        target=target,
        policy=policy,
        settings=settings_of(policy, clusters=(own,), max_level=experiment.extension.level, confirm=own, nodes=(NODE,)),
        run_id=owned.new_run_id(),
        folder=folder,
        ours=True,
        node=NODE,
    )
    with Campaign(setup) as campaign:
        campaign._conforming = NoConformance()  # type: ignore[assignment]
        result = campaign.carry_out(experiment)
    return result, campaign.residue


def test_the_experiment_of_a_killed_plugin_passes_and_leaves_nothing(real: RealNode, tmp_path: Path) -> None:
    real.kubectl("delete", "pod", "two", "--ignore-not-found")  # experiments need free devices
    before = leak_scan.scan(real.cluster)
    result, residue = carried_out(real, "A1", tmp_path)
    assert residue == []
    assert before.differences(leak_scan.scan(real.cluster)) == []
    fine = (Verdict.PASSED, Verdict.NOT_APPLICABLE)
    wrong = [f"{one.verdict} {one.name}: {one.message}" for one in result.findings if one.verdict not in fine and one.reason_code != SLOW]
    assert wrong == [], result.message
    assert (result.verdict, result.reason_codes) in ((Verdict.PASSED, []), (Verdict.INCONCLUSIVE, [SLOW])), result.message


@pytest.mark.parametrize(("bug", "id_", "caught"), [("pluginComesBackShort", "A1", "no longer offers GPU-")])
def test_a_seeded_bug_of_it_is_caught(bug: str, id_: str, caught: str, real: RealNode, tmp_path: Path) -> None:
    table = msgspec.json.decode(real.on_host(f"cat /{DEVICES}"))
    real.devices(table | {"bugs": [bug]})
    result, _ = carried_out(real, id_, tmp_path)
    real.devices(table)
    real.kubectl("delete", "pod", real.plugin())
    real.offers(4, 4)
    if (result.verdict, result.reason_codes) == (Verdict.INCONCLUSIVE, [SLOW]):
        pytest.skip(f"this machine is too slow for the experiment: {result.message}")
    assert result.verdict is Verdict.FAILED, result.message
    failed = [one.message for one in result.findings if one.verdict is Verdict.FAILED]
    assert any(caught in message for message in failed), failed


@pytest.fixture(scope="module")
def suites(real: RealNode) -> str:
    """The suite's own image on the node."""
    archive = next((ROOT / "out/image").glob(f"{SUITE}-{VERSION}-*.tar"), None)
    if archive is None:
        pytest.skip("no image of the suite in out/image (make image)")
    real.put(archive, "ctr -n k8s.io images import --local -")
    return f"docker.io/library/{SUITE}:{VERSION}"


def test_the_shipped_job_runs_on_it_under_restricted_and_hands_its_report_on(real: RealNode, suites: str) -> None:
    own = {"nodeSelector": {"kubernetes.io/hostname": real.name}, "tolerations": [{"operator": "Exists"}]}
    for item in (workload.namespace(), *objects({"mode": "job", "options": ["--only=INV,ADV"], "image": suites, **own})):
        answer = real.cluster.create(key(item), item, namespace=item["metadata"].get("namespace", ""))
        assert answer.ok or answer.reason == "AlreadyExists", f"{item['kind']}: {answer.message}"
        assert not answer.warnings, item["kind"]
    assert real.cluster.get("namespaces", SUITE).json()["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    with Observation(real.cluster, "batch/jobs", SUITE) as jobs:
        states = (next(iter(found.values()))["status"] for found in jobs.until(time.monotonic() + JOB_SECONDS) if found)
        ended: Json = next((one for one in states if one.get("succeeded") or one.get("failed")), {})
    pod = json_text.decode(real.kubectl("get", "pods", "-n", SUITE, "-o", "json").encode())["items"][0]
    said = real.kubectl("logs", "-n", SUITE, pod["metadata"]["name"], "--tail=40")
    assert ended.get("succeeded") == 1, said
    assert pod["spec"]["nodeName"] == real.name
    held = real.cluster.get("configmaps", f"{SUITE}-result", SUITE).json()
    summary = json_text.decode(held["data"]["summary.json"].encode())["gpuConformance"]
    assert (summary["exitCode"], summary["verdict"]) == (0, "passed"), said


def test_a_dra_driver_publishes_the_devices_as_on_simulated_nodes(claimed: RealNode) -> None:
    names = {name: [device["name"] for device in devices] for name, devices in published(claimed).items()}
    assert names.keys() == {"h100-0", "h100-1", "h100-2", "h100-3"}
    assert len({tuple(found) for found in names.values()}) == 1
    own, other = (published(claimed)[name][0] for name in ("h100-3", "h100-0"))
    differ = {key for key in own["attributes"] if own["attributes"][key] != other["attributes"].get(key)}
    assert own["attributes"].keys() == other["attributes"].keys()
    assert differ <= {"uuid", "resource.kubernetes.io/pciBusID", "resource.kubernetes.io/pcieRoot"}


def test_a_pod_with_a_claim_of_two_devices_has_these_two(claimed: RealNode) -> None:
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": 2}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "two", "namespace": claimed.space},
        "spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}},
    }
    assert claimed.cluster.create("resource.k8s.io/resourceclaims", claim, namespace=claimed.space).ok
    claimed.run("two", "env | sed -n 's/^GPU_UUID_[0-9]*=//p'; ls /dev/nvidia*; exec sleep 100000", claim="two")
    shown = claimed.kubectl("logs", "two").split()
    allocated = claimed.kubectl("get", "resourceclaim", "two", "-o", "jsonpath={.status.allocation.devices.results[*].device}").split()
    uuids = {device["name"]: device["attributes"]["uuid"]["string"] for device in published(claimed)["h100-3"]}
    assert len(set(allocated)) == 2
    assert {word for word in shown if word.startswith("GPU-")} == {uuids[name] for name in allocated}
    assert len([word for word in shown if word.startswith("/dev/nvidia")]) == 2


def test_a_sick_device_of_a_dra_driver_gets_a_taint_and_loses_it(claimed: RealNode) -> None:
    table = msgspec.json.decode(claimed.on_host(f"cat /{DEVICES}"))
    for healthy in (False, True):
        table["resources"][0]["devices"][3]["healthy"] = healthy
        claimed.devices(table)
        with Observation(claimed.cluster, SLICES, fields=f"spec.nodeName={claimed.name}") as slices:
            states = (next(iter(found.values()))["spec"]["devices"][3] for found in slices.until(time.monotonic() + SECONDS) if found)
            assert any(bool(device.get("taints")) is not healthy for device in states)


def published(real: RealNode) -> dict[str, list[Json]]:
    """The devices of each node's ResourceSlice."""
    items = real.cluster.request("GET", real.cluster.path(SLICES)).json()["items"]
    return {str(item["spec"]["nodeName"]): item["spec"]["devices"] for item in items}
