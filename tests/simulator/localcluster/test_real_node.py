"""A real node beside simulated ones: what its kubelet, containerd and plugin show when devices, the plugin or the kubelet break."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from chaos.cluster import namespaces
from chaos.engine.campaign import Campaign, CampaignSetup, learn_cluster
from chaos.safety.gates import settings_of
from conformance.plugin.opening import REAL_PACE
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.localcluster.control_plane import account
from fixtures.localcluster.control_plane.processes import alive
from fixtures.localcluster.guest import image, machine
from fixtures.localcluster.guest.guests import device_table
from fixtures.localcluster.guest.machine import GuestError
from fixtures.localcluster.guest.node import DEVICES
from fixtures.localcluster.install.release import Binaries, release
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.ownership import owned
from fixtures.policy.policy_file import build_policy
from fixtures.simulator.builder import hardware_of
from fixtures.simulator.config.scenario import parse_simulate
from fixtures.verdict.record import Target, TargetKind, Verdict
from tests.chaos import leak_scan
from tests.chaos.shipped import EXPERIMENTS
from tests.kubectl import KUBECTL, needs_kubectl
from tests.simulator.localcluster.no_conformance import NoConformance

pytestmark = [pytest.mark.test_all, needs_kubectl, pytest.mark.xdist_group("real-node")]

NODE, SPACE, GPU = "l40s-2", "nvidia-device-plugin", "nvidia.com/gpu"
SECONDS = 240.0
IMAGE = "docker.io/library/busybox:1.37.0"


class RealNode:
    """The node, and hands on it: a pod that enters the machine's own namespaces."""

    def __init__(self, local: LocalCluster) -> None:
        self.local = local
        self.cluster = Cluster.from_kubeconfig(local.admin_kubeconfig)

    def node(self, holds: Callable[[Json], bool], what: str) -> Json:
        """The Node once ``holds``."""
        with Observation(self.cluster, "nodes", fields=f"metadata.name={NODE}") as nodes:
            for objects in nodes.until(time.monotonic() + SECONDS):
                if objects and holds(node := next(iter(objects.values()))):
                    return node
        raise AssertionError(what)

    def offers(self, capacity: int, allocatable: int) -> None:
        """Wait until the node has so many devices, and so many of them can be given to pods."""
        wanted = {"capacity": str(capacity), "allocatable": str(allocatable)}
        self.node(lambda node: all(node["status"][key].get(GPU) == value for key, value in wanted.items()), f"not {capacity}/{allocatable}")

    def run(self, name: str, script: str, *, devices: int = 0, **spec: object) -> None:
        """Start a pod on the node, and wait until it is Ready."""
        container: Json = {"name": "main", "image": IMAGE, "command": ["sh", "-c", script]}
        if devices:
            container["resources"] = {"limits": {GPU: str(devices)}}
        if spec:
            container["securityContext"] = {"privileged": True}
        rest = {"nodeName": NODE, "terminationGracePeriodSeconds": 0, "tolerations": [{"operator": "Exists"}], **spec}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": SPACE},
            "spec": {"containers": [container], **rest},
        }
        assert self.cluster.create("pods", pod, namespace=SPACE).ok
        with Observation(self.cluster, "pods", SPACE, fields=f"metadata.name={name}") as pods:
            for objects in pods.until(time.monotonic() + SECONDS):
                if any(_is_ready(found) for found in objects.values()):
                    return
        raise AssertionError(f"{name} is not Ready")

    def kubectl(self, *line: str, given: str = "") -> str:
        assert KUBECTL is not None
        return subprocess.run(
            [KUBECTL, "--kubeconfig", str(self.local.admin_kubeconfig), "-n", SPACE, *line],
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

    def devices(self, table: Mapping[str, object]) -> None:
        """Give the node another table of devices."""
        self.on_host(f"cat > /{DEVICES}.new && mv /{DEVICES}.new /{DEVICES}", msgspec.json.encode(table).decode())

    def plugin(self) -> str:
        """The name of the plugin's pod on the node."""
        pods = self.cluster.request("GET", f"{self.cluster.path('pods', SPACE)}?fieldSelector=spec.nodeName={NODE}").json()["items"]
        mark = "app.kubernetes.io/name"
        return next(str(pod["metadata"]["name"]) for pod in pods if pod["metadata"].get("labels", {}).get(mark) == "nvidia-device-plugin")


def _is_ready(pod: Json) -> bool:
    return any(item["type"] == "Ready" and item["status"] == "True" for item in pod["status"].get("conditions", ()))


@pytest.fixture(scope="module")
def real(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    try:
        image.find(release())
    except GuestError as error:
        pytest.skip(str(error))
    if lacking := machine.missing_programs("setpriv", machine.QEMU):
        pytest.skip(f"{', '.join(lacking)} not on PATH")
    if os.geteuid() != 0:
        pytest.skip("not root: QEMU is run as a user without any right")
    folder = tmp_path_factory.mktemp("real")
    with LocalCluster.start(None, "standalone-plugin", folder, binaries.paths["kube-apiserver"].parent, real_nodes=1) as local:
        processes = [process.identity for process in local.plane._processes]
        found = RealNode(local)
        found.run("host", "exec sleep 100000", hostPID=True)
        yield found
    assert not any(alive(identity) for identity in processes)
    assert not Path(local.plane.folder).exists()


def test_it_is_ready_with_its_devices_and_the_report_names_it(real: RealNode) -> None:
    real.offers(4, 4)
    (line,) = [line for line in real.local.components if NODE in line]
    assert "a real node" in line
    assert "QEMU with" in line
    node = real.node(lambda node: True, "")
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://2.")
    assert node["spec"]["taints"] == [{"key": GPU, "value": "present", "effect": "NoSchedule"}]


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
    assert table["resources"][0].keys() == device_table(hardware_of(scenario)["l40s-0"])["resources"][0].keys()
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


def test_the_experiment_of_a_killed_plugin_passes_and_leaves_nothing(real: RealNode, tmp_path: Path) -> None:
    """With the patience and the gates of a live cluster: what is broken here is no simulation of a kubelet."""
    real.kubectl("delete", "pod", "two", "--ignore-not-found")  # the experiment needs three free devices
    before = leak_scan.scan(real.cluster)
    kubeconfig = account.suite_kubeconfig(real.local.plane, "chaos")
    cluster, target = Cluster.from_kubeconfig(kubeconfig), Target(kind=TargetKind.SIMULATED_NODES, server=real.local.server)
    access = msgspec.structs.replace(learn_cluster(cluster, target), kubeconfig=str(kubeconfig))
    policy = build_policy(REAL_PACE, real.local.policy, {"chaos": {"namespaceUid": namespaces.uid_of_shared(cluster)}})
    setup = CampaignSetup(
        cluster=cluster,
        access=access,
        target=target,
        policy=policy,
        settings=settings_of(policy, clusters=(target.cluster_uid,), max_level=1, confirm=target.cluster_uid, nodes=(NODE,)),
        run_id=owned.new_run_id(),
        folder=tmp_path,
        ours=True,
        node=NODE,
    )
    with Campaign(setup) as campaign:
        campaign._conforming = NoConformance()  # type: ignore[assignment]
        result = campaign.carry_out(EXPERIMENTS["A1"])
    fine = (Verdict.PASSED, Verdict.NOT_APPLICABLE)
    wrong = [f"{one.verdict} {one.name}: {one.message}" for one in result.findings if one.verdict not in fine]
    assert [line for line in wrong if "they never stall" not in line] == [], result.message  # translated, a worker may pause for seconds
    assert campaign.residue == []
    assert before.differences(leak_scan.scan(real.cluster)) == []
