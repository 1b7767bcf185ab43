"""Defects that the configuration of real components can have."""

from pathlib import Path

import msgspec
import pytest

from fixtures.localcluster.control_plane.components import SUITE_USER
from fixtures.localcluster.control_plane.faults import api_server_flags
from fixtures.localcluster.nodes import attach
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.scenario import Defect, ScenarioError, load_scenario

HEALTHY = Behaviour()


@pytest.mark.parametrize("switch", ["evictionIgnoresBudget", "evictionIgnoresTolerationSeconds"])
def test_what_no_configuration_breaks_is_refused(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Defect(name="made", description="", scenario="healthy", trips=["REQ-01"], behaviour={switch: True})
    monkeypatch.setattr(attach, "parse_simulate", lambda spec: (load_scenario("healthy"), [made]))
    with pytest.raises(ScenarioError, match=r"'made' is a fault of the (API server|scheduler|controller manager), which is real here"):
        attach.parse("healthy,made")


def test_the_api_server_is_told_by_flags_and_a_file(tmp_path: Path) -> None:
    assert api_server_flags(HEALTHY, tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    flags = api_server_flags(Behaviour(enforces_quota=False, enforces_pod_security=False), tmp_path)
    assert flags[:2] == ["--disable-admission-plugins", "ResourceQuota"]
    assert flags[2] == "--admission-control-config-file"
    (plugin,) = msgspec.json.decode(Path(flags[3]).read_bytes())["plugins"]
    assert plugin["name"] == "PodSecurity"
    assert SUITE_USER in plugin["configuration"]["exemptions"]["usernames"]
