import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.net.advertising import check_nic_cluster_policy, check_virtual_functions
from conformance.net.visible_fabric import attached, judge_visible_fabric, places, read_visible_fabric
from conformance.outputs.captured_text import Unreadable
from conformance.probes.running import ProbeResult
from fixtures.kubernetes.models import Json
from fixtures.model.devices.fabric import nic_policy
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject
from tests.builders import a_node, a_pod, a_policy, a_scope

RDMA = "rdma/a"
NOTHING = "ls: cannot access '/dev/infiniband': No such file or directory\nexit=2"


def output(dev: str = "rdma_cm\nuverbs0\nuverbs1", states: dict[str, str] | None = None, verbs: dict[str, str] | None = None) -> str:
    ports = {"mlx5_0": "4: ACTIVE", "mlx5_1": "4: ACTIVE"} if states is None else states
    lines = [f"/sys/class/infiniband/{name}/ports/1/state {state}" for name, state in ports.items()]
    lines += [] if ports else ["/sys/class/infiniband/*/ports/1/state "]
    names = [f"/sys/class/infiniband_verbs/{uverbs}/ibdev {hca}" for uverbs, hca in (verbs or {}).items()]
    return "\n".join(["## dev", dev, "## verbs", *names, "## ports", *lines, "## end", ""])


def ran(text: str, name: str = "net-04-0", trouble: str = "") -> ProbeResult:
    return ProbeResult(subject=Subject("Pod", name, "ns"), node="gpu-0", logs={"probe": text}, trouble=trouble)


def judged(asked: str, unasked: str, *, trouble: str = "") -> list[Finding]:
    return list(judge_visible_fabric(ran(asked, trouble=trouble), ran(unasked, "net-04-0-unasked"), RDMA))


def test_devices_in_a_pod_that_did_not_ask_do_not_conform_whatever_the_control_saw() -> None:
    assert judged(output(NOTHING), output())[1].outcome is Outcome.BAD


def test_no_device_in_the_pod_that_asked_makes_the_other_undecided() -> None:
    findings = judged(output(NOTHING), output(NOTHING))
    assert [finding.outcome for finding in findings] == [Outcome.BAD, Outcome.UNDECIDED]
    assert "PositiveControlFailed" in findings[1].message


@pytest.mark.parametrize("states", [{"mlx5_0": "1: DOWN", "mlx5_1": "2: INIT"}, {}])
def test_without_an_active_port_the_pod_that_asked_does_not_conform(states: dict[str, str]) -> None:
    findings = judged(output(states=states), output(NOTHING))
    assert findings[0].outcome is Outcome.BAD
    assert "ACTIVE" in findings[0].message


def test_an_active_port_of_another_device_does_not_count_where_sysfs_tells_them_apart() -> None:
    states = {"mlx5_0": "4: ACTIVE", "mlx5_1": "1: DOWN"}
    sight = read_visible_fabric(output("uverbs1", states, {"uverbs0": "mlx5_0", "uverbs1": "mlx5_1"}))
    assert sight.active == []
    assert read_visible_fabric(output("uverbs0", states, {"uverbs0": "mlx5_0", "uverbs1": "mlx5_1"})).active == ["mlx5_0"]


def test_a_pod_that_did_not_run_is_undecided() -> None:
    assert judged("", output(NOTHING), trouble="it stayed Pending")[0].outcome is Outcome.UNDECIDED


@pytest.mark.parametrize("text", ["", "## dev\nuverbs0\n", "## ports\n## dev\n## verbs\n## end\n", "uverbs0"])
def test_incomplete_output_is_unreadable_and_undecided(text: str) -> None:
    with pytest.raises(Unreadable):
        read_visible_fabric(text)
    assert [finding.outcome for finding in judged(text, text)] == [Outcome.UNDECIDED, Outcome.UNDECIDED]


@given(st.text(alphabet="#end vrbsupot0123/:\n_lmx5ACTIVE", max_size=200))
def test_wild_output_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(Unreadable):
        assert read_visible_fabric(text).text


# -- where to ask --


def test_the_node_with_most_free_units_is_asked() -> None:
    nodes = [a_node(name, capacity={RDMA: "2"}) for name in ("gpu-0", "gpu-1", "gpu-2")]
    pods = [a_pod(devices={RDMA: "1"}, node="gpu-0")]
    down = a_node("gpu-3", capacity={RDMA: "9"}, ready=False)
    found = places(a_scope(nodes=[*nodes, down], pods=pods))
    assert [node.name for node in found[RDMA]] == ["gpu-1", "gpu-2", "gpu-0"]


def test_without_the_resource_there_is_nothing_to_ask() -> None:
    with pytest.raises(NotApplicable):
        places(a_scope(nodes=[a_node(), a_node("gpu-1", capacity={RDMA: "0"})]))


def test_nodes_that_cannot_be_used_now_make_it_inconclusive() -> None:
    with pytest.raises(Inconclusive):
        places(a_scope(nodes=[a_node(capacity={RDMA: "63"}, ready=False), a_node("gpu-1", capacity={RDMA: "63"}, cordoned=True)]))


def test_the_policys_networks_are_attached() -> None:
    scope = a_scope(a_policy(network={"attachments": "team-a/rdma-net"}))
    pod = attached({"metadata": {"name": "x"}, "spec": {}}, scope)
    assert pod["metadata"]["annotations"] == {"k8s.v1.cni.cncf.io/networks": "team-a/rdma-net"}
    assert attached({"metadata": {"name": "x"}}, a_scope()) == {"metadata": {"name": "x"}}


# -- nic policy


def a_nic_policy(name: str = "nic-cluster-policy", state: str = "ready", applied: dict[str, str] | None = None, **spec: Any) -> Json:
    states = [{"name": key, "state": value} for key, value in (applied or {"state-OFED": "ignore"}).items()]
    return {"metadata": {"name": name}, "spec": spec, "status": {"state": state, "appliedStates": states}}


def shared(*entries: Json) -> Json:
    return {"config": json.dumps({"configList": list(entries)})}


def outcomes(*policies: Json) -> list[Outcome]:
    return [finding.outcome for finding in check_nic_cluster_policy(a_scope(nicclusterpolicies=policies))]


@pytest.mark.parametrize(
    ("node", "status", "expected"),
    [
        ("gpu-0", {"syncStatus": "Succeeded"}, [Outcome.OK]),
        ("gpu-0", {"syncStatus": "Failed", "lastSyncError": "no such device"}, [Outcome.BAD]),
        ("gpu-0", {"syncStatus": "InProgress"}, [Outcome.UNDECIDED]),
        ("gpu-0", {}, [Outcome.UNDECIDED]),
        ("cpu-0", {"syncStatus": "Failed"}, []),
    ],
)
def test_the_virtual_functions_of_accelerator_nodes_are_set_up(node: str, status: Json, expected: list[Outcome]) -> None:
    states: Json = {"sriovnetwork_openshift_io__sriovnetworknodestates": [{"metadata": {"name": node}, "status": status}]}
    found = list(check_virtual_functions(a_scope(nodes=[a_node()], **states)))
    assert [finding.outcome for finding in found] == expected
    assert all(status.get("lastSyncError", "") in finding.message for finding in found)


def test_a_policy_of_another_name_is_not_judged_because_the_operator_ignores_it() -> None:
    assert outcomes(a_nic_policy("other", "ignore", {"state-OFED": "error"})) == [Outcome.NOT_JUDGED]
    assert outcomes(a_nic_policy("other", "notReady"), a_nic_policy()) == [Outcome.NOT_JUDGED, Outcome.OK, Outcome.OK]


def test_a_policy_without_status_does_not_conform() -> None:
    assert outcomes({"metadata": {"name": "nic-cluster-policy"}}) == [Outcome.BAD]


@pytest.mark.parametrize("config", ["", "{", "[]", "null", '{"configList": {}}', None, 7, {"configList": []}, "[" * 100_000])
def test_a_configuration_that_no_plugin_can_read_is_trouble(config: object) -> None:
    found = nic_policy(a_nic_policy(rdmaSharedDevicePlugin={"config": config, "image": "x"})).promises
    assert found.names == ()
    assert len(found.troubles) == 1
    assert "configList" in found.troubles[0][1]


def test_an_entry_without_a_name_is_trouble_and_the_others_count() -> None:
    found = nic_policy(a_nic_policy(rdmaSharedDevicePlugin=shared({"rdmaHcaMax": 63}, {"resourceName": "a"}))).promises
    assert found.names == ("rdma/a",)
    assert len(found.troubles) == 1
