"""Defects that the configuration of real components can have."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.localcluster.control_plane.components import SUITE_USER
from fixtures.localcluster.control_plane.faults import api_server_flags, configure_scheduler, take_rights
from fixtures.localcluster.nodes import attach
from fixtures.simulator.admission import chain
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.scenario import Defect, ScenarioError, load_scenario
from tests.served import served

ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:kube-scheduler"


HEALTHY = Behaviour()


@pytest.mark.parametrize(
    "switch",
    [
        "validatesQuantities",
        "guardsAdminAccess",
        "schedulerIgnoresClaimSelectors",
        "schedulerIgnoresShares",
        "schedulerRepeatsSelected",
        "evictionIgnoresBudget",
        "evictionIgnoresTolerationSeconds",
    ],
)
def test_what_no_configuration_breaks_is_refused(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Defect(name="made", description="", scenario="healthy", trips=["REQ-01"], behaviour={switch: True})
    monkeypatch.setattr(attach, "parse_simulate", lambda spec: (load_scenario("healthy"), [made]))
    with pytest.raises(ScenarioError, match=r"'made' is a fault of the (API server|scheduler|controller manager), which is real here"):
        attach.parse("healthy,made")


def test_a_scheduler_without_faults_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text('{"kind": "KubeSchedulerConfiguration"}')
    configure_scheduler(HEALTHY, file)
    assert file.read_text() == '{"kind": "KubeSchedulerConfiguration"}'
    configure_scheduler(Behaviour(scheduler_honours_taints=False), file)
    configured = msgspec.json.decode(file.read_bytes())
    assert configured["kind"] == "KubeSchedulerConfiguration"
    assert configured["profiles"][0]["plugins"]["multiPoint"]["disabled"] == [{"name": "TaintToleration"}]
    configure_scheduler(Behaviour(scheduler_ignores_groups=True), file)
    configured = msgspec.json.decode(file.read_bytes())
    assert configured["profiles"][0]["plugins"]["multiPoint"]["disabled"] == [{"name": "GangScheduling"}]


def test_the_api_server_is_told_by_flags_and_a_file(tmp_path: Path) -> None:
    assert api_server_flags(HEALTHY, tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    flags = api_server_flags(Behaviour(enforces_quota=False, enforces_pod_security=False), tmp_path)
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
        faulty = Behaviour(scheduler_writes_events=False)
        with pytest.raises(ApiTrouble):
            take_rights(faulty, cluster)  # no such role yet
        assert cluster.create("rbac.authorization.k8s.io/clusterroles", role).status == 201
        take_rights(HEALTHY, cluster)
        assert rules(cluster) == role["rules"]
        take_rights(faulty, cluster)
        assert rules(cluster) == role["rules"][1:]


def rules(cluster: Cluster) -> object:
    return cluster.request("GET", ROLE).json()["rules"]
