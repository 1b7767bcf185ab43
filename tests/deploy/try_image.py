"""``make image`` tries what it built: the image's own Python, as its user, without a network of its own, on a root that is read-only.

Needs root, to change root; without it, it says that nothing was tried.
"""

import io
import json
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from chaos.cluster.injector import HOST, PATH

NAMESPACES = ("--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--mount-proc")
MOUNTS = """set -e
mount --bind {root} {root}
mount -o remount,bind,ro {root}
mount -t tmpfs tmpfs {root}/tmp
mount --rbind /dev {root}/dev
mount --rbind /proc {root}/proc
ip link set lo up 2>/dev/null || true
"""


def unpack(archive: Path, root: Path) -> dict[str, Any]:
    """Unpack the image's layers; its configuration."""
    with tarfile.open(archive) as tar:

        def blob(name: str) -> bytes:
            opened = tar.extractfile(name)
            assert opened is not None
            return opened.read()

        def described(descriptor: dict[str, Any]) -> bytes:
            return blob("blobs/sha256/" + descriptor["digest"].partition(":")[2])

        manifest = json.loads(described(json.loads(blob("index.json"))["manifests"][0]))
        for one in manifest["layers"]:
            with tarfile.open(fileobj=io.BytesIO(described(one)), mode="r:gz") as layer:
                layer.extractall(root)  # made here a moment ago; Python before 3.11.4 has no filters
        config = json.loads(described(manifest["config"]))["config"]
    assert isinstance(config, dict)
    return config


def main(archive: Path) -> int:
    """Help, a whole run on the simulated cluster, what injectors need, and a write to the root that must fail."""
    if os.geteuid() != 0:
        print("not root: the image was built and not tried")
        return 0
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-try-") as work:
        root = Path(work)
        root.chmod(0o755)
        config = unpack(archive, root)
        inside = ["env", "-i", *config["Env"], "chroot", f"--userspec={config['User']}", str(root)]
        entry = [*inside, *config["Entrypoint"]]
        host = ["env", "-i", f"PATH={PATH}", "chroot", str(root), *HOST]  # as an injector does: root, into namespaces of process 1
        script = MOUNTS.format(root=shlex.quote(str(root)))
        for command in (
            [*entry, "--help"],
            [*entry, "run", "--simulate", "healthy", "--read-only", "--report-dir", "/tmp/report"],
            [*inside, "/usr/bin/kubelet-podresources", "--help"],
            [*host, "sh", "-c", "test -x /bin/sh"],
            [*inside, "/usr/bin/python3", "-c", "import grpc"],
            [*inside, "/usr/bin/python3", "-c", "import os; assert os.getuid() == 65532; assert not os.access('/opt', os.W_OK)"],
        ):
            script += shlex.join(command).replace("chroot", "/usr/sbin/chroot", 1) + " >/dev/null\n"
        done = subprocess.run(["unshare", *NAMESPACES, "bash", "-c", script], check=False)
    print("tried: the image runs as its user on a read-only root" if done.returncode == 0 else "the image does not run")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
