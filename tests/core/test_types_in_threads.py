"""Types that threads of probes decode are looked at before: msgspec crashes if two threads do it first, at the same time."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys, threading
import msgspec
import fixtures.probes.workspace
from fixtures.kubernetes.models import Pod
sys.setswitchinterval(1e-6)
together = threading.Barrier(16)
def decode():
    together.wait()
    msgspec.convert({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}, Pod, strict=False)
threads = [threading.Thread(target=decode) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_pods_of_a_wave_are_decoded_by_many_threads_at_once() -> None:
    """Without the care of the workspace, about every second of these processes ended with a segmentation fault."""
    for _ in range(3):
        assert subprocess.run([sys.executable, "-c", CODE], check=False).returncode == 0
