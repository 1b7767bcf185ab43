"""Defects that the configuration of real components can have."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fixtures.cluster import Cluster
from fixtures.localcluster import attach
from fixtures.localcluster.components import SUITE_USER
from fixtures.localcluster.faults import NONE, Faults, faults_of
from fixtures.models import Json
from fixtures.simulator.admission import chain
from fixtures.simulator.scenario import Defect, ScenarioError, load_defect, load_scenario
from fixtures.trouble import ApiTrouble
from tests.served import served

ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:kube-scheduler"


def of(*names: str) -> Faults:
    return faults_of(load_defect(name) for name in names)


def test_defects_of_scheduler_and_admission_become_faults() -> None:
    assert of("fence-scheduler-ignores-taints") == Faults(taints_ignored=True)
    assert of("obs-no-scheduling-events", "req-quota-not-enforced") == Faults(no_scheduling_events=True, quota_not_enforced=True)
    assert of("psa-enforcement-exempted") == Faults(pod_security_exempted=True)
    assert of("ops-image-latest", "iso-device-given-twice") == NONE


@pytest.mark.parametrize("switch", ["validatesQuantities", "evictionIgnoresBudget", "evictionIgnoresTolerationSeconds"])
def test_what_no_configuration_breaks_is_refused(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Defect(name="made", description="", scenario="healthy", trips=["REQ-01"], behaviour={switch: True})
    monkeypatch.setattr(attach, "parse_simulate", lambda spec: (load_scenario("healthy"), [made]))
    with pytest.raises(ScenarioError, match=r"'made' is a fault of the (API server|controller manager), which is real here"):
        attach.parse("healthy,made")


def test_a_scheduler_without_faults_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text('{"kind": "KubeSchedulerConfiguration"}')
    NONE.configure_scheduler(file)
    assert file.read_text() == '{"kind": "KubeSchedulerConfiguration"}'
    Faults(taints_ignored=True).configure_scheduler(file)
    configured = msgspec.json.decode(file.read_bytes())
    assert configured["kind"] == "KubeSchedulerConfiguration"
    assert configured["profiles"][0]["plugins"]["multiPoint"]["disabled"] == [{"name": "TaintToleration"}]


def test_the_api_server_is_told_by_flags_and_a_file(tmp_path: Path) -> None:
    assert NONE.api_server_flags(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    flags = Faults(quota_not_enforced=True, pod_security_exempted=True).api_server_flags(tmp_path)
    assert flags[:2] == ["--disable-admission-plugins", "ResourceQuota"]
    assert flags[2] == "--admission-control-config-file"
    (plugin,) = msgspec.json.decode(Path(flags[3]).read_bytes())["plugins"]
    assert plugin["name"] == "PodSecurity"
    assert SUITE_USER in plugin["configuration"]["exemptions"]["usernames"]


def test_the_scheduler_loses_its_right_to_events_and_keeps_the_others(tmp_path: Path) -> None:
    role: Json = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:kube-scheduler"},
        "rules": [
            {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        ],
    }
    with served(tmp_path, admissions=chain()) as (cluster, _):
        faulty = Faults(no_scheduling_events=True)
        with pytest.raises(ApiTrouble):
            faulty.take_rights(cluster)  # no such role yet
        assert cluster.create("rbac.authorization.k8s.io/clusterroles", role).status == 201
        NONE.take_rights(cluster)
        assert rules(cluster) == role["rules"]
        faulty.take_rights(cluster)
        assert rules(cluster) == role["rules"][1:]


def rules(cluster: Cluster) -> object:
    return cluster.request("GET", ROLE).json()["rules"]
