"""Manifests of the initial state: what is filled in, what is made of them, and that all of them are used."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fixtures.simulator.api.objects import Json
from fixtures.simulator.builder import hardware_of, manifests
from fixtures.simulator.builder.cluster import Cluster
from fixtures.simulator.builder.installation import install
from fixtures.simulator.builder.objects.meta import Stamp
from fixtures.simulator.config.scenario import load_scenario


@pytest.fixture
def cluster() -> Cluster:
    scenario = load_scenario("healthy")
    return Cluster(scenario, Stamp(datetime(2026, 1, 9, tzinfo=UTC)), hardware_of(scenario))


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, **texts: str) -> None:
    monkeypatch.setattr(manifests, "FOLDER", folder)
    manifests.raw.cache_clear()
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def only(cluster: Cluster) -> Json:
    (item,) = cluster.objects
    return item


def test_parameters_are_text_in_a_string_and_values_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    written(tmp_path, monkeypatch, a="{n: '${number}', t: 'x-${number}', l: [1, '${more}', [2]], d: '${more}', when: $ago(2d)}")
    assert manifests.read(cluster, "a.yaml", number=3, more=[7, 8]) == [
        {"n": 3, "t": "x-3", "l": [1, 7, 8, [2]], "d": [7, 8], "when": "2026-01-07T00:00:00Z"}
    ]


def test_what_is_none_and_what_lacks_its_parameter_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    one = "{a: '${none}', b: null, l: [1, '${none}', {if: '${none}', c: 2}, {if: '${yes}', c: 3}], m: {if: '${none}', c: 4}}"
    written(tmp_path, monkeypatch, a=f"{one}\n---\nif: ${{none}}\nc: 5\n")
    assert manifests.read(cluster, "a.yaml", none=None, yes=True) == [{"b": None, "l": [1, {"c": 3}]}]


def test_images_are_named_by_component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    text = "{i: '${image:kube-proxy}', d: '${version:driver}', r: '${repository:kueue}/${image-name:kueue}', e: $(NODE_NAME)}"
    written(tmp_path, monkeypatch, a=text)
    version = cluster.scenario.kubernetes_version
    (found,) = manifests.read(cluster, "a.yaml", driver="580.1.2")
    assert found == {
        "i": f"registry.k8s.io/kube-proxy:{version}",
        "d": "580.1.2-ubuntu24.04",
        "r": "registry.k8s.io/kueue/kueue",
        "e": "$(NODE_NAME)",  # the kubelet's, not ours
    }


@pytest.mark.parametrize("text", ["{a: '${unknown}'}", "{a: '${image:unknown}'}", "{a: '${unknown:kueue}'}"])
def test_an_unknown_parameter_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster, text: str) -> None:
    written(tmp_path, monkeypatch, a=text)
    with pytest.raises(KeyError, match="unknown"):
        manifests.read(cluster, "a.yaml")


def test_another_file_is_included_with_its_own_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    outer = "include: inner.yaml\nparameters: {name: 'a-${end}'}\n"
    inner = "{apiVersion: v1, kind: ConfigMap, age: 1d, manager: helm, metadata: {name: '${name}', namespace: n}, data: {k: v}}"
    written(tmp_path, monkeypatch, outer=outer, inner=inner)
    install(cluster, "outer.yaml", end="z")
    made = only(cluster)
    assert (made["metadata"]["name"], made["metadata"]["creationTimestamp"], made["data"]) == ("a-z", "2026-01-08T00:00:00Z", {"k": "v"})
    assert made["metadata"]["managedFields"][0]["manager"] == "helm"
    assert not {"age", "manager"} & set(made)


def test_owners_are_named_by_kind_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> None:
    one = "{apiVersion: v1, kind: ConfigMap, metadata: {name: one, namespace: n}}"
    two = "{apiVersion: v1, kind: Secret, metadata: {name: two, namespace: n, ownerReferences: [{kind: ConfigMap, name: one}]}}"
    elsewhere = two.replace("namespace: n", "namespace: o")
    written(tmp_path, monkeypatch, one=one, two=two, elsewhere=elsewhere)
    install(cluster, "one.yaml")
    uid = only(cluster)["metadata"]["uid"]
    install(cluster, "two.yaml")
    assert cluster.objects[1]["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "uid": uid, "controller": True, "blockOwnerDeletion": True}
    ]
    with pytest.raises(LookupError, match="ConfigMap one"):
        install(cluster, "elsewhere.yaml")


def test_every_manifest_is_used_by_somebody() -> None:
    builder = Path(manifests.__file__).parent
    sources = [*builder.rglob("*.py"), *manifests.FOLDER.rglob("*.yaml")]
    texts = {path: path.read_text(encoding="utf-8") for path in sources}
    for file in manifests.FOLDER.rglob("*.yaml"):
        assert any(file.name in text for path, text in texts.items() if path != file), f"nobody reads {file.name}"
