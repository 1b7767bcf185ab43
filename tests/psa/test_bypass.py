from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.psa.bypass import check_bypass, exposed_by
from fixtures.evidence import Finding, Outcome
from fixtures.models import ConfigMap, Meta
from tests.builders import a_container, a_pod, a_scope


def judged(pod: Any, **more: Any) -> Finding:
    [finding] = check_bypass(a_scope(pods=[pod], **more))
    return finding


def mounting(path: str) -> Any:
    return a_pod(volumes=[{"name": "v", "hostPath": {"path": path}}])


def setting(**entry: Any) -> Any:
    return a_pod(containers=[a_container(env=[entry])])


def test_a_plain_device_pod_goes_around_nothing() -> None:
    assert judged(a_pod(devices=1, volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}])).outcome is Outcome.OK


def mounted(path: str) -> Any:
    return a_pod(containers=[a_container(volumeMounts=[{"name": "v", "mountPath": path}])])


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (a_pod(containers=[a_container("c", securityContext={"privileged": True})]), "container c is privileged"),
        (a_pod(initContainers=[a_container("i", securityContext={"privileged": True})]), "container i is privileged"),
        (a_pod(ephemeralContainers=[a_container("e", securityContext={"privileged": True})]), "container e is privileged"),
        (mounting("/dev"), "all device files"),
        (mounting("/dev/nvidia0"), "device files of accelerators"),
        (mounting("/dev/nvidiactl"), "device files of accelerators"),
        (mounting("/dev/dri"), "device files of accelerators"),
        (mounting("/dev/dri/renderD128"), "device files of accelerators"),
        (mounting("/dev/kfd"), "device files of accelerators"),
        (mounting("/dev/infiniband/uverbs0"), "device files of accelerators"),
        (mounting("/dev/../dev//nvidia0/"), "device files of accelerators"),
        (mounting("/var/lib/kubelet/device-plugins"), "sockets of the device plugins"),
        (mounting("/var/lib/kubelet"), "sockets of the device plugins"),
        (mounting("/var/lib/kubelet/device-plugins/kubelet.sock"), "sockets of the device plugins"),
        (mounting("/var/run/containerd/containerd.sock"), "container runtime's socket"),
        (mounting("/run/containerd"), "container runtime's socket"),
        (mounting("/var/run/docker.sock"), "container runtime's socket"),
        (mounting("/var/run"), "container runtime's socket"),
        (mounting("/run/crio/crio.sock"), "container runtime's socket"),
        (mounting("/run/nvidia/driver"), "driver's root"),
        (mounting("/"), "whole host"),
        (setting(name="NVIDIA_VISIBLE_DEVICES", value="all"), "sets NVIDIA_VISIBLE_DEVICES=all"),
        (setting(name="NVIDIA_VISIBLE_DEVICES", value="GPU-8a0cb40d"), "sets NVIDIA_VISIBLE_DEVICES=GPU-8a0cb40d"),
        (setting(name="NVIDIA_VISIBLE_DEVICES", valueFrom={"configMapKeyRef": {"name": "x"}}), "from elsewhere"),
        (mounted("/var/run/nvidia-container-devices/all"), "mounts a volume at /var/run/nvidia-container-devices/all"),
        (mounted("/run/nvidia-container-devices/GPU-8a0cb40d/"), "nvidia-container-devices/GPU-8a0cb40d"),
        (mounted("/var/run/../run//nvidia-container-devices/cdi/nvidia.com/gpu/all"), "cdi/nvidia.com/gpu/all"),
        (a_pod(hostIPC=True), "hostIPC=true"),
        (a_pod(runtimeClassName="nvidia"), "runtimeClassName nvidia without a device"),
        (a_pod(annotations={"cdi.k8s.io/gpu": "nvidia.com/gpu=all"}), "annotation cdi.k8s.io/gpu"),
    ],
)
def test_each_bypass_is_found_in_words_of_its_own(pod: Any, words: str) -> None:
    finding = judged(pod)
    assert finding.outcome is Outcome.BAD
    assert words in finding.observed


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(devices=1, runtimeClassName="nvidia"),
        a_pod(runtimeClassName="gvisor"),
        setting(name="NVIDIA_VISIBLE_DEVICES", value="void"),
        setting(name="NVIDIA_DRIVER_CAPABILITIES", value="all"),
        mounting("/dev/shm"),
        mounted("/var/run/nvidia-container-devices"),
        mounted("/data/var/run/nvidia-container-devices/all"),
        mounted("/var/run/nvidia-container-devices-of-mine/all"),
        a_pod(containers=[a_container(volumeMounts=[{"name": "v"}, {"mountPath": 7}, {"mountPath": None}])]),
        mounting("/dev/drivers"),
        mounting("/data/dev/nvidia0"),
        mounting("/var/log"),
        a_pod(volumes=[{"name": "v", "hostPath": None}, {"name": "w", "hostPath": {"path": 7}}]),
        a_pod(containers=[a_container(securityContext={"privileged": False})]),
    ],
)
def test_what_opens_nothing_is_no_bypass(pod: Any) -> None:
    assert judged(pod).outcome is Outcome.OK


def taking(*sources: Any, **more: Any) -> Any:
    return a_pod(containers=[a_container("c", envFrom=list(sources), **more)])


def a_config(name: str, namespace: str = "team-a", **data: str) -> ConfigMap:
    return ConfigMap(metadata=Meta(name=name, namespace=namespace), data=data)


ALL = {"configMapRef": {"name": "gpu-env"}}


def test_a_variable_of_a_config_map_is_found() -> None:
    configs = [a_config("gpu-env", NVIDIA_VISIBLE_DEVICES="all", OTHER="x")]
    finding = judged(taking(ALL), configmaps=configs)
    assert finding.outcome is Outcome.BAD
    assert finding.observed == "container c takes NVIDIA_VISIBLE_DEVICES=all from ConfigMap gpu-env"
    prefixed = judged(taking({**ALL, "prefix": "NVIDIA_"}), configmaps=[a_config("gpu-env", VISIBLE_DEVICES="0")])
    assert prefixed.outcome is Outcome.BAD


@pytest.mark.parametrize(
    ("pod", "configs"),
    [
        (taking(ALL), [a_config("gpu-env", NVIDIA_VISIBLE_DEVICES="void", LOG="1")]),
        (taking(ALL), [a_config("gpu-env", "team-b", NVIDIA_VISIBLE_DEVICES="all")]),
        (taking(ALL), []),
        (taking({**ALL, "prefix": "MY_"}), [a_config("gpu-env", NVIDIA_VISIBLE_DEVICES="all")]),
        (taking(ALL, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]), [a_config("gpu-env", NVIDIA_VISIBLE_DEVICES="all")]),
        (
            taking(ALL, {"configMapRef": {"name": "last"}}),
            [a_config("last", NVIDIA_VISIBLE_DEVICES="none"), a_config("gpu-env", NVIDIA_VISIBLE_DEVICES="all")],
        ),
        (taking({"secretRef": {"name": "gpu-env"}}), [a_config("gpu-env", NVIDIA_VISIBLE_DEVICES="all")]),
        (taking({"configMapRef": None}, {"configMapRef": {"name": 7}}, {}), [a_config("gpu-env", NVIDIA_VISIBLE_DEVICES="all")]),
    ],
    ids=["void", "another namespace", "no such one", "another prefix", "env wins", "the last wins", "secret", "no references"],
)
def test_what_a_container_takes_otherwise_is_no_bypass(pod: Any, configs: list[ConfigMap]) -> None:
    assert judged(pod, configmaps=configs).outcome is Outcome.OK


def test_without_config_maps_a_pod_that_takes_one_is_not_judged() -> None:
    saved = {"offline": True, "runtimeclasses": []}
    assert judged(taking(ALL), **saved).outcome is Outcome.NOT_JUDGED
    assert judged(taking({"secretRef": {"name": "s"}}), **saved).outcome is Outcome.OK
    assert judged(taking(ALL, securityContext={"privileged": True}), **saved).outcome is Outcome.BAD


def test_a_class_with_nvidias_handler_counts_under_any_name() -> None:
    classes = [{"metadata": {"name": "fast"}, "handler": "nvidia-cdi"}]
    assert judged(a_pod(runtimeClassName="fast"), runtimeclasses=classes).outcome is Outcome.BAD
    assert judged(a_pod(runtimeClassName="fast")).outcome is Outcome.OK


def test_several_bypasses_are_one_finding_that_lists_all() -> None:
    finding = judged(a_pod(hostIPC=True, volumes=[{"name": "v", "hostPath": {"path": "/dev"}}], runtimeClassName="nvidia"))
    assert finding.observed.count(";") == 2
    assert "and 2 more" in finding.message


def test_infrastructure_and_finished_pods_are_no_subjects() -> None:
    pods = [a_pod("driver", "gpu-operator", hostIPC=True), a_pod("done", phase="Failed", hostIPC=True)]
    assert list(check_bypass(a_scope(pods=pods))) == []


@given(st.text(max_size=300))
def test_no_path_breaks_the_reader(path: str) -> None:
    assert isinstance(exposed_by(path), str)


@given(st.sampled_from(["/dev", "/run/containerd/containerd.sock", "/var/lib/kubelet/device-plugins"]), st.integers(0, 4))
def test_a_folder_above_a_guarded_path_opens_it(path: str, levels: int) -> None:
    for _ in range(levels):
        path = path.rpartition("/")[0] or "/"
    assert exposed_by(path)
