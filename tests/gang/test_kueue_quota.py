from typing import Any

import pytest

from conformance.gang.checks import check_quota_exists
from fixtures.kubernetes.models import Json
from fixtures.verdict.findings import Finding
from fixtures.verdict.record import Verdict
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from tests.builders import a_cpu_node, a_node, a_policy, a_scope
from tests.dra import a_class, a_device, a_slice
from tests.gang.test_adapters import kueue_s
from tests.judging import judge
from tests.tables import each_row

GPU = "nvidia.com/gpu"


def a_flavor(name: str = "h100", **spec: Any) -> Json:
    return {"kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def quotas(quota: str | int, flavor: str = "h100", resource: str = GPU, **limits: str) -> list[Json]:
    resources = [{"name": "cpu", "nominalQuota": "100"}, {"name": resource, "nominalQuota": quota, **limits}]
    return [{"coveredResources": ["cpu", resource], "flavors": [{"name": flavor, "resources": resources}]}]


def a_queue(name: str, quota: str | int, *, flavor: str = "h100", resource: str = GPU, **spec: Any) -> Json:
    spec = {"resourceGroups": quotas(quota, flavor, resource), **spec}
    return {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def a_cohort(name: str, quota: str | int = 0, **spec: Any) -> Json:
    return {"kind": "Cohort", "metadata": {"name": name}, "spec": {"resourceGroups": quotas(quota) if quota else [], **spec}}


def findings(*queues: Json, flavors: list[Json] | None = None, policy: Any = None, **more: Any) -> list[Finding]:
    world = {"nodes": [a_node("gpu-0"), a_node("gpu-1")], "clusterqueues": queues, "resourceflavors": flavors or [a_flavor()], **more}
    return list(check_quota_exists(a_scope(policy, **world)))


def with_cohorts(queues: list[Json], *cohorts: Json) -> list[Finding]:
    more: Json = {"kueue_x-k8s_io__cohorts": list(cohorts)}
    return findings(*queues, **more)


def outcomes(*queues: Json, **more: Any) -> list[str]:
    return [finding.outcome.value for finding in findings(*queues, **more)]


def test_a_flavor_that_is_not_there_admits_nothing() -> None:
    (finding,) = findings(a_queue("a", 8, flavor="gone"))
    assert "no such ResourceFlavor" in finding.message


def test_an_autoscaler_may_bring_the_rest() -> None:
    assert outcomes(a_queue("a", 64), policy=a_policy(requests={"autoscaled": [GPU]})) == ["not_judged"]


def test_placement_by_topology_or_ready_pods_takes_back_what_does_not_fit() -> None:
    assert outcomes(a_queue("a", 64), flavors=[a_flavor(topologyName="racks")]) == ["not_judged"]


def test_topology_decides_only_in_the_flavors_that_name_one() -> None:
    some = [a_flavor(topologyName="racks"), a_flavor("a100")]
    found = {str(one.subject): one.outcome.value for one in findings(a_queue("a", 64), a_queue("b", 64, flavor="a100"), flavors=some)}
    assert found == {"ResourceFlavor h100 nvidia.com/gpu": "not_judged", "ResourceFlavor a100 nvidia.com/gpu": "bad"}


# -- Cohorts --


@pytest.mark.parametrize("field", ["cohortName", "cohort"])
def test_a_cohort_adds_a_quota_that_its_queues_share(field: str) -> None:
    queues = [a_queue("a", 0, **{field: "all"}), a_queue("b", 8, **{field: "all"})]
    (finding,) = with_cohorts(queues, a_cohort("all", 640))
    assert (finding.outcome.value, "648 in" in finding.observed, "Cohort all" in finding.observed) == ("bad", True, True)
    (finding,) = with_cohorts(queues, a_cohort("all", 8))
    assert finding.outcome.value == "ok"


@pytest.mark.parametrize("field", ["parentName", "parent"])
def test_a_queue_may_use_what_the_whole_tree_of_its_cohort_has(field: str) -> None:
    queue = a_queue("a", 0, cohortName="team")
    (finding,) = with_cohorts([queue], a_cohort("team", **{field: "org"}), a_cohort("org"), a_cohort("other", 640, **{field: "org"}))
    assert (finding.outcome.value, "Cohort other" in finding.observed) == ("bad", True)


def test_a_cohorts_quota_that_no_queue_may_take_is_none() -> None:
    """Beside a queue of its own cohort: one of no queue, one in another flavor, and a circle, of which Kueue admits nothing."""
    queue = a_queue("a", 8, cohortName="all")
    circle = [a_cohort("all", 640, parentName="up"), a_cohort("up", parentName="all")]
    other = a_cohort("all", resourceGroups=quotas(640, "a100"))
    for cohorts in ([], [a_cohort("empty", 640)], [other], circle):
        (finding,) = with_cohorts([queue], *cohorts)
        assert (finding.outcome.value, finding.observed) == ("ok", "8 in a")


def test_queues_take_no_more_of_a_cohort_than_they_may_borrow() -> None:
    def queue(name: str, **limits: str) -> Json:
        return a_queue(name, 0, cohortName="all", resourceGroups=quotas(0, **limits))

    limited = [queue("a", borrowingLimit="8"), queue("b", borrowingLimit="8")]
    assert [finding.outcome.value for finding in with_cohorts(limited, a_cohort("all", 640))] == ["ok"]
    assert [finding.outcome.value for finding in with_cohorts([*limited, queue("c")], a_cohort("all", 640))] == ["bad"]


def test_cohorts_that_could_not_be_listed_are_missed_only_where_a_queue_names_one() -> None:
    refused: Json = {"trouble": {"kueue.x-k8s.io/cohorts": "Forbidden"}}
    assert outcomes(a_queue("a", 8), **refused) == ["ok"]
    assert outcomes(a_queue("a", 8), a_queue("cpu", 8, resource="memory", cohortName="all"), **refused) == ["ok"]
    with pytest.raises(Inconclusive, match="cohorts could not be listed"):
        findings(a_queue("a", 8, cohortName="all"), **refused)


@pytest.mark.parametrize(("named", "verdict"), [({}, Verdict.PASSED), ({"cohortName": "all"}, Verdict.INCONCLUSIVE)])
def test_a_run_that_may_not_list_cohorts_judges_queues_that_name_none(named: Json, verdict: Verdict) -> None:
    world = {"nodes": [a_node("gpu-0")], "clusterqueues": [a_queue("a", 8, **named)], "resourceflavors": [a_flavor()]}
    scope = a_scope(None, trouble={"kueue.x-k8s.io/cohorts": "Forbidden"}, **world)
    result = judge(scope.snapshot, scope.policy, ["GANG-09"])["GANG-09"]
    assert (result.verdict, result.reason_code) == (verdict, "Forbidden" if named else ""), result.message


# -- MultiKueue --


def a_check(name: str, controller: str = "kueue.x-k8s.io/multikueue") -> Json:
    return {"metadata": {"name": name}, "spec": {"controllerName": controller}}


@pytest.mark.parametrize("form", [{"admissionChecksStrategy": {"admissionChecks": [{"name": "mk"}]}}, {"admissionChecks": ["mk"]}])
def test_a_queue_whose_work_other_clusters_run_is_not_held_against_nodes_here(form: Json) -> None:
    """Kueue asks for it: the manager's quota is the sum of what its workers have."""
    (away,) = findings(a_queue("a", 640, **form), admissionchecks=[a_check("mk")])
    assert (away.outcome.value, str(away.subject)) == ("not_judged", "ClusterQueue a")
    assert "AdmissionCheck mk" in away.message
    both = findings(a_queue("a", 640, **form), a_queue("own", 24), admissionchecks=[a_check("mk")])
    assert [(finding.outcome.value, finding.observed) for finding in both] == [("not_judged", ""), ("bad", "24 in own")]


def test_a_queue_that_sends_its_work_away_takes_nothing_of_its_cohort_here() -> None:
    queues = [a_queue("a", 0, cohortName="all", admissionChecks=["mk"]), a_queue("own", 8)]
    more: Json = {"kueue_x-k8s_io__cohorts": [a_cohort("all", 640)], "admissionchecks": [a_check("mk")]}
    assert [finding.outcome.value for finding in findings(*queues, **more)] == ["not_judged", "ok"]


def lent(**own: Any) -> list[Finding]:
    """A queue that sends its work away, and one of the same cohort that does not."""
    away = a_queue("away", 640, cohortName="all", admissionChecks=["mk"])
    return findings(away, a_queue("own", 8, **{"cohortName": "all", **own}), admissionchecks=[a_check("mk")])[1:]


def test_a_queue_that_may_borrow_the_quota_of_other_clusters_does_not_pass() -> None:
    (finding,) = lent()
    assert (finding.outcome.value, "away of the same cohort may lend" in finding.message) == ("not_judged", True)
    for own in ({"cohortName": "other"}, {"cohortName": ""}, {"resourceGroups": quotas(8, borrowingLimit="0")}):
        assert [finding.outcome.value for finding in lent(**own)] == ["ok"]
    assert [finding.outcome.value for finding in lent(resourceGroups=quotas(24))] == ["bad"]


# -- claims --


def counting(quota: int, name: str = "whole-gpus", classes: str = "[gpu.nvidia.com]", more: str = "", **world: Any) -> list[Finding]:
    """A queue over two nodes with four claimable devices each, and a configuration that maps DeviceClasses to its quota."""
    config = f"kind: Configuration # kueue\nresources:\n  deviceClassMappings:\n  - name: {name}\n    deviceClassNames: {classes}\n{more}"
    known = {
        "nodes": [a_cpu_node("gpu-0"), a_cpu_node("gpu-1")],
        "deviceclasses": [a_class()],
        "resourceslices": [a_slice("gpu-0", devices=4), a_slice("gpu-1", devices=4)],
        "configmaps": [kueue_s(config)],
        **world,
    }
    return findings(a_queue("a", quota, resource=name), **known)


@pytest.mark.parametrize(("quota", "outcome"), [(8, "ok"), (9, "bad")])
@pytest.mark.parametrize("name", ["whole-gpus", "example.com/gpu", "nvidia.com/gpu"])
def test_a_quota_that_counts_claims_is_held_against_what_claims_can_get(quota: int, outcome: str, name: str) -> None:
    (finding,) = counting(quota, name)
    assert (finding.outcome.value, str(finding.subject)) == (outcome, f"ResourceFlavor h100 {name}")
    assert finding.expected.endswith("2 nodes can allocate: 8")


def test_a_device_that_two_classes_choose_counts_once() -> None:
    (finding,) = counting(9, classes="[gpu.nvidia.com, again, gone]", deviceclasses=[a_class(), a_class("again")])
    assert finding.outcome.value == "bad"


def test_a_mapping_that_counts_something_else_is_not_judged() -> None:
    (finding,) = counting(9000, more="    sources: [{type: Counter, counter: {name: memory}}]\n")
    assert (finding.outcome.value, "its mapping has sources" in finding.message) == ("not_judged", True)
    assert counting(8, more="    sources: []\n")[0].outcome.value == "ok"


@pytest.mark.parametrize(
    ("driver", "why"), [("dra.acme.example", "nothing shows whether the driver"), ("dra.net", "DeviceClass other is for other devices")]
)
def test_a_mapping_with_a_class_of_which_nothing_shows_that_it_is_for_accelerators_is_not_judged(driver: str, why: str) -> None:
    (finding,) = counting(12, classes="[gpu.nvidia.com, other]", deviceclasses=[a_class(), a_class("other", driver)])
    assert (finding.outcome.value, why in finding.message) == ("not_judged", True)


def test_a_class_that_names_no_driver_is_not_understood() -> None:
    anything: Json = {"metadata": {"name": "any"}, "spec": {}}
    for name in ("whole-gpus", "nvidia.com/gpu"):
        (finding,) = counting(800, name, "[any]", deviceclasses=[anything])
        assert (finding.outcome.value, "names no driver" in finding.message) == ("not_judged", True)


def parts(count: int) -> list[Json]:
    """Parts of one device, which draw on its counters."""
    return [a_device(f"part-{number}", kind="mig", consumesCounters=[{"counterSet": "gpu-0", "counters": {}}]) for number in range(count)]


@each_row
def test_what_claims_may_get_beside_what_they_certainly_get_decides_nothing(devices: list[Json], quota: int, outcome: str) -> None:
    (finding,) = counting(quota, resourceslices=[a_slice("gpu-0", devices=devices)])
    assert finding.outcome.value == outcome


def test_a_selector_that_is_not_understood_decides_nothing() -> None:
    unclear = a_class(expression="device.driver == 'gpu.nvidia.com' && device.attributes['x'].y.lowerAscii().matches('^.*a100.*$')")
    (finding,) = counting(8, deviceclasses=[unclear])
    assert finding.outcome.value == "not_judged"


def test_devices_that_several_nodes_reach_count_for_none() -> None:
    everywhere = a_slice("gpu-0", devices=8)
    everywhere["spec"]["allNodes"] = True
    del everywhere["spec"]["nodeName"]
    (finding,) = counting(8, resourceslices=[everywhere])
    assert finding.outcome.value == "not_judged"


def test_two_configurations_that_differ_are_two_candidates() -> None:
    text = "# kueue\nresources:\n  deviceClassMappings: [{name: whole-gpus, deviceClassNames: [%s]}]\n"
    known: Json = {"deviceclasses": [a_class()], "resourceslices": [a_slice("gpu-0", devices=4)], "nodes": [a_cpu_node("gpu-0")]}
    first, other = kueue_s(text % "gpu.nvidia.com"), kueue_s(text % "gone")
    other.metadata.name = "kueue-other"
    queue = a_queue("a", 4, resource="whole-gpus")
    assert [finding.outcome.value for finding in findings(queue, configmaps=[first, first], **known)] == ["ok"]
    for configs in ([first, other], [other, first]):
        with pytest.raises(Inconclusive, match="quota whole-gpus"):
            findings(queue, configmaps=configs, **known)


def test_a_configuration_that_cannot_be_read_matters_to_quotas_that_it_may_count() -> None:
    broken = kueue_s("# kueue\n{[")
    with pytest.raises(NotApplicable):
        findings(a_queue("a", 4, resource="hugepages-2Mi"), configmaps=[broken])
    with pytest.raises(Inconclusive, match="cannot be read"):
        findings(a_queue("a", 4, resource="whole-gpus"), configmaps=[broken])


@pytest.mark.parametrize("classes", ["[nic.example.com]", "[]", "7", "[gone]"])
def test_a_quota_that_counts_no_accelerators_is_nothing_to_judge(classes: str) -> None:
    nics = [a_class(), a_class("nic.example.com", driver="dra.net")]
    with pytest.raises(NotApplicable):
        counting(9, classes=classes, deviceclasses=nics)
