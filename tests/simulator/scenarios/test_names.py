"""What a user may write after ``--simulate``, and the one line that a wrong name gives."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.simulator.builder import build
from fixtures.simulator.config import scenario as module
from fixtures.simulator.config.scenario import (
    NodePool,
    Scenario,
    ScenarioError,
    Tenant,
    Workload,
    load_scenario,
    parse_simulate,
)


@pytest.fixture
def defects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "DEFECTS", tmp_path)
    text = "description: d\nscenario: mig-mixed\ntrips: [FENCE-01]\n"
    for name in ("untainted-node", "root-cuda-pod"):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\n{text}")
    return tmp_path


def test_pods_of_any_scenario_may_take_long_to_start() -> None:
    scenario, _ = parse_simulate("healthy:podStart=30")
    assert scenario.tempo.pod_start == 30.0
    assert scenario.policy["probes"]["startSeconds"] > 30
    assert load_scenario("healthy").tempo.pod_start == 0.0


@pytest.mark.usefixtures("defects")
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("helthy", "unknown scenario 'helthy'; did you mean 'healthy'?"),
        ("", "unknown scenario ''; see: gpu-conformance simulate --list"),
        ("healthy,untainted-nod", "unknown defect 'untainted-nod'; did you mean 'untainted-node'?"),
        ("healthy,", "an empty defect name in 'healthy,'"),
        ("healthy,untainted-node,untainted-node", "defect 'untainted-node' is named twice"),
        ("healthy:nodes=4", "scenario 'healthy' does not scale"),
        ("fleet:node=4", "unknown option 'node' of scenario 'fleet'; did you mean 'nodes'?"),
        ("fleet:nodes=ten", "nodes='ten' of scenario 'fleet' is not a number from 1 to 5000"),
        ("fleet:nodes=0", "nodes='0' of scenario 'fleet' is not a number"),
        ("fleet:nodes=٣", "is not a number from 1"),
        ("healthy:podStart=soon", "podStart='soon' of scenario 'healthy' is not a number of seconds"),
        ("../scenario", "unknown scenario '../scenario'"),
    ],
)
def test_wrong_names_give_one_line(spec: str, words: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        parse_simulate(spec)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30))
def test_any_text_is_read_or_refused_in_one_line(spec: str) -> None:
    message = "read"
    try:
        parse_simulate(spec)
    except ScenarioError as error:
        message = str(error)
    assert len(message.splitlines()) == 1


def test_a_malformed_file_is_one_line_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SCENARIOS", tmp_path)
    (tmp_path / "odd.yaml").write_text("name: odd\ndescription: d\npools: [{name: a, gpu: 8}]\n")
    with pytest.raises(ScenarioError, match=r"scenario 'odd' is malformed: .*`gpu`.*\$\.pools"):
        load_scenario("odd")
    (tmp_path / "odd.yaml").write_text("name: [\n")
    with pytest.raises(ScenarioError, match="scenario 'odd' is malformed") as raised:
        load_scenario("odd")
    assert "\n" not in str(raised.value)


def scenario(**more: object) -> Scenario:
    pools = [NodePool(name="h100", product="H100", gpus=8), NodePool(name="cpu")]
    return msgspec.structs.replace(Scenario(name="s", description="d", pools=pools), **more)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (scenario(addons=["gpu-operater"]), "unknown addon 'gpu-operater'"),
        (scenario(pools=[NodePool(name="x", product="H300", gpus=8)]), "unknown product 'H300'"),
        (scenario(tenants=[Tenant(namespace="t", workloads=[Workload(name="w", kind="Deploymint")])]), "unknown kind 'Deploymint'"),
        (scenario(tenants=[Tenant(namespace="t", workloads=[Workload(name="w", resources={"nvidia.com/gpu": "9"})])]), "no node has room"),
        (scenario(tenants=[Tenant(namespace="t", workloads=[Workload(name="w", resources={"amd.com/gpu": "1"})])]), "no pool offers"),
        (
            scenario(
                tenants=[
                    Tenant(
                        namespace="t",
                        quota={"requests.nvidia.com/gpu": "1"},
                        workloads=[Workload(name="w", resources={"nvidia.com/gpu": "2"})],
                    )
                ]
            ),
            "uses 2 requests.nvidia.com/gpu of a quota of 1",
        ),
        (
            scenario(tenants=[Tenant(namespace="t", workloads=[Workload(name="w", kind="Pod", gang="kueue")])]),
            "a Pod cannot be a gang of 'kueue'",
        ),
        (scenario(objects=[{"kind": "Pod"}]), "an object without apiVersion"),
    ],
)
def test_a_scenario_that_does_not_work_out_says_why(made: Scenario, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        build(made)
