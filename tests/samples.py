"""Captured outputs of real clusters, kept outside the project: other people's text, read in place."""

from __future__ import annotations

from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "samples"


def sample(name: str) -> str:
    """Text of one sample. Skips the test when the folder or the sample is absent."""
    if not SAMPLES.is_dir():
        pytest.skip(f"no samples folder {SAMPLES.parent.name}/{SAMPLES.name} beside the project")
    path = SAMPLES / f"{name}.txt"
    if not path.is_file():
        pytest.skip(f"no sample {name}")
    return path.read_text(encoding="utf-8")
