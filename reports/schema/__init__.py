"""JSON Schemas of ``report.json`` and ``chaos.json``, generated from the structs of the record and committed beside this module.

``make docs`` writes the committed files again after the record has changed.
"""

import json
from pathlib import Path

import msgspec

from fixtures.verdict.chaos_record import CHAOS_SCHEMA_VERSION, ChaosReport
from fixtures.verdict.record import SCHEMA_VERSION, Record, Report

SCHEMA_FILE = Path(__file__).with_name(f"report-{SCHEMA_VERSION}.json")
CHAOS_SCHEMA_FILE = Path(__file__).with_name(f"chaos-{CHAOS_SCHEMA_VERSION}.json")


def schema_text() -> str:
    """JSON Schema (2020-12) of ``report.json`` as the structs of the record say it now: indented, keys in their order, final newline."""
    return _text(Report, f"report:{SCHEMA_VERSION}", "gpu-conformance report")


def chaos_schema_text() -> str:
    """The same of ``chaos.json``."""
    return _text(ChaosReport, f"chaos:{CHAOS_SCHEMA_VERSION}", "gpu-conformance chaos report")


def _text(kind: type[Record], name: str, title: str) -> str:
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:gpu-conformance:{name}", "title": title}
    return json.dumps(head | msgspec.json.schema(kind), indent=2, ensure_ascii=False) + "\n"
