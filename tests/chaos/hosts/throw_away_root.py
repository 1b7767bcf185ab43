"""A root file system to be thrown away, in namespaces of its own, with a real shell and stand-ins that record how they were called.

The machine's ``/usr`` is there to read, its ``/proc``, ``/dev``, ``/run`` and ``/home`` are not: what a script finds in them the test puts
there. Needs namespaces of users and mounts; where the kernel gives none, the test is skipped.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from chaos.cluster.injector import PATH, HostResult

_ENTER = ("unshare", "--map-root-user", "--mount", "--pid", "--fork", "--net")
_SETUP = """root=$1; shift
bind() { if [ -e "$1" ]; then mkdir -p "$2"; mount --rbind "$1" "$2"; mount -o remount,bind,ro "$2"; fi; }
bind /usr "$root/usr"
for name in bin sbin lib lib64; do if [ -L /$name ]; then ln -sfn usr/$name "$root/$name"; else bind /$name "$root/$name"; fi; done
touch "$root/dev/null"; mount --bind /dev/null "$root/dev/null"
if [ -d "$root/run/nvidia/driver" ]; then
  bind /usr/lib "$root/run/nvidia/driver/usr/lib"; bind /lib "$root/run/nvidia/driver/lib"; bind /lib64 "$root/run/nvidia/driver/lib64"
  mount --bind "$root/calls" "$root/run/nvidia/driver/calls"
fi
exec chroot "$root" env -i "$@"
"""


class Root:
    """The root below a folder. ``calls`` are the stand-ins' command lines, in order."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("unshare") is None or subprocess.run([*_ENTER, "true"], capture_output=True, check=False).returncode:
            pytest.skip("no namespaces of users and mounts here")
        self.folder = folder
        for name in ("stand-ins", "proc", "dev", "run", "home", "tmp"):
            (folder / name).mkdir(parents=True)
        (folder / "calls").touch()

    @property
    def calls(self) -> list[str]:
        """What was called so far."""
        return (self.folder / "calls").read_text().splitlines()

    def file(self, path: str, text: str) -> None:
        """Put a file."""
        place = self.folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def program(self, path: str, *answers: str | tuple[str, int]) -> None:
        """Put a stand-in: each call is written down and gets the next answer, with its exit code; the last one lasts."""
        name = path.rpartition("/")[2]
        script = f'#!/bin/sh\necho "{path} $*" >> /calls\n'
        for number, answer in enumerate(answers, 1):
            text, code = answer if isinstance(answer, tuple) else (answer, 0)
            more = f'[ "$(grep -c "^{path} " /calls)" = {number} ] && ' * (number < len(answers))
            script += f"{more}{{ cat <<'END'\n{text}\nEND\nexit {code}; }}\n"
        place = path if "/" in path else f"/stand-ins/{name}"
        self.file(place, script)
        (self.folder / place.lstrip("/")).chmod(0o755)

    def driver(self, *answers: str | tuple[str, int]) -> None:
        """A driver in a container: its root has a shell and ``nvidia-smi``, and no more."""
        root = "/run/nvidia/driver"
        self.file(f"{root}/calls", "")
        self.program(f"{root}/usr/bin/nvidia-smi", *answers)
        for tool in ("sh", "cat", "grep"):
            shutil.copy(str(shutil.which(tool)), self.folder / f"{root}/usr/bin/{tool}"[1:])
        os.symlink("usr/bin", self.folder / f"{root}/bin"[1:])

    def run(self, argv: Sequence[str]) -> HostResult:
        """Run a program as an injector does once it is in the host's namespaces."""
        command = [*_ENTER, "sh", "-euc", _SETUP, "sh", str(self.folder), f"PATH=/stand-ins:{PATH}", "LC_ALL=C", *argv]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        return HostResult(exit_code=done.returncode, output=done.stdout)
