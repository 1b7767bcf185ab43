"""``make packages``: wheel, sdist, and the kubectl plugin with its manifest for krew, as a version is published."""

import argparse
import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from conformance.version import VERSION
from deploy.distributions import LOCK, SUITE, closure, locked

ROOT = Path(__file__).resolve().parents[1]
UV = ROOT / ".tools" / "bin" / "uv"
PLUGIN = Path(__file__).with_name("krew") / "kubectl-gpu_conformance"
UNKNOWN = "https://example.com/gpu-conformance"


def main(argv: Sequence[str]) -> int:
    """Build, and print the paths."""
    parser = argparse.ArgumentParser(prog="make packages")
    parser.add_argument("--into", type=Path, metavar="DIR", default=ROOT / "out" / "packages")
    parser.add_argument("--tag", metavar="TAG", help="build only if this is the tag of the version: v0.1.0")
    parser.add_argument("--home", metavar="URL", default=UNKNOWN, help="the repository, whose releases hold the archive of the plugin")
    arguments = parser.parse_args(argv)
    if arguments.tag not in (None, f"v{VERSION}"):
        parser.error(f"tag {arguments.tag}: chart and kustomize files of this tree name version {VERSION}")
    arguments.into.mkdir(parents=True, exist_ok=True)
    for name in ("gpu_conformance-*.whl", "gpu_conformance-*.tar.gz"):  # DIR may hold what is not the suite's
        for earlier in arguments.into.glob(name):
            earlier.unlink()
    if subprocess.run([str(UV), "build", "--quiet", "--out-dir", str(arguments.into), str(ROOT)], check=False).returncode:
        return 3
    (wheel,) = arguments.into.glob("gpu_conformance-*.whl")
    version = wheel.name.split("-")[1]
    if arguments.tag not in (None, f"v{version}"):
        parser.error(f"tag {arguments.tag}: the checkout is not at it, or has changes: its version is {version}")
    packed = archive(wheel)
    path = arguments.into / f"{PLUGIN.name}.tar.gz"
    path.write_bytes(packed)
    (arguments.into / f"{SUITE}.yaml").write_text(manifest(version, arguments.home, hashlib.sha256(packed).hexdigest()), encoding="utf-8")
    print(*sorted(str(path) for path in arguments.into.glob("[!.]*")), sep="\n")
    return 0


def archive(wheel: Path) -> bytes:
    """The plugin as krew unpacks it: program, wheel, hashes of what it needs, and licence. The same input gives the same bytes."""
    requirements = locked(set(closure()), LOCK.read_text(encoding="utf-8"))
    files = {
        PLUGIN.name: PLUGIN.read_bytes(),
        wheel.name: wheel.read_bytes(),
        "requirements.txt": requirements.encode(),
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
    }
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755 if name == PLUGIN.name else 0o644
            member.mtime = int(os.environ.get("SOURCE_DATE_EPOCH", 0))
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def semantic(version: str) -> str:
    """A version of Python as krew takes it, in three numbers: ``0.1.dev3+g12ab`` is ``0.1.0-dev3+g12ab``."""
    found = re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?\.?((?:a|b|rc|dev)\d+)?(\+.*)?", version)
    if found is None:
        return version
    major, minor, patch, early, local = found.groups("")
    return f"{major}.{minor}.{patch or 0}{'-' * bool(early)}{early}{local}"


def manifest(version: str, home: str, digest: str) -> str:
    """The plugin for krew: one archive for all platforms that have a shell."""
    document = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": SUITE},
        "spec": {
            "version": f"v{semantic(version)}",
            "homepage": home,
            "shortDescription": "Judge the GPU nodes of a cluster",
            "description": (
                "Judges GPU nodes, their device plugins, DRA drivers, fences, quotas and fabrics\n"
                "by a catalogue of requirements, and says of each failure what to do.\n"
            ),
            "caveats": (
                "Needs Python 3.11 or later. The first call installs what it needs from PyPI, by\n"
                "hash, into the folder of the plugin. The cluster is always named:\n"
                "  kubectl gpu-conformance doctor --kubeconfig ~/.kube/config\n"
            ),
            "platforms": [
                {
                    "selector": {"matchExpressions": [{"key": "os", "operator": "In", "values": ["linux", "darwin"]}]},
                    "uri": f"{home}/releases/download/v{version}/{PLUGIN.name}.tar.gz",
                    "sha256": digest,
                    "bin": PLUGIN.name,
                }
            ],
        },
    }
    return yaml.safe_dump(document, sort_keys=False, width=140)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
