"""What Volcano and Kueue do, as measured on the real ones: asked of whichever runs beside a local control plane.

That is the project's look-alike, or the real program where ``$GPU_CONFORMANCE_LOCAL_BIN`` has it. The facts are the same.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.localcluster.install.release import Binaries
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.verdict.record import Verdict
from tests.gang.test_installed import webhook
from tests.simulator.localcluster.rights.runs import run
from tests.watching import PATIENCE

pytestmark = pytest.mark.test_all

GPU = "nvidia.com/gpu"
VOLCANO = "scheduling.volcano.sh"
KUEUE = "kueue.x-k8s.io"
SECONDS = PATIENCE
WINDOW = 3.0
"""How long an absence is watched: several rounds of either scheduler."""

FACTS = "facts"

ON_VOLCANO, ON_KUEUE = pytest.mark.xdist_group("volcano"), pytest.mark.xdist_group("kueue")
"""One control plane for the tests of a look-alike: on one worker."""


@pytest.fixture(scope="module")
def volcano(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Admin]":
    with LocalCluster.start(binaries.minor, "rdma-training", tmp_path_factory.mktemp("rdma-training")) as cluster:
        yield Admin(cluster)


@pytest.fixture(scope="module")
def kueue(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Admin]":
    with LocalCluster.start(binaries.minor, "kueue-inference", tmp_path_factory.mktemp("kueue-inference")) as cluster:
        admin = Admin(cluster)
        flavor = next(iter(admin.cluster.request("GET", f"/apis/{KUEUE}/v1beta2/resourceflavors").json()["items"]))["metadata"]["name"]
        admin.queue("small", flavor, 4)
        admin.queue("plenty", flavor, 1000)
        yield admin


class Admin:
    """The administrator, in a namespace of its own."""

    def __init__(self, local: LocalCluster) -> None:
        self.local = local
        self.cluster = cluster = Cluster.from_kubeconfig(local.admin_kubeconfig)
        for key in ("podgroups", "queues"):
            cluster.learn_versions({f"{VOLCANO}/{key}": "v1beta1"})
        for key in ("workloads", "clusterqueues", "localqueues", "resourceflavors"):
            cluster.learn_versions({f"{KUEUE}/{key}": "v1beta2"})
        self.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": FACTS}}, "")
        with Observation(cluster, "serviceaccounts", FACTS) as accounts:
            assert any(objects for objects in accounts.until(time.monotonic() + SECONDS))

    def create(self, key: str, item: Json, namespace: str = FACTS) -> Json:
        answer = self.cluster.create(key, item, namespace=namespace)
        assert answer.ok, f"{key}: {answer.status} {answer.message}"
        return answer.json()

    def queue(self, name: str, flavor: str, quota: int) -> None:
        """A ClusterQueue of that many devices, and the way to it."""
        amounts = {"cpu": "10000", "memory": "100Ti", GPU: str(quota)}
        resources = [{"name": key, "nominalQuota": amount} for key, amount in amounts.items()]
        groups = [{"coveredResources": list(amounts), "flavors": [{"name": flavor, "resources": resources}]}]
        api = f"{KUEUE}/v1beta2"
        spec: Json = {"namespaceSelector": {}, "resourceGroups": groups}
        self.create(f"{KUEUE}/clusterqueues", {"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}, "")
        local: Json = {"apiVersion": api, "kind": "LocalQueue", "metadata": {"name": name}, "spec": {"clusterQueue": name}}
        self.create(f"{KUEUE}/localqueues", local)

    def until(self, key: str, holds: Callable[[dict[str, Json]], bool], seconds: float = SECONDS) -> dict[str, Json]:
        """Objects of the namespace by name once ``holds`` says so; fails at the deadline with what is there."""
        found: dict[str, Json] = {}
        with Observation(self.cluster, key, FACTS) as observation:
            for objects in observation.until(time.monotonic() + seconds):
                found = {name.partition("/")[2]: item for name, item in objects.items()}
                if holds(found):
                    return found
        pytest.fail(f"{key} after {seconds:.0f} s: {found}")

    def until_refused(self, item: Json, words: str, seconds: float = SECONDS) -> None:
        """Ask until pods are refused with these words: an API server uses a new webhook a moment after it stored it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                self.cluster.create("pods", item, namespace=FACTS, dry_run=True)
            except ApiTrouble as trouble:
                if words in str(trouble):
                    return
                raise
            time.sleep(0.1)
        pytest.fail(f"pods were accepted for {seconds:.0f} s")

    def most_bound(self, prefix: str, seconds: float = WINDOW) -> int:
        """The largest number of pods of a gang with a node, over a window."""
        most = 0
        with Observation(self.cluster, "pods", FACTS) as observation:
            for objects in observation.until(time.monotonic() + seconds):
                most = max(most, len(bound(objects, prefix)))
        return most

    def delete(self, key: str, *names: str) -> None:
        for name in names:
            assert self.cluster.delete(key, name, FACTS, grace_seconds=0 if key == "pods" else None).status in (200, 202, 404)


def bound(objects: Mapping[str, Json], prefix: str) -> list[str]:
    named = {name.partition("/")[2] or name: item for name, item in objects.items()}
    return [name for name, item in named.items() if name.startswith(f"{prefix}-") and item["spec"].get("nodeName")]


def pod(name: str, devices: int, **spec: object) -> Json:
    limits = {GPU: str(devices), "cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "registry.example/sleep:1", "command": ["sleep", "600"], "resources": {"limits": limits}}
    tolerations = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "tolerations": tolerations, "restartPolicy": "Never", **spec},
    }


def conditions(item: Json) -> dict[str, Json]:
    return {condition["type"]: condition for condition in (item.get("status") or {}).get("conditions") or ()}


def phase(item: Json) -> str:
    return str((item.get("status") or {}).get("phase"))


# -- Volcano -------------------------------------------------------------------------------------------


def volcano_group(admin: Admin, name: str, size: int) -> None:
    spec: Json = {"minMember": size, "queue": "default"}
    item = {"apiVersion": f"{VOLCANO}/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    admin.create(f"{VOLCANO}/podgroups", item)


def volcano_members(admin: Admin, name: str, size: int) -> list[str]:
    for number in range(size):
        member = pod(f"{name}-{number}", 8, schedulerName="volcano")
        member["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": name}
        admin.create("pods", member)
    return [f"{name}-{number}" for number in range(size)]


def volcano_gang(admin: Admin, name: str, size: int) -> list[str]:
    volcano_group(admin, name, size)
    return volcano_members(admin, name, size)


@ON_VOLCANO
def test_volcano_holds_what_does_not_fit_says_why_and_binds_what_does(volcano: Admin) -> None:
    large = volcano_gang(volcano, "large", 3)
    expected = re.compile(r"[13]/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable")  # both were seen
    held = volcano.until(
        f"{VOLCANO}/podgroups",
        lambda groups: bool(expected.match(conditions(groups["large"]).get("Unschedulable", {}).get("message", ""))),
    )["large"]
    assert (phase(held), conditions(held)["Unschedulable"]["reason"]) == ("Inqueue", "NotEnoughResources")

    small = volcano_gang(volcano, "small", 2)
    volcano.until("pods", lambda pods: len(bound(pods, "small")) == 2)
    volcano.until(f"{VOLCANO}/podgroups", lambda groups: phase(groups["small"]) == "Running")
    assert volcano.most_bound("large") == 0
    volcano.delete("pods", *small)
    volcano.until("pods", lambda pods: not {*small} & pods.keys())
    assert volcano.most_bound("large") == 0, "two nodes are free again, and three are needed"
    volcano.delete("pods", *large)
    volcano.until("pods", lambda pods: not {*large} & pods.keys())
    volcano.delete(f"{VOLCANO}/podgroups", "large", "small")


@ON_VOLCANO
def test_a_gang_of_volcano_that_fits_is_called_unschedulable_on_its_way(volcano: Admin) -> None:
    volcano_group(volcano, "late", 2)
    volcano.until("events", lambda events: any(_is_gang_warning(event, "late") for event in events.values()))
    names = volcano_members(volcano, "late", 2)
    volcano.until("pods", lambda pods: len(bound(pods, "late")) == 2)
    volcano.delete("pods", *names)
    volcano.until("pods", lambda pods: not {*names} & pods.keys())
    volcano.delete(f"{VOLCANO}/podgroups", "late")


def _is_gang_warning(event: Json, gang: str) -> bool:
    """An event that calls a group unschedulable which has no pods yet."""
    if (event["involvedObject"]["name"], event["type"], event["reason"]) != (gang, "Warning", "Unschedulable"):
        return False
    return str(event["message"]).startswith("0/0 tasks in gang unschedulable: pod group is not ready, 2 minAvailable")


@ON_VOLCANO
def test_volcano_runs_two_gangs_one_after_the_other(volcano: Admin) -> None:
    first = volcano_gang(volcano, "first", 2)
    volcano.until("pods", lambda pods: len(bound(pods, "first")) == 2)
    second = volcano_gang(volcano, "second", 2)
    assert volcano.most_bound("second") == 0
    volcano.delete("pods", *first)
    volcano.until("pods", lambda pods: len(bound(pods, "second")) == 2)
    volcano.delete("pods", *second)
    volcano.delete(f"{VOLCANO}/podgroups", "first", "second")


# -- Kueue ---------------------------------------------------------------------------------------------


def kueue_group(admin: Admin, name: str, size: int, devices: int = 2, queue: str = "small", total: int = 0) -> list[str]:
    for number in range(size):
        member = pod(f"{name}-{number}", devices, schedulingGates=[{"name": f"{KUEUE}/admission"}])
        member["spec"]["tolerations"] = []
        member["metadata"]["labels"] = {f"{KUEUE}/queue-name": queue, f"{KUEUE}/pod-group-name": name}
        member["metadata"]["annotations"] = {f"{KUEUE}/pod-group-total-count": str(total or size)}
        admin.create("pods", member)
    return [f"{name}-{number}" for number in range(size)]


def remove_group(admin: Admin, name: str, names: list[str]) -> None:
    admin.delete("pods", *names)
    admin.delete(f"{KUEUE}/workloads", name)
    admin.until("pods", lambda pods: not {*names} & pods.keys())


@ON_KUEUE
def test_kueue_admits_a_group_within_quota_with_the_flavors_tolerations(kueue: Admin) -> None:
    names = kueue_group(kueue, "fits", 2)
    pods = kueue.until("pods", lambda pods: len(bound(pods, "fits")) == 2)
    for name in names:
        assert f"{KUEUE}/managed" in pods[name]["metadata"]["finalizers"]
        assert not pods[name]["spec"].get("schedulingGates")
        assert any(toleration.get("key") == GPU for toleration in pods[name]["spec"]["tolerations"])
    workloads = kueue.until(f"{KUEUE}/workloads", lambda found: conditions(found["fits"]).get("Admitted", {}).get("status") == "True")
    assert conditions(workloads["fits"])["QuotaReserved"]["status"] == "True"
    remove_group(kueue, "fits", names)


@ON_KUEUE
def test_kueue_gates_a_group_above_quota_and_says_why(kueue: Admin) -> None:
    names = kueue_group(kueue, "large", 3)
    held = kueue.until(
        f"{KUEUE}/workloads",
        lambda found: "large" in found and conditions(found["large"]).get("QuotaReserved", {}).get("reason") == "ExceedsMaxQuota",
    )["large"]
    refusal = conditions(held)["QuotaReserved"]
    assert refusal["status"] == "False"
    assert re.match(
        r"couldn't assign flavors to pod set \S+: insufficient quota for nvidia\.com/gpu in flavor \S+, "
        r"previously considered podsets requests \(0\) \+ current podset request \(6\) > maximum capacity \(4\)",
        refusal["message"],
    )
    assert kueue.most_bound("large") == 0
    pods = kueue.until("pods", lambda pods: all(name in pods for name in names))
    assert all({"name": f"{KUEUE}/admission"} in pods[name]["spec"]["schedulingGates"] for name in names)
    remove_group(kueue, "large", names)


@ON_KUEUE
def test_kueue_makes_no_workload_of_an_incomplete_group(kueue: Admin) -> None:
    names = kueue_group(kueue, "partial", 1, total=2)
    assert kueue.most_bound("partial") == 0
    assert "partial" not in kueue.until(f"{KUEUE}/workloads", lambda found: True)
    remove_group(kueue, "partial", names)


@ON_KUEUE
def test_quota_above_the_nodes_breaks_a_gang_of_kueue(kueue: Admin) -> None:
    """Admitted, part of its pods bound, the rest Pending: nothing undoes it before the time of waitForPodsReady."""
    names = kueue_group(kueue, "broken", 5, devices=8, queue="plenty")
    kueue.until(f"{KUEUE}/workloads", lambda found: "broken" in found and _admitted(found["broken"]))
    waiting = kueue.until("pods", lambda pods: bool(bound(pods, "broken")) and any(_unschedulable(pods[name]) for name in names))
    placed = len(bound(waiting, "broken"))
    assert 0 < placed < 5
    assert kueue.most_bound("broken") < 5
    remove_group(kueue, "broken", names)


@ON_KUEUE
def test_deleted_pods_of_kueue_stay_until_the_workload_goes(kueue: Admin) -> None:
    names = kueue_group(kueue, "held", 3)
    kueue.until("pods", lambda pods: all(f"{KUEUE}/managed" in (pods[name]["metadata"].get("finalizers") or ()) for name in names))
    kueue.until(f"{KUEUE}/workloads", lambda found: "held" in found and "QuotaReserved" in conditions(found["held"]))
    kueue.delete("pods", *names)
    with Observation(kueue.cluster, "pods", FACTS) as observation:
        for objects in observation.until(time.monotonic() + WINDOW):
            assert all(objects[f"{FACTS}/{name}"]["metadata"].get("deletionTimestamp") for name in names)
    kueue.delete(f"{KUEUE}/workloads", "held")
    kueue.until("pods", lambda pods: not {*names} & pods.keys())


def _admitted(workload: Json) -> bool:
    return bool(conditions(workload).get("Admitted", {}).get("status") == "True")


def _unschedulable(item: Json) -> bool:
    return bool(conditions(item).get("PodScheduled", {}).get("reason") == "Unschedulable")


@ON_KUEUE
def test_while_the_webhook_of_kueue_is_away_nothing_is_reported_of_pods_or_gangs(kueue: Admin, tmp_path: Path) -> None:
    """The last of this file: the real Kueue is ended; of the look-alike, which has no webhook, one is registered that nobody serves."""
    real = [process for process in kueue.local.plane._processes if process.name == "kueue"]
    for process in real:
        process.stop(SECONDS)
    if not real:
        kueue.create("admissionregistration.k8s.io/mutatingwebhookconfigurations", webhook(), "")
    kueue.until_refused(pod("refused", 1), "failed calling webhook")
    done = run(kueue.local, tmp_path, ["GANG-01", "GANG-02", "GANG-03", "FENCE-06", "REQ-01"])  # type: ignore[arg-type]
    assert {id_ for id_, verdict in done.verdicts.items() if verdict is Verdict.INCONCLUSIVE} == done.verdicts.keys() - {"GANG-01"}
    assert (done.code, done.residue) == (10, [])
