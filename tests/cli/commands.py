"""Runs of ``gpu-conformance`` in processes of their own, with an environment that names no cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.endtoend.runs import ROOT, environment


def command(*arguments: str, cwd: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    """The finished command. ``more`` are further variables of its environment."""
    return subprocess.run(
        [sys.executable, "-m", "conformance.cli.main", *arguments],
        cwd=cwd,
        env={**environment(), "PYTHONPATH": str(ROOT), "COLUMNS": "100", **more},
        capture_output=True,
        text=True,
        timeout=120,
    )
