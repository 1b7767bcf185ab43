"""How many calls of the suite's functions judging takes for one more node and for one more pod: the same on every machine.

``make bench`` measures seconds, which differ between machines; a loss of a few per cent hides in them. ``work.yaml`` holds the
figures; ``python -m tests.bench.test_work`` writes them.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest
import yaml
from msgspec.structs import replace

from fixtures.simulator.config.defects import policy_of
from fixtures.simulator.config.scenario import Scenario, load_scenario
from tests.judging import judge
from tests.requirements_offline import healthy, policy_over, snapshot_of

ROOT = Path(__file__).resolve().parents[2]
FIGURES = Path(__file__).with_name("work.yaml")
INLINED = {"<listcomp>", "<dictcomp>", "<setcomp>"}  # calls until Python 3.11, none from 3.12 on
SLACK = 1.02
GAIN = 0.9


class Figure(msgspec.Struct, frozen=True):
    """Calls for one more object, and of them the functions with a hundredth of the calls or more."""

    calls: int
    functions: dict[str, int]

    def grown(self, recorded: "Figure") -> str:
        """The functions that are called more often than recorded, by how much more."""
        least = recorded.calls // 100
        more = {name: (recorded.functions.get(name, least), calls) for name, calls in self.functions.items()}
        rows = sorted((before - calls, name, before, calls) for name, (before, calls) in more.items() if calls > before)
        return ", ".join(f"{name} {before} → {calls}" for _, name, before, calls in rows) or "many functions, each by little"


class Work(msgspec.Struct, frozen=True):
    """What judging one scenario took at one size."""

    nodes: int
    pods: int
    calls: Counter[str]


@contextmanager
def _counted(calls: Counter[Any]) -> Iterator[None]:
    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)


@cache
def work(scenario: str, times: int, pods_per_node: int | None = None) -> Work:
    """Judge a scenario with so many times its nodes; a fleet with so many pods on each."""
    found = load_scenario(scenario)
    scaled = replace(found, pools=[replace(pool, count=pool.count * times) for pool in found.pools])
    if scaled.fleet and pods_per_node:
        scaled = replace(scaled, fleet=replace(scaled.fleet, pods_per_node=pods_per_node))
    _judge(scaled, Counter())  # what is cached by the process is cached now, whatever ran before
    calls: Counter[Any] = Counter()
    _judge(scaled, calls)
    named: Counter[str] = Counter()
    for code, number in calls.items():
        file = Path(code.co_filename)
        if code.co_name not in INLINED and file.is_relative_to(ROOT) and file.relative_to(ROOT).parts[0] in ("conformance", "fixtures"):
            named[".".join((*file.relative_to(ROOT).with_suffix("").parts, code.co_qualname.replace(".<locals>", "")))] += number
    kinds = Counter(item["kind"] for item in healthy(scaled))
    return Work(kinds["Node"], kinds["Pod"], named)


def _judge(scenario: Scenario, calls: Counter[Any]) -> None:
    snapshot = snapshot_of(healthy(scenario), scenario.kubernetes_version)
    policy = policy_over(snapshot, policy_of(scenario, ()))
    with _counted(calls):
        judge(snapshot, policy)


def _figure(smaller: Work, larger: Work, objects: int) -> Figure:
    more = {name: (calls - smaller.calls[name]) / objects for name, calls in larger.calls.items()}
    total = sum(more.values())
    return Figure(round(total), {name: round(calls) for name, calls in sorted(more.items()) if calls >= total / 100})


def per_node(scenario: str, times: int) -> Figure:
    """Calls for one more node, between a scenario ``times`` its size and the double of it."""
    smaller, larger = work(scenario, times), work(scenario, 2 * times)
    return _figure(smaller, larger, larger.nodes - smaller.nodes)


def per_pod() -> Figure:
    """Calls for one more pod on the nodes of a fleet."""
    smaller, larger = work("fleet", 2, 7), work("fleet", 2)
    return _figure(smaller, larger, larger.pods - smaller.pods)


MEASURED: dict[str, Callable[[], Figure]] = {
    "fleet, node": lambda: per_node("fleet", 2),
    "fleet, pod": per_pod,
    "rdma-training, node": lambda: per_node("rdma-training", 4),
    "dra, node": lambda: per_node("dra", 4),
}


@pytest.mark.parametrize("what", MEASURED)
def test_judging_takes_no_more_calls_than_recorded_for_one_more(what: str) -> None:
    recorded = msgspec.convert(yaml.safe_load(FIGURES.read_text(encoding="utf-8")), dict[str, Figure])[what]
    found = MEASURED[what]()
    again = f"recorded are {recorded.calls} (tests/bench/work.yaml; python -m tests.bench.test_work writes it)"
    assert found.calls <= recorded.calls * SLACK, f"{found.calls} calls for each {what}, {again}; grown: {found.grown(recorded)}"
    assert found.calls >= recorded.calls * GAIN, f"only {found.calls} calls for each {what}: record the gain; {again}"


@pytest.mark.parametrize("scenario", ["fleet", "rdma-training", "dra"])
def test_judging_a_node_takes_as_many_calls_in_a_larger_cluster(scenario: str) -> None:
    small, large = per_node(scenario, 2), per_node(scenario, 4)
    assert large.calls <= small.calls * SLACK, f"{small.calls} calls for each node became {large.calls}; grown: {large.grown(small)}"


if __name__ == "__main__":
    figures = {what: msgspec.to_builtins(measure()) for what, measure in MEASURED.items()}
    FIGURES.write_text(yaml.safe_dump(figures, sort_keys=False), encoding="utf-8")
