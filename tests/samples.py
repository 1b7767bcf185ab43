"""Captured outputs of real clusters, kept outside the project: other people's text, read in place."""

from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "samples"


def sample(name: str) -> str:
    """Text of one sample. Skips the test where the folder is absent; raises ``FileNotFoundError`` where it is there without the sample."""
    return _text(f"{name}.txt")


def sample_index() -> str:
    """The index of the samples, with the verdict of each. Skips the test where the folder is absent."""
    return _text("INDEX.md")


def _text(file: str) -> str:
    if not SAMPLES.is_dir():
        pytest.skip(f"no samples folder {SAMPLES.parent.name}/{SAMPLES.name} beside the project")
    return (SAMPLES / file).read_text(encoding="utf-8")
