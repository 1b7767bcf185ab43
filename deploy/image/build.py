"""``make image``: the suite's image as an OCI layout in a tar, from a Debian root and the locked wheels.

Needs no registry of images and no daemon. Debian's packages come from mmdebstrap, the wheels from uv, or either from a folder:
``--root TAR`` and ``--wheels DIR``. SOURCE_DATE_EPOCH is the time of everything in it; by default that of the last commit.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from conformance.version import VERSION
from deploy.distributions import LOCK, closure, locked
from deploy.workload import NAME, USER
from fixtures.kubernetes import oci
from fixtures.kubernetes.pod_resources import PROGRAM

ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / ".tools" / "bin" / "uv"
SUITE = "bookworm"
PACKAGES = ("python3-minimal", "libpython3-stdlib", "libstdc++6", "tzdata", "util-linux", "dash", "coreutils")
PYTHON = (3, 11)
"""The Python of the Debian release."""

PREFIX = "opt/gpu-conformance"
STATUS = "var/lib/dpkg/status.d/"
ARCHITECTURES = {"x86_64": ("amd64", "x86_64-manylinux2014"), "aarch64": ("arm64", "aarch64-manylinux2014")}

LEFT_OUT = (
    *("dev/", "proc/", "sys/", "run/", "boot/", "var/cache/", "var/lib/apt/", "var/log/"),
    *("usr/share/man/", "usr/share/locale/", "usr/share/info/"),
    *("sbin/", "usr/sbin/"),
)
"""Of the root: what a container gets from its runtime, and what nobody reads in it. Copyright files stay."""

PROGRAMS = re.compile(r"(?:usr/)?bin/(?:python3(?:\.\d+)?|nsenter|sh|dash|id|ls|sleep)")
"""Programs of the root that stay. ``nsenter`` takes an experiment's program into the namespaces of its host. The scripts of probe pods
need a shell, ``id``, ``ls`` and ``sleep``; nothing else runs them.
"""

UNUSED = ("kubernetes/aio/", "bin/")
"""Of the wheels: the client's second half, for asyncio, is 60 MB that nothing here imports. Scripts name the Python that installed them."""

ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONPATH": f"/{PREFIX}:/{PREFIX}/gpu_conformance/suite",
    "PYTHONDONTWRITEBYTECODE": "1",
    "LANG": "C.UTF-8",
    "HOME": "/tmp",
}
_STATUS = f"""mkdir -p "$1/{STATUS}" && for deb in "$1"/var/cache/apt/archives/*.deb; do
  dpkg-deb --field "$deb" > "$1/{STATUS}$(dpkg-deb --field "$deb" Package)" || exit 1
done"""
"""What each package says of itself, where scanners look for it in an image without dpkg."""

SCRIPTS = {NAME: "conformance.cli.main", PROGRAM: "fixtures.nodeprobe.pod_resources"}
"""What the suite puts on the path, with the module that each runs."""


def main(argv: Sequence[str]) -> int:
    """Build, and say where the image is and what its digest is."""
    parser = argparse.ArgumentParser(prog="make image")
    parser.add_argument("--root", type=Path, metavar="TAR", help="a root file system with Python 3.11; default: made by mmdebstrap")
    parser.add_argument("--mirror", metavar="URL", help="Debian mirror for mmdebstrap; default: its own")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="folder of wheels, for a machine without an index")
    parser.add_argument("--into", type=Path, metavar="DIR", default=ROOT / "out" / "image")
    arguments = parser.parse_args(argv)
    if platform.machine() not in ARCHITECTURES:
        parser.error(f"no image for {platform.machine()}")
    epoch = _epoch()
    arguments.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-image-") as work:
        root = arguments.root or debian(Path(work) / "root.tar", epoch, arguments.mirror)
        application(Path(work) / "app", epoch, arguments.wheels)
        layers = [oci.layer(base_entries(root), epoch), oci.layer(application_entries(Path(work) / "app"), epoch)]
    archive = oci.layout([image(epoch)], layers)
    path = arguments.into / f"{NAME}-{VERSION}-{ARCHITECTURES[platform.machine()][0]}.tar"
    path.write_bytes(archive)
    digest = oci.digest_of(archive)
    path.with_suffix(".digest").write_text(digest + "\n")
    print(f"{path}\n{digest}\n{len(archive) / 1e6:.1f} MB")
    return 0


def image(epoch: int) -> oci.Image:
    """What the image is besides its layers."""
    return oci.Image(
        name=f"{NAME}:{VERSION}",
        architecture=ARCHITECTURES[platform.machine()][0],
        user=f"{USER}:{USER}",
        entrypoint=[f"/usr/bin/{NAME}"],
        environment=ENVIRONMENT,
        labels={
            "org.opencontainers.image.title": NAME,
            "org.opencontainers.image.version": VERSION,
            "org.opencontainers.image.licenses": "Apache-2.0",
        },
        epoch=epoch,
    )


def debian(path: Path, epoch: int, mirror: str | None) -> Path:
    """A root with Python, its libraries and what :data:`PROGRAMS` come from. Maintainer scripts do not run."""
    if shutil.which("mmdebstrap") is None:
        raise SystemExit("make image: mmdebstrap is not here (Debian package mmdebstrap); or give a root file system with --root TAR")
    command = ["mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(PACKAGES)}", f"--extract-hook={_STATUS}"]
    _run([*command, SUITE, str(path), *([mirror] if mirror else [])], {"SOURCE_DATE_EPOCH": str(epoch)})
    return path


def application(folder: Path, epoch: int, wheels: Path | None) -> None:
    """Install the suite and what the lock names of its needs, for the image's Python, and compile it for a root that is read-only."""
    requirements = folder.with_suffix(".txt")
    requirements.write_text(locked(set(closure()), LOCK.read_text(encoding="utf-8")))
    source = ["--no-index", "--find-links", str(wheels)] if wheels else []
    install = [
        str(UV),
        "pip",
        "install",
        "--quiet",
        "--target",
        str(folder),
        "--python-version",
        ".".join(map(str, PYTHON)),
        "--no-compile-bytecode",
    ]
    install += ["--python-platform", ARCHITECTURES[platform.machine()][1], "--only-binary", ":all:", *source]
    _run([*install, "--require-hashes", "--no-deps", "-r", str(requirements)])
    built = folder.with_suffix(".dist")
    _run([str(UV), "build", "--quiet", "--wheel", "--out-dir", str(built), str(ROOT)], {"SOURCE_DATE_EPOCH": str(epoch)})
    _run([*install, "--no-deps", *map(str, built.glob("*.whl"))])
    for name in UNUSED:
        shutil.rmtree(folder / name, ignore_errors=True)
    if sys.version_info[:2] == PYTHON:  # bytecode of another Python would never be read
        compiling = [
            sys.executable,
            "-m",
            "compileall",
            "-q",
            "--invalidation-mode",
            "unchecked-hash",
            "-s",
            str(folder),
            "-p",
            f"/{PREFIX}",
        ]
        subprocess.run([*compiling, str(folder)], check=False, env={**os.environ, "PYTHONHASHSEED": "0"}, stdout=subprocess.DEVNULL)


def base_entries(root: Path) -> Iterator[oci.Entry]:
    """The root without what the container's runtime brings, with the one user that the image has."""
    for entry in oci.entries_of(root):
        program = entry.path.startswith(("bin/", "usr/bin/"))
        if not f"{entry.path}/".startswith(LEFT_OUT) and (not program or PROGRAMS.fullmatch(entry.path)):
            yield entry
    user = f"root:x:0:0:root:/:/usr/sbin/nologin\n{NAME}:x:{USER}:{USER}::/tmp:/usr/sbin/nologin\n"
    yield oci.Entry(path="etc/passwd", mode=0o644, data=user.encode())
    yield oci.Entry(path="etc/group", mode=0o644, data=f"root:x:0:\n{NAME}:x:{USER}:\n".encode())
    yield oci.Entry(path="etc/nsswitch.conf", mode=0o644, data=b"hosts: files dns\n")
    yield oci.Entry(path="tmp", mode=0o1777, folder=True)
    for name in ("dev", "proc", "sys", "run"):  # a read-only root needs them to mount on
        yield oci.Entry(path=name, mode=0o755, folder=True)


def application_entries(folder: Path) -> Iterator[oci.Entry]:
    """The suite below ``/opt``, and its scripts on the path. Nobody but root may write to it."""
    for entry in oci.entries(folder, PREFIX):
        if entry.folder or entry.link:
            yield oci.Entry(path=entry.path, mode=0o755, folder=entry.folder, link=entry.link)
        elif not entry.path.endswith((".lock", "/RECORD", "/direct_url.json", "/uv_cache.json")):  # they tell of the folder of the build
            yield oci.Entry(path=entry.path, mode=0o755 if entry.mode & 0o100 else 0o644, data=entry.data)
    for name, module in SCRIPTS.items():
        yield oci.Entry(path=f"usr/bin/{name}", mode=0o755, data=script(module).encode())


def script(module: str) -> str:
    """A program that runs a module's ``main``."""
    return f"#!/usr/bin/python3\nimport sys\n\nfrom {module} import main\n\nsys.exit(main())\n"


def _epoch() -> int:
    stated = os.environ.get("SOURCE_DATE_EPOCH")
    if stated is None:
        stated = subprocess.run(["git", "-C", str(ROOT), "log", "-1", "--format=%ct"], capture_output=True, text=True, check=True).stdout
    return int(stated)


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env={**os.environ, **(environment or {})}, check=False)
    if done.returncode:
        raise SystemExit(f"make image: {command[0]} ended with {done.returncode}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
