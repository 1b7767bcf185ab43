"""Documents of a run: which pods read them, what they say and what is said of nodes without one."""

from typing import Any

import pytest

from conformance.probes import node_documents
from conformance.probes.node_documents import DocumentsOnce, NodeDocuments, collect, judged
from conformance.probes.running import ProbeResult
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.nodeprobe import smi
from fixtures.nodeprobe.document import encode
from fixtures.policy.policy_file import build_policy
from fixtures.verdict.findings import Outcome, ok
from fixtures.verdict.subjects import Inconclusive, Subject
from tests.builders import a_node, a_pod, a_scope
from tests.hw.documents import a_document
from tests.nodeprobe.tables import MACHINES
from tests.nodeprobe.test_smi import printed

UUIDS = "GPU-00000001-1111-2222-3333-444444444444", "MIG-GPU-00000002-1111-2222-3333-444444444444/1/0", "void"
GOOD = f"## granted {','.join(UUIDS)}\n{encode(a_document().document).decode()}"
NEWER = GOOD.replace('"schemaVersion": "1.', '"schemaVersion": "2.')


class FakeRuns:
    """Stands for workspace and pods: what each pod prints, by the node that it is pinned to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, logs: dict[str, str]) -> None:
        self.logs = logs
        self.batches: list[list[Json]] = []
        self.answers = 1000  # batches until this is raised
        self.trouble: Inconclusive = EXPIRED
        monkeypatch.setattr(node_documents, "run_pods", self.run_pods)

    def namespace(self, level: str = "restricted") -> str:
        return level

    def clear(self) -> None:
        pass

    def run_pods(self, workspace: object, pods: list[Json], seconds: float, namespace: str) -> dict[str, ProbeResult]:
        self.batches.append(pods)
        if len(self.batches) > self.answers:
            raise self.trouble
        found = {}
        for pod in pods:
            name, node = pod["metadata"]["name"], pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            log = self.logs.get(node["nodeSelectorTerms"][0]["matchFields"][0]["values"][0], GOOD)
            trouble = log if log.startswith("it did not") else ""
            found[name] = ProbeResult(subject=Subject("Pod", name, namespace), logs={"probe": log}, trouble=trouble)
        return found


def fleet(count: int, policy: Json, held: dict[str, int] | None = None) -> Any:
    pods = [a_pod(f"train-{node}", node=node, devices=gpus) for node, gpus in (held or {}).items()]
    return a_scope(
        build_policy({"probes": {"suiteImage": "suite:1", "everyNode": True, **policy}}),
        nodes=[a_node(f"gpu-{i}") for i in range(count)],
        pods=pods,
    )


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (GOOD, ""),
        ("## granted all\n" + printed(MACHINES["h100"]), ""),
        ("## granted \n" + printed(MACHINES["a100-mig"]), ""),
        (NEWER, "has the version 2."),
        ("gpu-conformance: not found", "is no document"),
        ("## granted \n{}", "is no document"),
        (GOOD[:2000], "is no document"),
        ("", "is no document"),
        ("it did not finish within 180 s: ImagePullBackOff", "ImagePullBackOff"),
    ],
)
def test_a_log_is_a_document_or_says_why_its_node_is_undecided(monkeypatch: pytest.MonkeyPatch, log: str, words: str) -> None:
    scope, runs = fleet(2, {}), FakeRuns(monkeypatch, {"gpu-1": log})
    found = collect(scope, runs)  # type: ignore[arg-type]
    assert set(found.by_node) == ({"gpu-0"} if words else {"gpu-0", "gpu-1"})
    findings = {one.subject.name: one for one in judged(scope, found, lambda one: [ok(Subject("Node", one.node.name))])}
    assert (findings["gpu-1"].outcome is Outcome.UNDECIDED) is bool(words)
    assert words in findings["gpu-1"].message


def test_uuids_come_from_the_variable_and_from_nothing_else_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = collect(fleet(1, {}), FakeRuns(monkeypatch, {}))  # type: ignore[arg-type]
    assert found.by_node["gpu-0"].granted == {UUIDS[0]}


def test_a_thousand_nodes_are_asked_by_at_most_32_pods_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = FakeRuns(monkeypatch, {})
    assert len(collect(fleet(1000, {}), runs).by_node) == 1000  # type: ignore[arg-type]
    assert (max(map(len, runs.batches)), sum(map(len, runs.batches))) == (32, 1000)


EXPIRED = Inconclusive("Unauthorized", "pods node-probe-32 could not be created: 401 Unauthorized")


@pytest.mark.parametrize(("trouble", "cause"), [(ApiTrouble("ServiceUnavailable", "503"), "ApiTrouble"), (EXPIRED, "RightMissing")])
def test_what_was_read_before_the_api_server_failed_is_kept(monkeypatch: pytest.MonkeyPatch, trouble: Inconclusive, cause: str) -> None:
    runs = FakeRuns(monkeypatch, {})
    runs.answers, runs.trouble = 1, trouble
    found = collect(fleet(70, {}), runs)  # type: ignore[arg-type]
    assert (len(found.by_node), len(found.unread)) == (32, 38)
    assert {gone.finding.cause for gone in found.unread.values()} == {cause}


def test_what_the_time_does_not_reach_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    scope = fleet(40, {"everyNodeSeconds": 0})
    found = collect(scope, FakeRuns(monkeypatch, {}))  # type: ignore[arg-type]
    assert (len(found.by_node), len(found.unread)) == (32, 8)
    assert all("everyNodeSeconds" in gone.finding.message for gone in found.unread.values())


@pytest.mark.parametrize(("way", "asks", "privileged"), [("no", "7", None), ("runtime", None, None), ("privileged", None, True)])
def test_a_busy_node_is_read_as_far_as_the_policy_lets_pods_see(
    monkeypatch: pytest.MonkeyPatch, way: str, asks: str | None, privileged: bool | None
) -> None:
    runs = FakeRuns(monkeypatch, {})
    found = collect(fleet(2, {"wholeNodes": way}, {"gpu-0": 1, "gpu-1": 8}), runs)  # type: ignore[arg-type]
    assert set(found.by_node) == ({"gpu-0"} if way == "no" else {"gpu-0", "gpu-1"})
    [container] = runs.batches[0][0]["spec"]["containers"]
    assert container["resources"]["limits"].get("nvidia.com/gpu") == asks
    assert container["securityContext"].get("privileged") is privileged
    assert ({"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"} in container["env"]) is (way != "no")
    assert found.by_node["gpu-0"].asked == (7 if way == "no" else 8)


def test_documents_are_read_once_and_so_is_what_is_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, once = FakeRuns(monkeypatch, {}), DocumentsOnce()
    assert once.get(fleet(2, {}), runs) is once.get(fleet(2, {}), runs)  # type: ignore[arg-type]
    assert len(runs.batches) == 1
    full, once = fleet(1, {}, {"gpu-0": 8}), DocumentsOnce()
    for _ in range(2):
        with pytest.raises(Inconclusive, match="1 free"):
            once.get(full, runs)  # type: ignore[arg-type]


def test_nodes_that_were_not_asked_are_reported_to_be_left_out() -> None:
    scope, read = fleet(3, {"everyNode": False}, {"gpu-2": 8}), NodeDocuments(by_node={"gpu-0": a_document(name="gpu-0")})
    findings = {one.subject.name: one for one in judged(scope, read, lambda one: [ok(Subject("Node", one.node.name))])}
    assert [findings[f"gpu-{number}"].outcome for number in range(3)] == [Outcome.OK, Outcome.NOT_JUDGED, Outcome.NOT_JUDGED]
    assert "busy" in findings["gpu-2"].message


@pytest.mark.parametrize("image", ["suite:1", ""])
def test_devices_of_amd_are_read_in_any_image(monkeypatch: pytest.MonkeyPatch, image: str) -> None:
    nodes = [a_node("gpu-0", resource="amd.com/gpu"), a_node("gpu-1")]
    scope = a_scope(build_policy({"probes": {"suiteImage": image, "images": {"amd.com/*": "rocm:6"}, "everyNode": True}}), nodes=nodes)
    runs = FakeRuns(monkeypatch, {})
    found = collect(scope, runs)  # type: ignore[arg-type]
    assert {name: one.whole for name, one in found.by_node.items()} == {"gpu-0": True, "gpu-1": False}
    [of_amd] = [pod["spec"]["containers"][0] for pod in runs.batches[0] if "amd.com/gpu" in str(pod)]
    assert (of_amd["image"], smi.SCRIPT in of_amd["command"][-1]) == (image or "rocm:6", not image)
