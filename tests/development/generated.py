"""``make docs``: write every file of the checkout that is generated. :func:`generated` is the list of them all."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import chaos.surface.docs_tables as chaos_pages
from chaos.catalogue.selection import load_all
from conformance.catalogue import load_catalogue
from conformance.cli import pages
from deploy import chaos_rights, rights
from reports import schema
from tests.incidents import table

ROOT = Path(__file__).resolve().parents[2]


def generated(root: Path = ROOT) -> dict[Path, str]:
    """The text of each generated file by its path. README.md and docs/chaos.md are read: only parts of them are generated."""
    catalogue = load_catalogue()
    docs, deploy, schemas = root / "docs", root / "deploy", root / "reports" / "schema"
    readme, chaos = root / "README.md", docs / "chaos.md"
    return {
        readme: pages.with_snapshot_command(readme.read_text(encoding="utf-8"), catalogue),
        chaos: chaos_pages.render_page(chaos.read_text(encoding="utf-8"), load_all()),
        **{docs / name: text for name, text in pages.pages().items()},
        docs / "incidents.md": table.page(),
        **{deploy / name: text for name, text in rights.files(catalogue).items()},
        deploy / chaos_rights.FILE.name: chaos_rights.text(),
        schemas / schema.SCHEMA_FILE.name: schema.schema_text(),
        schemas / schema.CHAOS_SCHEMA_FILE.name: schema.chaos_schema_text(),
    }


def stale(root: Path = ROOT) -> dict[Path, str]:
    """Files that are missing or not as they should be, with the text that they should have."""
    return {path: text for path, text in generated(root).items() if not path.is_file() or path.read_text(encoding="utf-8") != text}


def write(root: Path = ROOT) -> list[Path]:
    """Write what is stale. Returns the paths of what was written."""
    found = stale(root)
    for path, text in found.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return sorted(found)


def main(arguments: Sequence[str]) -> int:
    """Write the files and name those that have changed. With ``--check``: name the stale ones, and exit 1 where there are any."""
    parser = argparse.ArgumentParser(prog="make docs")
    parser.add_argument("--check", action="store_true", help="write nothing")
    if not parser.parse_args(arguments).check:
        for path in write():
            print(f"written: {path.relative_to(ROOT)}")
        return 0
    names = [str(path.relative_to(ROOT)) for path in sorted(stale())]
    print(f"run make docs, stale: {', '.join(names)}" if names else "fresh")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
