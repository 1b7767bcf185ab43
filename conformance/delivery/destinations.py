"""Where a run's results may go, as ``--to KIND=PLACE`` says it, and handing them on there: a ConfigMap of the suite's own, or files."""

import base64
import gzip
import os
import re
from enum import StrEnum
from pathlib import Path

import msgspec

from conformance.delivery import files
from conformance.delivery.outcome import DeliveryError, Outcome, line
from fixtures.cluster.client import Answer, Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json

SONOBUOY_FOLDER = "SONOBUOY_RESULTS_DIR"
"""Sonobuoy tells a plugin by this variable where to put its results."""

MAX_BINARY = 700_000
"""Bytes of the compressed record. etcd takes 1.5 MiB a request, a ConfigMap 1 MiB of data, and base64 adds a third."""

OURS = "gpu-conformance.io/results"
"""Label of the suite's own ConfigMap; ``cleanup`` looks for other ones, so it stays."""

SUMMARY, PAGE, RECORD = _KEYS = "summary.json", "report.md", "report.json.gz"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


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
        parse_place(place)
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
                return write_config_map(cluster, place, folder, outcome)
            case Kind.FOLDER:
                return files.copy(folder, Path(place), outcome, keep=keep)
            case Kind.PUT_URL_FILE:
                return files.put(folder, Path(place))
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


def parse_place(text: str) -> tuple[str, str]:
    """Namespace and name of ``NAMESPACE/NAME``. Raises ValueError."""
    namespace, _, name = text.partition("/")
    if not _NAMESPACE.fullmatch(namespace) or not _NAME.fullmatch(name):
        raise ValueError(f"{text!r} is not NAMESPACE/NAME of a ConfigMap")
    return namespace, name


def write_config_map(cluster: Cluster, text: str, folder: Path, outcome: Outcome) -> str:
    """Create or replace the ConfigMap. One that the suite did not make is left alone. Raises :class:`DeliveryError`, ``ApiTrouble``."""
    namespace, name = parse_place(text)
    data, binary, left_out = _contents(folder, outcome)
    there = cluster.get("configmaps", name, namespace)
    if there.status == 404:
        metadata = {"name": name, "namespace": namespace, "labels": {OURS: "true"}}
        new: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data, "binaryData": binary}
        _must(cluster.create("configmaps", new, namespace=namespace), "create")
    else:
        _must(there, "read")
        metadata = there.json()["metadata"]
        if (metadata.get("labels") or {}).get(OURS) != "true":
            raise DeliveryError(f"the ConfigMap is not the suite's: it has no label {OURS}=true")
        change: Json = {
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "data": {PAGE: None, **data},
            "binaryData": {RECORD: None, **binary},
        }
        _must(cluster.patch("configmaps", name, change, namespace), "change")
    shown = _must(cluster.get("configmaps", name, namespace), "read").json()
    now = [{key: value for key, value in (shown.get(part) or {}).items() if key in _KEYS} for part in ("data", "binaryData")]
    if now != [data, binary]:
        raise DeliveryError("the API server took the change, and does not show it")
    return f"ConfigMap {namespace}/{name}" + (f", without {' and '.join(left_out)}: too large" if left_out else "")


def _contents(folder: Path, outcome: Outcome) -> tuple[dict[str, str], dict[str, str], list[str]]:
    """``data`` and ``binaryData``, and the names of what is too large for a ConfigMap."""
    data, binary, left_out = {SUMMARY: line(outcome)}, {}, []
    page, record = folder / PAGE, folder / "report.json"
    if page.is_file():
        data[PAGE] = page.read_text(encoding="utf-8")  # below 64 kB by itself
    if record.is_file():
        packed = gzip.compress(record.read_bytes(), mtime=0)
        if len(packed) <= MAX_BINARY:
            binary[RECORD] = base64.b64encode(packed).decode()
        else:
            left_out.append(RECORD)
    return data, binary, left_out


def _must(answer: Answer, verb: str) -> Answer:
    if not answer.ok:
        raise DeliveryError(f"cannot {verb} the ConfigMap: {answer.status} {answer.reason}: {answer.message[:300]}")
    return answer
