"""Images of the suite's pods, by vendor, from a mirror, with a pull Secret of its own; and label selectors."""

from pathlib import Path

import pytest

from conformance.probes.running import pinned_pod
from conformance.version import VERSION
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json
from fixtures.model.dra.device_classes import MAX_EXPRESSION, selector_of
from fixtures.model.dra.slices import SliceDevice
from fixtures.policy.policy_file import COPIED_SECRET, PolicyError, build_policy, check
from fixtures.probes.workspace import Workspace
from fixtures.verdict.subjects import Inconclusive
from tests.builders import a_node, a_scope
from tests.simulated import simulated
from tests.tables import each_row

MIRROR = "registry.example.com/mirror"


def test_devices_of_a_vendor_get_their_own_image() -> None:
    scope = a_scope(build_policy({"probes": {"images": {"amd.com/*": "rocm/rocm-terminal:6.4"}}}))
    images = [
        pinned_pod(scope, a_node(), "p", "true", resources={name: 1})["spec"]["containers"][0]["image"]
        for name in ("amd.com/gpu", "nvidia.com/gpu")
    ]
    assert images == ["rocm/rocm-terminal:6.4", scope.policy.probes.image]


def test_a_mirror_goes_before_every_image_once() -> None:
    document: Json = {"probes": {"mirror": f"{MIRROR}/", "images": {"amd.com/*": "rocm/a:1"}}, "network": {"image": f"{MIRROR}/own:1"}}
    policy = build_policy(document)
    plain = build_policy({})
    assert policy.probes.image == f"{MIRROR}/{plain.probes.image}"
    assert policy.probes.cpu_image == f"{MIRROR}/{plain.probes.cpu_image}"
    assert policy.probes.images == {"amd.com/*": f"{MIRROR}/rocm/a:1"}
    assert policy.network.image == f"{MIRROR}/own:1"
    assert policy.chaos.injector_image == f"{MIRROR}/{plain.chaos.injector_image}"
    assert plain.chaos.injector_image == f"gpu-conformance:{VERSION}"
    assert build_policy({"probes": {"suiteImage": "own/suite:2"}}).chaos.injector_image == "own/suite:2"
    assert policy.chaos.canary_image == ""
    again = build_policy(document, {"probes": {"image": policy.probes.image}})
    assert again.probes.image == policy.probes.image


def test_a_copied_secret_is_named_by_every_pod() -> None:
    assert build_policy({"probes": {"copyPullSecret": "infra/registry", "pullSecrets": ["a"]}}).probes.pull_secrets == ("a", COPIED_SECRET)
    with pytest.raises(PolicyError, match=r"probes\.copyPullSecret"):
        check({"probes": {"copyPullSecret": "registry"}}, "policy")


def a_secret(kind: str) -> Json:
    data = {".dockerconfigjson": "e30=", "other": "aHVudGVyMg=="}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"}, "type": kind, "data": data}


def test_a_pull_secret_is_copied_into_the_runs_namespace_and_goes_with_it(tmp_path: Path) -> None:
    with simulated(tmp_path, "healthy") as file:
        cluster = Cluster.from_kubeconfig(file)
        assert cluster.create("secrets", a_secret("kubernetes.io/dockerconfigjson"), namespace="kube-system").ok
        workspace = Workspace(cluster, "20260101-000000-abcd", pull_secret=("kube-system/registry", COPIED_SECRET))
        namespace = workspace.namespace()
        copied = cluster.get("secrets", COPIED_SECRET, namespace).json()
        assert copied["data"] == {".dockerconfigjson": "e30="}
        assert copied["type"] == "kubernetes.io/dockerconfigjson"
        workspace.close()
        assert workspace.residue == []
        assert cluster.get("secrets", COPIED_SECRET, namespace).status == 404


@pytest.mark.parametrize(("kind", "source"), [("Opaque", "kube-system/registry"), ("kubernetes.io/dockerconfigjson", "kube-system/none")])
def test_no_other_secret_is_ever_copied_and_none_is_quoted(tmp_path: Path, kind: str, source: str) -> None:
    with simulated(tmp_path, "healthy") as file:
        cluster = Cluster.from_kubeconfig(file)
        assert cluster.create("secrets", a_secret(kind), namespace="kube-system").ok
        workspace = Workspace(cluster, "20260101-000000-abcd", pull_secret=(source, COPIED_SECRET))
        with pytest.raises(Inconclusive) as caught:
            workspace.namespace()
        assert "aHVudGVyMg" not in caught.value.message
        workspace.close()
        assert workspace.residue == []


DRIVER = "gpu.nvidia.com"
DEVICE = SliceDevice(
    name="gpu-0",
    attributes={"type": "gpu", "productName": "H100 && more", "resource.kubernetes.io/pcieRoot": "r", "odd": "true"},
)


def chosen(*expressions: str) -> bool | None:
    return selector_of(expressions).chooses(DRIVER, DEVICE)


OWN = f"device.driver == '{DRIVER}'"
TYPE = 'device.attributes["gpu.nvidia.com"].type'


@each_row
def test_comparisons_are_weighed(expressions: list[str], answer: bool | None) -> None:
    assert chosen(*expressions) is answer


@pytest.mark.parametrize(
    "expression",
    [
        f"{TYPE} == 'mig' && device.driver == 'x' || {OWN}",
        f"true || size(device.capacity) > 0 && {TYPE} == 'mig'",
        f"(true || true && {TYPE} == 'mig' && true)",
        f"size(device.capacity) > 0 ? {OWN} : true && {TYPE} == 'mig'",
        f"[true, false && {TYPE} == 'mig' && true][0]",
        f"true // && {TYPE} == 'mig'",
        f'"a\\"" != "b" && {TYPE} == "mig" && "\\"" != "c"',
        f'"""a" && {TYPE} == "mig" && "b""" != ""',
        f"{TYPE} == 'mig' && 'x",
        f"{OWN}) && {TYPE} == 'mig'",
        f"{TYPE} == 'gpu' &&" + " " * MAX_EXPRESSION,
    ],
)
def test_what_an_alternative_or_a_comment_may_turn_decides_nothing(expression: str) -> None:
    assert chosen(expression) is None


def test_an_optional_attribute_leaves_the_rest_to_be_weighed() -> None:
    assert chosen(f"{OWN} && {TYPE} == 'mig' && device.attributes['x'].?y.orValue('') == 'z'") is False
