"""Write the committed schemas anew: ``python -m reports.schema``."""

from __future__ import annotations

from reports.schema import CHAOS_SCHEMA_FILE, SCHEMA_FILE, chaos_schema_text, schema_text

if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
    CHAOS_SCHEMA_FILE.write_text(chaos_schema_text(), encoding="utf-8")
