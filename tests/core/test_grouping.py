"""Canary: some pairs of pytest and pytest-xdist ignore ``xdist_group`` in silence (pytest-xdist#1386); probes would then collide."""

import subprocess
import sys
from pathlib import Path

import pytest

from conformance.plugin.hooks import GROUP

MODULE = f'''
import pathlib
import pytest

@pytest.mark.parametrize("number", range(6))
@pytest.mark.xdist_group("{GROUP}")
def test_grouped(number, worker_id):
    pathlib.Path("seen", f"{{number}}-{{worker_id}}").touch()
'''


@pytest.mark.test_all
def test_a_group_stays_on_one_worker(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    (tmp_path / "test_canary.py").write_text(MODULE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={tmp_path}"]
    command += ["-n", "3", "--dist", "loadgroup", "test_canary.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = [path.name.partition("-") for path in (tmp_path / "seen").iterdir()]
    assert len(seen) == 6
    assert len({worker for _, _, worker in seen}) == 1
