"""JSON Schemas of ``report.json`` and ``chaos.json``, generated from the structs of the record and committed beside this module.

``make docs`` writes the committed files again after the record has changed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from fixtures.verdict.chaos_record import CHAOS_SCHEMA_VERSION, ChaosReport
from fixtures.verdict.record import SCHEMA_VERSION, Report

SCHEMA_FILE = Path(__file__).with_name(f"report-{SCHEMA_VERSION}.json")
CHAOS_SCHEMA_FILE = Path(__file__).with_name(f"chaos-{CHAOS_SCHEMA_VERSION}.json")


def report_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of ``report.json`` as the structs of the record say it now."""
    schema = msgspec.json.schema(Report)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:gpu-conformance:report:{SCHEMA_VERSION}",
        "title": "gpu-conformance report",
    } | schema


def schema_text() -> str:
    """The committed form of :func:`report_schema`: indented, keys in the order of the record, final newline."""
    return json.dumps(report_schema(), indent=2, ensure_ascii=False) + "\n"


def chaos_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of ``chaos.json`` as the structs of the record say it now."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:gpu-conformance:chaos:{CHAOS_SCHEMA_VERSION}",
        "title": "gpu-conformance chaos report",
    } | msgspec.json.schema(ChaosReport)


def chaos_schema_text() -> str:
    """The committed form of :func:`chaos_schema`."""
    return json.dumps(chaos_schema(), indent=2, ensure_ascii=False) + "\n"
