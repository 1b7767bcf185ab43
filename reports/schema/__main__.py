"""Write the committed schema anew: ``python -m reports.schema``."""

from __future__ import annotations

from reports.schema import SCHEMA_FILE, schema_text

if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
