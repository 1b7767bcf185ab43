"""Where a run's results may go, as ``--to KIND=PLACE`` says it, and handing them on there."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

import msgspec

from conformance.delivery import config_map, files, upload
from conformance.delivery.bundle import DeliveryError
from conformance.delivery.outcome import Outcome
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble

SONOBUOY_FOLDER = "SONOBUOY_RESULTS_DIR"
"""Sonobuoy tells a plugin by this variable where to put its results."""


class Kind(StrEnum):
    """The kinds of destinations."""

    CONFIG_MAP = "configmap"
    FOLDER = "folder"
    PUT_URL_FILE = "put-url-file"
    TEXTFILE = "textfile"
    SONOBUOY = "sonobuoy"


class Destination(msgspec.Struct, frozen=True):
    """One destination. ``place`` is NAMESPACE/NAME of a ConfigMap, else a path."""

    kind: Kind
    place: str

    def __str__(self) -> str:
        return f"{self.kind}={self.place}"


def parse(text: str) -> Destination:
    """Read ``KIND=PLACE``; ``sonobuoy`` alone takes the folder that Sonobuoy names. Raises ValueError with one line."""
    kind, equals, place = text.partition("=")
    if kind == Kind.SONOBUOY and not equals:
        place = os.environ.get(SONOBUOY_FOLDER, "/tmp/sonobuoy/results")
    if kind not in list(Kind) or not place.strip():
        raise ValueError(f"{text!r} is no destination; known: {', '.join(f'{one}=PLACE' for one in Kind)}")
    destination = Destination(Kind(kind), place)
    if destination.kind is Kind.CONFIG_MAP:
        config_map.parse_place(place)
    elif not Path(place).is_absolute():
        raise ValueError(f"{text!r}: the path must be absolute")
    return destination


def deliver(destination: Destination, folder: Path, outcome: Outcome, cluster: Cluster | None, *, keep: int) -> str:
    """Hand the report folder on. Returns a sentence for people. Raises :class:`DeliveryError` with one line."""
    place = destination.place
    try:
        match destination.kind:
            case Kind.CONFIG_MAP:
                if cluster is None:
                    raise DeliveryError("no cluster to write to")
                return config_map.write(cluster, place, folder, outcome)
            case Kind.FOLDER:
                return files.copy(folder, Path(place), outcome, keep=keep)
            case Kind.PUT_URL_FILE:
                return upload.put(folder, Path(place))
            case Kind.TEXTFILE:
                return files.textfile(folder, Path(place))
            case Kind.SONOBUOY:
                return files.sonobuoy(folder, Path(place))
    except OSError as error:
        raise DeliveryError(f"{destination}: {error.strerror or error}") from error
    except ApiTrouble as error:
        raise DeliveryError(f"{destination}: {error.message}") from error
    except DeliveryError as error:
        raise DeliveryError(f"{destination}: {error}") from error
