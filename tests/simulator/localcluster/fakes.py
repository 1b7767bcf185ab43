import subprocess
import sys
from pathlib import Path

from fixtures.localcluster.install.release import COMPONENTS


def fake_component(path: Path, version: str) -> Path:
    """A program that states a version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'Kubernetes {version}'\n")
    path.chmod(0o755)
    return path


def fake_set(folder: Path, version: str = "v1.37.2", names: tuple[str, ...] = COMPONENTS) -> Path:
    """A folder of programs that state a version."""
    for name in names:
        fake_component(folder / name, version)
    return folder


def sleeper(*, stubborn: bool = False, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """A process that waits for its end; a stubborn one ignores SIGTERM. Returns once it has set that up."""
    code = "import signal, sys\n"
    code += "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if stubborn else ""
    code += "print('up', flush=True)\nwhile True: signal.pause()"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process
