"""What the words of a resource's name tell: devices, amounts of them, or what is beside them. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from fixtures.model.dra.drivers import names_accelerator

_BESIDE = re.compile(r"rails?|hca|ports?|nics?|rdma|roce|vfs?|links?|(?:nv)?switch|monitoring|metrics|render|licen[cs]es?")
"""A word for what is beside devices, or for a permission."""

_AMOUNT = re.compile(r"(?:dcu|v)?mem(?:ory)?|(?:dcu|v|milli)?cores?|percentage|ratio|counts?|priority|quotas?|slots?|tokens?")
"""A word for an amount of devices that another name counts."""

_GPU = re.compile(r"[a-z]?gpus?")
_SPLIT = re.compile(r"[.\-_/]+")


def of_gpus(resource: str) -> bool:
    """Whether the name, without its domain, has a word for GPUs."""
    return any(map(_GPU.fullmatch, _words(resource)))


def of_amount(resource: str) -> bool:
    """Whether the name, without its domain, has a word for an amount."""
    return any(map(_AMOUNT.fullmatch, _words(resource)))


def beside_devices(resource: str) -> bool:
    """Whether the name, without its domain, has a word for what is beside devices."""
    return any(map(_BESIDE.fullmatch, _words(resource)))


@lru_cache(maxsize=4096)  # resources of pods and nodes: a few names, asked for every pod
def names_share(resource: str) -> bool:
    """Whether a name is an accelerator's or an amount of GPUs (``koordinator.sh/gpu-memory``), and no card's or permission's beside it."""
    return not beside_devices(resource) and (names_accelerator(resource) or (of_gpus(resource) and of_amount(resource)))


def _words(resource: str) -> frozenset[str]:
    return frozenset(_SPLIT.split(resource.rpartition("/")[2].lower()))
