"""A part of the GPU stack is found by what it is before what it is called, and is never absent while the cluster shows its effect."""

from typing import Any

from fixtures.kubernetes.models import Json
from fixtures.model.platform.installed import Components, find_components
from fixtures.model.platform.remediators import breaker_status, fence_limit
from tests.chaos.observe.made_up_cluster import World, node, standing
from tests.tables import each_row

CHART = {"app.kubernetes.io/name": "nvidia-device-plugin", "app.kubernetes.io/instance": "nvdp"}
IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
FOLDER = "/var/lib/kubelet/device-plugins"


def daemon(name: str, image: str = IMAGE, labels: dict[str, str] | None = None, command: str = "", folder: str = "") -> Json:
    """A DaemonSet that runs; ``folder`` is the host's path that it mounts."""
    container = {"image": image, **({"command": command.split()} if command else {})}
    volumes = [{"name": "x", "hostPath": {"path": folder}}] if folder else []
    labels = CHART if labels is None else labels
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": volumes}}
    return {
        "metadata": {"name": name, "namespace": "gpu", "uid": f"uid-{name}"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
        "status": {"desiredNumberScheduled": 1},
    }


def find(*daemons: Json, nodes: list[Json] | None = None) -> Components:
    return find_components(World(nodes=nodes or [node("a")], apps__daemonsets=list(daemons), apps__deployments=[]).view(), standing())


def test_nvidias_own_chart_gives_three_daemon_sets_one_label_and_one_image() -> None:
    plugin = daemon("nvdp-nvidia-device-plugin", command="nvidia-device-plugin", folder=FOLDER)
    gfd = daemon("nvdp-gpu-feature-discovery", command="gpu-feature-discovery")
    mps = daemon("nvdp-mps-control-daemon", command="mps-control-daemon")
    found = find(gfd, mps, plugin)
    assert (found.found["device-plugin"].name, found.found["gfd"].name) == (plugin["metadata"]["name"], gfd["metadata"]["name"])
    assert not {"device-plugin", "gfd"} & {*found.absent, *found.unclear}


@each_row
def test_a_device_plugin_is_found_by_the_folder_that_it_mounts_or_its_image(plugin: dict[str, Any]) -> None:
    made = daemon(**plugin)
    assert find(made).found["device-plugin"].name == made["metadata"]["name"]


@each_row
def test_a_part_whose_effect_shows_is_not_called_absent(component: str, shows: dict[str, Any]) -> None:
    found = find(nodes=[node(**shows)])
    assert "node a " in found.unclear[component]
    assert component not in found.absent
    assert found.missing((component,)) == ""
    assert find(nodes=[node("cpu", gpus=0)]).absent[component] == f"{component} is not installed"


@each_row
def test_another_makers_plugin_is_named_and_not_taken(plugin: dict[str, Any], words: str) -> None:
    made = daemon(**plugin)
    found = find(made, nodes=[node("a" if "hami" in str(made) else "cpu", gpus=8 if "hami" in str(made) else 0)])
    assert words in found.absent["device-plugin"]
    assert made["metadata"]["name"] in found.absent["device-plugin"]


def test_a_plugin_of_another_maker_does_not_hide_that_nvidias_was_not_found() -> None:
    assert "device-plugin" in find(daemon("amdgpu-dp", "docker.io/rocm/k8s-device-plugin", {}, folder=FOLDER)).unclear


@each_row
def test_the_limit_is_a_share_of_gpu_nodes_rounded_up(settings: str, gpus: int, others: int, limit: int | None) -> None:
    labelled = [{"metadata": {"labels": {"nvidia.com/gpu.present": "true"}}}] * gpus
    assert fence_limit({"data": {"config.toml": settings}}, [*labelled, *[{"metadata": {}}] * others]) == limit


@each_row
def test_a_breaker_is_closed_or_tripped_and_nothing_else(status: object, says: str) -> None:
    assert breaker_status({"data": {"status": status}}) == says


def test_what_is_not_there_says_nothing() -> None:
    assert breaker_status(None) == ""
    assert fence_limit(None, []) is None


def test_settings_of_a_megabyte_are_read_in_time() -> None:
    """By steps of each line, not of each pair of lines: nothing here is timed, a quadratic search would not end."""
    assert fence_limit({"data": {"config.toml": "\n" * 1_000_000 + "[circuitBreaker]\n" + "\n" * 1_000_000}}, []) is None
