"""Captured outputs that lie beside the project, where they do."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "samples"


def sample(name: str) -> str:
    """The text of one capture; skips the test where the folder is missing."""
    path = FOLDER / name
    if not path.is_file():
        pytest.skip(f"no captured sample {name} beside this checkout")
    return path.read_text(encoding="utf-8")
