"""Captured outputs of real clusters, kept outside the project: other people's text, read in place."""

from __future__ import annotations

from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "samples"


def sample(name: str) -> str:
    """Text of one sample. Skips the test where the folder is absent; raises ``FileNotFoundError`` where it is there without the sample."""
    if not SAMPLES.is_dir():
        pytest.skip(f"no samples folder {SAMPLES.parent.name}/{SAMPLES.name} beside the project")
    return (SAMPLES / f"{name}.txt").read_text(encoding="utf-8")
