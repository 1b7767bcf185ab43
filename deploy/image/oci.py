"""An OCI image layout in one tar, from layers of plain files: no registry and no daemon. The same input gives the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
INDEX = "application/vnd.oci.image.index.v1+json"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A file, folder or link of a layer. ``path`` is relative; everything belongs to root."""

    path: str
    mode: int
    data: bytes = b""
    link: str = ""
    folder: bool = False


class Layer(msgspec.Struct, frozen=True):
    """A layer: its compressed bytes, and the digest of the uncompressed ones (``diff_id``)."""

    data: bytes
    diff_id: str


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """What an image is besides its layers."""

    name: str
    architecture: str
    user: str
    entrypoint: list[str]
    environment: Mapping[str, str]
    labels: Mapping[str, str]
    epoch: int


def entries(folder: Path, below: str = "") -> Iterator[Entry]:
    """What lies in a folder. Devices, sockets and pipes are left out; setuid and setgid bits go."""
    for base, folders, names in os.walk(folder):
        for name in sorted([*folders, *names]):
            path = Path(base) / name
            status = path.lstat()
            shown = (Path(below) / path.relative_to(folder)).as_posix()
            mode = stat.S_IMODE(status.st_mode) & ~(stat.S_ISUID | stat.S_ISGID)
            if stat.S_ISLNK(status.st_mode):
                yield Entry(path=shown, mode=0o777, link=os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                yield Entry(path=shown, mode=mode, folder=True)
            elif stat.S_ISREG(status.st_mode):
                yield Entry(path=shown, mode=mode, data=path.read_bytes())


def entries_of(archive: Path) -> Iterator[Entry]:
    """What lies in a tar, as :func:`entries` gives it. Hard links become files."""
    with tarfile.open(archive) as tar:
        for member in tar:
            path = member.name.removeprefix("./").strip("/")
            mode = member.mode & 0o1777
            if not path or path == ".":
                continue
            if member.issym():
                yield Entry(path=path, mode=0o777, link=member.linkname)
            elif member.isdir():
                yield Entry(path=path, mode=mode, folder=True)
            elif member.isreg() or member.islnk():
                opened = tar.extractfile(member)
                yield Entry(path=path, mode=mode, data=opened.read() if opened else b"")


def layer(found: Iterable[Entry], epoch: int) -> Layer:
    """A layer with the entries, sorted, all of one time. Folders that a path needs and nobody gave are made."""
    held = {entry.path: entry for entry in found}
    for path in list(held):
        for parent in Path(path).parents:
            if parent.as_posix() != ".":
                held.setdefault(parent.as_posix(), Entry(path=parent.as_posix(), mode=0o755, folder=True))
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(held):
            entry = held[path]
            info = tarfile.TarInfo(path)
            info.mode, info.mtime = entry.mode, epoch
            if entry.folder:
                info.type = tarfile.DIRTYPE
            elif entry.link:
                info.type, info.linkname = tarfile.SYMTYPE, entry.link
            info.size = len(entry.data)
            tar.addfile(info, io.BytesIO(entry.data))
    data = plain.getvalue()
    return Layer(gzip.compress(data, 6, mtime=0), _digest(data))


def layout(image: Image, layers: list[Layer]) -> bytes:
    """The tar of an OCI image layout with one image."""
    created = datetime.fromtimestamp(image.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    config = _json(
        {
            "architecture": image.architecture,
            "os": "linux",
            "created": created,
            "config": {
                "User": image.user,
                "Entrypoint": image.entrypoint,
                "Env": [f"{name}={value}" for name, value in image.environment.items()],
                "WorkingDir": "/tmp",
                "Labels": dict(image.labels),
            },
            "rootfs": {"type": "layers", "diff_ids": [one.diff_id for one in layers]},
            "history": [{"created": created, "created_by": "gpu-conformance deploy/image"} for _ in layers],
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, config),
            "layers": [_descriptor(LAYER, one.data) for one in layers],
        }
    )
    reference, _, tag = image.name.rpartition(":")
    names = {"org.opencontainers.image.ref.name": tag or image.name, "io.containerd.image.name": f"docker.io/library/{reference}:{tag}"}
    index = _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [{**_descriptor(MANIFEST, manifest), "annotations": names}]})
    blobs = {f"blobs/sha256/{_digest(data).partition(':')[2]}": data for data in (config, manifest, *(one.data for one in layers))}
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": index, **dict(sorted(blobs.items()))}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, data in files.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode, info.mtime = len(data), 0o644, image.epoch
            tar.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def digest_of(archive: bytes) -> str:
    """The digest of the image in a layout: what a registry calls it by, and what is signed."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        opened = tar.extractfile("index.json")
        assert opened is not None
        found = json.load(opened)["manifests"][0]["digest"]
    return str(found)


def _descriptor(kind: str, data: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(data), "size": len(data)}


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
