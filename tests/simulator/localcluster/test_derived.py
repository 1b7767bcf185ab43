"""What real controllers are given so that they make the pods of a defect, and keep them."""

import asyncio
import copy
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from fixtures.localcluster.control_plane.components import SUITE_USER, api_server_flags
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.localcluster.nodes import attach
from fixtures.localcluster.nodes.attach import objects_of, parse
from fixtures.localcluster.seed.derived import Derived, Owner, derive, identity, made_by
from fixtures.localcluster.seed.seeding import Seeding
from fixtures.simulator.api.client import ApiClient
from fixtures.simulator.api.objects import Json
from fixtures.simulator.builder import build
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.scenario import Defect, ScenarioError, load_scenario, parse_simulate, scenario_names
from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.store import Store
from tests.watching import PATIENCE

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GATEWAY: Owner = ("Deployment", "team-vision", "gateway")


def derived(name: str) -> dict[Owner, Json]:
    return by_identity(objects_of(*parse_simulate(name)))


def by_identity(found: Derived) -> dict[Owner, Json]:
    return {identity(item): item for item in found.objects}


def changed(change: Callable[[Json], None], which: Callable[[Json], bool]) -> Derived:
    """``healthy`` with a change made to some objects, as a defect makes it."""
    before = build(load_scenario("healthy"), now=NOW)
    after = copy.deepcopy(before)
    chosen = [item for item in after if which(item)]
    assert chosen
    for item in chosen:
        change(item)
    return derive(before, after)


def of_gateway(item: Json) -> bool:
    return item["kind"] == "Pod" and made_by(item) == GATEWAY


@pytest.mark.parametrize("name", [name for name in scenario_names() if load_scenario(name).fleet is None])
def test_a_healthy_scenario_is_written_as_it_is(name: str) -> None:
    objects = build(load_scenario(name), now=NOW)
    found = derive(objects, objects)
    assert (found.objects, found.late_labels, found.late_taints, found.late_templates) == (objects, {}, {}, [])


def test_a_template_follows_the_pods_that_a_defect_changes() -> None:
    objects = derived("psa-pod-sets-visible-devices")
    template = objects[GATEWAY]["spec"]["template"]["spec"]
    assert template["containers"][0]["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    assert not [volume for volume in template.get("volumes", ()) if "projected" in volume], "tokens are admission's"
    assert "nodeName" not in template


def test_a_template_that_would_be_rolled_out_is_refused() -> None:
    with pytest.raises(ScenarioError, match="changes the template of Deployment team-vision/gateway and not its pods"):
        changed(
            lambda item: item["spec"]["template"]["spec"]["containers"][0].update(image="example.org/other:1"),
            lambda item: identity(item) == GATEWAY,
        )


def test_a_change_of_one_of_several_pods_is_refused() -> None:
    pods = [identity(item) for item in build(load_scenario("healthy"), now=NOW) if of_gateway(item)]
    with pytest.raises(ScenarioError, match="changes single pods of Deployment team-vision/gateway"):
        changed(lambda pod: pod["spec"].update(priority=7, hostPID=True), lambda item: identity(item) == pods[0])


def test_a_refusal_names_the_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    from fixtures.localcluster.nodes import attach

    def refuse(before: object, after: object) -> Derived:
        raise ScenarioError("changes what cannot be changed")

    monkeypatch.setattr(attach, "derive", refuse)
    with pytest.raises(ScenarioError, match=r"^defect 'ops-image-latest' changes what cannot be changed$"):
        parse("ops-image-latest")


def test_a_class_that_pods_claim_by_goes_once_they_are_bound() -> None:
    derived = objects_of(*parse("adv-claimed-class-deleted"))
    (removed,) = derived.late_removals
    assert (removed["kind"], removed["metadata"]["name"]) == ("DeviceClass", "gpu.nvidia.com")
    assert removed in derived.objects
    assert objects_of(*parse("dra")).late_removals == []


@pytest.mark.test_all
def test_a_scenario_that_is_too_large_for_real_processes_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"^scenario 'fleet' has 3,\d+ objects, and real processes are given 2,500 at most: take fewer"):
        LocalCluster.start(None, "fleet:nodes=250", tmp_path)
    assert list(tmp_path.iterdir()) == []


# -- defects that the configuration of real components can have --------------------------------------

HEALTHY = Behaviour()


@pytest.mark.parametrize("switch", ["evictionIgnoresBudget", "evictionIgnoresTolerationSeconds"])
def test_what_no_configuration_breaks_is_refused(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Defect(name="made", description="", scenario="healthy", trips=["REQ-01"], behaviour={switch: True})
    monkeypatch.setattr(attach, "parse_simulate", lambda spec: (load_scenario("healthy"), [made]))
    with pytest.raises(ScenarioError, match=r"'made' is a fault of the (API server|scheduler|controller manager), which is real here"):
        attach.parse("healthy,made")


def test_the_api_server_is_reported_by_flags_and_a_file(tmp_path: Path) -> None:
    assert api_server_flags(HEALTHY, tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    flags = api_server_flags(Behaviour(enforces_quota=False, enforces_pod_security=False), tmp_path)
    assert flags[:2] == ["--disable-admission-plugins", "ResourceQuota"]
    assert flags[2] == "--admission-control-config-file"
    (plugin,) = msgspec.json.decode(Path(flags[3]).read_bytes())["plugins"]
    assert plugin["name"] == "PodSecurity"
    assert SUITE_USER in plugin["configuration"]["exemptions"]["usernames"]


# -- objects on a server that gives UIDs of its own: what names an object names the one that is there -----

LABEL = "resource.nvidia.com/computeDomain"
KINDS = ("Namespace", "Node", "ComputeDomain", "DaemonSet")
"""Without the pods: nobody is there to make them."""


def test_nodes_and_daemons_of_a_compute_domain_name_the_domain_that_is_there() -> None:
    async def scenario() -> None:
        derived = objects_of(*parse("gb200"))
        chosen = [item for item in derived.objects if item["kind"] in KINDS]
        store = Store()
        for item in derived.objects:
            if item["kind"] == "CustomResourceDefinition":
                store.put_initial(item)
        server = SimulatedServer(store)
        client = ApiClient(await server.start())
        try:
            await Seeding(client, msgspec.structs.replace(derived, objects=chosen), "v1.37.2", PATIENCE).run()
            (domain,), _ = await client.list("/apis/resource.nvidia.com/v1beta1/computedomains")
            nodes, _ = await client.list("/api/v1/nodes", {"labelSelector": LABEL})
            daemons, _ = await client.list("/apis/apps/v1/daemonsets", {"labelSelector": LABEL})
        finally:
            await client.close()
            await server.stop()
        built = next(item for item in chosen if item["kind"] == "ComputeDomain")
        assert domain["metadata"]["uid"] != built["metadata"]["uid"]
        assert {item["metadata"]["labels"][LABEL] for item in [*nodes, *daemons]} == {domain["metadata"]["uid"]}
        assert (len(nodes), len(daemons)) == (2, 1)
        assert daemons[0]["metadata"]["name"].endswith(domain["metadata"]["uid"])

    asyncio.run(scenario())
