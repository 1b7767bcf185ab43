"""Texts of the project's own with the shapes of real captures: field order, prefixes, wording."""

from pathlib import Path

DATA = Path(__file__).parent / "data"


def lookalike(name: str) -> str:
    """Text of ``data/<name>.txt``."""
    return (DATA / f"{name}.txt").read_text(encoding="utf-8")


def path_of(name: str) -> Path:
    """Path of ``data/<name>.txt``."""
    return DATA / f"{name}.txt"
