import msgspec
import pytest

from fixtures.policy.model import Policy
from fixtures.policy.platforms import NONE, PresetError, chosen_by_marks, named, presets
from fixtures.policy.policy_file import PolicyError, build_policy, check
from fixtures.snapshot.state import Snapshot
from tests.builders import a_namespace, a_node, a_pod, a_snapshot

MUST_MATCH = {
    ("tenants", "namespaces"),
    ("tenants", "infrastructure"),
    ("tenants", "isolated"),
    ("accelerators", "resources"),
    ("accelerators", "nodeLabels"),
    ("accelerators", "drivers"),
    ("network", "resources"),
    ("advertisement", "devicesPerNode"),
}
"""Keys whose patterns are reported when nothing matches them."""

EXEMPTING = {"moreInfrastructure", "infrastructure", "podSecurityExceptions", "ipcLock", "hostRdma", "allowedNamespaces"}


def served(*groups: str) -> Snapshot:
    snapshot = a_snapshot(nodes=[a_node()])
    snapshot.groups = frozenset(groups)
    return snapshot


def names(snapshot: Snapshot) -> list[str]:
    return [chosen.name for chosen in chosen_by_marks(snapshot)]


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_a_policy_that_extends_and_never_exempts_by_pattern(name: str) -> None:
    preset = presets()[name]
    check(preset.policy, name)
    assert build_policy(preset.policy) is not None
    assert any(msgspec.structs.asdict(preset.marks).values())
    for section, keys in preset.policy.items():
        for key, value in keys.items():
            assert (section, key) not in MUST_MATCH
            if isinstance(value, list):
                assert all(entry.startswith("+") for entry in value)
            if key in EXEMPTING:
                assert not any(sign in entry for entry in value for sign in "*?[")


def test_presets_agree_whatever_their_order() -> None:
    """Several may apply: none undoes what another says."""
    reported: dict[tuple[str, str], object] = {}
    for preset in presets().values():
        for section, keys in preset.policy.items():
            for key, value in keys.items():
                if not isinstance(value, list | dict):
                    assert reported.setdefault((section, key), value) == value


def test_api_groups_and_what_kubelets_say_choose_presets() -> None:
    assert names(served("slinky.slurm.net", "run.ai")) == ["runai", "slinky"]
    node = a_node()
    node.status.node_info.kubelet_version = "v1.34.2+rke2r1"
    node.status.node_info.os_image = "Talos (v1.9.5)"
    assert names(a_snapshot(nodes=[node])) == ["talos", "rke2"]
    node.metadata.annotations = {"hami.io/node-nvidia-register": "[]"}
    assert "hami" in names(a_snapshot(nodes=[node]))


def test_no_name_label_or_annotation_of_a_tenant_chooses_a_preset() -> None:
    marks = {
        "eks.amazonaws.com/compute-type": "auto",
        "cloud.google.com/gke-nodepool": "a",
        "node.openshift.io/os_id": "rhcos",
        "hami.io/node-nvidia-register": "[]",
        "compute.coreweave.com/node-pool": "a",
    }
    claimed = [a_namespace(name, marks) for name in ("openshift", "runai", "slinky", "kai-scheduler", "cw-hpc-verification")]
    pods = [a_pod(namespace="slinky", labels=marks, annotations=marks)]
    assert names(a_snapshot(nodes=[a_node()], namespaces=claimed, pods=pods)) == []


def test_named_presets_are_known_or_refused() -> None:
    assert [one.name for one in named(["rke2", "eks"], "--platform")] == ["eks", "rke2"]
    assert named([NONE], "--platform") == []
    with pytest.raises(PresetError, match="--platform: no preset 'openshfit'; did you mean openshift"):
        named(["openshfit"], "--platform")
    with pytest.raises(PresetError, match="'none' leaves no room"):
        named(["eks", NONE], "--platform")


def test_a_list_extends_or_replaces_the_one_below_it() -> None:
    default = Policy().fence.taint_keys
    assert build_policy({"fence": {"taintKeys": ["+a", "+b", "+sku"]}}).fence.taint_keys == (*default, "a", "b")
    assert build_policy({"fence": {"taintKeys": ["+a"]}}, {"fence": {"taintKeys": ["b"]}}).fence.taint_keys == ("b",)
    assert build_policy({"fence": {"taintKeys": ["a"]}}, {"fence": {"taintKeys": ["+b"]}}).fence.taint_keys == ("a", "b")
    assert build_policy({"fence": {"taintKeys": []}}).fence.taint_keys == ()


def test_half_a_list_that_extends_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"fence\.taintKeys: either every entry begins with \+"):
        build_policy({"fence": {"taintKeys": ["+a", "b"]}})
    with pytest.raises(PolicyError, match=r"operators\.expectedAgents: there is no list below that \+a could extend"):
        build_policy({"operators": {"expectedAgents": ["+a"]}})


def test_no_preset_asks_for_a_transport_that_a_cluster_of_its_kind_may_lack() -> None:
    """A transport without a resource of its own is measured because somebody accepts it: on a cluster without it that is a false alarm.

    GB200 is what it is by its NVLink between hosts, and NCCL prefers that to any network: not to accept it would be the false alarm.
    """
    default = Policy().network.accepted
    found = {name: build_policy(one.policy).network.accepted for name, one in presets().items()}
    assert {name: accepted for name, accepted in found.items() if accepted != default} == {"gb200": (*default, "MNNVL")}
