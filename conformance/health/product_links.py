"""Links of products as dated data: PCIe to the host, NVLinks and what joins them."""

from __future__ import annotations

import datetime
import functools
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec

from fixtures.text import yaml_text

_FILE = Path(__file__).with_name("product_links.yaml")


class ProductLinks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of ``product_links.yaml``, whose head says what the fields mean."""

    product: str
    generation: int
    width: int
    nvlinks: int
    joined: Literal["board", "bridge"]
    step: int = 0
    rack: bool = False
    devices: int = 0
    date: datetime.date
    source: str


@functools.cache  # a file of the package
def rows() -> tuple[ProductLinks, ...]:
    """Every row, in order."""
    return yaml_text.packaged(_FILE, tuple[ProductLinks, ...])


@functools.lru_cache(maxsize=256)  # a fleet has few products
def links_of(product: str) -> ProductLinks | None:
    """The row of a device's name; None for a product that no row has."""
    return next((row for row in rows() if fnmatchcase(product, row.product)), None)
