from __future__ import annotations

import json
from typing import Any

import pytest

from conformance.net.nic_policy import check_nic_cluster_policy, promises
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Outcome
from tests.builders import a_scope


def a_nic_policy(name: str = "nic-cluster-policy", state: str = "ready", applied: dict[str, str] | None = None, **spec: Any) -> Json:
    states = [{"name": key, "state": value} for key, value in (applied or {"state-OFED": "ignore"}).items()]
    return {"metadata": {"name": name}, "spec": spec, "status": {"state": state, "appliedStates": states}}


def shared(*entries: Json) -> Json:
    return {"config": json.dumps({"configList": list(entries)})}


def outcomes(*policies: Json) -> list[Outcome]:
    return [finding.outcome for finding in check_nic_cluster_policy(a_scope(nicclusterpolicies=policies))]


def test_a_policy_of_another_name_is_not_judged_because_the_operator_ignores_it() -> None:
    assert outcomes(a_nic_policy("other", "ignore", {"state-OFED": "error"})) == [Outcome.NOT_JUDGED]
    assert outcomes(a_nic_policy("other", "notReady"), a_nic_policy()) == [Outcome.NOT_JUDGED, Outcome.OK, Outcome.OK]


def test_a_policy_without_status_does_not_conform() -> None:
    assert outcomes({"metadata": {"name": "nic-cluster-policy"}}) == [Outcome.BAD]


@pytest.mark.parametrize("config", ["", "{", "[]", "null", '{"configList": {}}', None, 7, {"configList": []}, "[" * 100_000])
def test_a_configuration_that_no_plugin_can_read_is_trouble(config: object) -> None:
    found = promises(a_nic_policy(rdmaSharedDevicePlugin={"config": config, "image": "x"}))
    assert found.names == ()
    assert len(found.troubles) == 1
    assert "configList" in found.troubles[0][1]


def test_an_entry_without_a_name_is_trouble_and_the_others_count() -> None:
    found = promises(a_nic_policy(rdmaSharedDevicePlugin=shared({"rdmaHcaMax": 63}, {"resourceName": "a"})))
    assert found.names == ("rdma/a",)
    assert len(found.troubles) == 1
