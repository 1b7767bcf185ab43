"""Experiments where devices are claimed: what is published, what is held, what canaries ask for, what the ledger says."""

from typing import Any

import msgspec
import pytest

from chaos.act import canary_pods
from chaos.model.allocations import AFTER, BEFORE, Allocations, AllocationSnapshot, check_invariants
from chaos.model.plan import PlanFacts
from chaos.observe.signals import SIGNALS
from chaos.observe.view import NoData
from chaos.plan.selectors import ClaimPlanningView, PlanRefused, TargetQuery, choose_daemon_pod
from fixtures.kubernetes.models import Json
from fixtures.model.dra.nvidia_driver import RESOURCE, allocated_devices, requested_count
from fixtures.model.dra.slices import TAINT_RULES
from fixtures.model.platform.installed import Components
from tests.chaos.observe.made_up_cluster import CANARIES, Read, World, installed, made_by, node, plan, pod
from tests.chaos.observe.made_up_cluster import canary as canary_pod

CLAIMED = PlanFacts(device_class="gpu.nvidia.com")
PLUGIN = installed("dra-plugin", "plugin", "dra")
COMPONENTS = Components(found={"dra-plugin": PLUGIN})


def resource_slice(on: str, count: int = 4, generation: int = 1, driver: str = "gpu.nvidia.com", **more: Any) -> Json:
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"type": {"string": "gpu"}, "uuid": {"string": f"GPU-{on}-{number}"}},
            **({"taints": [{"key": "gpu.nvidia.com/xid", "effect": "NoSchedule"}]} if number in more.get("tainted", ()) else {}),
        }
        for number in range(count)
    ]
    pool = {"name": on, "generation": generation, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{on}-{driver}-{generation}"},
        "spec": {"driver": driver, "nodeName": on, "pool": pool, "devices": devices},
    }


def claim(name: str, on: str, *devices: int, users: tuple[str, ...] = (), count: int | None = None) -> Json:
    results = [{"request": "gpus", "driver": "gpu.nvidia.com", "pool": on, "device": f"gpu-{number}"} for number in devices]
    exactly = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": len(devices) if count is None else count}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"claim-{name}"},
        "spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users],
        },
    }


def claiming(name: str, on: str, make: Any = pod, **more: Any) -> Json:
    made: Json = make(name, on, gpus=0, **more)
    made["spec"]["resourceClaims"] = [{"name": "devices", "resourceClaimName": name}]
    return made


def world(*claims: Json, slices: list[Json] | None = None, pods: list[Json] | None = None, texts: dict[str, str] | None = None) -> World:
    nodes = [node(name, gpus=0) for name in ("a", "b", "c")]
    return World(
        texts,
        nodes=nodes,
        pods=pods or [],
        **{
            "resource.k8s.io__resourceclaims": list(claims),
            "resource.k8s.io__resourceslices": [resource_slice(name) for name in ("a", "b", "c")] if slices is None else slices,
        },
    )


def field(found: World, **wanted: Any) -> ClaimPlanningView:
    return ClaimPlanningView(
        view=found.view(), components=COMPONENTS, facts=CLAIMED, wanted=TargetQuery(select="daemon-pod", component="dra-plugin", **wanted)
    )


def plugins(*names: str) -> list[Json]:
    return [pod(f"p-{name}", name, gpus=0, namespace="dra", labels={"app": "plugin"}, meta=made_by("u")) for name in names]


def value(name: str, found: World, read: Read | None = None) -> Any:
    return SIGNALS[name](read or Read(found, plan(facts=CLAIMED)))  # type: ignore[arg-type]


def test_the_node_with_most_unclaimed_devices_is_chosen() -> None:
    pods = [*plugins("a", "b", "c"), claiming("x", "a"), claiming("y", "b")]
    found = field(
        world(claim("x", "a", 0, 1, users=("x",)), claim("y", "b", 0, users=("y",)), claim("idle", "c", 0, 1, 2), pods=pods), free=2
    )
    assert choose_daemon_pod(found).targets[0].node == "b"
    assert {name: found.free(node(name)) for name in ("a", "b", "c")} == {"a": 2, "b": 3, "c": 1}


def test_a_node_with_a_tainted_device_or_too_few_free_ones_is_not_chosen() -> None:
    slices = [resource_slice("a", tainted=(1,)), resource_slice("b", 1)]
    with pytest.raises(PlanRefused, match="b has 1 free devices, 2 are needed; a has devices that are not allocatable"):
        choose_daemon_pod(field(world(slices=slices, pods=plugins("a", "b")), free=2))


def test_a_canary_claims_instead_of_asking_by_resource() -> None:
    claimed, plain = plan(facts=CLAIMED), plan()
    made = canary_pods.worker(claimed, CLAIMED, "w", devices=2)
    resources = made["spec"]["containers"][0]["resources"]
    assert not any("/" in name for name in {**resources["limits"], **resources["requests"]})
    assert resources["claims"] == [{"name": made["spec"]["resourceClaims"][0]["name"]}]
    own = canary_pods.claim(CLAIMED, "w", 2)
    assert made["spec"]["resourceClaims"][0]["resourceClaimName"] == own["metadata"]["name"]
    assert requested_count(own) == 2
    assert "resourceClaims" not in canary_pods.worker(plain, PlanFacts(), "w", devices=2)["spec"]


def test_pods_with_claims_count_where_the_experiment_is_about_claims() -> None:
    found = world(pods=[claiming("x", "a"), pod("web", "a", gpus=0)])
    assert set(value("pods.uids", found)) == {"team/x"}
    assert SIGNALS["pods.uids"](Read(found, plan())) == {}  # type: ignore[arg-type]
    failed = world(pods=[claiming("x", "a", canary_pod, phase="Failed")])
    assert [text.split()[0] for text in value("pods.failed", failed)] == [f"{CANARIES}/x"]


def test_a_strangers_claim_counts_as_kept_once_its_pod_has_ended() -> None:
    held, pods = claim("x", "a", 0, users=("x",)), [claiming("x", "a")]
    over, done = claim("x", "a"), [claiming("x", "a", phase="Succeeded")]
    before = world(held, pods=pods)
    read = Read(before, plan(facts=CLAIMED))
    first = value("claims.held", before, read)
    for later in (world(over, pods=done), world(pods=[]), world(claim("x", "a", 3, users=("new",)), pods=[])):
        read = read.again(later)
        assert value("claims.held", later, read) == first == {"team/x": ["a/gpu-0"]}


def test_a_strangers_claim_that_is_taken_from_a_running_pod_is_lost() -> None:
    held, pods = claim("x", "a", 0, users=("x",)), [claiming("x", "a")]
    for taken in (world(pods=pods), world(claim("x", "a", 1, users=("x",)), pods=pods)):
        read = Read(world(held, pods=pods), plan(facts=CLAIMED))
        first = value("claims.held", taken, read)
        once = read.again(taken)
        assert value("claims.held", taken, once) == first  # its pod may have ended since pods were read
        assert value("claims.held", taken, once.again(taken)) != first


def test_an_own_claim_that_loses_its_device_is_lost_at_once() -> None:
    pods = [claiming("w", "a", canary_pod)]
    read = Read(world(own_claim("w", 0, users=("w",)), pods=pods), plan(facts=CLAIMED))
    assert value("claims.held", world(), read) == {f"{CANARIES}/w": ["a/gpu-0"]}
    assert value("claims.held", world(), read.again(world(pods=pods))) == {}


def ledger(found: World, phase: str = BEFORE) -> AllocationSnapshot:
    """What the signal says of pods that have been running for long."""
    read = Read(found, plan(facts=CLAIMED))
    value("allocations", found, read)
    for uid in read.memory["allocations.first"]:
        read.memory["allocations.first"][uid] -= 10.0
    return AllocationSnapshot(t=0.0, phase=phase, allocations=msgspec.convert(value("allocations", found, read.again(found)), Allocations))


def broken(*snapshots: AllocationSnapshot) -> list[str]:
    return [one.invariant for one in check_invariants(snapshots) if one.breaches]


def log_of(**seen: str) -> dict[str, str]:
    return {f"{CANARIES}/pods/{name}/log": f"GPU 0: X (UUID: {uuid})\nbeat 1\n" for name, uuid in seen.items()}


def test_the_ledger_joins_claims_allocations_and_what_is_seen() -> None:
    pods = [claiming("w", "a", canary_pod), claiming("x", "a")]
    claims = (claim("w", "a", 1, users=("w",)), claim("x", "a", 0, users=("x",)))
    stated = ledger(world(*claims, pods=pods, texts=log_of(w="GPU-a-1")))
    assert stated.allocations is not None
    assert stated.allocations.pods["uid-w"].ids == {f"{RESOURCE}:team/w": ["GPU-a-1"]}
    assert stated.allocations.pods["uid-w"].seen == ["GPU-a-1"]
    assert stated.allocations.inventory == {"a": {RESOURCE: ["GPU-a-0", "GPU-a-1", "GPU-a-2", "GPU-a-3"]}}
    assert broken(stated, stated) == []


@pytest.mark.parametrize(
    ("claims", "seen", "invariants"),
    [
        ((claim("w", "a", 1, users=("w",)), claim("x", "a", 0, users=("x",))), "GPU-a-0", {"seen"}),
        ((claim("w", "a", 1, users=("w",)), claim("x", "a", 1, users=("x",))), "GPU-a-1", {"exclusive"}),
        ((claim("w", "a", 1, users=("w",), count=2), claim("x", "a", 0, users=("x",))), "GPU-a-1", {"complete"}),
    ],
    ids=["another device inside", "one device in two claims", "fewer devices than asked for"],
)
def test_the_ledger_breaks(claims: tuple[Json, ...], seen: str, invariants: set[str]) -> None:
    pods = [claiming("w", "a", canary_pod), claiming("x", "a")]
    assert set(broken(ledger(world(*claims, pods=pods, texts=log_of(w=seen))))) == invariants


def test_a_claim_that_changes_or_a_device_that_is_no_longer_published_breaks_the_ledger() -> None:
    pods = [claiming("x", "a")]
    before = ledger(world(claim("x", "a", 0, users=("x",)), pods=pods))
    other = ledger(world(claim("x", "a", 2, users=("x",)), pods=pods), AFTER)
    assert broken(before, other) == ["kept"]
    fewer = [resource_slice("a", 3, generation=2)]
    after = ledger(world(claim("x", "a", 0, users=("x",)), slices=fewer, pods=pods), AFTER)
    assert broken(before, after) == ["lost"]


def test_a_pod_whose_claim_is_gone_counts_once_it_has_been_seen_running_without_it_for_long() -> None:
    pods, held = [claiming("x", "a")], claim("x", "a", 0, users=("x",))
    read = Read(world(held, pods=pods), plan(facts=CLAIMED))
    value("allocations", world(), read)
    read.memory["allocations.first"]["uid-x"] -= 10.0
    assert set(value("allocations", world(), read.again(world(held, pods=pods)))["pods"]) == {"uid-x"}
    ended = read.again(world(pods=pods))  # its pod ended after the list of pods was read, and before the list of claims
    assert value("allocations", world(), ended)["pods"] == {}
    assert set(value("allocations", world(), read.again(world(held, pods=pods)))["pods"]) == {"uid-x"}
    value("allocations", world(), read.again(world(pods=pods)))
    read.memory["allocations.fewer"]["uid-x"] -= 10.0
    assert value("allocations", world(), read.again(world(pods=pods)))["pods"]["uid-x"]["ids"] == {}


def test_a_claim_that_pods_share_may_hold_its_device_in_both() -> None:
    shared = claim("x", "a", 0, users=("x", "y"))
    stated = ledger(world(shared, pods=[claiming("x", "a"), claiming("y", "a")]))
    assert stated.allocations is not None
    assert stated.allocations.shared == [f"{RESOURCE}:team/x"]
    assert broken(stated) == []


def test_an_allocation_of_a_device_that_no_slice_publishes_is_no_data() -> None:
    with pytest.raises(NoData, match=r"gpu\.nvidia\.com/a/gpu-0"):
        ledger(world(claim("x", "a", 0, users=("x",)), pods=[claiming("x", "a")], slices=[]))


def test_a_device_keeps_the_identity_that_a_lost_slice_reported() -> None:
    pods, held = [claiming("x", "a")], claim("x", "a", 0, users=("x",))
    read = Read(world(held, pods=pods), plan(facts=CLAIMED))
    value("allocations", world(held, pods=pods), read)
    read.memory["allocations.first"] = {"uid-x": 0.0}
    stated = value("allocations", world(), read.again(world(held, slices=[], pods=pods)))
    assert stated["pods"]["uid-x"]["ids"] == {f"{RESOURCE}:team/x": ["GPU-a-0"]}
    assert stated["inventory"] == {}


def own_claim(name: str, *devices: int, users: tuple[str, ...] = ()) -> Json:
    made = claim(name, "a", *devices, users=users)
    made["metadata"]["namespace"] = CANARIES
    return made


def test_a_pod_waits_once_its_claim_is_allocated_for_it_and_until_it_starts() -> None:
    bound = [claiming("w", "a", canary_pod, phase="Pending"), claiming("v", "", canary_pod, phase="Pending")]
    started = [claiming("w", "a", canary_pod)]
    given, unallocated = own_claim("w", 0, users=("w",)), own_claim("w", users=("w",))
    unallocated["status"].pop("allocation")
    assert value("claims.waiting", world(given, pods=bound)) == ["w"]
    assert value("claims.waiting", world(given, pods=started)) == []
    assert value("claims.waiting", world(unallocated, pods=bound)) == []
    assert value("claims.waiting", world(own_claim("w", 0, users=("another",)), pods=bound)) == []


def test_a_claim_that_is_given_another_device_has_moved_and_one_that_is_released_has_not() -> None:
    read = Read(world(own_claim("w", 0)), plan(facts=CLAIMED))
    assert value("claims.moved", world(), read) == []
    assert value("claims.moved", world(), read.again(world(own_claim("w")))) == []
    assert value("claims.moved", world(), read.again(world(own_claim("w", 1)))) == ["w"]
    assert value("claims.moved", world(), read.again(world(own_claim("w", 0)))) == []


def test_slices_that_are_published_anew_are_other_ones() -> None:
    old, new, network = resource_slice("a"), resource_slice("a", generation=2), resource_slice("a", driver="dra.net")
    for item in (old, new, network):
        item["metadata"]["uid"] = f"uid-{item['metadata']['name']}"
    assert value("slices.uids", world(slices=[old, network, resource_slice("b")])) == ["uid-a-gpu.nvidia.com-1"]
    assert value("slices.uids", world(slices=[new])) == ["uid-a-gpu.nvidia.com-2"]


def rule(effect: str = "NoSchedule", **selector: str) -> Json:
    return {"metadata": {"name": "r"}, "spec": {"deviceSelector": selector, "taint": {"key": "k", "effect": effect}}}


def with_rules(*rules: Json, pods: list[Json] | None = None) -> World:
    found = world(pods=pods)
    named = [{**rule, "metadata": {"name": f"r{number}"}} for number, rule in enumerate(rules)]
    found.lists[TAINT_RULES] = named
    return found


def test_a_rule_taints_what_its_selector_covers_and_only_with_a_hard_effect() -> None:
    one = {"driver": "gpu.nvidia.com", "pool": "a", "device": "gpu-1"}
    assert value("devices.tainted", with_rules(rule(**one), rule(device="gpu-3", effect="None"))) == ["a/gpu-1"]
    assert len(value("devices.tainted", with_rules(rule(effect="NoExecute")))) == 4
    assert value("devices.tainted", with_rules({"metadata": {"name": "r"}, "spec": {"taint": {"effect": "NoSchedule"}}})) == []
    assert len(value("devices.tainted", with_rules(rule(pool="a", deviceClassName="unread")))) == 4  # it may taint each of them
    assert value("devices.tainted", world()) == []  # the API is not served


def test_a_node_whose_device_a_rule_taints_is_no_target() -> None:
    rules = [rule(pool=name, device="gpu-0") for name in ("a", "b", "c")]
    with pytest.raises(PlanRefused, match="devices that are not allocatable"):
        choose_daemon_pod(field(with_rules(*rules, pods=plugins("a", "b", "c")), free=2))


def test_a_device_that_is_used_with_admin_access_is_used_but_not_held() -> None:
    watched = claim("monitor", "a", 0)
    watched["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    assert allocated_devices(watched) == []
    assert allocated_devices(watched, admin=True) == [("gpu.nvidia.com", "a", "gpu-0")]


def test_a_claim_is_released_once_nothing_is_allocated_and_nobody_may_use_it() -> None:
    free = own_claim("free")
    free["status"] = {}
    assert value("claims.released", world(free, own_claim("w", 0, users=("w",)))) == ["free"]


def test_a_victim_is_no_worker_and_no_stranger() -> None:
    pods = [
        claiming("v", "a", canary_pod, role="victim"),
        claiming("w", "a", canary_pod),
        claiming("x", "a"),
        claiming("u", "", canary_pod),
    ]
    found = world(pods=pods)
    assert value("canaries.victim", found).startswith("uid-v ")
    assert set(value("canaries.uids", found)) == {"w", "u"}
    assert set(value("pods.strangers", found)) == {"team/x"}
    assert value("canaries.unbound", found) == ["u"]
