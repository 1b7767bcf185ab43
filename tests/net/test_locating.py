"""Where a slow or indirect run went wrong: the further runs, and what is said of them."""

from collections.abc import Sequence
from typing import Any

import pytest

from conformance.net import runs
from conformance.net.fabric_probe import Job
from conformance.net.judging import indirect_sides, where_it_went_wrong
from conformance.net.runs import is_slow, locate
from conformance.net.two_nodes import FabricRun
from conformance.outputs import nccl_lines
from fixtures.model.cluster import Scope
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Inconclusive
from tests.builders import a_node, a_pod, a_policy, a_scope
from tests.net import logs
from tests.net.logs import make_plan
from tests.net.test_figures import a_measured_run, sockets
from tests.tables import each_row

ACCEPTED = ("GDR_ENGAGED",)
MINIMUM = 352.5


class Fabric:
    """Stands in for the cluster: runs are slow by what is in them. Keys are nodes, ``node/adapter``, ``adapter`` or ``node+node``."""

    def __init__(self, faults: dict[str, float | str], *, refuses: bool = False) -> None:
        self.faults, self.refuses = faults, refuses
        self.rounds: list[list[Job]] = []

    def clear(self) -> None:
        pass

    def run_together(self, scope: Scope, workspace: Any, jobs: Sequence[Job]) -> list[FabricRun | Inconclusive]:
        self.rounds.append(list(jobs))
        if self.refuses:
            raise Inconclusive("Forbidden", "exceeded quota")
        return [self.run(job) for job in jobs]

    def run(self, job: Job) -> FabricRun:
        names = [node.name for node in job.plan.nodes]
        chosen = job.env.get("NCCL_IB_HCA", "").removeprefix("=")
        adapters = chosen.split(",") if chosen else [f"mlx5_{index}" for index in range(8)]
        keys = {*names, *adapters, "+".join(sorted(names)), *(f"{name}/{adapter}" for name in names for adapter in adapters)}
        met = [value for key, value in self.faults.items() if key in keys]
        share = min((value for value in met if isinstance(value, float)), default=1.0)
        return a_measured_run(
            ports=(len(adapters), 400, "IB"), busbw=390 * share * len(adapters) / 8, via=sockets if "sockets" in met else logs.gdr
        )


def located(monkeypatch: pytest.MonkeyPatch, fabric: Fabric, count: int = 6, minimum: float | None = MINIMUM, **more: Any) -> list[Finding]:
    nodes = [a_node(f"gpu-{index}", capacity={"rdma/a": "63"}) for index in range(count)]
    scope = a_scope(more.pop("policy", None), nodes=nodes, **more)
    monkeypatch.setattr(runs, "run_together", fabric.run_together)
    plan = make_plan(scope)
    run = fabric.run(Job(plan))
    assert is_slow(run, minimum, ACCEPTED)
    found = locate(scope, fabric, plan, run, minimum)  # type: ignore[arg-type]
    for jobs in fabric.rounds:
        used = [node.name for job in jobs for node in job.plan.nodes]
        assert len(set(used)) == len(used), "devices of a node are in one run at a time"
    return list(
        where_it_went_wrong(
            FabricRun(**{**{f: getattr(run, f) for f in run.__struct_fields__}, "located": found}), indirect=minimum is None
        )
    )


@each_row
def test_a_slow_run_is_put_down_to_a_node_an_adapter_or_neither(
    monkeypatch: pytest.MonkeyPatch, faults: dict[str, float | str], count: int, named: list[str], word: str
) -> None:
    found = located(monkeypatch, Fabric(faults), count)
    assert sorted(str(finding.subject) for finding in found if finding.outcome is Outcome.BAD) == named
    assert [finding.message for finding in found if finding.outcome is Outcome.NOT_JUDGED and word in finding.message] or not word


def test_a_node_on_sockets_is_named_and_no_adapter_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = Fabric({"gpu-0": "sockets"})
    (found,) = located(monkeypatch, fabric, minimum=None)
    assert (str(found.subject), found.cause) == ("Node gpu-0", "NodeWithoutFastPath")
    assert not [job for jobs in fabric.rounds for job in jobs if job.env]


def test_runs_take_free_nodes_only_and_no_more_pods_than_the_policy_lets(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = Fabric({"gpu-1": 0.5})
    found = located(monkeypatch, fabric, pods=[a_pod(devices=8, node="gpu-3")], policy=a_policy(probes={"atOnce": 2}))
    assert str(found[0].subject) == "Node gpu-1"
    assert max(map(len, fabric.rounds)) == 1
    assert "gpu-3" not in {node.name for jobs in fabric.rounds for job in jobs for node in job.plan.nodes}


@pytest.mark.parametrize(
    ("fabric", "policy"), [(Fabric({"gpu-1": 0.5}, refuses=True), {}), (Fabric({"gpu-1": 0.5}), {"everyNodeSeconds": 0})]
)
def test_what_could_not_run_names_no_node(monkeypatch: pytest.MonkeyPatch, fabric: Fabric, policy: dict[str, Any]) -> None:
    (found,) = located(monkeypatch, fabric, policy=a_policy(probes=policy))
    assert found.outcome is Outcome.NOT_JUDGED


@pytest.mark.parametrize(
    ("run", "slow"),
    [
        (a_measured_run(), False),
        (a_measured_run(busbw=300), True),
        (a_measured_run(via=sockets), True),
        (logs.run_of(), None),  # direct, and no table
        (logs.a_run("", ""), None),
        (logs.run_of(extra="gpu-0:1:1 [0] NCCL WARN Call to ibv_modify_qp failed with error Connection timed out"), True),
    ],
)
def test_a_run_is_slow_by_its_output(run: FabricRun, slow: bool | None) -> None:
    assert is_slow(run, MINIMUM, ACCEPTED) is slow
    if slow is None and run.text.strip():
        assert is_slow(run, None, ACCEPTED) is False


def test_each_side_logs_its_own_way() -> None:
    """GPUDirect that is off on one machine, or for one adapter of it, shows in that machine's lines alone."""

    def sides(whole: bool) -> list[str]:
        def via(source: int, target: int, direction: str) -> str:
            rank = source if direction == "send" else target
            return f"NET/IB/{rank % 2}" + ("" if rank // 2 == 1 and (whole or rank % 2 == 0) else "/GDRDMA")

        hosts = [logs.adapters(f"net-fabric-{node}", 2) for node in (0, 1)]
        run = logs.a_run(*(logs.nccl_log(node, via=via, extra=hosts[node]) for node in (0, 1)))
        log = nccl_lines.parse(run.text)
        return [str(finding.subject) for finding in indirect_sides(log, run.placement(log))]

    assert sides(whole=True) == ["Node gpu-1"]
    assert sides(whole=False) == ["adapter gpu-1/mlx5_0"]
