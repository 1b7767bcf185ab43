"""The suite's image beside real Kubernetes: what the shipped Job runs in its pod, with the rights that the Job has, hands its report on.

No kubelet starts it: the image's root is mounted read-only, and its program runs there as the image's user, with the files that a kubelet
would have mounted. What the API server says of the pod under Pod Security ``restricted`` is asked in ``test_in_cluster.py``.
"""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.version import VERSION
from deploy import workload
from fixtures.cluster.client import Cluster
from fixtures.localcluster.install.release import Binaries
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.nodeprobe.document import decode
from tests.deploy.try_image import MOUNTS, unpack
from tests.nodeprobe.tables import MACHINES
from tests.nodeprobe.test_nvml import COMPILER, HERE
from tests.simulator.localcluster.test_in_cluster import key, objects

SUITE = workload.NAME
IMAGES = Path(__file__).resolve().parents[3] / "out" / "image"
IMAGE = next(IMAGES.glob(f"{SUITE}-{VERSION}-*.tar"), None)
NAMESPACES = ("--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc")
SECRETS = "var/run/secrets/kubernetes.io/serviceaccount"
CHOSEN: dict[str, Any] = {"mode": "job", "options": ["--only=INV,ADV"]}

pytestmark = [
    pytest.mark.test_all,
    pytest.mark.skipif(IMAGE is None, reason="no image of the suite in out/image (make image)"),
    pytest.mark.skipif(os.geteuid() != 0, reason="not root, who alone mounts the image's root"),
    pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not on PATH (util-linux)"),
]


@pytest.fixture(scope="module")
def local(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster.start(
        None, "standalone-plugin", tmp_path_factory.mktemp("image"), binaries.paths["kube-apiserver"].parent
    ) as started:
        yield started


def test_what_the_shipped_job_runs_hands_its_report_on(local: LocalCluster, tmp_path: Path) -> None:
    installed = objects(CHOSEN)
    cluster = Cluster.from_kubeconfig(local.admin_kubeconfig)
    for item in (workload.namespace(), *(item for item in installed if item["kind"] != "Job")):
        answer = cluster.create(key(item), item, namespace=item["metadata"].get("namespace", ""))
        assert answer.ok or answer.reason == "AlreadyExists", f"{item['kind']}: {answer.message}"
    (pod,) = [item["spec"]["template"]["spec"] for item in installed if item["kind"] == "Job"]
    (policy,) = [item["data"] for item in installed if item["kind"] == "ConfigMap"]
    mounted = {
        f"{SECRETS}/ca.crt": local.plane.layout.certificates.authority.read_text(),
        f"{SECRETS}/token": token(cluster, pod["serviceAccountName"]),
        f"{SECRETS}/namespace": SUITE,
        **{f"{workload.POLICY_FOLDER.removeprefix('/')}/{name}": text for name, text in policy.items()},
    }
    (container,) = pod["containers"]
    environment = {item["name"]: item["value"] for item in container["env"]}
    environment |= {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(local.plane.layout.port)}
    done = in_image(tmp_path, {name: text.encode() for name, text in mounted.items()}, environment, container["args"])
    assert done.returncode == 0, done.stdout[-3000:]
    held = cluster.get("configmaps", f"{SUITE}-result", SUITE).json()
    summary = json.loads(held["data"]["summary.json"])["gpuConformance"]
    assert (summary["exitCode"], summary["verdict"]) == (0, "passed")


def token(cluster: Cluster, account: str) -> str:
    """What a kubelet asks for and mounts: a token of the pod's account."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = cluster.request("POST", cluster.path("serviceaccounts", SUITE, account, "token"), body=request)
    assert answer.ok, answer.message
    return str(answer.json()["status"]["token"])


@pytest.mark.skipif(COMPILER is None, reason="no C compiler is on PATH, which builds the mocked driver")
def test_its_node_probe_reads_the_library_of_a_mocked_driver(tmp_path: Path) -> None:
    """As in a pod that holds devices: the library is the node's, mounted into the container."""
    built = tmp_path / "libnvidia-ml.so.1"
    subprocess.run([str(COMPILER), "-O1", "-shared", "-fPIC", "-w", "-o", str(built), str(HERE / "mocked_nvml.c")], check=True, timeout=120)
    name, table = next(iter(MACHINES.items()))
    mounted = {f"driver/{built.name}": built.read_bytes(), "driver/table.json": json.dumps(table).encode()}
    environment = {"LD_LIBRARY_PATH": "/driver", "MOCKED_NVML": "/driver/table.json"}
    done = in_image(tmp_path / "root", mounted, environment, ["probe", "--json"])
    driver = decode(done.stdout[done.stdout.index("{") :].encode()).drivers[0]
    assert (driver.way, driver.version, driver.problem) == ("nvml", "580.95.05", ""), name
    assert [device.uuid for device in driver.devices] == [table[f"{index}.uuid"] for index in range(int(table["count"]))]


def in_image(root: Path, mounted: dict[str, bytes], environment: dict[str, str], arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the image's program as its user, with further files, on a root that nobody can write to."""
    assert IMAGE is not None
    root.mkdir(exist_ok=True)
    image = unpack(IMAGE, root)
    root.chmod(0o755)
    for name, content in mounted.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    given = [*image["Env"], *(f"{name}={value}" for name, value in environment.items())]
    line = ["env", "-i", *given, "/usr/sbin/chroot", f"--userspec={image['User']}", str(root), *image["Entrypoint"], *arguments]
    script = MOUNTS.format(root=shlex.quote(str(root))) + shlex.join(line)
    return subprocess.run(
        ["unshare", *NAMESPACES, "bash", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
