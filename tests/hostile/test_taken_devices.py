"""A tenant who sits on another tenant's device, or on an accelerator node without one, passes by no label, annotation or name."""

import copy
import json
import time
from collections.abc import Iterable, Mapping

import pytest

from fixtures.kubernetes.models import Json
from fixtures.simulator.builder import build
from fixtures.simulator.config.defects import policy_of
from fixtures.simulator.config.scenario import Defect, load_defect, load_scenario
from fixtures.simulator.simulated_cluster import with_defects
from fixtures.verdict.record import Result, Verdict
from tests.judging import judge
from tests.platforms.clusters import CLUSTERS
from tests.platforms.judged import snapshot_as_served
from tests.platforms.objects import container, daemonset, meta, namespace, pod
from tests.requirements_offline import NOW, policy_over, snapshot_of
from tests.tables import each_row, filled, table

CORE, RATIO, WRITTEN = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio", "scheduling.koordinator.sh/device-allocated"
MINORS = "scheduling.koordinator.sh/gpu-minors"
TABLE = filled(table(__file__), {"CORE": CORE, "RATIO": RATIO, "WRITTEN": WRITTEN, "MINORS": MINORS})

IDS = ("FENCE-02", "PSA-05", "REQ-03", "REQ-05")


def judged(cluster: str, *more: Json) -> dict[str, Result]:
    """What a run says of a healthy cluster with these objects of a tenant."""
    built = CLUSTERS[cluster]()
    snapshot = snapshot_as_served([*copy.deepcopy(built.objects), namespace("team-x"), *more])
    return judge(snapshot, policy_over(snapshot, built.policy), IDS)


def of(result: Result, name: str) -> list[Verdict | str]:
    return [subject.verdict for subject in result.subjects if subject.name == name]


def thief(asked: Mapping[str, str], scheduler: str = "kai-scheduler") -> list[Json]:
    """A pod with the label of a device that others have shared out among them, and with the device's UUID from a ConfigMap."""
    group = {"runai-gpu-group": "4f6c2a8e-6f0f-4a38-9d6e-0b3f0a1c2d3e"}
    stolen = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("stolen", "team-x"), "data": {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}}
    main = container(envFrom=[{"configMapRef": {"name": "stolen"}}])
    return [stolen, pod("thief", "team-x", "a100-0", main, labels=group, annotations=asked, schedulerName=scheduler)]


@pytest.mark.parametrize(
    ("asked", "verdict"),
    TABLE["of_a_shared_device"],
)
def test_who_copies_the_label_of_a_device_that_is_shared_out_never_passes(asked: dict[str, str], verdict: Verdict) -> None:
    found = judged("kai-runai", *thief(asked))
    assert (found["FENCE-02"].verdict, found["PSA-05"].verdict) == (verdict, verdict)


def test_who_copies_the_label_of_a_device_that_has_room_never_passes() -> None:
    built = CLUSTERS["kai-runai"]()
    room = [item for item in copy.deepcopy(built.objects) if item["metadata"]["name"] != "half-1"]
    snapshot = snapshot_as_served([*room, namespace("team-x"), *thief({"gpu-fraction": "0.1", "received-resource-type": "Fraction"})])
    found = judge(snapshot, policy_over(snapshot, built.policy), IDS)
    for id_ in ("FENCE-02", "PSA-05"):
        assert (of(found[id_], "thief"), of(found[id_], "half-0")) == ([Verdict.INCONCLUSIVE], [Verdict.PASSED])


AMOUNTS = ("nvidia.com/priority", "nvidia.com/gpumem", "volcano.sh/vgpu-memory")


@pytest.mark.parametrize("amount", AMOUNTS)
@pytest.mark.parametrize("cluster", ["aks-ndh100", "hami"])
def test_who_names_his_node_and_asks_for_an_amount_that_no_kubelet_counts_never_passes(cluster: str, amount: str) -> None:
    where = {"aks-ndh100": "nd-0", "hami": "t4-0"}[cluster]
    found = judged(cluster, pod("web", "team-x", where, container(devices={amount: 1})))
    assert of(found["FENCE-02"], "web") == [Verdict.FAILED]


@pytest.mark.parametrize("amount", AMOUNTS)
def test_a_tenants_bound_pod_approves_no_amount(amount: str) -> None:
    found = judged("aks-ndh100", pod("web", "team-x", "nd-1", container(devices={amount: 1, "nvidia.com/gpu": 1})))
    assert {found[id_].verdict for id_ in ("REQ-03", "REQ-05")} == {Verdict.INCONCLUSIVE}
    assert found["FENCE-02"].verdict is Verdict.PASSED  # it holds a device


def record(core: object, **more: object) -> str:
    return json.dumps({"gpu": [{"minor": 0, "resources": {CORE: core, **more}}]})


@pytest.mark.parametrize(
    ("asked", "annotations", "verdict"),
    [
        *TABLE["shares"],
        ({CORE: 1}, {WRITTEN: "[" * 50_000}, Verdict.INCONCLUSIVE),
        ({CORE: 1}, {WRITTEN: "[" * 9_000 + "]" * 9_000}, Verdict.INCONCLUSIVE),
    ],
)
def test_no_annotation_makes_a_share_of_what_no_scheduler_gave(
    asked: dict[str, int | str], annotations: dict[str, str], verdict: Verdict
) -> None:
    thief = pod("thief", "team-x", "a10-0", container("main", asked), annotations=annotations, schedulerName="koord-scheduler")
    assert of(judged("koordinator", thief)["FENCE-02"], "thief") == [verdict]


def test_a_record_of_another_domain_makes_no_pod_of_this_one_undecided() -> None:
    forged = pod("forged", "team-x", "a10-0", container("main", {"nvidia.com/gpu": 1}), annotations={WRITTEN: record("9")})
    found = judged("koordinator", forged)["FENCE-02"]
    assert {subject.verdict for subject in found.subjects} == {Verdict.PASSED}


def handed(*minors: int, amounts: Mapping[str, str] | None = None) -> dict[str, str]:
    """Annotations as Koordinator's scheduler writes them for shares of these devices."""
    entries = [{"minor": minor, "resources": {CORE: "1"} if amounts is None else amounts} for minor in minors]
    return {WRITTEN: json.dumps({"gpu": entries}), MINORS: ",".join(map(str, minors))}


def visible(path: str, asked: Mapping[str, int | str] | None = None) -> Json:
    """A container that takes its device from a field of its pod."""
    return container("main", asked, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": path}}}])


WITHOUT_AMOUNT = {"gpu": [{"minor": 2}]}
DEEP = '{"gpu":[{"minor":0}],"x":' + "[" * 200 + "]" * 200 + "}"
LONG = json.dumps(WITHOUT_AMOUNT) + " " * 40_000


@pytest.mark.parametrize(
    ("asked", "annotations", "verdict"),
    [
        *TABLE["records"],
        ({}, {WRITTEN: DEEP}, Verdict.INCONCLUSIVE),
        ({}, {WRITTEN: LONG}, Verdict.INCONCLUSIVE),
        ({CORE: 1}, {WRITTEN: LONG}, Verdict.INCONCLUSIVE),
    ],
)
def test_a_record_of_given_devices_is_right_on_a_pod_only_that_asks_for_them(
    asked: dict[str, int | str], annotations: dict[str, str], verdict: Verdict
) -> None:
    taker = pod("taker", "team-x", "a10-0", container("main", asked), annotations=annotations)
    assert of(judged("koordinator", taker)["PSA-05"], "taker") == [verdict]


FPGA = {WRITTEN: '{"fpga":[{"minor":0,"resources":{"koordinator.sh/fpga":"100"}}]}'}


@each_row
def test_a_record_of_a_device_that_the_policy_does_not_list_is_undecided(name: str, annotations: dict[str, str], verdict: Verdict) -> None:
    objects = copy.deepcopy(CLUSTERS["koordinator"]().objects)
    for item in objects:
        if item["kind"] == "Node":
            for field in ("capacity", "allocatable"):
                item["status"][field]["dcu.com/gpu"] = "4"
    taker = pod("taker", "team-x", "a10-0", container("main", {name: 1}), annotations=annotations)
    snapshot = snapshot_as_served([*objects, namespace("team-x"), taker])
    found = judge(snapshot, policy_over(snapshot, CLUSTERS["koordinator"]().policy), ["PSA-05"])["PSA-05"]
    assert of(found, "taker") == [verdict]


MANY = ('{"gpu":[' + "{}," * 5_000 + "{}]}", "[" + '{"koordinator.sh/gpu-core":1},' * 500 + "{}]", "{}")


@pytest.mark.parametrize("asked", [{}, {CORE: 1}], ids=["asks for none", "asks for a share"])
@pytest.mark.parametrize("text", MANY, ids=["devices", "amounts", "annotations"])
def test_what_tenants_write_into_annotations_costs_little(asked: dict[str, int], text: str) -> None:
    """Annotations of a pod have 256 KiB together."""
    keys = range(min(260_000 // len(text), 9_000))
    annotations = {f"koordinator.sh/{key:04}": text for key in keys}
    pods = [pod(f"taker-{number}", "team-x", "a10-0", container("main", asked), annotations=annotations) for number in range(10)]
    built = CLUSTERS["koordinator"]()
    snapshot = snapshot_as_served([*copy.deepcopy(built.objects), namespace("team-x"), *pods])
    policy, before = policy_over(snapshot, built.policy), time.process_time()
    assert judge(snapshot, policy, ("FENCE-02", "PSA-05"))["PSA-05"].verdict in (Verdict.INCONCLUSIVE, Verdict.FAILED)
    assert time.process_time() - before < 5


def test_a_record_opens_nothing_where_no_node_offers_shares() -> None:
    taker = pod("taker", "team-x", "nd-0", annotations={WRITTEN: record("50")})
    assert of(judged("aks-ndh100", taker)["PSA-05"], "taker") == [Verdict.PASSED]


@pytest.mark.parametrize(
    ("asked", "annotations", "path", "verdict"),
    TABLE["variables"],
)
def test_a_variable_from_an_annotation_names_no_device_but_what_a_scheduler_gave(
    asked: dict[str, int | str], annotations: dict[str, str], path: str, verdict: Verdict
) -> None:
    taker = pod("taker", "team-x", "a10-0", visible(path, asked), annotations=annotations, labels={"gpu": "all", "none": "none"})
    assert of(judged("koordinator", taker)["PSA-05"], "taker") == [verdict]


@pytest.mark.parametrize(
    ("asked", "metadata", "path", "verdict"),
    TABLE["templates"],
)
def test_a_template_that_writes_the_device_itself_fails(asked: dict[str, int | str], metadata: Json, path: str, verdict: Verdict) -> None:
    template = {"metadata": metadata, "spec": {"containers": [visible(path, asked)]}}
    taker = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta("taker", "team-x"), "spec": {"template": template}}
    assert of(judged("koordinator", taker)["PSA-05"], "taker") == [verdict]


def test_a_share_lets_the_runtime_class_be() -> None:
    sharing = pod("taker", "team-x", "a10-0", container("main", {CORE: 1}), annotations=handed(3), runtimeClassName="nvidia")
    assert of(judged("koordinator", sharing)["PSA-05"], "taker") == [Verdict.PASSED]


# -- what a tenant makes in namespaces of his own hides nothing that is wrong with the platform, and makes nothing of it wrong --


FREE = ("aaa", "karpenter", "monitoring", "gpu-resources", "nvidia-device-plugin", "kubeflow", "gpu-conformance")
CONTROLLERS = ("gpu-operator", "volcano-scheduler", "kueue-controller-manager", "fault-quarantine")
CONFIGS = ("device-plugin-config", "default-mig-parted-config", "kueue-manager-config")
PLUGIN_FOLDER = {"d": "/var/lib/kubelet/device-plugins"}
RED = (Verdict.FAILED, Verdict.WARNED)


def stack(space: str, nodes: Iterable[str], *, healthy: bool) -> list[Json]:
    """Copies of everything that the platform runs: all well on every node, or none of it anywhere."""
    where = list(nodes) if healthy else []
    made = [namespace(space)]
    for name, image in TABLE["agents"].items():
        mounts = None if healthy else PLUGIN_FOLDER  # whoever mounts it on a node may register devices there, and OPS-12 says so
        made += daemonset(name, space, where, image=image, select={} if healthy else {"none": "none"}, mounts=mounts)
    for name in CONTROLLERS:
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}}, "spec": {}}}
        status = {"replicas": 1, "readyReplicas": int(healthy), "availableReplicas": int(healthy)}
        made.append({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta(name, space), "spec": spec, "status": status})
    for name in CONFIGS:
        made.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(name, space), "data": {"config.yaml": "version: v9"}})
    return made


def beside_copies(scenario: str, *defects: Defect, healthy: bool) -> tuple[dict[str, Result], list[str]]:
    """The results beside the tenant's copies, and the namespaces that he made."""
    loaded = load_scenario(scenario)
    objects = with_defects(build(loaded, now=NOW), defects, NOW)
    names = {(item["kind"], item["metadata"]["name"]) for item in objects}
    made = [name for name in FREE if ("Namespace", name) not in names]
    nodes = [name for kind, name in names if kind == "Node"]
    copies = [item for name in made for item in stack(name, nodes, healthy=healthy)]
    snapshot = snapshot_of([*objects, *copies], loaded.kubernetes_version)
    return judge(snapshot, policy_over(snapshot, policy_of(loaded, defects)), may_probe=True), made


@pytest.mark.parametrize("healthy", [True, False], ids=["well", "nowhere"])
@pytest.mark.parametrize("scenario", ["healthy", "showcase", "amd", "dra"])
def test_copies_of_the_platform_break_no_part_of_it(scenario: str, healthy: bool) -> None:
    results, made = beside_copies(scenario, healthy=healthy)
    wrong = {
        id_: [place for place in result.subjects if place.verdict in (*RED, Verdict.INCONCLUSIVE)]
        for id_, result in results.items()
        if result.verdict in (*RED, Verdict.INCONCLUSIVE) and id_ != "GANG-01" and result.reason_code != "NoCluster"
    }
    others = {id_: rest for id_, places in wrong.items() if (rest := [one for one in places if {one.namespace, one.name}.isdisjoint(made)])}
    assert others == {}
    assert [id_ for id_, places in wrong.items() if not places] == []


@each_row
def test_copies_of_the_platform_hide_nothing_that_is_wrong_with_it(name: str) -> None:
    defect = load_defect(name)
    results, _ = beside_copies(defect.scenario, defect, healthy=True)
    hidden = {id_: results[id_].message for id_ in defect.trips if id_ in results and results[id_].verdict not in RED}
    assert {id_: message for id_, message in hidden.items() if results[id_].reason_code not in ("NoCluster", "NoBaseline")} == {}
