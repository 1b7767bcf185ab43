from collections.abc import Iterator
from typing import Any

import pytest

from conformance.net import fabric_probe, runs
from conformance.net.fabric_probe import COMMAND, NAME, Job, objects, pods
from conformance.net.judging import of_each
from conformance.net.ports import with_ports_read
from conformance.net.runs import SharedRuns
from conformance.net.two_nodes import FabricRun, Plan
from fixtures.kubernetes.models import Json, Pod
from fixtures.model.cluster import Scope
from fixtures.policy.model import Network
from fixtures.probes.pods import decode_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Finding, Outcome, ok
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.builders import a_node, a_pod, a_policy, a_scope
from tests.net.logs import make_plan, run_of
from tests.tables import each_row

RDMA = "rdma/a"


def scope_of(**network: Any) -> Scope:
    return a_scope(a_policy(network=network), nodes=[a_node(name, capacity={RDMA: "63"}) for name in ("gpu-0", "gpu-1")])


def pods_of(**network: Any) -> list[Json]:
    scope = scope_of(**network)
    return pods(scope, Job(make_plan(scope)), "ns")


def env_of(pod: Json) -> dict[str, str]:
    return {item["name"]: item["value"] for item in pod["spec"]["containers"][0]["env"]}


def test_each_pod_takes_a_whole_node_of_its_own_and_one_unit_of_the_fabric() -> None:
    first, second = pods_of()
    for pod, node in ((first, "gpu-0"), (second, "gpu-1")):
        term = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert term == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        resources = pod["spec"]["containers"][0]["resources"]
        assert resources["limits"] == {"nvidia.com/gpu": "8", RDMA: "1"}
        assert resources["requests"] == {"nvidia.com/gpu": "8", RDMA: "1", "cpu": "8", "memory": "16Gi"}
        assert pod["spec"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present", "effect": "NoSchedule"}]


def test_pods_find_rank_0_by_its_name_under_the_headless_service() -> None:
    first, second = pods_of()
    assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("net-fabric-0", "net-fabric")
    assert {env_of(pod)["MASTER_ADDR"] for pod in (first, second)} == {"net-fabric-0.net-fabric.ns.svc"}
    assert [env_of(pod)["NODE_RANK"] for pod in (first, second)] == ["0", "1"]
    assert (env_of(first)["NNODES"], env_of(first)["NPROC_PER_NODE"]) == ("2", "8")
    service = dict(objects(Network(), [NAME]))["services"]["spec"]
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True
    assert service["selector"].items() <= first["metadata"]["labels"].items()


def test_the_log_is_asked_for_whatever_the_owners_environment_says() -> None:
    env = env_of(pods_of(env={"NCCL_DEBUG": "WARN", "NCCL_IB_HCA": "mlx5_0"})[0])
    assert (env["NCCL_DEBUG"], env["NCCL_DEBUG_SUBSYS"], env["NCCL_IB_HCA"]) == ("INFO", "INIT,NET,GRAPH,ENV", "mlx5_0")


def test_ipc_lock_is_added_only_where_the_policy_says_so() -> None:
    container = pods_of(ipcLock=True)[0]["spec"]["containers"][0]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert pods_of(ipcLock=True)[0]["spec"]["securityContext"]["runAsUser"] == 0
    assert "add" not in pods_of()[0]["spec"]["containers"][0]["securityContext"]["capabilities"]


def test_the_script_travels_in_a_config_map_and_is_python() -> None:
    config = dict(objects(Network(), [NAME]))["configmaps"]
    compile(config["data"]["allreduce.py"], "allreduce.py", "exec")
    pod = pods_of()[0]
    assert pod["spec"]["containers"][0]["command"] == ["/bin/sh", "-c", with_ports_read(COMMAND)]
    assert {volume["name"] for volume in pod["spec"]["volumes"]} == {"shm", "script"}
    assert "/opt/gpu-conformance/allreduce.py" in COMMAND


def test_a_command_of_the_owner_replaces_the_script() -> None:
    network = {"command": "/usr/local/bin/all_reduce_perf_mpi -b 8 -e 8G -f 2"}
    pod = pods_of(**network)[0]
    assert pod["spec"]["containers"][0]["command"][-1] == with_ports_read(network["command"])
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["shm"]
    assert [key for key, _ in objects(scope_of(**network).policy.network, [NAME])] == ["services"]


# -- running it --


class FakeWorkspace:
    """Takes what the probe creates and answers with pods in a given state."""

    def __init__(self, states: list[Json], log: str = "") -> None:
        self.states = states
        self.log = log
        self.created: list[str] = []
        self.cluster = self

    def namespace(self, level: str = "restricted") -> str:
        self.created.append(f"namespace {level}")
        return "ns"

    def let_talk(self, name: str, labels: dict[str, str], namespace: str) -> None:
        self.created.append(f"{name} may talk by {list(labels)}")

    def create(self, key: str, obj: Json, namespace: str) -> Json:
        self.created.append(key)
        return obj

    def start(self, pod: Json, namespace: str) -> str:
        self.created.append(f"pod {pod['metadata']['name']}")
        return str(pod["metadata"]["name"])

    def wait(self, names: list[str], done: Any, seconds: float, namespace: str) -> Any:
        return done([self._pod(index) for index in range(len(names))])

    def get(self, key: str, name: str, namespace: str) -> Any:
        state = self.states[int(name[-1])]
        return type("Answer", (), {"ok": bool(state), "status": 404, "reason": "NotFound", "message": "gone", "json": lambda _: state})()

    def logs(self, pod: str, *, namespace: str, limit_bytes: int) -> str:
        return self.log

    def _pod(self, index: int) -> Pod:
        return decode_pod({**self.states[index], "metadata": {"name": f"{NAME}-{index}"}})


def a_state(phase: str = "Succeeded", node: str = "gpu-0", code: int | None = 0, **status: Any) -> Json:
    terminated = {"state": {"terminated": {"exitCode": code, "reason": "Completed"}}} if code is not None else {"state": {"running": {}}}
    containers = [{"name": "probe", **terminated}] if phase != "Pending" else []
    return {"metadata": {"name": "x"}, "spec": {"nodeName": node}, "status": {"phase": phase, "containerStatuses": containers, **status}}


def run_with(workspace: FakeWorkspace, **network: Any) -> Any:
    scope = scope_of(**network)
    return fabric_probe.run_fabric(scope, workspace, make_plan(scope))  # type: ignore[arg-type]


def test_one_failed_pod_ends_the_wait() -> None:
    run = run_with(FakeWorkspace([a_state("Failed", code=1), a_state("Running", "gpu-1", code=None)]))
    assert run.finished
    assert [pod.exit_code for pod in run.pods] == [1, None]


def test_a_run_past_its_deadline_says_so() -> None:
    run = run_with(FakeWorkspace([a_state("Running", code=None), a_state("Running", "gpu-1", code=None)]))
    assert not run.finished
    assert "not finished within 360 s" in run.outcome()


@each_row
def test_a_pod_that_did_not_start_is_inconclusive(state: Json, code: str) -> None:
    workspace = FakeWorkspace([a_state(), state])
    if not state:
        workspace._pod = lambda index: decode_pod(a_state())  # type: ignore[method-assign]
    with pytest.raises(Inconclusive) as raised:
        run_with(workspace)
    assert raised.value.code == code


def test_a_cut_log_is_known_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric_probe, "MAX_LOG_BYTES", 12)
    with pytest.raises(Inconclusive, match="larger than"):
        run_with(FakeWorkspace([a_state(), a_state(node="gpu-1")], "NCCL \u00e9\u00e9\u00e9\u00e9"))


def test_ipc_lock_runs_in_a_privileged_namespace() -> None:
    workspace = FakeWorkspace([a_state(), a_state(node="gpu-1")])
    run_with(workspace, ipcLock=True)
    assert workspace.created[0] == "namespace privileged"


def test_another_vendor_needs_an_image_of_its_own() -> None:
    nodes = [a_node(name, resource="amd.com/gpu", capacity={RDMA: "63"}) for name in ("gpu-0", "gpu-1")]
    workspace = FakeWorkspace([a_state(), a_state(node="gpu-1")])
    scope = a_scope(nodes=nodes)
    with pytest.raises(NotApplicable) as raised:
        fabric_probe.run_fabric(scope, workspace, make_plan(scope))  # type: ignore[arg-type]
    assert raised.value.code == "NoImageForVendor"
    assert workspace.created == []
    policy = a_policy(network={"image": "rocm/pytorch:latest"})
    assert fabric_probe.run_fabric(a_scope(policy, nodes=nodes), workspace, make_plan(scope)).device == "amd.com/gpu"  # type: ignore[arg-type]


TWO_KINDS = [a_node(name, capacity={RDMA: "63"}, product=product) for product in ("A", "B") for name in (f"{product}-0", f"{product}-1")]


def test_every_kind_of_machine_has_a_run_of_its_own_and_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def once(scope: Scope, workspace: Workspace, plan: Plan) -> Any:
        ran.append([node.name for node in plan.nodes])
        return run_of()

    class Cleared:
        def clear(self) -> None:
            ran.append(["cleared"])

    monkeypatch.setattr(runs, "run_fabric", once)
    results = SharedRuns().get(a_scope(nodes=TWO_KINDS), Cleared())  # type: ignore[arg-type]
    assert ran == [["A-0", "A-1"], ["cleared"], ["B-0", "B-1"]]
    assert len(results) == 2


def test_a_kind_of_machine_that_is_taken_stands_beside_the_run_of_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "run_fabric", lambda scope, workspace, plan: run_of())
    scope = a_scope(nodes=TWO_KINDS, pods=[a_pod(devices=8, node="B-1")])
    run, reason = SharedRuns().get(scope, None)  # type: ignore[arg-type]
    assert isinstance(reason, Inconclusive)
    assert "B-1 (0 free)" in reason.message
    found = list(of_each([run, reason], lambda one, first: iter([ok(one.subject, observed=str(first))])))
    assert [(finding.outcome, finding.cause) for finding in found] == [(Outcome.UNDECIDED, "NoFreeDevice"), (Outcome.OK, "")]


def test_further_runs_name_their_nodes_and_their_trouble_is_theirs() -> None:
    def judge(run: FabricRun, first: bool) -> Iterator[Finding]:
        yield ok(run.subject, observed=str(first))
        if not first:
            raise Inconclusive("CommandNotFound", "no torchrun")

    further, trouble, first = of_each([run_of(), run_of()], judge)
    assert (first.observed, further.observed) == ("True", "False")
    assert further.subject.name.startswith(first.subject.name)
    assert further.subject != first.subject
    assert trouble.outcome is Outcome.UNDECIDED
