"""A node in a virtual machine: what is built, how QEMU runs it, and that it boots."""

import io
import os
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fixtures.cluster.client import Cluster
from fixtures.localcluster.control_plane.control_plane import LocalClusterError
from fixtures.localcluster.control_plane.processes import ProcessFailed
from fixtures.localcluster.guest import guests, image, machine
from fixtures.localcluster.guest.guests import Guests, device_table, plan
from fixtures.localcluster.guest.machine import GuestError, Image
from fixtures.localcluster.guest.node import Guest, seed
from fixtures.localcluster.install.build import find_go
from fixtures.localcluster.install.release import cache_root, release
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.defects import behaviour_of
from fixtures.simulator.config.scenario import ScenarioError, parse_simulate
from fixtures.simulator.dra.claims import slice_spec
from fixtures.simulator.running_cluster import NotStartable

IMAGE = Image.in_folder(Path("/cache/guest-1"))


def test_a_guest_has_no_right_no_way_out_and_no_disk_of_its_own() -> None:
    line = machine.command(IMAGE, machine.TRANSLATED, disks=[IMAGE.disk], words="guest.verify")
    text = " ".join(line)
    for part in (
        "setpriv",
        "--reuid nobody",
        "--clear-groups",
        "--no-new-privs",
        "--bounding-set -all",
        "--pdeathsig KILL",
        "user,id=net,restrict=on",
        "no_timer_check guest.verify",
    ):
        assert part in text
    for way in ("hostfwd", "guestfwd", "tap"):
        assert way not in text
    assert "file=/cache/guest-1/disk,format=raw,if=virtio,snapshot=on" in line
    assert "-drive" not in machine.command(IMAGE, "kvm")


def test_a_node_reaches_the_api_server_and_is_reached_by_two_ports_of_loopback() -> None:
    guest = Guest(name="h100-3", number=2, kubelet=40001, agent=40002, secret="s")
    line = machine.command(IMAGE, machine.TRANSLATED, network=guest.network(6443))
    (network,) = [part for part in line if part.startswith("user,")]
    assert network.startswith("user,id=net,restrict=on,net=10.77.2.0/24,host=10.77.2.2,")
    assert re.findall(r"hostfwd=tcp:([^,]+)", network) == ["127.0.0.1:40001-10.77.2.15:10250", "127.0.0.1:40002-10.77.2.15:10251"]
    (way,) = re.findall(r"guestfwd=tcp:(\S+?)-cmd:", network)
    assert way == "10.77.2.100:6443"
    assert "/dev/tcp/127.0.0.1/6443" in network


def test_what_makes_a_guest_a_node_is_one_archive(tmp_path: Path) -> None:
    guest = Guest(name="h100-3", number=1, kubelet=40001, agent=40002, secret="s")
    (authority := tmp_path / "authority").write_bytes(b"certificate")
    taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    devices = {"resources": [{"name": "nvidia.com/gpu", "devices": [{"id": "GPU-0", "healthy": True, "paths": ["/dev/nvidia0"]}]}]}
    written = seed(guest, {"ca.crt": authority}, "token-1", taints, devices, {"etc/guest/images.tar": b"images"})
    with tarfile.open(fileobj=io.BytesIO(written)) as archive:
        entries = {entry.name: entry for entry in archive}
        texts = {name: file.read() for name, entry in entries.items() if (file := archive.extractfile(entry)) is not None}
    assert texts["etc/guest/ca.crt"] == b"certificate"
    assert b"token-1" in texts["etc/guest/kubeconfig"]
    assert b"10.77.1.100:6443" in texts["etc/guest/kubeconfig"]
    assert msgspec.json.decode(texts["etc/guest/kubelet.yaml"])["registerWithTaints"] == taints
    assert msgspec.json.decode(texts["var/lib/gpu-conformance/devices.json"]) == devices
    assert b"10.88.1.0/24" in texts["etc/cni/net.d/10-bridge.conflist"]
    assert entries["dev/nvidia0"].ischr()
    assert all(entry.mode == 0o600 for entry in entries.values() if entry.isreg())


def test_a_real_node_is_one_more_of_the_pool_with_devices() -> None:
    scenario = parse_simulate("standalone-plugin")[0]
    (planned,) = plan(scenario, 1)
    assert (planned.guest.name, planned.guest.number) == ("l40s-2", 1)
    assert planned.node["spec"]["taints"][0]["key"] == "nvidia.com/gpu"
    assert [len(resource["devices"]) for resource in device_table(planned.hardware, Behaviour())["resources"]] == [4]
    assert plan(scenario, 0) == []


def test_devices_of_a_dra_driver_are_published_as_the_simulated_nodes_publish_them() -> None:
    (planned,) = plan(parse_simulate("dra")[0], 1)
    table = device_table(planned.hardware, Behaviour())
    assert (planned.guest.name, table["driver"]) == ("h100-3", "gpu.nvidia.com")
    assert [resource["name"] for resource in table["resources"]] == ["gpu.nvidia.com"]
    published = [device["dra"] for device in table["resources"][0]["devices"]]
    assert published == slice_spec(planned.hardware)["devices"]


def test_its_plugin_has_the_bugs_of_simulated_plugins() -> None:
    scenario, defects = parse_simulate("standalone-plugin,bug-plugin-comes-back-short,bug-exporter-hides-xid")
    (planned,) = plan(scenario, 1)
    assert device_table(planned.hardware, behaviour_of(scenario, defects))["bugs"] == ["pluginComesBackShort"]
    other = msgspec.structs.replace(behaviour_of(scenario, defects), kubelets_of="NVIDIA T4")
    assert device_table(planned.hardware, other)["bugs"] == []


def test_more_real_nodes_than_a_machine_can_run_are_refused_in_one_line() -> None:
    scenario = parse_simulate("standalone-plugin")[0]
    with pytest.raises(ScenarioError, match="4 at most"):
        plan(scenario, 9)
    with pytest.raises(ScenarioError, match="no pool with devices"):
        plan(msgspec.structs.replace(scenario, pools=[pool for pool in scenario.pools if not pool.gpus]), 1)


class Plane:
    """A control plane whose guest has ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder

    def all_run(self) -> None:
        raise ProcessFailed("l40s-2 ended; its last words:\nsetpriv: setresuid failed")


class Unchanged:
    """A watch that shows nothing until its deadline."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> "Unchanged":
        return self

    def __exit__(self, *_: object) -> None: ...

    def until(self, deadline: float) -> list[dict[str, object]]:
        assert deadline < time.monotonic() + 60, "nobody would look whether the guest runs"
        return [{}]


@pytest.mark.parametrize(("busybox", "words"), [(True, r"real nodes: l40s-2 ended; its last words:"), (False, r"real nodes: .*busybox")])
def test_a_guest_that_ends_or_cannot_be_laid_out_is_said_at_once(
    busybox: bool, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = image.Manifest(packages=[], programs={}, accelerator="kvm", reason="")
    for name in ("program", *([image.BUSYBOX] if busybox else [])):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.setattr(image, "find", lambda _: (tmp_path, made))
    monkeypatch.setattr(guests, "program", lambda _: tmp_path / "program")
    monkeypatch.setattr(guests, "Observation", Unchanged)
    monkeypatch.setattr(Cluster, "from_kubeconfig", lambda _: None)
    monkeypatch.setattr(Guests, "_boot", lambda *_: None)
    plane: Any = Plane(tmp_path)
    with pytest.raises(LocalClusterError, match=words):
        Guests(plane, None, plan(parse_simulate("standalone-plugin")[0], 1), Behaviour()).start([], {})


def test_a_program_that_cannot_be_built_keeps_the_cluster_from_starting() -> None:
    with pytest.raises(NotStartable, match="Go is missing"):
        find_go(release(), {"PATH": ""})


def test_modules_are_inserted_after_what_they_need(tmp_path: Path) -> None:
    needs = [
        "a/virtio_pci.ko: a/virtio.ko a/virtio_ring.ko",
        "a/virtio.ko: a/virtio_ring.ko",
        "a/virtio_ring.ko:",
        "b/ext4.ko.xz: b/jbd2.ko",
    ]
    (tmp_path / "modules.dep").write_text("\n".join([*needs, "b/jbd2.ko:", ""]), encoding="ascii")
    ordered = image.order_of(tmp_path, ["virtio_pci", "built_in", "ext4", "virtio"])
    assert ordered == ["a/virtio_ring.ko", "a/virtio.ko", "a/virtio_pci.ko", "b/jbd2.ko", "b/ext4.ko.xz"]


def test_an_image_is_kept_under_what_it_is_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = image.folder_of(release("1.37"), tmp_path)
    assert before == image.folder_of(release("1.37"), tmp_path) != image.folder_of(release("1.36"), tmp_path)
    table = tmp_path / "guest.yaml"
    table.write_bytes(image._TABLE.read_bytes() + b"# another\n")
    monkeypatch.setattr(image, "_TABLE", table)
    assert image.folder_of(release("1.37"), tmp_path) != before


@pytest.mark.parametrize("manifest", [None, b"", b"{}", b"[1]", b"\xff"])
def test_an_image_that_has_not_booted_is_none(tmp_path: Path, manifest: bytes | None) -> None:
    folder = image.folder_of(release("1.37"), tmp_path)
    folder.mkdir()
    if manifest is not None:
        (folder / "manifest.json").write_bytes(manifest)
    with pytest.raises(GuestError, match=r"no image of a node with Kubernetes v1\.37\.\d+ here: build it with `make local-node`"):
        image.find(release("1.37"), tmp_path)


def test_what_is_missing_is_named_in_one_line(tmp_path: Path) -> None:
    """Before anything is built: an empty PATH has none of the programs."""
    environment = {**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-m", image.__name__], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert "mmdebstrap" in done.stderr
    assert "qemu-system-x86" in done.stderr
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("arguments", [["9.9"], ["1.37", "1.36"]])
def test_an_unknown_minor_is_a_wrong_call(arguments: list[str]) -> None:
    assert image.main(arguments) == 4


def test_a_program_that_cannot_run_or_fails_or_hangs_is_an_error() -> None:
    for line, word in ((["/nowhere/qemu"], "cannot be run"), ([sys.executable, "-c", "print('no room'); exit(3)"], "no room")):
        with pytest.raises(GuestError, match=word):
            machine.run(line, 60.0)
    with pytest.raises(GuestError, match=r"did not end within 0 s"):
        machine.run([sys.executable, "-c", "input() if 0 else __import__('signal').pause()"], 0.2)


def test_a_machine_whose_hardware_runs_no_guest_translates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Image.in_folder(tmp_path)
    assert machine.accelerator(here)[0] == machine.TRANSLATED  # no file
    for path in (here.kernel, here.initramfs):
        path.touch()
    monkeypatch.setattr(machine, "run", lambda line, seconds, files: "SeaBIOS\n")
    assert machine.accelerator(here)[0] == machine.TRANSLATED
    monkeypatch.setattr(machine, "run", lambda line, seconds, files: f"{machine.INIT}\n")
    assert machine.accelerator(here)[0] == "kvm"


def test_what_killed_builds_left_is_removed_and_no_other(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in (f".guest-{ended.pid}-a", f".guest-{os.getpid()}-b", "guest-c"):
        (tmp_path / name / "root").mkdir(parents=True)
    image._remove_drafts(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([f".guest-{os.getpid()}-b", "guest-c"])


@pytest.mark.test_all
@pytest.mark.real_node
def test_the_image_boots_and_its_programs_answer() -> None:
    try:
        built, kept = image.find(release())
    except GuestError as error:
        pytest.skip(str(error))
    if lacking := machine.missing_programs("setpriv", machine.QEMU):
        pytest.skip(f"{', '.join(lacking)} not on PATH")
    if os.geteuid() != 0:
        pytest.skip("not root: QEMU is run as a user without any right")
    before = sorted(cache_root().iterdir())
    proven = image.prove(Image.in_folder(built), kept.packages, lambda line: None)
    assert proven.programs == kept.programs
    assert proven.programs["kubelet"] == f"Kubernetes {release().version}"
    assert proven.programs["containerd"].startswith("2.")
    assert sorted(cache_root().iterdir()) == before
