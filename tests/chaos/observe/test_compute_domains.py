"""ComputeDomains: which DaemonSet runs a domain's daemons, and what is told of the domain's members."""

from typing import Any

import pytest

from chaos.model.plan import PlanFacts
from chaos.observe.signals import SIGNALS
from chaos.observe.view import NoData
from fixtures.kubernetes.models import Json
from fixtures.model.dra.nvidia_driver import DOMAIN_DAEMON, DOMAIN_LABEL, DOMAINS
from fixtures.model.platform.installed import Components, find_components
from tests.chaos.observe.made_up_cluster import Read, World, made_by, plan, pod, standing, workload
from tests.tables import each_row


def domain(name: str, state: Any = "Ready", members: Any = ()) -> Json:
    return {"metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"}, "status": {"status": state, "nodes": members}}


def member(node: str, address: str, status: str = "Ready") -> Json:
    return {"name": node, "ipAddress": address, "status": status}


def daemon(node: str, address: str, owner: str = "uid-d") -> Json:
    made = pod(f"d-{node}-{address}", node, gpus=0, namespace="gpu", labels={DOMAIN_LABEL: "uid-one"}, meta=made_by(owner))
    made["status"]["podIP"] = address
    return made


DRIVER = workload("plugin", {"nvidia-dra-driver-gpu-component": "kubelet-plugin"})


def world(*daemon_sets: Json, domains: list[Json], pods: list[Json] | None = None) -> World:
    there = World(apps__daemonsets=[DRIVER, *daemon_sets], pods=pods or [], nodes=[])
    there.lists |= {DOMAINS: domains, "resource.k8s.io/resourceslices": []}
    return there


def found(*daemon_sets: Json, domains: list[Json]) -> Components:
    return find_components(world(*daemon_sets, domains=domains).view(), standing())


def test_the_daemons_are_those_of_the_domains_uid_in_the_drivers_namespace() -> None:
    ours = workload("d", {DOMAIN_LABEL: "uid-one"})
    component = found(ours, domains=[domain("one")]).found[DOMAIN_DAEMON]
    assert (component.namespace, component.name, component.uid) == ("gpu", "d", "uid-d")


@each_row
def test_what_only_looks_like_a_domains_daemons_is_none(looks_like: Json) -> None:
    components = found(workload(**looks_like), domains=[domain("one")])
    assert DOMAIN_DAEMON not in components.found
    assert "is not installed" in components.missing((DOMAIN_DAEMON,))


SEVERAL = [workload(f"d-{name}", {DOMAIN_LABEL: f"uid-{name}"}) for name in ("a", "b", "c")]
DOMAINS_OF_ALL = [domain("a", "NotReady"), domain("c"), domain("b")]


def test_several_domains_with_daemons_are_unclear_and_all_named_whatever_their_status_says() -> None:
    components = found(*SEVERAL, domains=DOMAINS_OF_ALL)
    assert DOMAIN_DAEMON not in components.found
    stated = components.doubtful([DOMAIN_DAEMON])
    for name in ("a", "b", "c"):
        assert f"DaemonSet gpu/d-{name} of ComputeDomain team/{name}" in stated
    assert "chaos.components" in stated


def test_of_several_domains_the_policy_names_one() -> None:
    there = world(*SEVERAL, domains=DOMAINS_OF_ALL).view()
    components = find_components(there, standing(), {DOMAIN_DAEMON: "gpu/d-c"})
    assert components.found[DOMAIN_DAEMON].name == "d-c"
    assert DOMAIN_DAEMON not in components.unclear


def test_a_domain_without_daemons_is_no_candidate() -> None:
    idle = workload("d-b", {DOMAIN_LABEL: "uid-b"}, desired=0)
    assert found(SEVERAL[0], idle, domains=DOMAINS_OF_ALL).found[DOMAIN_DAEMON].name == "d-a"


def test_two_daemon_sets_of_one_domain_are_unclear() -> None:
    both = [workload(name, {DOMAIN_LABEL: "uid-one"}) for name in ("d", "e")]
    assert "gpu/d and gpu/e" in found(*both, domains=[domain("one")]).doubtful([DOMAIN_DAEMON])


def value(signal: str, members: Any, pods: list[Json], state: Any = "Ready", domains: list[Json] | None = None) -> Any:
    ours = workload("d", {DOMAIN_LABEL: "uid-one"})
    one = [domain("one", state, members)]
    components = found(ours, domains=one).found
    there = world(ours, domains=one if domains is None else domains, pods=pods)
    return SIGNALS[signal](Read(there, plan(facts=PlanFacts(components=components))))  # type: ignore[arg-type]


TWO = [member("a", "10.1.0.1"), member("b", "10.1.0.2")]


def test_state_and_members_are_as_the_status_says() -> None:
    assert value("domain.state", TWO, [], "NotReady") == "NotReady"
    assert value("domain.members", [*TWO, member("c", "", "NotReady")], []) == {"a": "Ready", "b": "Ready", "c": "NotReady"}


@each_row
def test_a_stray_is_a_member_without_its_daemon(pods: list[Json], strays: list[str]) -> None:
    assert value("domain.strays", TWO, [daemon(**one) for one in pods]) == strays


@pytest.mark.parametrize("members", [None, "none", [7, None], [{}]])
def test_a_status_that_says_nothing_sound_breaks_nothing(members: Any) -> None:
    assert value("domain.strays", members, []) in ([], [""])
    assert value("domain.state", members, [], state={"Ready": 1}) == ""


def test_a_domain_that_is_gone_gives_no_data() -> None:
    with pytest.raises(NoData, match="belongs to no ComputeDomain"):
        value("domain.state", TWO, [], domains=[])
