"""Whoever holds a device in a sidecar or an init container holds it: no node is idle because of where a pod asks for it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.activities.base import must_be_alone
from chaos.engine.campaign import plan_now
from chaos.engine.turns import Turn
from chaos.model.allocations import Allocations, AllocationSnapshot, check_invariants
from chaos.observe.view import View
from chaos.plan.selectors import PlanRefused, TargetUnclear
from chaos.safety.admission import node_states
from chaos.surface.cli import describe_plan
from fixtures.cluster.client import Answer
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.model.demand.pod_devices import requested_devices, running_devices
from fixtures.model.dra.nvidia_driver import DOMAIN_DAEMON
from fixtures.model.platform.installed import find_components, standing_of
from fixtures.policy.model import Tenants
from tests.chaos.engine.stage import Stage, stage
from tests.chaos.ledger.simulated_cluster import acting, ledger
from tests.chaos.ledger.simulated_cluster import world as cluster_of
from tests.chaos.observe.made_up_cluster import Read, World, canary, node, pod
from tests.chaos.observe.made_up_cluster import plan as an_experiment
from tests.chaos.observe.test_signals import HEALTHY, known_for_long, kubelet, listing, reader, value
from tests.chaos.plan.test_planning import choose, field
from tests.chaos.shipped import EXPERIMENTS
from tests.tables import each_row

GPU = "nvidia.com/gpu"


def asking(amount: Any, **more: Any) -> Json:
    return {"name": f"c{amount}", "resources": {"limits": {GPU: amount}, "requests": {GPU: amount}}, **more}


def of(*containers: Json, init: tuple[Json, ...] = (), on: str = "a") -> Json:
    """A tenant's pod whose containers are these."""
    found = pod("x", on, gpus=0)
    found["spec"] |= {"containers": list(containers) or [{"name": "main"}], "initContainers": list(init)}
    return found


def is_gpu(name: str) -> bool:
    return name == GPU


HOLDERS = {
    "a sidecar": of(init=(asking("1", restartPolicy="Always"),)),
    "an init container": of(init=(asking("1"),)),
    "an amount in another form": of(asking("2e0")),
    "an amount that nobody can read": of(asking("one")),
}


@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_a_node_with_such_a_pod_is_not_idle(holder: Json) -> None:
    world = World(nodes=[node("a"), node("b")], pods=[holder, pod("y", "b")])
    with pytest.raises(PlanRefused, match="a has pods that hold devices"):
        choose(field(world, idle=True))
    assert node_states([node("a")], [holder], (GPU,))["a"].busy == ("team/x",)


def test_devices_of_sidecars_are_not_free() -> None:
    holder = of(asking("2"), init=(asking("3", restartPolicy="Always"),))
    world = World(nodes=[node("a"), node("b", ready="False")], pods=[holder])
    with pytest.raises(PlanRefused, match="a has 3 free devices, 4 are needed"):
        choose(field(world, free=4))
    assert choose(field(world, free=3)).nodes == ("a",)


def test_nobody_acts_beside_such_a_pod(tmp_path: Path) -> None:
    holder = {**HOLDERS["a sidecar"], "apiVersion": "v1", "kind": "Pod"}
    holder["spec"] = {**holder["spec"], "nodeName": "gpu-1"}
    with cluster_of(tmp_path, extra=[holder]) as (cluster, _), acting(tmp_path, cluster, ledger(tmp_path)).as_current():
        must_be_alone("gpu-2")
        with pytest.raises(ActivityFailed, match="team/x on gpu-1 holds devices"):
            must_be_alone("gpu-1")


@pytest.mark.parametrize("amount", ["0", 0, None], ids=repr)
def test_a_pod_that_asks_for_none_keeps_no_node_from_being_idle(amount: Any) -> None:
    """Charts write the amount whether a device is wanted or not."""
    asker = of(asking(amount), init=(asking(amount, restartPolicy="Always"),))
    assert choose(field(World(nodes=[node("a"), node("b")], pods=[asker, pod("y", "b")]), idle=True)).nodes == ("a",)
    assert node_states([node("a")], [asker], (GPU,))["a"].busy == ()


@pytest.mark.parametrize(
    ("spec", "counted", "running"),
    [
        (of(asking("2"), asking("1")), 3, 3),
        (of(asking("2"), init=(asking("1", restartPolicy="Always"),)), 3, 3),
        (of(asking("1"), init=(asking("4"),)), 4, 1),
        (of(asking("1"), init=(asking("1", restartPolicy="Always"), asking("4"))), 5, 2),
        (of(init=(asking("4"),)), 4, 0),
    ],
    ids=["containers", "with a sidecar", "a larger init container", "an init container beside a sidecar", "an init container alone"],
)
def test_devices_are_counted_as_scheduler_and_kubelet_count_them(spec: Json, counted: int, running: int) -> None:
    assert requested_devices(spec, is_gpu).get(GPU, 0) == counted
    assert running_devices(spec, is_gpu).get(GPU, 0) == running


@pytest.mark.parametrize(
    ("holder", "listed", "broken"),
    [
        (of(init=(asking("1", restartPolicy="Always"),)), ["GPU-1"], []),
        (of(init=(asking("1", restartPolicy="Always"),)), [], ["complete", "seen"]),
        (of(asking("1"), init=(asking("4"),)), ["GPU-1"], []),
    ],
    ids=["a sidecar", "a sidecar that has lost it", "an init container that has ended"],
)
def test_what_the_kubelet_lists_is_held_against_the_containers_that_run(holder: Json, listed: list[str], broken: list[str]) -> None:
    worker = canary("w", "a", gpus=0)
    worker["spec"] = {**holder["spec"], "nodeName": "a"}
    there = kubelet(listing({"w": listed}, HEALTHY), reader(), worker)
    there.lists["pods"] = [worker, reader()]
    read = Read(there, an_experiment())
    value("allocations", there, read)
    known_for_long(read)
    stated = msgspec.convert(value("allocations", there, read.again(there)), Allocations)
    assert list(stated.pods) == ["uid-w"]
    found = check_invariants([AllocationSnapshot(t=0.0, phase="before", allocations=stated)])
    assert [one.invariant for one in found if one.breaches] == broken


# -- what is installed is not known where its list gets no answer: an experiment is undecided then, and never not applicable --


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("cluster"), "resilience") as made:
        yield made


@pytest.fixture
def silent(on: Stage, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Resources whose lists get no answer."""
    resources: set[str] = set()
    request = on.cluster.request

    def asked(method: str, path: str, **options: Any) -> Answer:
        if method == "GET" and path.partition("?")[0].rpartition("/")[2] in resources:
            raise ApiTrouble("Timeout", f"GET {path}: no answer in 30 s")
        return request(method, path, **options)

    monkeypatch.setattr(on.cluster, "request", asked)
    return resources


@each_row
def test_an_experiment_is_not_inapplicable_because_a_list_has_no_answer(
    on: Stage, silent: set[str], tmp_path: Path, resource: str, id_: str
) -> None:
    silent.add(resource)
    with pytest.raises(TargetUnclear, match="no answer in 30 s"):
        plan_now(on.where(tmp_path), EXPERIMENTS[id_])
    assert describe_plan(on.where(tmp_path), Turn(experiment=EXPERIMENTS[id_]))[0][1].startswith("  undecided: ")


@pytest.mark.parametrize(("resource", "id_"), [("daemonsets", "A8c"), ("deployments", "A1"), ("workloads", "S2")])
def test_a_list_harms_who_needs_it_and_nobody_else(on: Stage, silent: set[str], tmp_path: Path, resource: str, id_: str) -> None:
    silent.add(resource)
    assert plan_now(on.where(tmp_path), EXPERIMENTS[id_]).targets


def test_what_is_not_served_is_absent_whatever_is_known_of_its_driver(on: Stage, silent: set[str]) -> None:
    view = View.of(on.cluster)
    standing = standing_of(view, Tenants())
    silent.add("daemonsets")
    found = find_components(View.of(on.cluster), standing)
    assert "dra-plugin" in found.unclear
    assert DOMAIN_DAEMON in found.absent
