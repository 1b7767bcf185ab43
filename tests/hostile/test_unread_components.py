"""What is installed is not known where its list gets no answer: an experiment is undecided then, and never not applicable."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.engine.campaign import plan_now
from chaos.observe.components import find_components, standing_of
from chaos.observe.compute_domains import COMPONENT
from chaos.observe.view import View
from chaos.plan.selectors import TargetUnclear
from chaos.surface.describe_plan import describe_plan
from conformance.policy.model import Tenants
from fixtures.cluster.client import Answer
from fixtures.cluster.trouble import ApiTrouble
from tests.chaos.engine.stage import Stage, stage
from tests.chaos.shipped import EXPERIMENTS


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


@pytest.mark.parametrize(
    ("resource", "id_"),
    [
        *(("daemonsets", id_) for id_ in ("A1", "A6", "A7", "A8", "A13", "D1", "D18", "N1")),
        *(("deployments", id_) for id_ in ("A4", "A5", "A8c", "S2", "R1")),
        *(("clusterpolicies", id_) for id_ in ("A1", "A4", "A5")),  # whose the agents are is not known
        ("nodes", "A1"),
    ],
)
def test_an_experiment_is_not_inapplicable_because_a_list_has_no_answer(
    on: Stage, silent: set[str], tmp_path: Path, resource: str, id_: str
) -> None:
    silent.add(resource)
    with pytest.raises(TargetUnclear, match="no answer in 30 s"):
        plan_now(on.where(tmp_path), EXPERIMENTS[id_])
    assert describe_plan(on.where(tmp_path), EXPERIMENTS[id_])[0][1].startswith("  undecided: ")


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
    assert COMPONENT in found.absent
