"""Rows of tests that are data: documents, objects and messages as clusters show them."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def table(name: str) -> Any:
    """What a YAML file below this folder holds: ``model/conditions``."""
    return yaml.safe_load((Path(__file__).parent / f"{name}.yaml").read_text(encoding="utf-8"))
