"""``make docs``: write every file of the checkout that is generated. :func:`generated` is the list of them all."""

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from chaos.catalogue import load_all
from conformance.catalogue import load_catalogue
from conformance.cli import pages
from conformance.cli.pages import with_generated_parts
from conformance.cli.probe import schema_text as node_probe_schema
from deploy import chaos_rights, licences, monitoring, packages
from reports import schema
from tests.development import chaos_pages
from tests.incidents import table
from tests.simulator.fidelity import known as known_answers
from tests.simulator.fidelity import nodes
from tests.simulator.localcluster import known as known_verdicts

ROOT = Path(__file__).resolve().parents[2]


def generated(root: Path = ROOT) -> dict[Path, str]:
    """The text of each generated file by its path. README.md, docs/chaos.md and docs/licences.md are read: only parts are generated."""
    readme, chaos, licences_page = root / "README.md", root / "docs" / "chaos.md", root / "docs" / "licences.md"
    return {
        readme: with_generated_parts(readme.read_text(encoding="utf-8"), load_catalogue()),
        chaos: chaos_pages.render_page(chaos.read_text(encoding="utf-8"), load_all()),
        licences_page: licences.page(licences_page.read_text(encoding="utf-8")),
        **{root / name: text for name, text in _generated_whole().items()},
    }


@cache
def _generated_whole() -> dict[str, str]:
    """The files of which nothing is written by hand, by their paths below the checkout: a second of work."""
    catalogue = load_catalogue()
    deploy = {chaos_rights.FILE.name: chaos_rights.text(), **packages.files(catalogue), **monitoring.files(catalogue)}
    return {
        **{f"docs/{name}": text for name, text in pages.pages().items()},
        "docs/fidelity.md": known_answers.page(),
        "docs/fidelity-nodes.md": nodes.page(),
        "docs/fidelity-verdicts.md": known_verdicts.page(),
        "docs/incidents.md": table.page(),
        **{f"deploy/{name}": text for name, text in deploy.items()},
        "docs/node-probe.schema.json": node_probe_schema(),
        f"reports/schema/{schema.SCHEMA_FILE.name}": schema.schema_text(),
        f"reports/schema/{schema.CHAOS_SCHEMA_FILE.name}": schema.chaos_schema_text(),
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
