"""The image that pods of a guest run: its names and files, and that the same input gives the same bytes."""

import gzip
import io
import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from fixtures.kubernetes.oci import qualified
from fixtures.localcluster.guest import containers
from fixtures.localcluster.install import build
from fixtures.localcluster.install.release import release
from tests.tables import each_row

NAMES = ["registry.k8s.io/pause:3.10", "busybox", "nvcr.io/nvidia/k8s-device-plugin:v0.17.1", "registry.k8s.io/pause:3.10"]


def archive(folder: Path) -> Path:
    for name in ("program", "busybox"):
        (folder / name).write_bytes(name.encode())
    containers.write_archive(folder / "images.tar", folder / "program", folder / "busybox", NAMES)
    return folder / "images.tar"


def blobs(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {member.name.rpartition("/")[2]: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def test_each_name_is_an_image_with_what_its_containers_run_by_default(tmp_path: Path) -> None:
    held = blobs(archive(tmp_path))

    def read(descriptor: dict[str, Any]) -> dict[str, Any]:
        found = json.loads(held[descriptor["digest"].removeprefix("sha256:")])
        assert isinstance(found, dict)
        return found

    run = {}
    for listed in json.loads(held["index.json"])["manifests"]:
        manifest = read(listed)
        assert len(manifest["layers"]) == 1
        run[listed["annotations"]["io.containerd.image.name"]] = read(manifest["config"])["config"]["Entrypoint"]
    assert run == {
        "docker.io/library/busybox:latest": ["/pause"],
        "nvcr.io/nvidia/k8s-device-plugin:v0.17.1": ["/usr/bin/nvidia-device-plugin"],
        "registry.k8s.io/pause:3.10": ["/pause"],
    }
    assert len(held) == 2 + 1 + 2 * 2, "layout and index, one layer for all, and one manifest and configuration for each entrypoint"


def test_every_link_of_the_image_leads_to_one_of_its_two_programs(tmp_path: Path) -> None:
    (layer,) = (data for data in blobs(archive(tmp_path)).values() if data.startswith(b"\x1f\x8b"))
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(layer))) as tar:
        held = {member.name: member for member in tar}
    for name in ("pause", "usr/bin/nvidia-smi", "usr/bin/gpu-feature-discovery"):
        assert held[held[name].linkname.removeprefix("/")].isreg()
    for name in ("sh", "sleep", "env", "grep"):
        assert held[f"bin/{held[f'bin/{name}'].linkname}"].isreg()
    assert {member.mtime for member in held.values()} == {0}


def test_the_same_programs_give_the_same_archive(tmp_path: Path) -> None:
    first = archive(tmp_path).read_bytes()
    assert archive(tmp_path).read_bytes() == first


@each_row
def test_a_reference_is_qualified_as_runtimes_do_it(written: str, kept: str) -> None:
    assert qualified(written) == kept


@pytest.mark.test_all
def test_the_program_serves_the_sockets_of_a_kubelet(tmp_path: Path) -> None:
    """Its own tests, in Go, with a kubelet's side of each socket."""
    pinned = release()
    try:
        go = build.find_go(pinned)
    except build.BuildError as missing:
        pytest.skip(str(missing))
    for path in (*containers.SOURCES.glob("*.go"), pinned.folder / "go.mod", pinned.folder / "go.sum"):
        shutil.copy(path, tmp_path)
    settings = {**os.environ, "GOWORK": "off", "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    done = subprocess.run(
        [go, "test", "-mod=readonly", "-trimpath", "."], cwd=tmp_path, env=settings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
