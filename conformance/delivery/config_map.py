"""Results in a ConfigMap of the suite's own: a summary for people and programs, and the record, compressed."""

from __future__ import annotations

import base64
import gzip
import re
from pathlib import Path

from conformance.delivery.bundle import DeliveryError
from conformance.delivery.outcome import Outcome, line
from fixtures.cluster.client import Answer, Cluster
from fixtures.kubernetes.models import Json

MAX_BINARY = 700_000
"""Bytes of the compressed record. etcd takes 1.5 MiB a request, a ConfigMap 1 MiB of data, and base64 adds a third."""

OURS = "gpu-conformance.io/results"
"""Label of the suite's own ConfigMap; ``cleanup`` looks for other ones, so it stays."""

SUMMARY, PAGE, RECORD = _KEYS = "summary.json", "report.md", "report.json.gz"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def parse_place(text: str) -> tuple[str, str]:
    """Namespace and name of ``NAMESPACE/NAME``. Raises ValueError."""
    namespace, _, name = text.partition("/")
    if not _NAMESPACE.fullmatch(namespace) or not _NAME.fullmatch(name):
        raise ValueError(f"{text!r} is not NAMESPACE/NAME of a ConfigMap")
    return namespace, name


def write(cluster: Cluster, text: str, folder: Path, outcome: Outcome) -> str:
    """Create or replace the ConfigMap. One that the suite did not make is left alone. Raises :class:`DeliveryError`, ``ApiTrouble``."""
    namespace, name = parse_place(text)
    data, binary, left_out = contents(folder, outcome)
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


def contents(folder: Path, outcome: Outcome) -> tuple[dict[str, str], dict[str, str], list[str]]:
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
